//! Where pods will go, before anything exists; and afterwards, where the cluster did otherwise.

mod compare;
mod expand;

#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashSet, VecDeque};

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use compare::{Difference, compare};

use super::context::Context;
use super::model;
use super::snapshot::Snapshot;
use super::view::{PodView, View};
use expand::{Defaults, Planned, Root};
use klab_scheduler::typed::Typed;
use klab_scheduler::{Cluster, Outcome, TieBreak};

/// Where the pods of objects will go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    /// Per object that has pods, in the order of the objects.
    pub workloads: Vec<PredictedWorkload>,
}

/// Where the pods of one object will go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictedWorkload {
    /// Its kind, such as `Deployment`.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Pods by pool; by node where a node belongs to no pool.
    pub pools: BTreeMap<String, u32>,
    /// Pods by node.
    pub nodes: BTreeMap<String, u32>,
    /// Pods that no node will take.
    pub pending: u32,
    /// What the scheduler will say of the first of them.
    pub message: Option<String>,
}

/// A pod on its way through the prediction.
struct Candidate {
    pod: Planned,
    /// The object it belongs to; none for pods that were there and lost their place to others.
    workload: Option<usize>,
}

/// Predicts where the pods of `objects` (in the order in which they are applied) go in a cluster that looks like the
/// snapshot: with planned nodes where none exist yet, with the pods that are there. Pods that a present object already
/// has stay where they are, unless its template changes; then all of them are placed again.
pub fn predict(
    snapshot: &Snapshot,
    context: &Context<'_>,
    objects: &[impl Borrow<Value>],
    tie_break: TieBreak,
) -> Prediction {
    let objects = || objects.iter().map(Borrow::borrow);
    let view = View::new(snapshot, context);
    let mut cluster = model::cluster(&view, tie_break);
    let mut defaults = Defaults {
        priority_classes: snapshot
            .priority_classes
            .iter()
            .filter_map(|class| Some((class.metadata.name.clone()?, (**class).clone())))
            .collect(),
    };
    for object in objects() {
        introduce(object, &mut cluster, &mut defaults);
    }
    let mut forecast = Forecast { view: &view, cluster, workloads: Vec::new(), queue: VecDeque::new() };
    for object in objects() {
        if let Some(root) = expand::root(object) {
            forecast.take_in(object, &root, &defaults);
        }
    }
    forecast.run();
    Prediction { workloads: forecast.workloads }
}

/// Objects without pods that the scheduler or admission looks at.
fn introduce(object: &Value, cluster: &mut Cluster, defaults: &mut Defaults) {
    fn read<T: Typed>(object: &Value) -> Option<T> {
        T::from_value(object).ok()
    }
    match object["kind"].as_str().unwrap_or_default() {
        "Namespace" => read(object).iter().for_each(|it| cluster.set_namespace(it)),
        "Service" => read(object).iter().for_each(|it| cluster.set_service(it)),
        "PodDisruptionBudget" => read(object).iter().for_each(|it| drop(cluster.set_disruption_budget(it))),
        "PersistentVolumeClaim" => read(object).iter().for_each(|it| drop(cluster.set_claim(it))),
        "PersistentVolume" => read(object).iter().for_each(|it| drop(cluster.set_volume(it))),
        "StorageClass" => read(object).iter().for_each(|it| drop(cluster.set_storage_class(it))),
        "StatefulSet" => read(object).iter().for_each(|it| drop(cluster.set_stateful_set(it))),
        "ReplicaSet" => read(object).iter().for_each(|it| drop(cluster.set_replica_set(it))),
        "Deployment" => {
            if let Some(root) = expand::root(object) {
                let set = json!({
                    "metadata": {"name": expand::replica_set_name(&root), "namespace": root.namespace},
                    "spec": {"selector": object["spec"]["selector"]},
                });
                if let Some(set) = read(&set) {
                    let _ = cluster.set_replica_set(&set);
                }
            }
        }
        "PriorityClass" => {
            if let Some((name, class)) = object["metadata"]["name"].as_str().zip(read(object)) {
                defaults.priority_classes.insert(name.to_owned(), class);
            }
        }
        _ => {}
    }
}

