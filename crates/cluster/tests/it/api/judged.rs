//! What a client sees of an object that is refused, or taken with a warning.

use klab_cluster::api::Api;
use serde_json::{Value, json};

use super::{api, ask, send};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// The texts of the `Warning` headers of an answer.
async fn warnings(api: &Api, method: &str, path: &str, body: &Value) -> Vec<String> {
    let answer = send(api, method, path, &[], &body.to_string()).await;
    assert!(answer.status().is_success(), "{answer:?}");
    let texts = answer.headers().get_all("warning").iter().filter_map(|one| one.to_str().ok());
    texts.map(|text| text.trim_start_matches("299 - ").to_owned()).collect()
}

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "containers": [{ "name": "main", "image": "nginx:1.27" }] },
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}

async fn refusal(api: &Api, path: &str, body: &Value) -> String {
    let (code, refused) = ask(api, "POST", path, body).await;
    assert_eq!(code, 422, "{refused}");
    refused["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn faults_of_a_pod_are_told_in_the_order_of_its_fields() {
    let wrong = json!({
        "volumes": [{ "name": "data", "hostPath": { "path": "" } }],
        "containers": [{
            "name": "main", "image": "nginx", "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
            "env": [{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "spec.tolerations" } } }],
            "lifecycle": { "preStop": { "exec": {} } },
        }],
        "hostAliases": [{ "ip": "one" }],
    });
    assert_eq!(
        refusal(&api(), PODS, &pod("web", &wrong)).await,
        concat!(
            "Pod \"web\" is invalid: [spec.volumes[0].hostPath.path: Required value, ",
            "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.tolerations\": ",
            "error converting fieldPath: field label not supported: spec.tolerations, ",
            "spec.containers[0].volumeMounts[0].name: Not found: \"data\", ",
            "spec.containers[0].lifecycle.preStop.exec.command: Required value, ",
            "spec.hostAliases[0].ip: Invalid value: \"one\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)]",
        )
    );
}

#[tokio::test]
async fn what_is_old_or_odd_is_taken_with_a_warning() {
    let api = api();
    let spec = json!({ "nodeSelector": { "beta.kubernetes.io/os": "linux" } });
    let told =
        [r#""spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead""#];
    assert_eq!(warnings(&api, "POST", PODS, &pod("web", &spec)).await, told);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{
                "name": "main", "image": "nginx:1.27", "env": [{ "name": "A", "value": "1" }, { "name": "A", "value": "2" }],
            }] } },
        },
    });
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let told = [
        r#""spec.template.spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply""#,
    ];
    assert_eq!(warnings(&api, "POST", path, &deployment).await, told);
    let mut scaled = deployment.clone();
    scaled["metadata"]["labels"] = json!({ "a": "b" });
    assert_eq!(warnings(&api, "PUT", &format!("{path}/web"), &scaled).await, [""; 0], "the spec is as it was");
    scaled["spec"]["replicas"] = json!(2);
    assert_eq!(warnings(&api, "PUT", &format!("{path}/web"), &scaled).await, told);
}

#[tokio::test]
async fn services_change_their_type() {
    let api = api();
    let service =
        |spec: Value| json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "1web" }, "spec": spec });
    let port = json!({ "port": 80, "nodePort": 30080 });
    assert_eq!(
        refusal(&api, SERVICES, &service(json!({ "ports": [port] }))).await,
        "Service \"1web\" is invalid: spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"
    );
    let balanced = service(json!({ "type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [port] }));
    let (code, made) = ask(&api, "POST", SERVICES, &balanced).await;
    assert_eq!(code, 201, "{made}");
    let health = made["spec"]["healthCheckNodePort"].as_u64().unwrap_or_default();
    assert!((30_000..=32_767).contains(&health), "{made}");
    let own = format!("{SERVICES}/1web");
    let mut other = made.clone();
    other["spec"]["healthCheckNodePort"] = json!(health % 100 + 30_100);
    assert_eq!(ask(&api, "PUT", &own, &other).await.0, 422, "the port for health stays");
    let mut changed = made.clone();
    changed["spec"]["type"] = json!("ClusterIP");
    let (code, changed) = ask(&api, "PUT", &own, &changed).await;
    assert_eq!(code, 200, "{changed}");
    for field in ["externalTrafficPolicy", "healthCheckNodePort", "allocateLoadBalancerNodePorts"] {
        assert!(changed["spec"][field].is_null(), "{field}: {changed}");
    }
    assert!(changed["spec"]["ports"][0]["nodePort"].is_null(), "{changed}");
}

#[tokio::test]
async fn kinds_that_were_taken_as_they_came_are_looked_at() {
    let api = api();
    for (path, kind, rest, wanted) in [
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            "StorageClass",
            json!({ "provisioner": "" }),
            "StorageClass.storage.k8s.io \"x\" is invalid: provisioner: Required value",
        ),
        (
            "/api/v1/persistentvolumes",
            "PersistentVolume",
            json!({ "spec": { "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" } } }),
            "PersistentVolume \"x\" is invalid: spec: Required value: must specify a volume type",
        ),
        (
            "/apis/networking.k8s.io/v1/ingressclasses",
            "IngressClass",
            json!({ "spec": { "controller": "x" } }),
            "IngressClass.networking.k8s.io \"x\" is invalid: spec.controller: Invalid value: \"x\": must be a domain-prefixed path (such as \"acme.io/foo\")",
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
            "Ingress",
            json!({ "spec": {} }),
            "Ingress.networking.k8s.io \"x\" is invalid: spec: Invalid value: null: either `defaultBackend` or `rules` must be specified",
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
            "NetworkPolicy",
            json!({ "spec": { "podSelector": {}, "ingress": [{ "from": [{}] }] } }),
            "NetworkPolicy.networking.k8s.io \"x\" is invalid: spec.ingress[0].from[0]: Required value: must specify a peer",
        ),
        (
            "/api/v1/namespaces/default/secrets",
            "Secret",
            json!({ "type": "kubernetes.io/basic-auth" }),
            "Secret \"x\" is invalid: [data[username]: Required value, data[password]: Required value]",
        ),
    ] {
        let mut body = json!({ "apiVersion": path.trim_start_matches("/apis/").split('/').take(2).collect::<Vec<_>>().join("/"), "kind": kind, "metadata": { "name": "x" } });
        if path.starts_with("/api/") {
            body["apiVersion"] = json!("v1");
        }
        for (field, value) in rest.as_object().into_iter().flatten() {
            body[field.as_str()] = value.clone();
        }
        assert_eq!(refusal(&api, path, &body).await, wanted);
    }
}
