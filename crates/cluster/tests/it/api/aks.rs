//! What clusters like AKS add to pods, and refuse, that others do not: their admission plugins of namespaces and extended resources.

use klab_api_machinery::resource::{NAMESPACES, PODS};
use klab_cluster::cluster::{Part, WriteOptions};
use klab_cluster::seed::Seed;
use klab_cluster::system::Flavour;
use serde_json::{Value, json};

use super::cluster;

const SELECTOR: &str = "scheduler.alpha.kubernetes.io/node-selector";
const DEFAULTS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const WHITELIST: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";

/// A pod with a spec merged in, made in a namespace with these annotations: what of it is stored, or why it is refused.
fn made(flavour: Flavour, annotations: Value, spec: Value) -> Result<Value, (u16, String)> {
    let cluster = cluster();
    Seed { flavour, ..Seed::default() }.fill(&cluster, "test").unwrap();
    let options = WriteOptions::by("test");
    let namespace = json!({ "metadata": { "name": "team", "annotations": annotations } });
    cluster.create(NAMESPACES, "", namespace, &options).unwrap();
    let mut whole = json!({ "containers": [{ "name": "c", "image": "nginx" }] });
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let pod = json!({ "metadata": { "name": "web" }, "spec": whole });
    let made = cluster.create(PODS, "team", pod, &options).map_err(|status| (status.code, status.message))?;
    // What a client sends back that it was shown is taken.
    let again = cluster.modify(PODS, Part::Main, "team", "web", &options, |pod| {
        pod["metadata"]["labels"] = json!({ "seen": "true" });
    });
    again.unwrap();
    Ok(made.value()["spec"].clone())
}

fn keys(spec: &Value) -> Vec<String> {
    let tolerations = spec["tolerations"].as_array().into_iter().flatten();
    let keys = tolerations.map(|one| one["key"].as_str().unwrap_or_default().to_owned());
    keys.filter(|key| !matches!(key.as_str(), "node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable"))
        .collect()
}

fn requesting(requests: Value) -> Value {
    json!({ "containers": [{ "name": "c", "image": "nginx", "resources": { "requests": requests, "limits": requests } }] })
}

#[test]
fn namespaces_of_aks_have_node_selectors_and_tolerations_and_extended_resources_are_tolerated() {
    let toleration = |key: &str| json!([{ "key": key, "operator": "Exists", "effect": "NoSchedule" }]).to_string();
    let defaults = json!({ SELECTOR: "agentpool=user, disk=ssd", DEFAULTS: toleration("sku") });
    let in_aks = made(Flavour::Aks, defaults.clone(), json!({ "nodeSelector": { "a": "b" } })).unwrap();
    assert_eq!(in_aks["nodeSelector"], json!({ "a": "b", "agentpool": "user", "disk": "ssd" }));
    assert_eq!(keys(&in_aks), ["sku"]);
    let gpu = requesting(json!({ "nvidia.com/gpu": "1", "cpu": "1" }));
    let in_aks = made(Flavour::Aks, json!({}), gpu.clone()).unwrap();
    assert_eq!(keys(&in_aks), ["node.kubernetes.io/memory-pressure", "nvidia.com/gpu"]);
    for flavour in [Flavour::Kind, Flavour::Bare] {
        let elsewhere = made(flavour, defaults.clone(), gpu.clone()).unwrap();
        assert_eq!((&elsewhere["nodeSelector"], keys(&elsewhere)), (&Value::Null, Vec::new()), "{flavour:?}");
    }
}

#[test]
fn what_a_namespace_of_aks_does_not_allow_is_refused_in_the_words_of_the_plugin() {
    let only = |key: &str| json!({ WHITELIST: json!([{ "key": key, "operator": "Exists" }]).to_string() });
    let any = json!({ WHITELIST: json!([{ "operator": "Exists" }]).to_string() });
    let sku = json!({ "tolerations": [{ "key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule" }] });
    let code = |annotations: Value, spec: Value| made(Flavour::Aks, annotations, spec).map(drop);
    let conflict = code(json!({ SELECTOR: "disk=ssd" }), json!({ "nodeSelector": { "disk": "hdd" } }));
    let words = "pods \"web\" is forbidden: pod node label selector conflicts with its namespace node label selector";
    assert_eq!(conflict, Err((403, words.to_owned())));
    // The tolerations that every pod gets are held against the list as well.
    let refused = code(only("sku"), sku.clone());
    let words =
        "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist";
    assert_eq!(refused, Err((500, words.to_owned())));
    assert_eq!(code(any, sku.clone()), Ok(()));
    assert_eq!(code(json!({ SELECTOR: "disk" }), json!({})), Err((500, "invalid selector: [disk]".to_owned())));
    assert_eq!(code(json!({ SELECTOR: "", WHITELIST: "" }), sku), Ok(()));
}
