//! Actions on workloads and other objects: scale, deploy, apply, delete; and putting back what a step took away.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch};
use serde_json::json;

use super::nodes::failure;
use super::performer::Performer;
use super::undo::Objects;
use crate::apply::{Applier, ObjectKey, patch_parameters};
use crate::error::{Code, Error, Result};
use crate::event::{About, Verb};
use crate::observe;
use crate::provider::Work;
use crate::render::{self, Manifest, render_content, render_workload};
use klab_lab::spec::{Action, Diagnostics, Lab, ManifestContent, ObjectRef, Selector, Workload, WorkloadKind};
use klab_lab::words::first_of;
use klab_lab::words::plural;

/// How long an object may take to be gone after it was deleted.
const GONE: Duration = Duration::from_mins(2);
/// Pause between two looks at what is being deleted.
const PAUSE: Duration = Duration::from_millis(100);

/// The workload of this name in a lab.
pub(super) fn find<'a>(stage: &'a Lab, name: &str) -> Result<&'a Workload> {
    stage.workload(name).ok_or_else(|| Error::message(Code::StepFailed, format!("the lab has no workload `{name}`")))
}

/// The objects of a workload as the stage has it.
pub(super) fn manifests(stage: &Lab, workload: &Workload) -> Result<Vec<Manifest>> {
    render_workload(stage, workload).map_err(|diagnostics| unrendered(&diagnostics))
}

/// What a step applies that could not be rendered.
pub(super) fn unrendered(diagnostics: &Diagnostics) -> Error {
    Error {
        diagnostics: diagnostics.render(true),
        ..Error::message(Code::InvalidLab, "what the step applies could not be rendered")
    }
}

/// The kinds of objects that a step (from 0) may make, as `apiVersion/Kind`.
pub fn step_kinds(lab: &Lab, step: usize) -> BTreeSet<String> {
    let stage = super::stage(lab, step + 1);
    let actions = lab.steps.get(step).into_iter().flat_map(|step| &step.actions);
    let rendered = actions.filter_map(|action| match action.value.tried() {
        Action::Deploy { workload } | Action::Set { workload, .. } => {
            render_workload(&stage, stage.workload(workload)?).ok()
        }
        Action::Apply { content } => render_content(&stage, content).ok(),
        _ => None,
    });
    rendered.flat_map(|manifests| render::kinds(&manifests)).collect()
}

/// Changes the number of a workload's pods and nothing else.
pub(super) fn scale(
    performer: &Performer<'_>,
    stage: &Lab,
    name: &str,
    replicas: u32,
    work: &mut Work<'_>,
) -> Result<()> {
    let workload = find(stage, name)?;
    work.intend("scale", &format!("{name} {replicas}"))?;
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    let parameters = patch_parameters();
    let client = performer.client.clone();
    let namespace = &workload.namespace;
    let scaled = performer.runtime.block_on(async {
        if workload.kind == WorkloadKind::StatefulSet {
            Api::<StatefulSet>::namespaced(client, namespace).patch_scale(name, &parameters, &patch).await
        } else {
            Api::<Deployment>::namespaced(client, namespace).patch_scale(name, &parameters, &patch).await
        }
    });
    let what = format!("{}/{name}", workload.kind.as_str());
    scaled.map_err(|error| failure(&format!("scale {what}"), &error))?;
    work.events
        .about(About::Workload, name)
        .counting(replicas as usize)
        .note(Verb::ScaleWorkload, format!("{what} to {}", plural(replicas as usize, "replica")));
    Ok(())
}

/// Makes a workload with all its objects.
pub(super) fn deploy(performer: &Performer<'_>, stage: &Lab, name: &str, work: &mut Work<'_>) -> Result<()> {
    let workload = find(stage, name)?;
    observe::refuse_without_node(workload)?;
    let manifests = manifests(stage, workload)?;
    apply(performer, stage, &manifests, &format!("workload {name}"), work)
}

/// Applies the objects of files.
pub(super) fn apply_content(
    performer: &Performer<'_>,
    stage: &Lab,
    content: &ManifestContent,
    work: &mut Work<'_>,
) -> Result<()> {
    let manifests = render_content(stage, content).map_err(|diagnostics| unrendered(&diagnostics))?;
    match content {
        ManifestContent::Path(path) => apply(performer, stage, &manifests, &path.value, work),
        ManifestContent::Yaml(_) => {
            let names = manifests.iter().map(|one| format!("{}/{}", one.kind().to_ascii_lowercase(), one.name()));
            apply(performer, stage, &manifests, &first_of(&names.collect::<Vec<_>>(), 3), work)
        }
    }
}

/// Applies objects and prunes none.
pub(super) fn apply(
    performer: &Performer<'_>,
    stage: &Lab,
    manifests: &[Manifest],
    what: &str,
    work: &mut Work<'_>,
) -> Result<()> {
    if manifests.is_empty() {
        let message = format!("there is nothing to apply for {what}");
        let hint = "klab looks for its files beside the lab file; put them back there";
        return Err(Error::message(Code::StepFiles, message).hint(hint));
    }
    let kinds = render::kinds(manifests);
    work.intend("apply", &kinds.into_iter().collect::<Vec<_>>().join(" "))?;
    let activity = work.events.counting(manifests.len()).start(Verb::ApplyObjects, what.to_owned());
    let mut applier = Applier::new(performer.client.clone(), &stage.name.value);
    let outcome = performer.runtime.block_on(applier.apply_only(manifests))?;
    activity.finish(format!("{what}: {}", outcome.summary()));
    Ok(())
}

