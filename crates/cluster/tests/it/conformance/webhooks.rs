//! Admission webhooks. In Kubernetes' own suite they run in pods; here a closure is the webhook, so that these tests stand
//! for the behaviour of the API server alone.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use klab_cluster::Cluster;
use klab_cluster::webhook::{Call, CallError};
use serde_json::{Value, json};

use super::ground::Ground;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

type Seen = Arc<Mutex<Vec<Value>>>;

/// A cluster whose webhooks answer as `answer` says for the path of their URL, and what they were sent.
fn hooked(answer: fn(&str, &Value) -> Result<Value, CallError>) -> (Ground, Seen) {
    let seen = Seen::default();
    let noted = Arc::clone(&seen);
    let webhook = move |call: &Call| {
        let review = call.json();
        let request = &review["request"];
        noted.lock().unwrap().push(request.clone());
        let path = call.url.rsplit('/').next().and_then(|rest| rest.split('?').next()).unwrap_or_default();
        let mut response = answer(path, request)?;
        response["uid"] = request["uid"].clone();
        Ok(json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response }))
    };
    (Ground::of(Cluster::builder().nodes(1).webhooks(webhook).build().unwrap()), seen)
}

fn hook(name: &str, resources: &[&str], operations: &[&str]) -> Value {
    json!({
        "name": format!("{name}.example.com"), "clientConfig": { "url": format!("https://127.0.0.1:8443/{name}") },
        "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": resources }],
        "sideEffects": "None", "admissionReviewVersions": ["v1"],
    })
}

fn configure(ground: &Ground, mutating: bool, name: &str, hooks: &[Value]) {
    let kind = if mutating { "Mutating" } else { "Validating" };
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": { "name": name }, "webhooks": hooks,
    });
    let path = format!("{GROUP}/{}webhookconfigurations", kind.to_lowercase());
    ground.post(&path, &configuration).good();
}

fn map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "stage": "0" } })
}

fn pod(name: &str) -> Value {
    let spec = json!({ "containers": [{ "name": "main", "image": "nginx:1.27" }] });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec })
}

