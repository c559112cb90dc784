//! Webhooks that run in pods: those of Kubernetes' image for tests are known, so they answer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::ground::Ground;

const AGNHOST: &str = "registry.k8s.io/e2e-test-images/agnhost:2.63.0";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// Some authority: nobody shows a certificate that it could be asked about.
fn authority() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["hook".to_owned()]).unwrap().self_signed(&key).unwrap();
    STANDARD.encode(certificate.pem())
}

impl Ground {
    /// A pod and a Service `hook` before it.
    fn with_webhook(args: &[&str], port: u16) -> Self {
        let ground = Self::with_nodes(1);
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "hook", "labels": { "app": "hook" } },
            "spec": { "containers": [{ "name": "main", "image": AGNHOST, "args": args }] } });
        ground.post("/api/v1/namespaces/default/pods", &pod).good();
        let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "hook" },
            "spec": { "selector": { "app": "hook" }, "ports": [{ "port": 8443, "targetPort": port }] } });
        ground.post("/api/v1/namespaces/default/services", &service).good();
        ground.pass(3);
        ground
    }

    fn hook(&self, kind: &str, path: &str, rule: (&str, &str), more: &Value) {
        let (group, resource) = rule;
        let mut hook = json!({
            "name": "hook.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": { "caBundle": authority(),
                "service": { "namespace": "default", "name": "hook", "path": path, "port": 8443 } },
            "rules": [{ "apiGroups": [group], "apiVersions": ["*"], "resources": [resource],
                "operations": ["CREATE", "UPDATE", "DELETE"] }],
        });
        for (field, value) in more.as_object().unwrap() {
            hook[field] = value.clone();
        }
        let configuration = json!({ "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": format!("{kind}WebhookConfiguration"), "metadata": { "name": path.trim_matches('/').replace('/', "-") },
            "webhooks": [hook] });
        self.post(&format!("{ADMISSION}/{}webhookconfigurations", kind.to_lowercase()), &configuration).good();
    }

    fn define(&self, conversion: &Value) {
        self.define_with(conversion, &json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }));
    }

    fn define_with(&self, conversion: &Value, schema: &Value) {
        let version = |name: &str, storage: bool| json!({ "name": name, "served": true, "storage": storage, "schema": { "openAPIV3Schema": schema } });
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": "testcrds.stable.example.com" },
            "spec": { "group": "stable.example.com", "scope": "Namespaced", "conversion": conversion,
                "names": { "plural": "testcrds", "kind": "Testcrd" },
                "versions": [version("v1", true), version("v2", false)] },
        });
        self.post(DEFINITIONS, &definition).good();
        self.pass(1);
    }
}

fn objects(version: &str) -> String {
    format!("/apis/stable.example.com/{version}/namespaces/default/testcrds")
}

fn object(name: &str, more: &Value) -> Value {
    let mut object = json!({ "apiVersion": "stable.example.com/v1", "kind": "Testcrd", "metadata": { "name": name } });
    for (field, value) in more.as_object().unwrap() {
        object[field] = value.clone();
    }
    object
}

// upstream test: [sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should be able to deny custom resource creation, update and deletion [Conformance]
#[test]
fn a_webhook_in_a_pod_denies() {
    let ground = Ground::with_webhook(&["webhook", "--port=8444"], 8444);
    ground.define(&json!({ "strategy": "None" }));
    ground.hook("Validating", "/custom-resource", ("stable.example.com", "testcrds"), &json!({}));
    let unwanted = object("a", &json!({ "data": { "webhook-e2e-test": "webhook-disallow" } }));
    let refused = ground.post(&objects("v1"), &unwanted).refused(400);
    assert_eq!(
        refused,
        "admission webhook \"hook.example.com\" denied the request: the custom resource contains unwanted data"
    );
    let kept = object("a", &json!({ "data": { "webhook-e2e-test": "webhook-nondeletable" } }));
    ground.post(&objects("v1"), &kept).good();
    let path = format!("{}/a", objects("v1"));
    let refused = ground.delete(&path).refused(400);
    assert!(refused.contains("cannot be deleted because it contains unwanted key and value"), "{refused}");
    ground.merge(&path, &json!({ "data": { "webhook-e2e-test": "webhook-allow" } })).good();
    ground.delete(&path).good();
}