/// Deletes one object, or a workload with all its objects, and waits until it is gone.
pub(super) fn delete(performer: &Performer<'_>, stage: &Lab, object: &ObjectRef, work: &mut Work<'_>) -> Result<()> {
    let is_workload = object.kind.eq_ignore_ascii_case("workload");
    let references = match stage.workload_of(object) {
        Some(workload) if is_workload => {
            manifests(stage, workload)?.iter().map(|manifest| reference(&ObjectKey::of(&manifest.object))).collect()
        }
        None if is_workload => {
            return Err(Error::message(Code::StepFailed, format!("the lab has no workload `{}`", object.name)));
        }
        _ => vec![object.clone()],
    };
    delete_all(performer, &references, &object.to_string(), work)
}

/// The object of a key, as steps name objects.
pub(super) fn reference(key: &ObjectKey) -> ObjectRef {
    ObjectRef {
        kind: key.kind.clone(),
        group: Some(key.group().to_owned()),
        name: key.name.clone(),
        namespace: key.namespace.clone(),
    }
}

/// Deletes objects, and waits until they are gone; `what` they are for people.
///
/// # Errors
/// When the cluster refuses, or one does not go.
pub fn delete_all(performer: &Performer<'_>, objects: &[ObjectRef], what: &str, work: &mut Work<'_>) -> Result<()> {
    work.intend("delete", what)?;
    let activity = work.events.start(Verb::DeleteObjects, what.to_owned());
    let mut deleted = Vec::new();
    performer.runtime.block_on(async {
        for object in objects {
            let api = observe::api_of(performer.client, object).await?.ok_or_else(|| {
                Error::message(Code::StepFailed, format!("the cluster serves no kind `{}`", object.kind))
                    .hint("`kubectl api-resources` shows the kinds it serves")
            })?;
            if let Some(uid) = delete_one(&api, &object.name).await? {
                deleted.push((api, object.name.clone(), uid));
            }
        }
        Ok::<_, Error>(())
    })?;
    let count = deleted.len();
    wait_gone(performer, deleted, what)?;
    activity.counting(count).finish(if count == 0 {
        format!("{what}, which was gone already")
    } else {
        what.to_owned()
    });
    Ok(())
}

/// Deletes an object; its uid, or none where there was none.
async fn delete_one(api: &Api<DynamicObject>, name: &str) -> Result<Option<String>> {
    let failed = |error: kube::Error| failure(&format!("delete `{name}`"), &error);
    let Some(object) = api.get_opt(name).await.map_err(failed)? else { return Ok(None) };
    match api.delete(name, &DeleteParams::background()).await {
        Ok(_) => Ok(object.uid()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Waits until objects are gone; one of the same name that is new counts as gone.
fn wait_gone(performer: &Performer<'_>, mut left: Vec<(Api<DynamicObject>, String, String)>, what: &str) -> Result<()> {
    let until = performer.time.now().saturating_add(GONE);
    loop {
        left = performer.runtime.block_on(async {
            let mut still = Vec::new();
            for (api, name, uid) in left {
                let found = api.get_opt(&name).await.map_err(|error| failure(&format!("read `{name}`"), &error))?;
                if found.is_some_and(|object| object.uid().as_ref() == Some(&uid)) {
                    still.push((api, name, uid));
                }
            }
            Ok::<_, Error>(still)
        })?;
        if left.is_empty() {
            return Ok(());
        }
        if performer.time.now() >= until {
            let names: Vec<&str> = left.iter().map(|(_, name, _)| name.as_str()).collect();
            let after = klab_lab::words::duration(GONE);
            let message = format!("{what}: {} still being deleted after {after}", names.join(", "));
            return Err(Error::message(Code::DrainTimeout, message).hint("a finalizer may keep it"));
        }
        performer.time.pass(PAUSE);
    }
}

/// Deletes pods by label and waits until they are gone.
pub(super) fn delete_pods(
    performer: &Performer<'_>,
    selector: &Selector,
    namespace: &str,
    work: &mut Work<'_>,
) -> Result<()> {
    let parameters = ListParams::default().labels(&selector.to_string());
    let api: Api<Pod> = Api::namespaced(performer.client.clone(), namespace);
    let pods = performer.runtime.block_on(api.list_metadata(&parameters));
    let pods = pods.map_err(|error| failure(&format!("list the pods {selector}"), &error))?;
    let objects: Vec<ObjectRef> = pods
        .items
        .iter()
        .map(|pod| ObjectRef {
            kind: "Pod".to_owned(),
            group: Some(String::new()),
            name: pod.name_any(),
            namespace: namespace.to_owned(),
        })
        .collect();
    let what = format!("{} with {selector}", plural(objects.len(), "pod"));
    delete_all(performer, &objects, &what, work)
}

/// Puts objects back as they were, and deletes those that were not there.
pub(super) fn restore(performer: &Performer<'_>, stage: &Lab, objects: &Objects, work: &mut Work<'_>) -> Result<()> {
    let surplus: Vec<ObjectRef> = objects.delete.iter().map(reference).collect();
    if !surplus.is_empty() {
        delete_all(performer, &surplus, &plural(surplus.len(), "object"), work)?;
    }
    if !objects.apply.is_empty() {
        apply(performer, stage, &objects.apply, &plural(objects.apply.len(), "object"), work)?;
    }
    Ok(())
}
