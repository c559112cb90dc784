//! Which pool a node belongs to: by the label of those who made it, or by the labels that a lab asks for on a cluster of others.

use k8s_openapi::api::core::v1::Node;

use super::{Lab, Pool, Provider};
use crate::names::{AKS_POOL_LABEL, POOL_LABEL, SPOT_LABEL, ZONE_LABEL};

/// Labels that name a node's pool: AKS' own and the older one that every provider of klab sets, then those of EKS, GKE and
/// Karpenter.
pub const POOL_LABELS: [&str; 5] = [
    AKS_POOL_LABEL,
    POOL_LABEL,
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "karpenter.sh/nodepool",
];

/// Labels that say that a machine may be taken away at any time: of AKS, EKS, GKE and Karpenter.
const SPOT_LABELS: [(&str, &str); 4] = [
    (SPOT_LABEL, "spot"),
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("cloud.google.com/gke-spot", "true"),
    ("karpenter.sh/capacity-type", "spot"),
];

/// Whether a node's machine may be taken away at any time.
pub fn is_spot(node: &Node) -> bool {
    let labels = node.metadata.labels.as_ref();
    labels.is_some_and(|labels| SPOT_LABELS.iter().any(|(key, value)| labels.get(*key).is_some_and(|it| it == value)))
}

/// The zone of a node, as far as it is in one: AKS writes `0` on nodes without.
pub fn zone_of(node: &Node) -> Option<&str> {
    node.metadata.labels.as_ref()?.get(ZONE_LABEL).map(String::as_str).filter(|zone| !matches!(*zone, "" | "0"))
}

/// The label by which a node's maker names its pool, and the pool.
pub fn labelled_pool(node: &Node) -> Option<(&'static str, &str)> {
    let labels = node.metadata.labels.as_ref()?;
    POOL_LABELS.into_iter().find_map(|key| Some((key, labels.get(key)?.as_str())))
}

/// The pool of a node on a provider: one of `pools` where the nodes are somebody else's, else the one its labels name.
pub fn pool_of<'n>(provider: Option<Provider>, pools: &'n [Pool], node: &'n Node) -> Option<&'n str> {
    if provider.is_none_or(|provider| provider.profile().makes_nodes) {
        return labelled_pool(node).map(|(_, pool)| pool);
    }
    pools.iter().find(|pool| pool.selects(node)).map(|pool| pool.name.as_str())
}

impl Pool {
    /// Whether a node has the labels by which the pool's nodes are found.
    pub fn selects(&self, node: &Node) -> bool {
        let labels = node.metadata.labels.as_ref();
        self.selector.iter().all(|(key, value)| labels.is_some_and(|labels| labels.get(key) == Some(value)))
    }

    /// [`Pool::selector`] as kubectl takes it.
    pub fn selector_text(&self) -> String {
        self.selector.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
    }
}

impl Lab {
    /// The pool of a node in the lab's cluster.
    pub fn pool_of<'n>(&'n self, node: &'n Node) -> Option<&'n str> {
        pool_of(Some(self.provider), &self.pools, node)
    }

    /// The label selector by which kubectl finds the nodes of a pool.
    pub fn pool_selector(&self, pool: &str) -> String {
        self.pool(pool).map_or_else(|| format!("{POOL_LABEL}={pool}"), Pool::selector_text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::spec::{LoadOptions, parse};

    const LAB: &str = r#"
        lab = "pools"
        [existing]
        pool_label = "eks.amazonaws.com/nodegroup"
        [pool.main]
        mode = "system"
        [pool.gpu]
        match = { "node.kubernetes.io/instance-type" = "g5.xlarge", team = "a" }
    "#;

    fn pools(provider: Provider) -> Vec<(&'static str, Option<String>)> {
        let options = LoadOptions { provider: Some(provider), ..LoadOptions::default() };
        let lab = parse("lab.toml", LAB, &options).unwrap_or_else(|problems| panic!("{problems}"));
        [
            ("agentpool", json!({ "agentpool": "main" })),
            ("nodegroup", json!({ "eks.amazonaws.com/nodegroup": "main" })),
            ("type", json!({ "node.kubernetes.io/instance-type": "g5.xlarge" })),
            ("both", json!({ "node.kubernetes.io/instance-type": "g5.xlarge", "team": "a", "agentpool": "other" })),
            ("none", json!({})),
        ]
        .map(|(name, labels)| {
            let node: Node = serde_json::from_value(json!({ "metadata": { "labels": labels } })).unwrap();
            (name, lab.pool_of(&node).map(str::to_owned))
        })
        .into()
    }

    #[test]
    fn nodes_of_others_are_found_by_the_labels_that_the_lab_asks_for() {
        let some = |pool: &str| Some(pool.to_owned());
        assert_eq!(
            pools(Provider::Existing),
            [("agentpool", None), ("nodegroup", some("main")), ("type", None), ("both", some("gpu")), ("none", None)]
        );
        assert_eq!(
            pools(Provider::Sim),
            [
                ("agentpool", some("main")),
                ("nodegroup", some("main")),
                ("type", None),
                ("both", some("other")),
                ("none", None)
            ]
        );
    }
}
