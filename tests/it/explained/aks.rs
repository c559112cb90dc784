//! "Why are there no pods?", asked in a cluster like AKS: what its admission plugins refuse.

use klab_cluster::Flavour;
use serde_json::json;

use super::cases::{created, deployment, labelled, nodes};
use super::{Case, fault};

fn all() -> Vec<Case> {
    let of = |name, nodes, annotation: &str, spec| {
        let case = Case::of(name, nodes, vec![], "deployment/web");
        Case { flavour: Flavour::Aks, ..case }
            .then(format!("kubectl annotate namespace default 'scheduler.alpha.kubernetes.io/{annotation}'"))
            .then(created(&deployment("web", 1, spec)))
    };
    vec![
        of(
            "a namespace that selects other nodes",
            vec![labelled("n1", json!({ "disk": "ssd" }))],
            "node-selector=disk=ssd",
            json!({ "nodeSelector": { "disk": "hdd" } }),
        )
        .says(
            "conflicts with its namespace node label selector",
            "leave the label of deployment/web to its namespace, which selects `disk=ssd`",
        ),
        of(
            "a namespace that allows other tolerations",
            nodes(1),
            r#"tolerationsWhitelist=[{"key":"sku","operator":"Exists"}]"#,
            json!({ "tolerations": [{ "key": "gpu", "operator": "Exists" }] }),
        )
        .says(
            "conflict with its namespace whitelist",
            "give deployment/web no toleration that namespace default does not allow",
        ),
    ]
}

#[test]
fn what_aks_refuses_is_explained_and_mended() {
    let faults: Vec<String> =
        all().iter().filter_map(|case| fault(case).map(|fault| format!("### {}\n{fault}", case.name))).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