/// The pod that a DaemonSet's controller would make for a node.
pub(crate) fn daemon_pod(set: &DaemonSet, node: &str) -> Option<Pod> {
    let mut object = serde_json::to_value(set).ok()?;
    object["apiVersion"] = json!("apps/v1");
    object["kind"] = json!("DaemonSet");
    let root = expand::root(&object)?;
    expand::pod(&object, &root, 0, Some(node), &Defaults { priority_classes: BTreeMap::new() })
}

/// A prediction in the making.
struct Forecast<'f, 'a> {
    view: &'f View<'a>,
    cluster: Cluster,
    workloads: Vec<PredictedWorkload>,
    queue: VecDeque<Candidate>,
}

impl Forecast<'_, '_> {
    /// Counts the pods an object keeps and queues those it will get.
    fn take_in(&mut self, object: &Value, root: &Root, defaults: &Defaults) {
        let at = self.workloads.len();
        self.workloads.push(PredictedWorkload {
            kind: root.kind.clone(),
            namespace: root.namespace.clone(),
            name: root.name.clone(),
            ..PredictedWorkload::default()
        });
        let own: Vec<&PodView<'_>> = self.view.pods.iter().filter(|pod| is_of(pod, root)).collect();
        let unchanged = self.is_unchanged(object, root);
        let (kept, gone): (Vec<_>, Vec<_>) = own.into_iter().partition(|pod| unchanged && pod.counts());
        for pod in gone {
            self.cluster.remove_pod(pod.namespace, pod.name);
        }
        if let Some(wanted) = expand::wanted(object) {
            // Those without a node go first when there are too many, and are tried again when there are not.
            let (placed, waiting): (Vec<_>, Vec<_>) = kept.into_iter().partition(|pod| pod.node.is_some());
            for pod in placed.iter().skip(wanted) {
                self.cluster.remove_pod(pod.namespace, pod.name);
            }
            let kept: Vec<_> = placed.into_iter().chain(waiting).take(wanted).collect();
            for pod in &kept {
                self.keep(pod, at);
            }
            let new = (kept.len()..wanted).filter_map(|number| expand::pod(object, root, number, None, defaults));
            self.queue.extend(new.map(|pod| Candidate { pod: pod.into(), workload: Some(at) }));
        } else {
            let nodes = expand::daemon_nodes(object, &self.view.nodes);
            let has: HashSet<&str> = kept.iter().filter_map(|pod| pod.node).collect();
            for pod in &kept {
                self.keep(pod, at);
            }
            let missing = nodes.into_iter().filter(|node| !has.contains(node));
            let new = expand::daemon_pods(object, root, missing, defaults);
            self.queue.extend(new.map(|pod| Candidate { pod, workload: Some(at) }));
        }
    }

    /// Whether the object is there with the template it is to have.
    fn is_unchanged(&self, object: &Value, root: &Root) -> bool {
        let present = self.view.snapshot.object(&crate::spec::ObjectRef {
            kind: root.kind.clone(),
            group: None,
            name: root.name.clone(),
            namespace: root.namespace.clone(),
        });
        present.is_some_and(|present| {
            let path = if root.kind == "Pod" { "/spec" } else { "/spec/template" };
            let of = |value: &Value| value.pointer(path).cloned().unwrap_or_default();
            expand::is_part_of(&of(object), &of(&present))
        })
    }

    fn keep(&mut self, pod: &PodView<'_>, workload: usize) {
        match pod.node {
            Some(node) => self.count(workload, node),
            None => self.queue.push_back(Candidate { pod: pod.pod.clone().into(), workload: Some(workload) }),
        }
    }

    fn count(&mut self, workload: usize, node: &str) {
        let pool = self.view.pool_of(node).unwrap_or(node);
        let workload = &mut self.workloads[workload];
        *workload.pools.entry(pool.to_owned()).or_default() += 1;
        *workload.nodes.entry(node.to_owned()).or_default() += 1;
    }

    fn uncount(&mut self, workload: usize, node: &str) {
        let pool = self.view.pool_of(node).unwrap_or(node);
        let workload = &mut self.workloads[workload];
        for (counts, key) in [(&mut workload.pools, pool), (&mut workload.nodes, node)] {
            if let Some(count) = counts.get_mut(key) {
                *count = count.saturating_sub(1);
            }
            counts.retain(|_, count| *count > 0);
        }
    }

