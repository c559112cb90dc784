//! Actions on nodes: taints, labels, cordons, and their power.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{ListParams, Patch};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::performer::Performer;
use crate::apply::patch_parameters;
use crate::client::{cause, objects};
use crate::error::{Code, Error, Result};
use crate::event::{About, Events, Verb};
use crate::provider::{Machines, Work, cannot_reclaim_nodes, cannot_stop_nodes};
use klab_cluster::control::{HEARTBEAT_ANNOTATION, PREEMPT, SPOT_ANNOTATION};
use klab_lab::names::POOL_LABEL;
use klab_lab::plan::taint_text;
use klab_lab::spec::{Action, Lab, NodeForm, NodeSet};
use klab_lab::words::plural;

/// How often a change is tried again when somebody else changed the node in between.
const ATTEMPTS: usize = 8;

/// The label selector that finds these nodes; none for a node by name.
pub(super) fn selector(set: &NodeSet) -> Option<String> {
    match set {
        NodeSet::Pool(pool) => Some(format!("{POOL_LABEL}={pool}")),
        NodeSet::Selector(selector) => Some(selector.to_string()),
        NodeSet::Node(_) => None,
    }
}

/// The nodes of a set, by name; empty where there are none.
pub(super) async fn select(client: &Client, set: &NodeSet) -> Result<Vec<Node>> {
    let failed = |error: kube::Error| failure(&format!("list the nodes of {set}"), &error);
    let mut nodes = match (set, selector(set)) {
        (NodeSet::Node(name), _) => {
            objects::find::<Node>(client, None, name).await.map_err(failed)?.into_iter().collect::<Vec<_>>()
        }
        (_, selector) => {
            let parameters = ListParams { label_selector: selector, ..ListParams::default() };
            objects::list(client, None, &parameters).await.map_err(failed)?
        }
    };
    nodes.sort_by_key(ResourceExt::name_any);
    Ok(nodes)
}

/// The nodes of a set, at least one.
pub(super) fn some(performer: &Performer<'_>, set: &NodeSet) -> Result<Vec<Node>> {
    let nodes = performer.runtime.block_on(select(performer.client, set))?;
    if nodes.is_empty() {
        return Err(Error::message(Code::NoNodeHere, format!("no node matches {set}"))
            .hint("`kubectl get nodes --show-labels` shows the nodes there are"));
    }
    Ok(nodes)
}

/// Taints, labels and cordons.
///
/// # Errors
/// When there is no such node, or the cluster refuses.
pub fn change(performer: &Performer<'_>, action: &Action, work: &mut Work<'_>) -> Result<()> {
    let Some(set) = action.nodes() else { return Ok(()) };
    let change = Change::of(action);
    let nodes = some(performer, set)?;
    let names: Vec<String> = nodes.iter().map(ResourceExt::name_any).collect();
    work.intend(change.journaled, &format!("{} {set}", change.what))?;
    let changed = performer.runtime.block_on(async {
        let mut changed = 0;
        for name in &names {
            changed += usize::from(change_node(performer.client, name, &change).await?);
        }
        Ok::<_, Error>(changed)
    })?;
    let what = if change.what.is_empty() { String::new() } else { format!(" {} {}", change.word, change.what) };
    let already = if changed == 0 { ", which was so already" } else { "" };
    of_nodes(work.events, &names).note(change.done, format!("{}{what}{already}", named(set, &names)));
    Ok(())
}

/// `node extra-0`, or `3 nodes of pool:extra`.
pub(super) fn named(set: &NodeSet, names: &[String]) -> String {
    match names {
        [one] => format!("node {one}"),
        several => format!("{} of {set}", plural(several.len(), "node")),
    }
}

/// The way for what happens to nodes: one has a name, several have a number.
fn of_nodes(events: &Events, names: &[String]) -> Events {
    let events = events.counting(names.len());
    match names {
        [one] => events.about(About::Node, one),
        _ => events,
    }
}

type NewState<'a> = Box<dyn Fn(&Node) -> Option<Value> + 'a>;

/// What is changed on each node: none where it is as wanted.
struct Change<'a> {
    journaled: &'static str,
    done: Verb,
    word: &'static str,
    what: String,
    patch: NewState<'a>,
}