fn allowed_with(patch: &Value) -> Value {
    json!({ "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()) })
}

/// Counts the stages that webhooks have led a ConfigMap through.
fn stages(path: &str, request: &Value) -> Result<Value, CallError> {
    let at = |stage: &str| request["object"]["data"][stage].is_string();
    Ok(match path {
        "first" if !at("first") => allowed_with(&json!([{ "op": "add", "path": "/data/first", "value": "yes" }])),
        "second" if at("first") => allowed_with(&json!([{ "op": "add", "path": "/data/second", "value": "yes" }])),
        "refuse" => json!({ "allowed": false, "status": { "code": 403, "message": "not today" } }),
        "sidecar" => allowed_with(&json!([
            { "op": "add", "path": "/spec/containers/-", "value": { "name": "sidecar", "image": "proxy:1" } },
        ])),
        "warn" => json!({ "allowed": true, "warnings": ["look out"] }),
        "fail" => return Err(CallError::Unreachable("context deadline exceeded".to_owned())),
        _ => json!({ "allowed": true }),
    })
}

#[test]
fn a_webhook_refuses_what_it_is_asked_about_and_nothing_else() {
    let (ground, seen) = hooked(stages);
    configure(&ground, false, "guard", &[hook("refuse", &["configmaps"], &["CREATE", "DELETE"])]);
    let message = ground.post(MAPS, &map("a")).refused(403);
    assert_eq!(message, "admission webhook \"refuse.example.com\" denied the request: not today");
    ground.post(PODS, &pod("web")).good();
    ground.post(&format!("{MAPS}?dryRun=All"), &map("a")).refused(403);
    ground.delete(&format!("{MAPS}/kube-root-ca.crt")).refused(403);
    ground.delete(&format!("{GROUP}/validatingwebhookconfigurations/guard")).good();
    ground.post(MAPS, &map("a")).good();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[0]["object"]["data"]["stage"], "0");
    assert_eq!((&seen[0]["operation"], &seen[0]["userInfo"]["username"]), (&json!("CREATE"), &json!("admin")));
    assert_eq!(
        (&seen[0]["kind"]["kind"], &seen[0]["resource"]["resource"]),
        (&json!("ConfigMap"), &json!("configmaps"))
    );
    assert_eq!((&seen[1]["dryRun"], &seen[1]["options"]["dryRun"]), (&json!(true), &json!(["All"])));
    assert_eq!((&seen[2]["operation"], &seen[2]["object"]), (&json!("DELETE"), &Value::Null));
    assert_eq!(seen[2]["oldObject"]["metadata"]["name"], "kube-root-ca.crt");
}

#[test]
fn webhooks_change_objects_one_after_the_other() {
    let (ground, seen) = hooked(stages);
    // `second` is asked again only if it wants to be: by name it comes before `first`.
    for (reinvoked, wanted) in [("Never", Value::Null), ("IfNeeded", json!("yes"))] {
        let mut second = hook("second", &["configmaps"], &["CREATE"]);
        second["reinvocationPolicy"] = json!(reinvoked);
        configure(&ground, true, "a", &[second]);
        configure(&ground, true, "b", &[hook("first", &["configmaps"], &["CREATE"])]);
        let made = ground.post(MAPS, &map("staged")).good();
        assert_eq!((&made["data"]["first"], &made["data"]["second"]), (&json!("yes"), &wanted));
        ground.delete(&format!("{MAPS}/staged")).good();
        ground.delete(&format!("{GROUP}/mutatingwebhookconfigurations")).good();
    }
    assert_eq!(seen.lock().unwrap().len(), 5);
}

#[test]
fn webhooks_see_who_manages_an_object_and_may_say_so_but_nothing_wrong() {
    fn answer(path: &str, request: &Value) -> Result<Value, CallError> {
        let list = request["object"]["metadata"]["managedFields"].clone();
        let with = |field: &str, value: Value| {
            let mut list = list.clone();
            list[0][field] = value;
            allowed_with(&json!([
                { "op": "replace", "path": "/metadata/managedFields", "value": list },
                { "op": "add", "path": "/data/hooked", "value": "yes" },
            ]))
        };
        Ok(match path {
            "renames" => with("manager", json!("hook")),
            "types" => with("fieldsType", json!("FieldsV2")),
            "operates" => with("operation", json!("Delete")),
            "forgets" if list.is_array() => {
                allowed_with(&json!([{ "op": "remove", "path": "/metadata/managedFields" }]))
            }
            _ => return stages(path, request),
        })
    }
    let (ground, seen) = hooked(answer);
    configure(&ground, false, "judges", &[hook("judges", &["configmaps"], &["CREATE", "UPDATE"])]);
    let state = ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: ";
    for (name, manager, because) in [
        ("renames", json!("hook"), None),
        ("types", json!("tests"), Some("invalid fieldsType \\\"FieldsV2\\\" in managed fields entry 0")),
        ("operates", json!("tests"), Some("operation must be `Apply` or `Update`")),
        ("forgets", Value::Null, None),
    ] {
        configure(&ground, true, name, &[hook(name, &["configmaps"], &["CREATE", "UPDATE"])]);
        let path = format!("{MAPS}?fieldManager=tests");
        let made = ground.post(&path, &map(name));
        let warnings: Vec<String> = because.iter().map(|because| format!("299 - \"{state}{because}\"")).collect();
        assert_eq!(made.warnings(), warnings, "{name}");
        let list = made.good()["metadata"]["managedFields"].clone();
        assert_eq!(list[0]["manager"], manager, "{name}: {list}");
        // What a webhook changes belongs to nobody.
        assert_eq!(list[0]["fieldsV1"]["f:data"]["f:hooked"], Value::Null, "{name}");
        let judged = seen.lock().unwrap().last().unwrap()["object"]["metadata"]["managedFields"].clone();
        assert_eq!(judged, list, "{name}");
        let changed = ground.merge(&format!("{MAPS}/{name}?fieldManager=tests"), &json!({ "data": { "stage": "1" } }));
        assert_eq!(changed.warnings(), warnings, "{name}");
        let list = changed.good()["metadata"]["managedFields"].clone();
        assert_eq!(list[0]["manager"], manager, "{name}: {list}");
        ground.delete(&format!("{GROUP}/mutatingwebhookconfigurations")).good();
    }
}

#[test]
fn pods_of_controllers_meet_webhooks_too() {
    let (ground, seen) = hooked(stages);
    configure(&ground, true, "inject", &[hook("sidecar", &["pods"], &["CREATE"])]);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": {
            "replicas": 2, "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": pod("x")["spec"] },
        },
    });
    ground.post("/apis/apps/v1/namespaces/default/deployments", &deployment).good();
    let pods = ground.get(PODS).good();
    assert_eq!(pods["items"].as_array().unwrap().len(), 2);
    for pod in pods["items"].as_array().unwrap() {
        let containers = pod["spec"]["containers"].as_array().unwrap();
        assert_eq!((containers.len(), &containers[1]["name"]), (2, &json!("sidecar")));
        assert_eq!(containers[1]["imagePullPolicy"], "IfNotPresent", "what a webhook adds has its defaults");
        assert_eq!(pod["status"]["phase"], "Running");
    }
    let seen = seen.lock().unwrap();
    assert_eq!((&seen[0]["name"], &seen[0]["namespace"]), (&Value::Null, &json!("default")), "names are generated");
}

