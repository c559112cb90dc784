//! What programs of well-known images come to: waiting for the network, showing pages.

use klab_api_machinery::resource::{PODS, SERVICES};
use klab_cluster::cluster::WriteOptions;
use serde_json::{Value, json};

use super::Lab;

fn pod(name: &str, spec: Value) -> Value {
    json!({ "kind": "Pod", "metadata": { "name": name, "labels": { "app": name } }, "spec": spec })
}

fn waits(name: &str, image: &str, script: &str) -> Value {
    pod(
        name,
        json!({
            "initContainers": [{ "name": "wait", "image": image, "command": ["sh", "-c", script] }],
            "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }],
        }),
    )
}

fn phase(lab: &Lab, name: &str) -> String {
    lab.get(PODS, name)["status"]["phase"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn init_containers_wait_until_what_they_ask_for_is_there() {
    let by_name = [
        ("short", "busybox:1.36", "until nslookup store; do echo not yet; sleep 2; done"),
        ("whole", "busybox", "until nslookup store.default.svc.cluster.local; do echo not yet; sleep 2; done; sleep 3"),
        (
            "documented",
            "busybox:1.28",
            "until nslookup store.$(cat /var/run/secrets/kubernetes.io/serviceaccount/namespace).svc.cluster.local; do \
             echo waiting for store; sleep 2; done",
        ),
        ("negated", "alpine:3.20", "while ! nslookup store; do sleep 1; done"),
    ];
    let by_port = [
        ("port", "busybox", "until nc -z store 80; do sleep 1; done"),
        ("page", "busybox", "until wget -qO- http://store; do sleep 5; done"),
        ("silent", "curlimages/curl:8.10.1", "while ! curl -sf http://store:80/ > /dev/null; do sleep 1; done"),
        ("both", "busybox", "until nslookup store; do sleep 2; done; until nc -z -w 2 store 80; do sleep 2; done"),
    ];
    let mut lab = Lab::new(1);
    for (name, image, script) in by_name.into_iter().chain(by_port) {
        lab.apply(waits(name, image, script));
    }
    lab.seconds(3600);
    for (name, ..) in by_name.into_iter().chain(by_port) {
        let status = lab.get(PODS, name)["status"].clone();
        assert_eq!(status["phase"], "Pending", "{name}");
        let init = &status["initContainerStatuses"][0];
        assert!(init["state"]["running"].is_object(), "{name}: {status}");
        // `kubectl get pods` says Init:0/1.
        let conditions = status["conditions"].as_array().unwrap();
        let initialized = conditions.iter().find(|condition| condition["type"] == "Initialized").unwrap();
        assert_eq!((&init["ready"], &initialized["status"]), (&json!(false), &json!("False")), "{name}");
    }
    let ports = json!([{ "port": 80 }]);
    lab.apply(json!({ "kind": "Service", "metadata": { "name": "store" }, "spec": { "selector": { "app": "store" }, "ports": ports } }));
    lab.seconds(10);
    for (name, ..) in by_name {
        assert_eq!(phase(&lab, name), "Running", "{name}");
    }
    // The name is there, and no one answers at it.
    for (name, ..) in by_port {
        assert_eq!(phase(&lab, name), "Pending", "{name}");
    }
    lab.apply(pod("store", json!({ "containers": [{ "name": "main", "image": "nginx:1.27" }] })));
    lab.seconds(140);
    for (name, ..) in by_port {
        assert_eq!(phase(&lab, name), "Running", "{name}");
    }
    // What is there already is not waited for, and what is gone is waited for again.
    lab.apply(waits("late", "busybox", "until nc -z store 80; do sleep 1; done"));
    assert_eq!(phase(&lab, "late"), "Running");
    lab.delete(SERVICES, "store", klab_cluster::cluster::Propagation::Background);
    lab.apply(waits("later", "busybox", "until nslookup store; do sleep 1; done"));
    lab.seconds(60);
    assert_eq!(phase(&lab, "later"), "Pending");
}

#[test]
fn what_an_init_container_does_after_it_has_waited_takes_its_time() {
    let mut lab = Lab::new(1);
    lab.apply(json!({ "kind": "Namespace", "metadata": { "name": "shop" } }));
    lab.apply(waits("elsewhere", "busybox", "until nslookup store.shop; do sleep 2; done"));
    lab.apply(waits("patient", "busybox", "until nslookup store; do sleep 2; done; sleep 30"));
    // A turn takes two seconds: what is asked for comes between two of them.
    lab.seconds(601);
    lab.apply(json!({ "kind": "Service", "metadata": { "name": "store" }, "spec": { "ports": [{ "port": 80 }] } }));
    lab.seconds(25);
    assert_eq!(phase(&lab, "patient"), "Pending");
    lab.seconds(10);
    assert_eq!(phase(&lab, "patient"), "Running");
    assert_eq!(phase(&lab, "elsewhere"), "Pending");
    let service =
        json!({ "metadata": { "name": "store", "namespace": "shop" }, "spec": { "ports": [{ "port": 80 }] } });
    lab.cluster.create(SERVICES, "shop", service, &WriteOptions::client("test")).unwrap();
    lab.seconds(5);
    assert_eq!(phase(&lab, "elsewhere"), "Running");
}

#[test]
fn probes_find_the_pages_that_an_image_has() {
    let mut lab = Lab::new(1);
    let cases = [
        ("root", "nginx:1.27", "/", true),
        ("index", "nginx", "/index.html", true),
        ("error-page", "nginx:1.27-alpine", "/50x.html?a=b", true),
        ("health", "nginx:1.27", "/healthz", false),
        ("folder", "nginx:1.27", "/app/", false),
        ("apache", "httpd:2.4", "/", true),
        ("apache-health", "httpd:2.4", "/health", false),
        ("unknown", "acme/nginx", "/healthz", true),
    ];
    for (name, image, path, _) in cases {
        let probe = json!({ "httpGet": { "path": path, "port": 80 }, "periodSeconds": 1 });
        lab.apply(pod(
            name,
            json!({ "containers": [
            { "name": "main", "image": image, "readinessProbe": probe, "livenessProbe": probe },
        ] }),
        ));
    }
    lab.seconds(60);
    for (name, _, path, answers) in cases {
        let status = lab.get(PODS, name)["status"]["containerStatuses"][0].clone();
        assert_eq!(status["restartCount"] == 0, answers, "{name} {path}");
        assert_eq!(status["ready"], answers, "{name} {path}");
    }
}
