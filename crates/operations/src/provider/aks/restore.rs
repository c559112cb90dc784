//! Labels and taints that steps or kubectl put on nodes, taken back to what the pools declare: Azure knows nothing of them.

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Map, Value, json};

use crate::client::objects;
use klab_lab::plan::{is_system_taint, taint_text};
use klab_lab::spec::Pool;

/// What brings one node back.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Restoration {
    node: String,
    patch: Value,
    /// What it does, a phrase each.
    pub(super) changes: Vec<String>,
}

impl Restoration {
    /// Of a node of a pool; none where its labels and taints are the pool's.
    pub(super) fn of(pool: &Pool, node: &Node) -> Option<Self> {
        let mut changes = Vec::new();
        let mut patch = json!({ "metadata": {} });
        let labels: Map<String, Value> = pool
            .labels
            .iter()
            .filter(|(key, wanted)| node.labels().get(*key) != Some(&wanted.value))
            .map(|(key, wanted)| (key.clone(), json!(wanted.value)))
            .collect();
        if !labels.is_empty() {
            changes.extend(
                labels.iter().map(|(key, value)| format!("label {key}={}", value.as_str().unwrap_or_default())),
            );
            patch["metadata"]["labels"] = Value::Object(labels);
        }
        let live: Vec<&Taint> = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).collect();
        let declared = |taint: &Taint| pool.taints.iter().any(|wanted| same_taint(taint, &wanted.value));
        let is_there = |wanted: &Taint| live.iter().any(|taint| same_taint(taint, wanted));
        let (kept, gone): (Vec<&Taint>, Vec<&Taint>) =
            live.iter().partition(|taint| is_system_taint(taint) || declared(taint));
        let missing: Vec<&Taint> =
            pool.taints.iter().map(|wanted| &wanted.value).filter(|wanted| !is_there(wanted)).collect();
        if !gone.is_empty() || !missing.is_empty() {
            changes.extend(gone.iter().map(|taint| format!("no taint {}", taint_text(taint))));
            changes.extend(missing.iter().map(|taint| format!("taint {}", taint_text(taint))));
            patch["spec"] = json!({ "taints": kept.into_iter().chain(missing).collect::<Vec<_>>() });
            // A list is replaced whole: a taint that comes in between must not go with it.
            patch["metadata"]["resourceVersion"] = json!(node.resource_version());
        }
        (!changes.is_empty()).then(|| Self { node: node.name_any(), patch, changes })
    }

    /// The node.
    pub(super) fn node(&self) -> &str {
        &self.node
    }

    /// Does it.
    ///
    /// # Errors
    /// When the cluster refuses.
    pub(super) async fn perform(&self, client: &Client) -> Result<(), kube::Error> {
        objects::writer::<Node>(client)
            .patch(&self.node, &PatchParams::default(), &Patch::Merge(&self.patch))
            .await
            .map(drop)
    }
}

/// Whether two taints are one; no value is an empty one.
pub(super) fn same_taint(one: &Taint, other: &Taint) -> bool {
    let value = |taint: &Taint| taint.value.clone().unwrap_or_default();
    one.key == other.key && one.effect == other.effect && value(one) == value(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_lab::spec::{self, LoadOptions};

    fn restoration(taints: &Value, team: &str) -> Option<Restoration> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.toml");
        let text = "lab = \"back\"\nprovider = \"aks\"\n[pool.sys]\n[pool.extra]\nlabels = { team = \"a\" }\n\
                    taints = [\"dedicated=x:NoSchedule\"]\n";
        std::fs::write(&path, text).unwrap();
        let lab = spec::load(&path, &LoadOptions::default()).unwrap();
        let node = json!({ "metadata": { "name": "n", "resourceVersion": "7", "labels": { "team": team, "mine": "1" } },
            "spec": { "taints": taints } });
        Restoration::of(lab.pool("extra").unwrap(), &serde_json::from_value(node).unwrap())
    }

    #[test]
    fn node_gets_its_pools_labels_and_taints_and_keeps_the_systems() {
        let own = json!({ "key": "dedicated", "value": "x", "effect": "NoSchedule" });
        let system = json!({ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" });
        let scaler = json!({ "key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule" });
        let other = json!({ "key": "dedicated", "value": "special", "effect": "NoExecute" });
        assert_eq!(restoration(&json!([own, system, scaler]), "a"), None);
        let back = restoration(&json!([other, system, scaler]), "b").unwrap();
        assert_eq!(
            back.changes,
            ["label team=a", "no taint dedicated=special:NoExecute", "taint dedicated=x:NoSchedule"]
        );
        assert_eq!(back.patch["spec"]["taints"], json!([system, scaler, own]));
        assert_eq!(back.patch["metadata"], json!({ "labels": { "team": "a" }, "resourceVersion": "7" }));
        let label = restoration(&json!([own]), "b").unwrap();
        assert_eq!(label.patch, json!({ "metadata": { "labels": { "team": "a" } } }));
    }
}