// upstream test: [sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should mutate custom resource [Conformance]
// upstream test: [sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should mutate custom resource with different stored version [Conformance]
#[test]
fn a_webhook_in_a_pod_mutates() {
    let ground = Ground::with_webhook(&["webhook", "--port=8444"], 8444);
    ground.define(&json!({ "strategy": "None" }));
    ground.hook("Mutating", "/mutating-custom-resource", ("stable.example.com", "testcrds"), &json!({}));
    let made = ground.post(&objects("v1"), &object("a", &json!({ "data": { "mutation-start": "yes" } }))).good();
    assert_eq!(made["data"], json!({ "mutation-start": "yes", "mutation-stage-1": "yes" }));
    let other = ground.merge(&format!("{}/a", objects("v2")), &json!({ "data": { "more": "yes" } })).good();
    assert_eq!(other["data"]["mutation-stage-2"], "yes", "{other}");
}

// upstream test: [sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should mutate custom resource with pruning [Conformance]
#[test]
fn what_a_webhook_adds_is_pruned_as_what_a_client_sends() {
    let ground = Ground::with_webhook(&["webhook", "--port=8444"], 8444);
    let text = json!({ "type": "string" });
    ground.define_with(
        &json!({ "strategy": "None" }),
        &json!({ "type": "object", "properties": { "data": { "type": "object",
            "properties": { "mutation-start": text, "mutation-stage-1": text } } } }),
    );
    for name in ["first", "second"] {
        let mut hook = json!({
            "name": format!("{name}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": { "caBundle": authority(), "service": { "namespace": "default", "name": "hook",
                "path": "/mutating-custom-resource", "port": 8443 } },
            "rules": [{ "apiGroups": ["stable.example.com"], "apiVersions": ["*"], "resources": ["testcrds"],
                "operations": ["CREATE"] }],
        });
        hook["reinvocationPolicy"] = json!("Never");
        let configuration = json!({ "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration", "metadata": { "name": name }, "webhooks": [hook] });
        ground.post(&format!("{ADMISSION}/mutatingwebhookconfigurations"), &configuration).good();
    }
    let made = ground.post(&objects("v1"), &object("a", &json!({ "data": { "mutation-start": "yes" } }))).good();
    assert_eq!(made["data"], json!({ "mutation-start": "yes", "mutation-stage-1": "yes" }));
}

// upstream test: [sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should honor timeout [Conformance]
#[test]
fn a_webhook_in_a_pod_is_late_and_its_pod_may_be_gone() {
    let ground = Ground::with_webhook(&["webhook", "--port=8444"], 8444);
    let map = |name: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
    let maps = "/api/v1/namespaces/default/configmaps";
    ground.hook("Validating", "/always-allow-delay-5s", ("", "configmaps"), &json!({ "timeoutSeconds": 1 }));
    let late = ground.post(maps, &map("a")).refused(500);
    assert_eq!(
        late,
        "Internal error occurred: failed calling webhook \"hook.example.com\": failed to call webhook: Post \
         \"https://hook.default.svc:8443/always-allow-delay-5s?timeout=1s\": context deadline exceeded"
    );
    let configuration = format!("{ADMISSION}/validatingwebhookconfigurations/always-allow-delay-5s");
    let mut slow = ground.get(&configuration).good();
    slow["webhooks"][0]["timeoutSeconds"] = json!(10);
    ground.put(&configuration, &slow).good();
    ground.post(maps, &map("a")).good();
    ground.send("DELETE", "/api/v1/namespaces/default/pods/hook?gracePeriodSeconds=0", &[], "").good();
    ground.pass(2);
    let none = ground.post(maps, &map("b")).refused(500);
    assert!(none.ends_with("no endpoints available for service \"hook\""), "{none}");
}

// upstream test: [sig-api-machinery] CustomResourceConversionWebhook [Privileged:ClusterAdmin] should be able to convert from CR v1 to CR v2 [Conformance]
// upstream test: [sig-api-machinery] CustomResourceConversionWebhook [Privileged:ClusterAdmin] should be able to convert a non homogeneous list of CRs [Conformance]
#[test]
fn a_webhook_in_a_pod_converts() {
    let ground = Ground::with_webhook(&["crd-conversion-webhook", "--port=9444"], 9444);
    ground.define(&json!({ "strategy": "Webhook", "webhook": { "conversionReviewVersions": ["v1", "v1beta1"],
        "clientConfig": { "caBundle": authority(),
            "service": { "namespace": "default", "name": "hook", "path": "/crdconvert", "port": 8443 } } } }));
    ground.post(&objects("v1"), &object("a", &json!({ "hostPort": "local:8080" }))).good();
    let other = ground.get(&format!("{}/a", objects("v2"))).good();
    assert_eq!((&other["host"], &other["port"], &other["hostPort"]), (&json!("local"), &json!("8080"), &Value::Null));
    let second = json!({ "apiVersion": "stable.example.com/v2", "kind": "Testcrd", "metadata": { "name": "b" },
        "host": "other", "port": "1" });
    ground.post(&objects("v2"), &second).good();
    let all = ground.get(&objects("v1")).good();
    let ports: Vec<&Value> = all["items"].as_array().unwrap().iter().map(|one| &one["hostPort"]).collect();
    assert_eq!(ports, [&json!("local:8080"), &json!("other:1")]);
    let wrong = ground.post(&objects("v1"), &object("c", &json!({ "hostPort": "nothing" })));
    assert_eq!(wrong.status, 201, "an object is stored as it comes: {}", String::from_utf8_lossy(&wrong.bytes));
    let refused = ground.get(&format!("{}/c", objects("v2"))).refused(500);
    assert!(refused.ends_with("invalid hostPort value `nothing`"), "{refused}");
}

// upstream test: [sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should be able to deny attaching pod [Conformance]
#[test]
fn who_connects_to_a_pod_is_asked_about() {
    let ground = Ground::with_webhook(&["webhook", "--port=8444"], 8444);
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str| {
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "containers": [{ "name": "container1", "image": "registry.k8s.io/pause:3.10" }] } })
    };
    for name in ["to-be-attached-pod", "other"] {
        ground.post(pods, &pod(name)).good();
    }
    ground.pass(3);
    ground.hook(
        "Validating",
        "/pods/attach",
        ("", "pods/attach"),
        &json!({ "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/attach"], "operations": ["CONNECT"] }] }),
    );
    let attach = |name: &str| ground.get(&format!("{pods}/{name}/attach?stdin=true&stdout=true&container=container1"));
    let refused = attach("to-be-attached-pod").refused(400);
    assert!(refused.ends_with("denied the request: attaching to pod 'to-be-attached-pod' is not allowed"), "{refused}");
    assert!(attach("other").refused(501).contains("there is nothing to attach to"));
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": { "name": "no-exec" },
        "spec": { "failurePolicy": "Fail", "matchConstraints": { "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["pods/exec"], "operations": ["CONNECT"] }] },
            "validations": [{ "expression": "!(has(object.command) && 'sh' in object.command)", "message": "no shells" }] },
    });
    let binding = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": "no-exec" }, "spec": { "policyName": "no-exec", "validationActions": ["Deny"] } });
    ground.post(&format!("{ADMISSION}/validatingadmissionpolicies"), &policy).good();
    ground.post(&format!("{ADMISSION}/validatingadmissionpolicybindings"), &binding).good();
    let exec = |word: &str| ground.get(&format!("{pods}/other/exec?stdout=true&command={word}"));
    assert!(exec("sh").refused(422).ends_with("denied request: no shells"));
    assert_eq!(exec("ls").refused(400), "Upgrade request required");
}

#[test]
fn without_an_authority_no_webhook_in_a_pod_is_trusted() {
    let ground = Ground::with_webhook(&["webhook", "--port=8444"], 8444);
    ground.hook(
        "Validating",
        "/always-deny",
        ("", "configmaps"),
        &json!({ "clientConfig": { "service": {
        "namespace": "default", "name": "hook", "path": "/always-deny", "port": 8443 } } }),
    );
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
    let refused = ground.post("/api/v1/namespaces/default/configmaps", &map).refused(500);
    assert!(refused.ends_with("x509: certificate signed by unknown authority"), "{refused}");
}
