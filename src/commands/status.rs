//! `klab status`: a lab's nodes, and where its pods are.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use serde_json::json;

use super::Context;
use super::lesson::{Lesson, WhichLesson};
use klab_lab::membership::labelled_pool;
use klab_lab::names::{WORKLOAD_LABEL, is_system_namespace};
use klab_lab::plan::{is_system_taint, taint_text};
use klab_lab::spec::Lab;
use klab_lab::words::table;
use klab_operations::error::Result;
use klab_operations::grade::warn_of_faults;
use klab_operations::observe;
use klab_operations::state::Joined;
use klab_operations::state::class::Class;
use klab_operations::ui::Format;
use klab_scheduler::owner::controller;

/// What can be typed after `klab status`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The lab, by its name or its file; the one that is up by default.
    #[arg(value_name = "LAB")]
    lab: Option<String>,
}

/// Looks once and prints nodes and workloads.
///
/// # Errors
/// When the lab is not up or its cluster does not answer.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let lab = context.lab_or_class_name(arguments.lab.as_deref())?;
    if let Some(class) = Class::read(&context.home, &lab)? {
        return super::seats::status(context, &class);
    }
    if let Some(joined) = Joined::read(&context.home, &lab)? {
        return super::joined::status(context, &joined);
    }
    let record = context.record(&lab)?.ok_or_else(|| context.not_up(&lab))?;
    let lesson = Lesson::open(context, &WhichLesson::of(&lab)).ok();
    let file = lesson.as_ref().map(|lesson| &lesson.lab);
    let lesson = lesson.as_ref().filter(|lesson| !lesson.lab.steps.is_empty());
    let path = context.kubeconfig(&lab)?;
    let client = context.client(&lab, &path)?;
    let snapshot = context.block_on(async {
        warn_of_faults(context, &client).await;
        observe::look(&client).await
    });
    let snapshot = snapshot.map_err(|error| context.why_unreachable(&lab, error))?;

    let nodes: Vec<NodeRow> = snapshot.nodes.iter().map(|node| NodeRow::of(node, &snapshot.pods, file)).collect();
    // On a cluster of others, what else runs there is not the learner's.
    let is_own = file.is_none_or(|lab| lab.provider.profile().makes_nodes);
    let mut workloads: BTreeMap<String, Where> = BTreeMap::new();
    // What manifests or the learner made.
    let mut others: BTreeMap<(String, String), Where> = BTreeMap::new();
    for pod in &snapshot.pods {
        if let Some(workload) = pod.labels().get(WORKLOAD_LABEL).filter(|workload| is_of(file, workload, pod)) {
            workloads.entry(workload.clone()).or_default().count(pod, &snapshot.nodes, file);
        } else if let Some(name) = other(pod).filter(|_| is_own) {
            others.entry(name).or_default().count(pod, &snapshot.nodes, file);
        }
    }
    if context.ui.format() == Format::Json {
        let nodes: Vec<_> = nodes
            .iter()
            .map(|node| {
                json!({ "name": node.name, "pool": node.pool, "state": node.state, "taints": node.taints, "pods": node.pods })
            })
            .collect();
        let workloads: Vec<_> = workloads
            .iter()
            .map(|(name, place)| {
                json!({ "name": name, "running": place.running, "pending": place.pending, "pools": place.pools })
            })
            .collect();
        let others: Vec<_> = others
            .iter()
            .map(|((namespace, name), place)| {
                json!({
                    "namespace": namespace, "name": name, "running": place.running, "pending": place.pending,
                    "pools": place.pools,
                })
            })
            .collect();
        let document = json!({
            "schema": "klab.status/1", "lab": lab, "provider": record.provider, "created": record.created,
            "applied": record.applied, "kubeconfig": path, "nodes": nodes, "workloads": workloads, "others": others,
            "lesson": lesson.map(Lesson::document),
        });
        context.ui.result(&document.to_string());
        return Ok(());
    }
    let mut rows = vec![["NODE", "POOL", "STATE", "PODS", "TAINTS"].map(str::to_owned).to_vec()];
    rows.extend(nodes.into_iter().map(NodeRow::cells));
    let position = lesson.map(|lesson| format!("lesson: {}\n", lesson.position())).unwrap_or_default();
    let mut text = format!("lab {lab} ({})\n{position}\n{}", record.provider.spoken(), table(&rows));
    if !workloads.is_empty() {
        let mut rows = vec![["WORKLOAD", "RUNNING", "PENDING", "WHERE"].map(str::to_owned).to_vec()];
        rows.extend(workloads.into_iter().map(|(name, place)| place.cells(name)));
        text.push('\n');
        text.push_str(&table(&rows));
    }
    if !others.is_empty() {
        let mut rows = vec![["NOT A WORKLOAD OF THE LAB", "RUNNING", "PENDING", "WHERE"].map(str::to_owned).to_vec()];
        rows.extend(others.into_iter().map(|((namespace, name), place)| match namespace.as_str() {
            "default" => place.cells(name),
            _ => place.cells(format!("{name} -n {namespace}")),
        }));
        text.push('\n');
        text.push_str(&table(&rows));
    }
    context.ui.result(&text);
    Ok(())
}

