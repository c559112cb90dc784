//! Who somebody is and what he may: tokens of ServiceAccounts, nodes, certificate requests.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::ground::Ground;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn token(ground: &Ground, spec: &Value) -> String {
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec });
    let made = ground.post(&format!("{ACCOUNTS}/robot/token"), &request).good();
    made["status"]["token"].as_str().unwrap().to_owned()
}

fn review(ground: &Ground, token: &str, audiences: &Value) -> Value {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": { "token": token, "audiences": audiences },
    });
    ground.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).good()["status"].clone()
}

fn with_account() -> Ground {
    let ground = Ground::with_nodes(1);
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "robot" } });
    ground.post(ACCOUNTS, &account).good();
    ground
}

// upstream test: [sig-auth] ServiceAccounts should create a serviceAccountToken and ensure a successful TokenReview [Conformance]
#[test]
fn a_token_that_was_made_is_reviewed_as_its_account() {
    let ground = with_account();
    let made = token(&ground, &json!({}));
    let status = review(&ground, &made, &Value::Null);
    assert_eq!(status["authenticated"], true, "{status}");
    assert_eq!(status["user"]["username"], "system:serviceaccount:default:robot");
    let groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"];
    assert_eq!(status["user"]["groups"], json!(groups));
    assert_eq!(status["audiences"], json!(["https://kubernetes.default.svc"]));
    let id = &status["user"]["extra"]["authentication.kubernetes.io/credential-id"][0];
    assert!(id.as_str().is_some_and(|id| id.starts_with("JTI=")), "{status}");

    let broken = format!("{}x", &made[..made.len() - 1]);
    assert_eq!(review(&ground, &broken, &Value::Null), json!({ "user": {}, "error": "invalid bearer token" }));
    assert!(review(&ground, &made, &json!(["vault"]))["error"].is_string());
    let vault = token(&ground, &json!({ "audiences": ["vault", "other"] }));
    assert_eq!(review(&ground, &vault, &json!(["vault"]))["audiences"], json!(["vault"]));
}

#[test]
fn a_token_ends_with_its_time_its_account_and_what_it_is_bound_to() {
    let ground = with_account();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" },
        "spec": { "containers": [{ "name": "main", "image": "nginx:1.27" }] },
    });
    ground.post("/api/v1/namespaces/default/pods", &pod).good();
    let bound = token(&ground, &json!({ "boundObjectRef": { "kind": "Pod", "apiVersion": "v1", "name": "web" } }));
    let plain = token(&ground, &json!({ "expirationSeconds": 600 }));
    let status = review(&ground, &bound, &Value::Null);
    assert_eq!(status["user"]["extra"]["authentication.kubernetes.io/pod-name"], json!(["web"]));
    assert_eq!(status["user"]["extra"]["authentication.kubernetes.io/node-name"], json!(["node-0"]));
    ground.delete("/api/v1/namespaces/default/pods/web?gracePeriodSeconds=0").good();
    assert!(review(&ground, &bound, &Value::Null)["error"].is_string());
    assert_eq!(review(&ground, &plain, &Value::Null)["authenticated"], true);
    ground.pass(601);
    assert!(review(&ground, &plain, &Value::Null)["error"].as_str().unwrap().contains("expired"));
    let last = token(&ground, &json!({}));
    ground.delete(&format!("{ACCOUNTS}/robot")).good();
    assert!(review(&ground, &last, &Value::Null)["error"].is_string());
}