    /// Places the queued pods as the scheduler would: by priority, then in the order in which they came; those that fail
    /// again after others were placed, until nothing changes.
    fn run(&mut self) {
        let mut placed: BTreeMap<(String, String), (Option<usize>, Planned, String)> = BTreeMap::new();
        // Every eviction places a pod of higher priority for one of lower, so this ends; the bound is for certainty.
        let mut evictions_left = 4 * self.queue.len() + self.view.pods.len();
        loop {
            let mut round: Vec<Candidate> = self.queue.drain(..).collect();
            round.sort_by_key(|candidate| std::cmp::Reverse(candidate.pod.priority()));
            let mut progress = false;
            let mut failed: Vec<(Candidate, String)> = Vec::new();
            for candidate in round {
                let pod = candidate.pod.pod();
                let Ok(decision) = self.cluster.schedule(&pod) else {
                    drop(pod);
                    failed.push((candidate, "the scheduler cannot read this pod".to_owned()));
                    continue;
                };
                let node = match decision.outcome {
                    Outcome::Scheduled { node } | Outcome::Bound { node } => node.as_ref().to_owned(),
                    Outcome::Preempting(preemption) if evictions_left >= preemption.victims.len() => {
                        evictions_left -= preemption.victims.len();
                        for victim in &preemption.victims {
                            self.evict(&victim.namespace, &victim.name, &mut placed);
                        }
                        preemption.nominated.as_ref().to_owned()
                    }
                    _ => {
                        drop(pod);
                        failed.push((candidate, decision.message));
                        continue;
                    }
                };
                if self.cluster.bind(&pod, &node).is_err() {
                    continue;
                }
                progress = true;
                if let Some(workload) = candidate.workload {
                    self.count(workload, &node);
                }
                let key = key_of(&pod);
                drop(pod);
                placed.insert(key, (candidate.workload, candidate.pod, node));
            }
            let over = !progress;
            for (candidate, message) in failed {
                if !over {
                    self.queue.push_back(candidate);
                } else if let Some(workload) = candidate.workload {
                    let workload = &mut self.workloads[workload];
                    workload.pending += 1;
                    workload.message.get_or_insert(message);
                }
            }
            if over || self.queue.is_empty() {
                break;
            }
        }
    }

    /// Takes a pod's place away. Its controller makes another, which queues again.
    fn evict(
        &mut self,
        namespace: &str,
        name: &str,
        placed: &mut BTreeMap<(String, String), (Option<usize>, Planned, String)>,
    ) {
        self.cluster.remove_pod(namespace, name);
        if let Some((workload, pod, node)) = placed.remove(&(namespace.to_owned(), name.to_owned())) {
            if let Some(workload) = workload {
                self.uncount(workload, &node);
            }
            self.queue.push_back(Candidate { pod, workload });
            return;
        }
        let Some(view) = self.view.pods.iter().find(|pod| pod.namespace == namespace && pod.name == name) else {
            return;
        };
        let workload = self.workloads.iter().position(|workload| {
            let root = Root {
                kind: workload.kind.clone(),
                namespace: workload.namespace.clone(),
                name: workload.name.clone(),
            };
            is_of(view, &root)
        });
        if let (Some(workload), Some(node)) = (workload, view.node) {
            self.uncount(workload, node);
        }
        if view.owner.replaces() {
            let mut pod = view.pod.clone();
            if let Some(spec) = pod.spec.as_mut() {
                spec.node_name = None;
            }
            self.queue.push_back(Candidate { pod: pod.into(), workload });
        }
    }
}

fn key_of(pod: &Pod) -> (String, String) {
    let namespace = pod.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
    (namespace, pod.metadata.name.clone().unwrap_or_default())
}

/// Whether a pod belongs to an object.
fn is_of(pod: &PodView<'_>, root: &Root) -> bool {
    let own = root.kind == "Pod" && pod.name == root.name && pod.owner.meta().is_none();
    pod.namespace == root.namespace && (own || (pod.owner.kind() == root.kind && pod.owner.name() == root.name))
}
