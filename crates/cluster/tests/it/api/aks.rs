//! What clusters like AKS add to pods, and refuse, that others do not: their admission plugins of namespaces and extended resources.

use klab_api_machinery::resource::{LIMIT_RANGES, NAMESPACES, PODS};
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
fn tolerations_of_the_namespace_follow_those_of_the_pod_and_limits_decide_on_memory_pressure() {
    let own = json!({ "tolerations": [{ "key": "own", "operator": "Exists" }] });
    let defaults = json!([{ "key": "team", "operator": "Exists" }, { "key": "own", "operator": "Exists", "effect": "NoSchedule" }]);
    let pod = made(Flavour::Aks, json!({ DEFAULTS: defaults.to_string() }), own).unwrap();
    assert_eq!(keys(&pod), ["own", "team"], "what its own cover are left out");
    let cluster = cluster();
    Seed { flavour: Flavour::Aks, ..Seed::default() }.fill(&cluster, "test").unwrap();
    let range = json!({
        "metadata": { "name": "defaults" },
        "spec": { "limits": [{ "type": "Container", "defaultRequest": { "cpu": "100m" } }] },
    });
    let options = WriteOptions::by("test");
    cluster.create(LIMIT_RANGES, "default", range, &options).unwrap();
    let bare = json!({ "metadata": { "name": "web" }, "spec": { "containers": [{ "name": "c", "image": "nginx" }] } });
    let pod = cluster.create(PODS, "default", bare, &options).unwrap().value();
    assert_eq!(keys(&pod["spec"]), ["node.kubernetes.io/memory-pressure"]);
}

#[test]
fn a_list_that_came_later_is_looked_at_when_a_pod_changes() {
    let cluster = cluster();
    Seed { flavour: Flavour::Aks, ..Seed::default() }.fill(&cluster, "test").unwrap();
    let options = WriteOptions::by("test");
    let bare = json!({ "metadata": { "name": "web" }, "spec": { "containers": [{ "name": "c", "image": "nginx" }] } });
    cluster.create(PODS, "default", bare, &options).unwrap();
    let list = json!([{ "key": "sku", "operator": "Exists" }]).to_string();
    let annotate = |namespace: &mut Value| namespace["metadata"]["annotations"][WHITELIST] = json!(list);
    cluster.modify(NAMESPACES, Part::Main, "", "default", &options, annotate).unwrap();
    let label = |pod: &mut Value| pod["metadata"]["labels"] = json!({ "a": "b" });
    let refused = cluster.modify(PODS, Part::Main, "default", "web", &options, label).unwrap_err();
    assert_eq!(refused.code, 500, "{refused:?}");
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
    // Those of extended resources come after the first look at the list, and before the last.
    let standing = json!([
        { "key": "node.kubernetes.io/not-ready", "operator": "Exists" },
        { "key": "node.kubernetes.io/unreachable", "operator": "Exists" },
        { "key": "node.kubernetes.io/memory-pressure", "operator": "Exists" },
    ]);
    let device = requesting(json!({ "nvidia.com/gpu": "1" }));
    let refused = code(json!({ WHITELIST: standing.to_string() }), device.clone());
    let words =
        "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist";
    assert_eq!(refused, Err((500, words.to_owned())));
    let cpu = requesting(json!({ "cpu": "1" }));
    assert_eq!(code(json!({ WHITELIST: standing.to_string() }), cpu), Ok(()));
    // The tolerations that every pod gets are held against the list as well.
    let refused = code(only("sku"), sku.clone());
    assert_eq!(refused, Err((500, words.to_owned())));
    assert_eq!(code(any, sku.clone()), Ok(()));
    assert_eq!(code(json!({ SELECTOR: "disk" }), json!({})), Err((500, "invalid selector: [disk]".to_owned())));
    assert_eq!(code(json!({ SELECTOR: "", WHITELIST: "" }), sku), Ok(()));
}