// upstream: pkg/serviceaccount/jwt_test.go TestTokenGenerateAndValidate (v1.36)
#[test]
fn a_token_that_a_secret_holds_is_good_while_secret_and_account_are_there() {
    let ground = with_account();
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": { "name": "key", "annotations": { "kubernetes.io/service-account.name": "robot" } },
    });
    let held = || {
        ground.post(secrets, &secret).good();
        let held = ground.get(&format!("{secrets}/key")).good();
        String::from_utf8(STANDARD.decode(held["data"]["token"].as_str().unwrap()).unwrap()).unwrap()
    };
    let held_token = held();
    let status = review(&ground, &held_token, &Value::Null);
    let groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"];
    let account = ground.get(&format!("{ACCOUNTS}/robot")).good();
    assert_eq!(
        status,
        json!({
            "authenticated": true, "audiences": ["https://kubernetes.default.svc"],
            "user": {
                "username": "system:serviceaccount:default:robot", "groups": groups, "uid": account["metadata"]["uid"],
            },
        })
    );
    let used = ground.get(&format!("{secrets}/key")).good();
    let label = &used["metadata"]["labels"]["kubernetes.io/legacy-token-last-used"];
    assert!(label.as_str().is_some_and(|day| day.len() == "2026-06-01".len()), "{used}");
    assert!(review(&ground, &held_token, &json!(["vault"]))["error"].is_string());

    let fault = |token: &str| review(&ground, token, &Value::Null)["error"].as_str().unwrap_or_default().to_owned();
    let invalid = json!({ "metadata": { "labels": { "kubernetes.io/legacy-token-invalid-since": "2026-06-01" } } });
    ground.merge(&format!("{secrets}/key"), &invalid).good();
    let marked = "the token in secret default/key for service account default/robot has been marked invalid. ";
    assert!(fault(&held_token).starts_with(&format!("[invalid bearer token, {marked}")), "{}", fault(&held_token));
    ground.merge(&format!("{secrets}/key"), &json!({ "data": { "token": STANDARD.encode("other") } })).good();
    assert_eq!(fault(&held_token), "[invalid bearer token, Token does not match server's copy]");
    ground.delete(&format!("{secrets}/key")).good();
    assert_eq!(fault(&held_token), "[invalid bearer token, Token has been invalidated]");
    let next = held();
    assert_eq!(fault(&next), "");
    ground.delete(&format!("{ACCOUNTS}/robot")).good();
    assert_eq!(fault(&next), "[invalid bearer token, Token has been invalidated]");
}

// upstream test: [sig-auth] [Feature:NodeAuthorizer] Getting a secret for a workload the node has access to should succeed
#[test]
fn a_node_reads_what_its_pods_use() {
    let ground = Ground::with_nodes(2);
    for name in ["used", "other"] {
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name } });
        ground.post("/api/v1/namespaces/default/secrets", &secret).good();
    }
    let as_node = [("impersonate-user", "system:node:node-0"), ("impersonate-group", "system:nodes")];
    let get = |path: &str| ground.send("GET", path, &as_node, "");
    let used = "/api/v1/namespaces/default/secrets/used";
    let message = get(used).refused(403);
    assert!(message.ends_with("no relationship found between node 'node-0' and this object"), "{message}");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" },
        "spec": {
            "nodeName": "node-0", "containers": [{ "name": "main", "image": "nginx:1.27" }],
            "volumes": [{ "name": "keys", "secret": { "secretName": "used" } }],
        },
    });
    ground.post("/api/v1/namespaces/default/pods", &pod).good();
    get(used).good();
    get("/api/v1/namespaces/default/pods/web").good();
    get("/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-0").good();
    get("/api/v1/nodes/node-0").good();
    for path in [
        "/api/v1/namespaces/default/secrets/other",
        "/api/v1/namespaces/default/secrets",
        "/api/v1/pods",
        "/api/v1/nodes/node-1",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    ] {
        get(path).refused(403);
    }
    let elsewhere = [("impersonate-user", "system:node:node-1"), ("impersonate-group", "system:nodes")];
    ground.send("GET", used, &elsewhere, "").refused(403);
}

const EMPTY: &str = "-----BEGIN CERTIFICATE REQUEST-----\nMIIB\n-----END CERTIFICATE REQUEST-----\n";

/// A request with another name than its key has signed.
fn forged(pem: &str) -> String {
    let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let mut der = STANDARD.decode(body).unwrap();
    let at = der.windows(4).position(|letters| letters == b"jane").unwrap();
    der[at] = b'k';
    format!("-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n", STANDARD.encode(der))
}

/// A certificate request, PEM.
fn signed_by_itself(name: &str) -> String {
    let mut asked = rcgen::CertificateParams::new(Vec::new()).unwrap();
    asked.distinguished_name.push(rcgen::DnType::CommonName, name);
    asked.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap().pem().unwrap()
}