impl<'a> Change<'a> {
    fn of(action: &'a Action) -> Self {
        let list = |words: Vec<String>| words.join(", ");
        match action {
            Action::Taint { taint, .. } => Self {
                journaled: "taint-nodes",
                done: Verb::TaintNodes,
                word: "with",
                what: taint_text(taint),
                patch: Box::new(|node| with_taint(node, taint)),
            },
            Action::Untaint { key, value, effect, .. } => Self {
                journaled: "untaint-nodes",
                done: Verb::UntaintNodes,
                word: "of",
                what: pattern_text(key, value.as_deref(), effect.as_deref()),
                patch: Box::new(|node| without_taint(node, key, value.as_deref(), effect.as_deref())),
            },
            Action::Label { labels, .. } => Self {
                journaled: "label-nodes",
                done: Verb::LabelNodes,
                word: "with",
                what: list(labels.iter().map(|(key, value)| format!("{key}={value}")).collect()),
                patch: Box::new(|node| {
                    let missing: BTreeMap<_, _> =
                        labels.iter().filter(|(key, value)| node.labels().get(*key) != Some(*value)).collect();
                    (!missing.is_empty()).then(|| json!({ "metadata": { "labels": missing } }))
                }),
            },
            Action::Unlabel { keys, .. } => Self {
                journaled: "unlabel-nodes",
                done: Verb::UnlabelNodes,
                word: "of",
                what: list(keys.clone()),
                patch: Box::new(|node| {
                    let there: BTreeMap<_, _> = keys
                        .iter()
                        .filter(|key| node.labels().contains_key(*key))
                        .map(|key| (key, Value::Null))
                        .collect();
                    (!there.is_empty()).then(|| json!({ "metadata": { "labels": there } }))
                }),
            },
            Action::Uncordon { .. } => Self {
                journaled: "uncordon-nodes",
                done: Verb::UncordonNodes,
                word: "",
                what: String::new(),
                patch: Box::new(|node| cordoned(node).then(|| json!({ "spec": { "unschedulable": null } }))),
            },
            // What else comes here is cordoned: `cordon` itself, and `drain` before it evicts.
            _ => Self {
                journaled: "cordon-nodes",
                done: Verb::CordonNodes,
                word: "",
                what: String::new(),
                patch: Box::new(|node| (!cordoned(node)).then(|| json!({ "spec": { "unschedulable": true } }))),
            },
        }
    }
}

fn cordoned(node: &Node) -> bool {
    node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true))
}

/// `key`, `key:Effect`, `key=value:Effect`, as the lab file writes the taints to take off.
pub(super) fn pattern_text(key: &str, value: Option<&str>, effect: Option<&str>) -> String {
    let value = value.map_or(String::new(), |value| format!("={value}"));
    let effect = effect.map_or(String::new(), |effect| format!(":{effect}"));
    format!("{key}{value}{effect}")
}

fn taints(node: &Node) -> Vec<Taint> {
    node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default()
}

/// Puts a taint in the place of one of its key and effect, as `kubectl taint --overwrite` does.
fn with_taint(node: &Node, taint: &Taint) -> Option<Value> {
    let same = |other: &Taint| other.key == taint.key && other.effect == taint.effect;
    let value = |taint: &Taint| taint.value.clone().filter(|value| !value.is_empty());
    let mut all = taints(node);
    if all.iter().any(|other| same(other) && value(other) == value(taint)) {
        return None;
    }
    all.retain(|other| !same(other));
    all.push(taint.clone());
    Some(json!({ "spec": { "taints": all } }))
}

fn without_taint(node: &Node, key: &str, value: Option<&str>, effect: Option<&str>) -> Option<Value> {
    let before = taints(node);
    let is_meant = |taint: &Taint| matches(taint, key, value, effect);
    let left: Vec<&Taint> = before.iter().filter(|taint| !is_meant(taint)).collect();
    if left.len() == before.len() {
        return None;
    }
    Some(if left.is_empty() { json!({ "spec": { "taints": null } }) } else { json!({ "spec": { "taints": left } }) })
}

/// Whether a taint is one that `untaint` means.
pub(super) fn matches(taint: &Taint, key: &str, value: Option<&str>, effect: Option<&str>) -> bool {
    taint.key == key
        && effect.is_none_or(|effect| taint.effect == effect)
        && value.is_none_or(|value| taint.value.as_deref().unwrap_or_default() == value)
}