#[test]
fn a_webhook_that_cannot_be_asked_fails_or_is_ignored() {
    let (ground, _) = hooked(stages);
    let mut failing = hook("fail", &["configmaps"], &["CREATE"]);
    failing["timeoutSeconds"] = json!(1);
    configure(&ground, false, "strict", &[failing.clone()]);
    let message = ground.post(MAPS, &map("a")).refused(500);
    assert_eq!(
        message,
        "Internal error occurred: failed calling webhook \"fail.example.com\": failed to call webhook: Post \"https://127.0.0.1:8443/fail?timeout=1s\": context deadline exceeded"
    );
    ground.delete(&format!("{GROUP}/validatingwebhookconfigurations/strict")).good();
    failing["failurePolicy"] = json!("Ignore");
    configure(&ground, false, "lenient", &[failing]);
    ground.post(MAPS, &map("a")).good();
}

#[test]
fn warnings_of_webhooks_reach_the_client() {
    let (ground, _) = hooked(stages);
    configure(&ground, false, "loud", &[hook("warn", &["configmaps"], &["CREATE", "UPDATE"])]);
    assert_eq!(ground.post(MAPS, &map("a")).warnings(), ["299 - \"look out\""]);
    let patched = ground.merge(&format!("{MAPS}/a"), &json!({ "data": { "x": "y" } }));
    assert_eq!(patched.warnings(), ["299 - \"look out\""]);
}

#[test]
fn selectors_of_namespaces_and_objects_decide() {
    let (ground, seen) = hooked(stages);
    let mut by_namespace = hook("refuse", &["configmaps"], &["*"]);
    by_namespace["namespaceSelector"] = json!({ "matchLabels": { "hooked": "yes" } });
    let mut by_object = hook("refuse", &["secrets"], &["CREATE"]);
    by_object["name"] = json!("objects.example.com");
    by_object["objectSelector"] = json!({ "matchExpressions": [{ "key": "check", "operator": "Exists" }] });
    configure(&ground, false, "some", &[by_namespace, by_object]);
    ground.post(MAPS, &map("a")).good();
    ground.merge("/api/v1/namespaces/default", &json!({ "metadata": { "labels": { "hooked": "yes" } } })).good();
    ground.post(MAPS, &map("b")).refused(403);
    let secret =
        |labels: Value| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "labels": labels } });
    ground.post("/api/v1/namespaces/default/secrets", &secret(json!({ "check": "x" }))).refused(403);
    ground.post("/api/v1/namespaces/default/secrets", &secret(json!({}))).good();
    assert_eq!(seen.lock().unwrap().len(), 2);
}

#[test]
fn configurations_of_admission_are_never_asked_about() {
    let (ground, seen) = hooked(stages);
    let mut all = hook("refuse", &["*/*"], &["*"]);
    all["rules"][0]["apiGroups"] = json!(["*"]);
    all["rules"][0]["apiVersions"] = json!(["*"]);
    configure(&ground, false, "all", &[all]);
    ground.post(MAPS, &map("a")).refused(403);
    ground.delete(&format!("{GROUP}/validatingwebhookconfigurations/all")).good();
    ground.post(MAPS, &map("a")).good();
    assert!(seen.lock().unwrap().iter().all(|request| request["resource"]["group"] != "admissionregistration.k8s.io"));
}

#[test]
fn a_service_leads_to_an_address_outside() {
    let to = |call: &Call| {
        assert_eq!(call.url, "https://hook.default.svc:443/refuse?timeout=10s");
        assert_eq!((call.address.as_deref(), &*call.server_name), (Some("127.0.0.1:9443"), "hook.default.svc"));
        Err(CallError::Unreachable("seen".to_owned()))
    };
    let ground = Ground::of(Cluster::builder().webhooks(to).build().unwrap());
    let mut by_service = hook("refuse", &["configmaps"], &["CREATE"]);
    by_service["clientConfig"] = json!({ "service": { "namespace": "default", "name": "hook", "path": "/refuse" } });
    configure(&ground, false, "guard", &[by_service]);
    let post = || ground.post(MAPS, &map("a")).refused(500);
    assert!(post().ends_with("service \"hook\" not found"), "{}", post());
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "hook" },
        "spec": { "ports": [{ "name": "https", "port": 443 }] },
    });
    ground.post("/api/v1/namespaces/default/services", &service).good();
    assert!(post().ends_with("no endpoints available for service \"hook\""), "{}", post());
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": "hook", "labels": { "kubernetes.io/service-name": "hook" } },
        "addressType": "IPv4", "ports": [{ "name": "https", "port": 9443 }], "endpoints": [{ "addresses": ["127.0.0.1"] }],
    });
    ground.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice).good();
    assert!(post().ends_with("seen"), "{}", post());
}
