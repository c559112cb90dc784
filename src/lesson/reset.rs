//! Back to the set-up: what `up` alone leaves of the things that steps, or a learner's hands, did.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch};
use kube::{Client, ResourceExt};
use serde_json::{Map, Value, json};

use super::nodes::failure;
use super::set::{main_object, take_away};
use crate::apply::patch_parameters;
use crate::error::Result;
use crate::observe;
use crate::provider::Work;
use crate::sim::control::HEARTBEAT_ANNOTATION;
use crate::spec::{Action, Lab, Pool};
use crate::ui::plural;

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
    let nodes = observe::look(client).await?.nodes;
    let keys = changed_labels(lab);
    let api: Api<Node> = Api::all(client.clone());
    let mut count = 0;
    for node in &nodes {
        let Some(patch) = node.labels().get("agentpool").and_then(|pool| node_patch(node, lab.pool(pool)?, lab, &keys))
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
        work.events.note("Reset", format!("{} to what the set-up says", plural(count, "node")));
    }
    Ok(())
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
    if node.annotations().contains_key(HEARTBEAT_ANNOTATION) {
        patch["metadata"]["annotations"] = json!({ HEARTBEAT_ANNOTATION: null });
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
