//! Small clusters and checks for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::Snapshot;
use crate::spec::{Check, Condition, Count, Lab, LoadOptions, Located, Location, NodeSet, Source, Subject};

/// A snapshot in the making. Owners get uids from their names, so that pods can refer to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) snapshot: Snapshot,
    pods: usize,
}

pub(crate) fn from<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).unwrap())
}

impl Cluster {
    /// Ready nodes `POOL-0`, `POOL-1`, … of a pool: 2 CPUs, 8 GiB, 30 pods.
    pub(crate) fn pool(mut self, pool: &str, nodes: u32) -> Self {
        for number in 0..nodes {
            self = self.node(pool, number, json!({}));
        }
        self
    }

    /// One node of a pool with changes merged in.
    pub(crate) fn node(mut self, pool: &str, number: u32, changes: Value) -> Self {
        let name = format!("{pool}-{number}");
        let mut node = json!({
            "metadata": {"name": name, "uid": name, "labels": {
                "agentpool": pool, "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("z{number}"),
            }},
            "spec": {},
            "status": {
                "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "30"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        });
        json_patch::merge(&mut node, &changes);
        if node["spec"]["unschedulable"] == true {
            // As the controller of nodes does in every cluster.
            let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            taints.push(json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}));
            node["spec"]["taints"] = json!(taints);
        }
        self.snapshot.nodes.push(from::<Node>(node));
        self
    }

    /// A Deployment whose controller has seen it, with its ReplicaSet.
    pub(crate) fn deployment(self, name: &str, replicas: u32) -> Self {
        self.deployment_with(name, replicas, json!({})).replica_set(name, 1)
    }

    /// A Deployment alone, with changes merged in.
    pub(crate) fn deployment_with(mut self, name: &str, replicas: u32, changes: Value) -> Self {
        let mut deployment = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("deployment-{name}"), "generation": 1},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {}},
            "status": {"observedGeneration": 1},
        });
        json_patch::merge(&mut deployment, &changes);
        self.snapshot.deployments.push(from(deployment));
        self
    }

    /// A ReplicaSet of a Deployment, by revision.
    pub(crate) fn replica_set(mut self, name: &str, revision: u32) -> Self {
        self.snapshot.replica_sets.push(from(json!({
            "metadata": {
                "name": format!("{name}-{revision}"), "namespace": "default", "uid": format!("{name}-{revision}"),
                "labels": {"app": name},
                "annotations": {"deployment.kubernetes.io/revision": revision.to_string()},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": format!("deployment-{name}"), "controller": true}],
            },
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}},
        })));
        self
    }

    /// A pod of a Deployment's ReplicaSet (revision 1), or a bare pod if there is no such Deployment, with changes merged in.
    pub(crate) fn pod(mut self, owner: &str, changes: &Value) -> Self {
        self.pods += 1;
        let mut pod = json!({
            "metadata": {
                "name": format!("{owner}-{}", self.pods), "namespace": "default", "labels": {"app": owner},
                "uid": format!("pod-{owner}-{}", self.pods),
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]},
            "status": {"phase": "Pending"},
        });
        if self.snapshot.deployments.iter().any(|deployment| deployment.metadata.name.as_deref() == Some(owner)) {
            pod["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{owner}-1"), "uid": format!("{owner}-1"), "controller": true,
            }]);
        }
        json_patch::merge(&mut pod, changes);
        self.snapshot.pods.push(from::<Pod>(pod));
        self
    }

    /// `count` running pods on a node.
    pub(crate) fn running(mut self, owner: &str, node: &str, count: usize) -> Self {
        for _ in 0..count {
            self = self.pod(owner, &running(node));
        }
        self
    }

    /// `count` pods for which the scheduler found no node.
    pub(crate) fn unschedulable(mut self, owner: &str, count: usize, message: &str) -> Self {
        for _ in 0..count {
            self = self.pod(owner, &unschedulable(message));
        }
        self
    }
}

/// A pod that runs and is ready.
pub(crate) fn running(node: &str) -> Value {
    json!({
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]},
    })
}

/// A pod on a node whose containers have not started.
pub(crate) fn starting(node: &str) -> Value {
    json!({"spec": {"nodeName": node}, "status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}})
}

/// A pod for which the scheduler found no node.
pub(crate) fn unschedulable(message: &str) -> Value {
    json!({"status": {"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message},
    ]}})
}

/// A pod that is being deleted.
pub(crate) fn terminating(node: &str) -> Value {
    let mut pod = running(node);
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:01:00Z");
    pod
}

/// A pod of a Deployment's ReplicaSet of another revision.
pub(crate) fn of_revision(owner: &str, revision: u32, mut pod: Value) -> Value {
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{owner}-{revision}"), "uid": format!("{owner}-{revision}"), "controller": true,
    }]);
    pod
}

/// A place in a lab file.
pub(crate) fn at(line: usize) -> Location {
    let source = Source::new("labs/x.toml", "\n".repeat(60));
    source.at(source.line_span(line))
}

/// A check without a name, at line 10, its conditions from line 12 on.
pub(crate) fn check(subject: Subject, conditions: impl IntoIterator<Item = Condition>) -> Check {
    Check {
        name: None,
        subject: Located::new(subject, at(11)),
        conditions: (12..).zip(conditions).map(|(line, condition)| Located::new(condition, at(line))).collect(),
        within: None,
        hold: None,
        hint: None,
        at: at(10),
    }
}

pub(crate) fn workload(name: &str) -> Subject {
    Subject::Workload(name.to_owned())
}

pub(crate) fn pool(name: &str) -> NodeSet {
    NodeSet::Pool(name.to_owned())
}

pub(crate) fn running_count(count: u32) -> Condition {
    Condition::Running(Count::exactly(count))
}

pub(crate) fn pending(count: u32, reason: Option<&str>) -> Condition {
    Condition::Pending { count: Count::exactly(count), reason: reason.map(str::to_owned) }
}

pub(crate) fn placement<const N: usize>(pools: [(&str, u32); N]) -> Condition {
    let pools: BTreeMap<String, Count> =
        pools.into_iter().map(|(pool, count)| (pool.to_owned(), Count::exactly(count))).collect();
    Condition::Placement(pools)
}

/// A lab from text; its file is called `labs/x.toml`.
pub(crate) fn lab(text: &str) -> Lab {
    crate::spec::parse("labs/x.toml", text, &LoadOptions::default())
        .unwrap_or_else(|problems| panic!("{:#?}", problems.iter().collect::<Vec<_>>()))
}