/// Changes one node; says whether there was anything to change. Tried again when somebody else was faster.
async fn change_node(client: &Client, name: &str, change: &Change<'_>) -> Result<bool> {
    let api = objects::writer::<Node>(client);
    let failed = |error: &kube::Error| failure(&format!("change node `{name}`"), error);
    let parameters = patch_parameters();
    for attempt in 1.. {
        let node = objects::get(client, None, name).await.map_err(|error| failed(&error))?;
        let Some(mut patch) = (change.patch)(&node) else { return Ok(false) };
        patch["metadata"]["resourceVersion"] = json!(node.resource_version());
        match api.patch_metadata(name, &parameters, &Patch::Merge(&patch)).await {
            Ok(_) => return Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 && attempt < ATTEMPTS => {}
            Err(error) => return Err(failed(&error)),
        }
    }
    Ok(false)
}

/// Stops nodes as if they had lost power, or starts them again.
pub(super) fn power(performer: &Performer<'_>, stage: &Lab, action: &Action, work: &mut Work<'_>) -> Result<()> {
    let (set, count, start) = match action {
        Action::FailNode { nodes, count } => (nodes, *count, false),
        Action::RestoreNode { nodes } => (nodes, None, true),
        _ => return Ok(()),
    };
    let mut names: Vec<String> = some(performer, set)?.iter().map(ResourceExt::name_any).collect();
    if let Some(count) = count {
        names.truncate(count as usize);
    }
    let (journaled, done) = if start { ("start-nodes", Verb::StartNodes) } else { ("stop-nodes", Verb::StopNodes) };
    if stage.provider.profile().nodes == NodeForm::Object {
        work.intend(journaled, &names.join(" "))?;
        // A machine that runs again is one that Azure does not take.
        let restored = json!({ HEARTBEAT_ANNOTATION: null, SPOT_ANNOTATION: null });
        let annotations = if start { restored } else { json!({ HEARTBEAT_ANNOTATION: "stopped" }) };
        annotate(performer, &names, &annotations)?;
    } else {
        let machines = performer.provider.machines().ok_or_else(cannot_stop_nodes)?;
        let switch = if start { Machines::start_nodes } else { Machines::stop_nodes };
        switch(machines, &stage.name.value, &names, work)?;
    }
    of_nodes(work.events, &names).note(done, named(set, &names));
    Ok(())
}

fn annotate(performer: &Performer<'_>, names: &[String], annotations: &Value) -> Result<()> {
    let patch = json!({ "metadata": { "annotations": annotations } });
    performer.runtime.block_on(async {
        let api = objects::writer::<Node>(performer.client);
        let parameters = patch_parameters();
        for name in names {
            let patched = api.patch_metadata(name, &parameters, &Patch::Merge(&patch)).await;
            patched.map_err(|error| failure(&format!("change node `{name}`"), &error))?;
        }
        Ok(())
    })
}

/// Has Azure take nodes of a spot pool back, the first by name.
pub(super) fn reclaim(
    performer: &Performer<'_>,
    stage: &Lab,
    pool: &str,
    count: Option<u32>,
    work: &mut Work<'_>,
) -> Result<()> {
    let set = NodeSet::Pool(pool.to_owned());
    let mut nodes = some(performer, &set)?;
    nodes.truncate(count.map_or(usize::MAX, |count| count as usize));
    let names: Vec<String> = nodes.iter().map(ResourceExt::name_any).collect();
    if stage.provider.profile().nodes == NodeForm::Object {
        work.intend("reclaim-nodes", &names.join(" "))?;
        annotate(performer, &names, &json!({ SPOT_ANNOTATION: PREEMPT }))?;
    } else {
        let machines = performer.provider.machines().ok_or_else(cannot_reclaim_nodes)?;
        let ids = nodes.into_iter().filter_map(|node| node.spec?.provider_id).collect::<Vec<String>>();
        machines.reclaim_nodes(&stage.name.value, &ids, work)?;
    }
    of_nodes(work.events, &names).note(Verb::ReclaimNodes, named(&set, &names));
    Ok(())
}

/// What the cluster refused, in its own words.
pub(super) fn failure(what: &str, error: &kube::Error) -> Error {
    Error::new(Code::StepFailed, cause(error).context(format!("could not {what}")))
}
