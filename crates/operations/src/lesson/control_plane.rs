//! Actions on the control plane: another version of it alone, and an API server that answers no request for a while.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, Patch};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::nodes::failure;
use super::performer::Performer;
use crate::apply::patch_parameters;
use crate::error::{Code, Error, Result};
use crate::event::Verb;
use crate::observe;
use crate::provider::{Options, Work, cannot_fail_api, refuse_absent};
use klab_cluster::SILENCE_ANNOTATION;
use klab_lab::plan::{self, is_version};
use klab_lab::spec::{KubernetesVersion, Lab, NodeForm};
use klab_lab::words;

/// How long an API server may take to answer again, after the time it was to be silent.
const RETURN: Duration = Duration::from_mins(2);
/// How often it is asked.
const LOOK: Duration = Duration::from_millis(500);

/// A duration as the cluster reads it.
pub(super) fn seconds(duration: SignedDuration) -> String {
    format!("{}s", duration.as_secs())
}

/// Brings the control plane to a version; the nodes stay at theirs.
pub(super) fn upgrade(
    performer: &Performer<'_>,
    stage: &Lab,
    version: KubernetesVersion,
    work: &mut Work<'_>,
) -> Result<()> {
    let observed = performer.provider.observe(&stage.name.value, Some(stage))?;
    refuse_absent(&stage.name.value, &observed)?;
    let live = performer.runtime.block_on(observe::version(performer.client))?;
    let live = live["gitVersion"].as_str().unwrap_or_default().trim_start_matches('v').to_owned();
    let wanted = version.to_string();
    if is_version(&live, &wanted) {
        work.events.note(Verb::FindControlPlane, format!("the control plane at Kubernetes {live}"));
        return Ok(());
    }
    let upgrade = plan::Action::UpgradeCluster { from: live.clone(), to: wanted.clone() };
    performer.provider.perform_all(stage, &[upgrade], &Options::default(), work)?;
    work.events.note(Verb::UpgradeControlPlane, format!("the control plane from Kubernetes {live} to {wanted}"));
    Ok(())
}

/// Has the API server answer no request for a while, and waits until it answers again.
pub(super) fn fail(
    performer: &Performer<'_>,
    stage: &Lab,
    duration: SignedDuration,
    work: &mut Work<'_>,
) -> Result<()> {
    let silence = Duration::try_from(duration).unwrap_or_default();
    let length = words::duration(silence);
    let lab = &stage.name.value;
    let events = work.events.counting(usize::try_from(silence.as_secs()).unwrap_or(usize::MAX));
    let activity = events.start(Verb::FailApi, format!("the API server, for {length}"));
    match stage.provider.profile().nodes {
        NodeForm::Object => {
            work.intend("fail-api", lab)?;
            performer.runtime.block_on(async {
                let patch = json!({ "metadata": { "annotations": { SILENCE_ANNOTATION: seconds(duration) } } });
                let namespaces: Api<Namespace> = Api::all(performer.client.clone());
                let parameters = patch_parameters();
                let patched = namespaces.patch_metadata("kube-system", &parameters, &Patch::Merge(&patch)).await;
                patched.map(drop).map_err(|error| failure("change namespace `kube-system`", &error))
            })?;
            performer.time.pass(silence);
        }
        NodeForm::Container => {
            let machines = performer.provider.machines().ok_or_else(cannot_fail_api)?;
            machines.set_api_answers(lab, false, work)?;
            performer.time.pass(silence);
            machines.set_api_answers(lab, true, work)?;
        }
        NodeForm::Machine => return Err(cannot_fail_api()),
    }
    activity.end();
    wait_for_answer(performer, work)?;
    events.note(Verb::FailApi, format!("the API server for {length}; it answers again"));
    Ok(())
}

/// Returns once an embedded cluster answers clients from outside, which one that is silent does not. A host asks within its
/// own process, where it always gets an answer, and would let a learner go on who cannot type the next step.
pub async fn until_answering(client: &Client) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    while let Ok(namespace) = namespaces.get_metadata("kube-system").await
        && let Some(asked) = namespace.annotations().get(SILENCE_ANNOTATION)
        && asked.parse::<SignedDuration>().is_ok_and(|asked| asked.is_positive())
    {
        tokio::time::sleep(LOOK).await;
    }
}

fn wait_for_answer(performer: &Performer<'_>, work: &mut Work<'_>) -> Result<()> {
    let activity = work.events.start(Verb::WaitApi, "for the API server");
    let begun = performer.time.now();
    loop {
        performer.time.pass(LOOK);
        match performer.runtime.block_on(observe::version(performer.client)) {
            Ok(_) => {
                activity.end();
                return Ok(());
            }
            Err(error) if performer.time.now().saturating_sub(begun) > RETURN => {
                let source = error.source.context("the API server does not answer again");
                return Err(Error::new(Code::NoAnswer, source));
            }
            Err(_) => {}
        }
    }
}