/// Namespace and name of what a pod without a workload belongs to, as kubectl names it: its controller, else itself.
fn other(pod: &Pod) -> Option<(String, String)> {
    let namespace = pod.namespace().unwrap_or_default();
    if is_system_namespace(&namespace) {
        return None;
    }
    let owner = controller(&pod.metadata);
    let name = match owner {
        None => format!("pod/{}", pod.name_any()),
        Some(owner) => {
            let deployment = pod
                .labels()
                .get("pod-template-hash")
                .and_then(|hash| owner.name.strip_suffix(hash)?.strip_suffix('-'))
                .filter(|_| owner.kind == "ReplicaSet");
            match deployment {
                Some(deployment) => format!("deployment/{deployment}"),
                None => format!("{}/{}", owner.kind.to_lowercase(), owner.name),
            }
        }
    };
    Some((namespace, name))
}

struct NodeRow {
    name: String,
    pool: String,
    state: String,
    taints: Vec<String>,
    pods: usize,
}

impl NodeRow {
    fn of(node: &Node, pods: &[Arc<Pod>], lab: Option<&Lab>) -> Self {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        let ready =
            conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True");
        let spec = node.spec.as_ref();
        let cordoned = spec.is_some_and(|spec| spec.unschedulable == Some(true));
        let taints = spec.and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
        let name = node.name_any();
        Self {
            pool: pool_of(node, lab),
            state: format!("{}{}", if ready { "Ready" } else { "NotReady" }, if cordoned { ", cordoned" } else { "" }),
            taints: taints.filter(|taint| !is_system_taint(taint)).map(taint_text).collect(),
            pods: pods.iter().filter(|pod| node_of(pod) == Some(&name)).count(),
            name,
        }
    }

    fn cells(self) -> Vec<String> {
        vec![self.name, self.pool, self.state, self.pods.to_string(), self.taints.join(" ")]
    }
}

#[derive(Default)]
struct Where {
    running: usize,
    pending: usize,
    pools: BTreeMap<String, usize>,
}

impl Where {
    fn count(&mut self, pod: &Pod, nodes: &[Arc<Node>], lab: Option<&Lab>) {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        match phase {
            "Running" => self.running += 1,
            "Pending" => self.pending += 1,
            _ => return,
        }
        if let Some(name) = node_of(pod) {
            let node = nodes.iter().find(|node| node.name_any() == *name);
            *self.pools.entry(node.map_or("-".to_owned(), |node| pool_of(node, lab))).or_default() += 1;
        }
    }

    fn cells(self, name: String) -> Vec<String> {
        let places: Vec<String> = self.pools.iter().map(|(pool, count)| format!("{pool} {count}")).collect();
        vec![name, self.running.to_string(), self.pending.to_string(), places.join(", ")]
    }
}

fn node_of(pod: &Pod) -> Option<&String> {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref())
}

/// Whether pods of a workload are the lab's: on a cluster of others, other labs may have one of the same name.
fn is_of(lab: Option<&Lab>, workload: &str, pod: &Pod) -> bool {
    lab.is_none_or(|lab| {
        lab.provider.profile().makes_nodes
            || lab.workload(workload).is_some_and(|workload| pod.namespace().as_ref() == Some(&workload.namespace))
    })
}

/// The pool as the lab tells nodes apart; without its file, as their makers do.
fn pool_of(node: &Node, lab: Option<&Lab>) -> String {
    let pool = match lab {
        Some(lab) => lab.pool_of(node),
        None => labelled_pool(node).map(|(_, pool)| pool),
    };
    pool.unwrap_or("-").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_workload_of_the_lab_made_is_named_as_kubectl_names_it() {
        let named = |metadata: serde_json::Value| {
            let (namespace, name) = other(&serde_json::from_value(json!({ "metadata": metadata })).unwrap())?;
            Some(format!("{namespace} {name}"))
        };
        let owned = |kind: &str, name: &str| {
            json!({
                "name": "x-1", "namespace": "default", "labels": { "pod-template-hash": "5d8c7" },
                "ownerReferences": [{ "apiVersion": "v1", "kind": kind, "name": name, "uid": "1", "controller": true }],
            })
        };
        assert_eq!(named(json!({ "name": "a", "namespace": "team" })).as_deref(), Some("team pod/a"));
        assert_eq!(named(owned("ReplicaSet", "web-5d8c7")).as_deref(), Some("default deployment/web"));
        assert_eq!(named(owned("ReplicaSet", "web")).as_deref(), Some("default replicaset/web"));
        assert_eq!(named(owned("Job", "once")).as_deref(), Some("default job/once"));
        assert_eq!(named(json!({ "name": "coredns", "namespace": "kube-system" })), None);
    }
}
