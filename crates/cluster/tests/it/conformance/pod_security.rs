//! Pod security: standards that the labels of a namespace ask for.
//!
//! The suite has no tests of them; these follow Kubernetes' test/integration/auth/podsecurity_test.go.

use serde_json::{Value, json};

use super::ground::Ground;

const NAMESPACES: &str = "/api/v1/namespaces";

fn namespace(labels: &Value) -> Value {
    json!({ "metadata": { "name": "guarded", "labels": labels } })
}

fn pod(name: &str, host_network: bool) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "hostNetwork": host_network, "containers": [{ "name": "main", "image": "nginx:1.27" }] },
    })
}

#[test]
fn pods_beyond_the_enforced_standard_are_refused_and_others_warned_of() {
    let ground = Ground::with_nodes(1);
    let labels = json!({
        "pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn": "restricted",
        "pod-security.kubernetes.io/warn-version": "v1.20",
    });
    ground.post(NAMESPACES, &namespace(&labels)).good();
    let pods = "/api/v1/namespaces/guarded/pods";
    assert_eq!(
        ground.post(pods, &pod("free", true)).refused(403),
        "pods \"free\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)"
    );
    let warned = ground.post(pods, &pod("plain", false));
    warned.good();
    let warning = "299 - \"would violate PodSecurity \\\"restricted:v1.20\\\": allowPrivilegeEscalation != false \
         (container \\\"main\\\" must set securityContext.allowPrivilegeEscalation=false), runAsNonRoot != true (pod or \
         container \\\"main\\\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \\\"main\\\" must \
         set securityContext.seccompProfile.type to \\\"RuntimeDefault\\\" or \\\"Localhost\\\")\"";
    assert_eq!(warned.warnings(), [warning]);
    let labelled = ground.merge(&format!("{pods}/plain"), &json!({ "metadata": { "labels": { "a": "b" } } }));
    labelled.good();
    assert_eq!(labelled.warnings(), [""; 0], "a change of labels is none that matters");
}

#[test]
fn what_makes_pods_is_warned_of_and_its_pods_refused() {
    let ground = Ground::with_nodes(1);
    ground.post(NAMESPACES, &namespace(&json!({ "pod-security.kubernetes.io/enforce": "baseline" }))).good();
    let deployment = json!({
        "metadata": { "name": "web" },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "hostPID": true, "containers": [{ "name": "main", "image": "nginx:1.27" }] },
            },
        },
    });
    let made = ground.post("/apis/apps/v1/namespaces/guarded/deployments", &deployment);
    made.good();
    let warning = "299 - \"would violate PodSecurity \\\"baseline:latest\\\": host namespaces (hostPID=true)\"";
    assert_eq!(made.warnings(), [warning]);
    let pods = ground.get("/api/v1/namespaces/guarded/pods").good();
    assert_eq!(pods["items"], json!([]));
    let events = ground.get("/api/v1/namespaces/guarded/events").good();
    let refused = "is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostPID=true)";
    let told = events["items"].as_array().into_iter().flatten().any(|event| {
        event["reason"] == "FailedCreate" && event["message"].as_str().is_some_and(|message| message.ends_with(refused))
    });
    assert!(told, "{events}");
}

#[test]
fn labels_must_name_standards_and_stricter_ones_warn_of_the_pods_there_are() {
    let ground = Ground::with_nodes(1);
    let bad = json!({ "pod-security.kubernetes.io/enforce": "foo", "pod-security.kubernetes.io/warn-version": "1.2" });
    assert_eq!(
        ground.post(NAMESPACES, &namespace(&bad)).refused(422),
        "Namespace \"guarded\" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"foo\": must \
         be one of privileged, baseline, restricted, metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid \
         value: \"1.2\": must be \"latest\" or \"v1.x\"]"
    );
    ground.post(NAMESPACES, &namespace(&json!({}))).good();
    for name in ["b", "a"] {
        ground.post("/api/v1/namespaces/guarded/pods", &pod(name, true)).good();
    }
    let path = format!("{NAMESPACES}/guarded");
    let label = |level: &str| json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": level } } });
    let stricter = ground.merge(&path, &label("baseline"));
    stricter.good();
    assert_eq!(
        stricter.warnings(),
        [
            "299 - \"existing pods in namespace \\\"guarded\\\" violate the new PodSecurity enforce level \\\"baseline:latest\\\"\"",
            "299 - \"a (and 1 other pod): host namespaces\"",
        ]
    );
    let freer = ground.merge(&path, &label("privileged"));
    freer.good();
    assert_eq!(freer.warnings(), [""; 0]);
}