// upstream test: [sig-auth] Certificates API [Privileged:ClusterAdmin] should support CSR API operations [Conformance]
#[test]
fn certificate_requests_are_stored_selected_and_approved() {
    let ground = Ground::with_nodes(0);
    let pem = signed_by_itself("jane");
    let request = |name: &str, signer: &str| {
        json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": { "name": name },
            "spec": {
                "request": STANDARD.encode(&pem), "signerName": signer, "usages": ["digital signature", "client auth"],
                "expirationSeconds": 3600,
            },
        })
    };
    let made = ground.post(REQUESTS, &request("one", "example.com/e2e")).good();
    assert_eq!((&made["spec"]["username"], &made["spec"]["groups"][0]), (&json!("admin"), &json!("system:masters")));
    ground.post(REQUESTS, &request("two", "example.com/other")).good();
    let list = ground.get(&format!("{REQUESTS}?fieldSelector=spec.signerName%3Dexample.com%2Fe2e")).good();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let path = format!("{REQUESTS}/one");
    let patched = ground
        .merge(&path, &json!({ "metadata": { "annotations": { "patched": "true" } }, "spec": { "usages": [] } }))
        .good();
    assert_eq!(patched["spec"], made["spec"], "what was asked for stays");
    let approved = json!([{ "type": "Approved", "status": "True", "reason": "E2E", "message": "fine" }]);
    let mut changed = patched.clone();
    changed["status"]["conditions"] = approved.clone();
    let answer = ground.put(&format!("{path}/approval"), &changed).good();
    assert_eq!(answer["status"]["conditions"][0]["reason"], "E2E");
    assert_eq!(ground.get(&format!("{path}/approval")).good()["status"], answer["status"]);
    let status =
        ground.merge(&format!("{path}/status"), &json!({ "status": { "certificate": STANDARD.encode("x") } })).good();
    assert_eq!(status["status"]["certificate"], STANDARD.encode("x"));
    ground.delete(&path).good();
    ground.delete(REQUESTS).good();
    assert_eq!(ground.get(REQUESTS).good()["items"], json!([]));
    for (field, value, wanted) in [
        (
            "signerName",
            json!("nosuch"),
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ),
        ("expirationSeconds", json!(60), "may not specify a duration less than 600 seconds (10 minutes)"),
        ("request", json!("aGVsbG8="), "PEM block type must be CERTIFICATE REQUEST"),
        ("request", json!(STANDARD.encode(EMPTY)), "the certificate request is malformed"),
        ("request", json!(STANDARD.encode(forged(&pem))), "the certificate request is not signed with its own key"),
        ("usages", json!(["client auth", "client auth"]), "spec.usages[1]: Duplicate value: \"client auth\""),
        ("usages", json!(["flying"]), "\"timestamping\""),
        (
            "signerName",
            json!("kubernetes.io/legacy-unknown"),
            "the legacy signerName is not allowed via this API version",
        ),
    ] {
        let mut broken = request("bad", "example.com/e2e");
        broken["spec"][field] = value;
        let message = ground.post(REQUESTS, &broken).refused(422);
        assert!(message.ends_with(wanted), "{message}");
    }
}

#[test]
fn a_kubelets_client_certificate_is_approved_for_who_may_have_it() {
    let ground = Ground::with_nodes(0);
    let made = |name: &str, subject: &str, group: &str| {
        let mut asked = rcgen::CertificateParams::new(Vec::new()).unwrap();
        asked.distinguished_name = rcgen::DistinguishedName::new();
        asked.distinguished_name.push(rcgen::DnType::CommonName, subject);
        asked.distinguished_name.push(rcgen::DnType::OrganizationName, group);
        let pem = asked.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": { "name": name },
            "spec": {
                "request": STANDARD.encode(pem), "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                "usages": ["digital signature", "client auth"],
            },
        })
    };
    ground.post(REQUESTS, &made("node", "system:node:n", "system:nodes")).good();
    ground.post(REQUESTS, &made("other", "jane", "system:nodes")).good();
    ground.post(REQUESTS, &made("group", "system:node:n", "developers")).good();
    ground.cluster.advance(std::time::Duration::from_secs(1));
    let approved =
        |name: &str| ground.get(&format!("{REQUESTS}/{name}")).good()["status"]["conditions"][0]["reason"].clone();
    assert_eq!(["node", "other", "group"].map(approved), [json!("AutoApproved"), Value::Null, Value::Null]);
}

