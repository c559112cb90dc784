//! Back to the set-up: what `up` alone leaves of the things that steps, or a learner's hands, did.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::api::Patch;
use kube::{Client, ResourceExt};
use serde_json::{Map, Value, json};

use super::nodes::failure;
use super::performer::Performer;
use super::set::{main_object, take_away};
use super::workloads::{delete_pods, deploy};
use crate::apply::patch_parameters;
use crate::client::objects;
use crate::error::{Code, Result};
use crate::event::{About, Verb};
use crate::observe;
use crate::provider::Work;
use klab_cluster::control::{HEARTBEAT_ANNOTATION, SPOT_ANNOTATION};
use klab_lab::names::{POOL_LABEL, WORKLOAD_LABEL};
use klab_lab::spec::{Action, Lab, Pool, Selector, Subject, Workload, WorkloadKind};
use klab_lab::verify::Report;
use klab_lab::words::plural;

/// Opens nodes that were closed, starts those of the embedded cluster that were stopped, gives the labels that steps change
/// their first values, and clears what others wrote to the fields of workloads that steps change.
///
/// Taints, the pools themselves and the objects are what `up` looks after for every lab.
///
/// # Errors
/// When the cluster refuses.
pub async fn reset(client: &Client, lab: &Lab, work: &mut Work<'_>) -> Result<()> {
    if lab.steps.is_empty() {
        return Ok(());
    }
    // Nodes of others stay as they are.
    let own = lab.provider.profile().makes_nodes;
    let nodes = if own { observe::look(client).await?.nodes } else { Vec::new() };
    let keys = changed_labels(lab);
    let api = objects::writer::<Node>(client);
    let mut count = 0;
    for node in &nodes {
        let Some(patch) = node.labels().get(POOL_LABEL).and_then(|pool| node_patch(node, lab.pool(pool)?, lab, &keys))
        else {
            continue;
        };
        let name = node.name_any();
        work.intend("reset-node", &name)?;
        let patched = api.patch_metadata(&name, &patch_parameters(), &Patch::Merge(&patch)).await;
        patched.map_err(|error| failure(&format!("change node `{name}`"), &error))?;
        count += 1;
    }
    for workload in lab.workloads.iter().filter(|workload| !workload.deferred) {
        if let Ok((object, reference)) = main_object(lab, workload)
            && let Some(api) = observe::api_of(client, &reference).await?
        {
            take_away(&api, &workload.name, &object, work).await?;
        }
    }
    if count > 0 {
        work.events
            .counting(count)
            .note(Verb::ResetNodes, format!("{} to what the set-up says", plural(count, "node")));
    }
    Ok(())
}

/// Makes the pods of workloads again that stand where the set-up does not want them: pods do not move by themselves. Says
/// whether there were any. `report` is what came of the lab's checks.
///
/// # Errors
/// When the cluster refuses.
pub fn restart_misplaced(performer: &Performer<'_>, lab: &Lab, report: &Report, work: &mut Work<'_>) -> Result<bool> {
    if lab.steps.is_empty() {
        return Ok(false);
    }
    let misplaced = misplaced(lab, report);
    for workload in &misplaced {
        let name = &workload.name.value;
        let own: Selector = format!("{WORKLOAD_LABEL}={name}").parse().map_err(anyhow::Error::msg)?;
        delete_pods(performer, &own, &workload.namespace, work)?;
        if workload.kind == WorkloadKind::Pod {
            let named = performer.runtime.block_on(observe::nodes_named(performer.client, lab))?;
            deploy(performer, &named, name, work)?;
        }
        work.events
            .about(About::Workload, name)
            .note(Verb::RestartWorkload, format!("{name}: its pods were not where the set-up wants them"));
    }
    Ok(!misplaced.is_empty())
}

/// The workloads that checks are about which do not hold. Where pods find no room, pods of any other workload may be in
/// their place: then it is all of them.
fn misplaced<'l>(lab: &'l Lab, report: &Report) -> Vec<&'l Workload> {
    let restarts = |workload: &&Workload| {
        !workload.deferred
            && matches!(workload.kind, WorkloadKind::Deployment | WorkloadKind::StatefulSet | WorkloadKind::Pod)
    };
    let failed: Vec<_> =
        lab.checks.iter().zip(&report.checks).filter(|(_, result)| !result.verdict.is_held()).collect();
    let is_about = |workload: &Workload| {
        failed.iter().any(|(check, _)| match &check.subject.value {
            Subject::Workload(name) => *name == workload.name.value,
            Subject::Pods { selector, namespace } => {
                *namespace == workload.namespace && selector.matches(&lab.pod_labels(workload))
            }
            _ => false,
        })
    };
    let no_room = failed.iter().any(|(_, result)| result.causes.iter().any(|cause| cause.code == Code::Unschedulable));
    let mut about = lab.workloads.iter().filter(restarts).filter(|workload| is_about(workload)).peekable();
    match about.peek() {
        Some(_) if no_room => lab.workloads.iter().filter(restarts).collect(),
        _ => about.collect(),
    }
}

/// Keys of labels that steps put on nodes or take off.
fn changed_labels(lab: &Lab) -> BTreeSet<&str> {
    let actions = lab.steps.iter().flat_map(|step| &step.actions);
    actions
        .flat_map(|action| match &action.value {
            Action::Label { labels, .. } => labels.keys().map(String::as_str).collect(),
            Action::Unlabel { keys, .. } => keys.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        })
        .collect()
}

fn node_patch(node: &Node, pool: &Pool, lab: &Lab, keys: &BTreeSet<&str>) -> Option<Value> {
    let mut patch = json!({});
    if node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)) {
        patch["spec"] = json!({ "unschedulable": null });
    }
    for annotation in [HEARTBEAT_ANNOTATION, SPOT_ANNOTATION] {
        if node.annotations().contains_key(annotation) {
            patch["metadata"]["annotations"][annotation] = Value::Null;
        }
    }
    let declared = pool.node_labels(&lab.aks.location, None);
    let labels: Map<String, Value> = keys
        .iter()
        .filter(|key| !key.ends_with("/zone") && node.labels().get(**key) != declared.get(**key))
        .map(|key| ((*key).to_owned(), json!(declared.get(*key))))
        .collect();
    if !labels.is_empty() {
        patch["metadata"]["labels"] = Value::Object(labels);
    }
    (patch != json!({})).then_some(patch)
}
