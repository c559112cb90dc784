//! Ingresses and their classes.

use std::time::Duration;

use serde_json::{Value, json};

use super::ground::Ground;

const CLASSES: &str = "/apis/networking.k8s.io/v1/ingressclasses";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";

fn class(name: &str, default: bool) -> Value {
    json!({
        "metadata": {
            "name": name,
            "annotations": { "ingressclass.kubernetes.io/is-default-class": default.to_string() },
        },
        "spec": { "controller": "example.com/controller" },
    })
}

fn ingress(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "defaultBackend": { "service": { "name": "web", "port": { "number": 80 } } } },
    })
}

// upstream test: [sig-network] IngressClass [Feature:Ingress] should set default value on new IngressClass
// upstream test: [sig-network] IngressClass [Feature:Ingress] should choose the one with the later CreationTimestamp, if equal the one with the lower name when two ingressClasses are marked as default
#[test]
fn an_ingress_without_a_class_gets_the_newest_default() {
    let ground = Ground::with_nodes(0);
    ground.post(CLASSES, &class("other", false)).good();
    let without = ground.post(INGRESSES, &ingress("without")).good();
    assert_eq!(without["spec"]["ingressClassName"], Value::Null, "no class is the default");
    ground.post(CLASSES, &class("second", true)).good();
    ground.post(CLASSES, &class("first", true)).good();
    let by_name = ground.post(INGRESSES, &ingress("by-name")).good();
    assert_eq!(by_name["spec"]["ingressClassName"], "first");
    ground.cluster.advance(Duration::from_secs(2));
    ground.post(CLASSES, &class("youngest", true)).good();
    let by_age = ground.post(INGRESSES, &ingress("by-age")).good();
    assert_eq!(by_age["spec"]["ingressClassName"], "youngest");
    let mut named = ingress("named");
    named["spec"]["ingressClassName"] = json!("other");
    assert_eq!(ground.post(INGRESSES, &named).good()["spec"]["ingressClassName"], "other");
    let mut old = ingress("old");
    old["metadata"]["annotations"] = json!({ "kubernetes.io/ingress.class": "nginx" });
    assert_eq!(ground.post(INGRESSES, &old).good()["spec"]["ingressClassName"], Value::Null);
}

#[test]
fn versions_of_an_ingress_are_counted() {
    let ground = Ground::with_nodes(0);
    let made = ground.post(INGRESSES, &ingress("web")).good();
    assert_eq!(made["metadata"]["generation"], 1);
    let path = format!("{INGRESSES}/web");
    let labelled = ground.merge(&path, &json!({ "metadata": { "labels": { "a": "b" } } })).good();
    assert_eq!(labelled["metadata"]["generation"], 1);
    let changed = json!({ "spec": { "defaultBackend": { "service": { "port": { "number": 81 } } } } });
    assert_eq!(ground.merge(&path, &changed).good()["metadata"]["generation"], 2);
}