// upstream test: [sig-auth] ServiceAccounts should mount an API token into pods [Conformance]
// upstream test: [sig-auth] ServiceAccounts should mount projected service account token [Conformance]
// upstream test: [sig-auth] ServiceAccounts should set ownership and permission when RunAsUser or FsGroup is present [LinuxOnly]
#[test]
fn the_token_in_a_pod_is_its_service_accounts() {
    let ground = Ground::with_nodes(1);
    let pods = "/api/v1/namespaces/default/pods";
    let folder = "/var/run/secrets/kubernetes.io/serviceaccount";
    let start = |name: &str, context: Value| {
        let container = json!({ "name": "main", "image": "busybox:1.37", "command": ["sleep", "1000000"] });
        let volume = json!({ "name": "vault", "projected": { "sources": [
            { "serviceAccountToken": { "path": "token", "audience": "vault", "expirationSeconds": 600 } },
        ]}});
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "securityContext": context, "containers": [container], "volumes": [volume] },
        });
        pod["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "vault", "mountPath": "/vault" }]);
        ground.post(pods, &pod).good();
        ground.cluster.advance(std::time::Duration::from_secs(3));
    };
    start("web", json!({}));
    let token = ground.execute("web", &["cat", &format!("{folder}/token")]).out;
    let status = review(&ground, &token, &json!([]));
    assert_eq!(
        (&status["authenticated"], &status["user"]["username"]),
        (&json!(true), &json!("system:serviceaccount:default:default"))
    );
    assert_eq!(status["user"]["extra"]["authentication.kubernetes.io/pod-name"], json!(["web"]), "{status}");
    assert_eq!(ground.execute("web", &["cat", &format!("{folder}/namespace")]).out, "default");
    // Another one is for others, and for a shorter time.
    let vault = ground.execute("web", &["cat", "/vault/token"]).out;
    assert_eq!(review(&ground, &vault, &json!([]))["authenticated"], Value::Null);
    assert_eq!(review(&ground, &vault, &json!(["vault"]))["authenticated"], true);
    ground.cluster.advance(std::time::Duration::from_secs(500));
    assert_eq!(ground.execute("web", &["cat", &format!("{folder}/token")]).out, token);
    let next = ground.execute("web", &["cat", "/vault/token"]).out;
    assert_ne!(next, vault, "after four fifths of its time it is another one");
    ground.cluster.advance(std::time::Duration::from_secs(200));
    assert_eq!(review(&ground, &vault, &json!(["vault"]))["authenticated"], Value::Null, "it has ended");
    assert_eq!(review(&ground, &next, &json!(["vault"]))["authenticated"], true);
    // For clients that read it once, the one for the API is good for a year.
    ground.cluster.advance(std::time::Duration::from_secs(24 * 60 * 60));
    assert_eq!(review(&ground, &token, &json!([]))["authenticated"], true);
    ground.delete(&format!("{pods}/web?gracePeriodSeconds=0")).good();
    assert_eq!(review(&ground, &token, &json!([]))["authenticated"], Value::Null, "it goes with its pod");

    for (name, context, mode, owner) in [
        ("user", json!({ "runAsUser": 1000 }), "600", "1000"),
        ("group", json!({ "fsGroup": 2000 }), "640", "0"),
        ("both", json!({ "runAsUser": 1000, "fsGroup": 2000 }), "640", "1000"),
        ("neither", json!({}), "644", "0"),
    ] {
        let file = format!("{folder}/token");
        let container = json!({ "name": "main", "image": "busybox:1.37", "command": ["sleep", "1000000"] });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "securityContext": context, "containers": [container] },
        });
        ground.post(pods, &pod).good();
        ground.cluster.advance(std::time::Duration::from_secs(5));
        let shown = ground.execute(name, &["stat", "-L", "-c", "%a:%u", &file]).out;
        assert_eq!(shown, format!("{mode}:{owner}\n"), "{name}");
    }
}
