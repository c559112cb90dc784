//! What a cluster gives others to sign in with: certificates that it signs, and tokens of its ServiceAccounts.

use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use klab_server::{Flavour, Seed, Server, ServerOptions};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const PODS: &str = "/api/v1/namespaces/default/pods";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";

/// A server with two clusters.
async fn start(folder: &Path) -> Server {
    let server = Server::start(ServerOptions { park_after: None, ..ServerOptions::at(folder.join("state")) }).await;
    let server = server.unwrap_or_else(|error| panic!("{error:?}"));
    for name in ["one", "two"] {
        let _new = server.add(name, Seed { flavour: Flavour::Bare, ..Seed::default() }).unwrap();
    }
    server
}

/// Somebody who asks a cluster of a server.
struct Somebody(kube::Client);

impl Somebody {
    async fn of(server: &Server, cluster: &str, who: AuthInfo) -> Self {
        let mut kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig(cluster).unwrap()).unwrap();
        kubeconfig.auth_infos[0].auth_info = Some(who);
        Self::with(kubeconfig).await
    }

    async fn with(kubeconfig: Kubeconfig) -> Self {
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Self(kube::Client::try_from(config).unwrap())
    }

    async fn admin(server: &Server, cluster: &str) -> Self {
        Self::with(Kubeconfig::from_yaml(&server.kubeconfig(cluster).unwrap()).unwrap()).await
    }

    /// An answer, or code and message of a refusal.
    async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, (u16, String)> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request =
            http::Request::builder().method(method).uri(path).header("content-type", kind).body(body).unwrap();
        match self.0.request::<Value>(request).await {
            Ok(value) => Ok(value),
            Err(kube::Error::Api(status)) => Err((status.code, status.message)),
            Err(error) => panic!("{error}"),
        }
    }

    async fn get(&self, path: &str) -> Result<Value, (u16, String)> {
        self.ask("GET", path, &Value::Null).await
    }

    async fn code(&self, path: &str) -> u16 {
        self.get(path).await.map_or_else(|(code, _)| code, |_| 200)
    }
}

/// A certificate as the credential of a kubeconfig.
fn shown(certificate: &str, key: &KeyPair) -> AuthInfo {
    AuthInfo {
        client_certificate_data: Some(STANDARD.encode(certificate)),
        client_key_data: Some(STANDARD.encode(key.serialize_pem()).into()),
        ..AuthInfo::default()
    }
}

fn subject(name: &str, group: &str) -> CertificateParams {
    let mut asked = CertificateParams::new(Vec::new()).unwrap();
    asked.distinguished_name.push(DnType::CommonName, name);
    asked.distinguished_name.push(DnType::OrganizationName, group);
    asked
}

fn request(name: &str, group: &str, key: &KeyPair) -> Value {
    let pem = subject(name, group).serialize_request(key).unwrap().pem().unwrap();
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": { "name": name },
        "spec": {
            "request": STANDARD.encode(pem), "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
            "expirationSeconds": 3600,
        },
    })
}

/// The request, approved.
fn approved(request: &Value) -> Value {
    let mut approved = request.clone();
    approved["status"] = json!({ "conditions": [{ "type": "Approved", "status": "True", "reason": "Lesson" }] });
    approved
}

/// The certificate that a cluster signs for somebody.
async fn certificate(admin: &Somebody, name: &str, group: &str, key: &KeyPair) -> String {
    let made = admin.ask("POST", REQUESTS, &request(name, group, key)).await.unwrap();
    let path = format!("{REQUESTS}/{name}");
    admin.ask("PUT", &format!("{path}/approval"), &approved(&made)).await.unwrap();
    let begun = Instant::now();
    loop {
        let now = admin.get(&path).await.unwrap();
        if let Some(certificate) = now["status"]["certificate"].as_str() {
            return String::from_utf8(STANDARD.decode(certificate).unwrap()).unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{now}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Lets somebody read the pods of `default`.
async fn let_read(admin: &Somebody, subject: Value) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "readers" },
        "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"] }],
    });
    admin.ask("POST", &format!("{ROLES}/roles"), &role).await.unwrap();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "readers" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "readers" }, "subjects": [subject],
    });
    admin.ask("POST", &format!("{ROLES}/rolebindings"), &binding).await.unwrap();
}

async fn who(somebody: &Somebody) -> Value {
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let answer = somebody.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await.unwrap();
    answer["status"]["userInfo"].clone()
}

// upstream test: [sig-auth] Certificates API [Privileged:ClusterAdmin] should support building a client with a CSR
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_a_cluster_signs_opens_it_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let admin = Somebody::admin(&server, "one").await;
    let key = KeyPair::generate().unwrap();
    let pem = certificate(&admin, "jane", "developers", &key).await;
    let jane = Somebody::of(&server, "one", shown(&pem, &key)).await;
    let (code, message) = jane.get(PODS).await.unwrap_err();
    let wanted =
        "pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"";
    assert_eq!((code, &*message), (403, wanted));
    let_read(&admin, json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "developers" })).await;
    assert_eq!(jane.code(PODS).await, 200);
    let known = who(&jane).await;
    assert_eq!(
        (&known["username"], &known["groups"]),
        (&json!("jane"), &json!(["developers", "system:authenticated"]))
    );
    assert_eq!(jane.code("/api/v1/nodes").await, 403);

    // Nowhere else is it of any use.
    assert_eq!(Somebody::of(&server, "two", shown(&pem, &key)).await.code(PODS).await, 401);
    let mut face = Kubeconfig::from_yaml(&server.kubeconfig("one").unwrap()).unwrap();
    face.auth_infos[0].auth_info = Some(shown(&pem, &key));
    let at = |server: &Server, path: &str| Some(format!("https://{}{path}", server.address()));
    face.clusters[0].cluster.as_mut().unwrap().server = at(&server, "/klab/v1");
    assert_eq!(Somebody::with(face.clone()).await.code("/health").await, 401);
    // Without a cluster in the path it says which one is meant.
    face.clusters[0].cluster.as_mut().unwrap().server = at(&server, "");
    assert_eq!(Somebody::with(face).await.code(PODS).await, 200);

    // What others have signed, and the certificate without its key, open nothing.
    let own = subject("jane", "system:masters").self_signed(&key).unwrap().pem();
    assert_eq!(Somebody::of(&server, "one", shown(&own, &key)).await.code(PODS).await, 401);

    // Who may not approve does not; nobody asks for the group that may do everything.
    let joe = admin.ask("POST", REQUESTS, &request("joe", "developers", &key)).await.unwrap();
    let (code, _) = jane.ask("PUT", &format!("{REQUESTS}/joe/approval"), &approved(&joe)).await.unwrap_err();
    assert_eq!(code, 403);
    let (code, message) = admin.ask("POST", REQUESTS, &request("eve", "system:masters", &key)).await.unwrap_err();
    assert_eq!(code, 403);
    let because = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
    assert!(message.ends_with(because), "{message}");

    // It is good after a restart, too.
    server.stop();
    server.run_until_stopped().await;
    let server = start(folder.path()).await;
    assert_eq!(Somebody::of(&server, "one", shown(&pem, &key)).await.code(PODS).await, 200);
    // Another cluster of the same name is another one.
    assert!(server.remove("one").unwrap());
    let _new = server.add("one", Seed { flavour: Flavour::Bare, ..Seed::default() }).unwrap();
    assert_eq!(Somebody::of(&server, "one", shown(&pem, &key)).await.code(PODS).await, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_decide_for_a_signer_approves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let admin = Somebody::admin(&server, "one").await;
    let key = KeyPair::generate().unwrap();
    let pem = certificate(&admin, "approver", "approvers", &key).await;
    let approver = Somebody::of(&server, "one", shown(&pem, &key)).await;
    let rule = |rules: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "approver" },
            "rules": rules,
        })
    };
    let group = "certificates.k8s.io";
    let update = json!({
        "apiGroups": [group], "resources": ["certificatesigningrequests/approval", "certificatesigningrequests/status"],
        "verbs": ["update"],
    });
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    admin.ask("POST", &format!("{roles}/clusterroles"), &rule(json!([update]))).await.unwrap();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "approver" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "approver" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "approver" }],
    });
    admin.ask("POST", &format!("{roles}/clusterrolebindings"), &binding).await.unwrap();
    let made = admin.ask("POST", REQUESTS, &request("joe", "developers", &key)).await.unwrap();
    for part in ["approval", "status"] {
        let path = format!("{REQUESTS}/joe/{part}");
        let (code, message) = approver.ask("PUT", &path, &approved(&made)).await.unwrap_err();
        assert_eq!(code, 403);
        let because = "user not permitted to approve requests with signerName \"kubernetes.io/kube-apiserver-client\"";
        assert!(message.ends_with(because), "{message}");
    }
    let sign = json!({ "apiGroups": [group], "resources": ["signers"], "verbs": ["approve"], "resourceNames": ["kubernetes.io/*"] });
    admin.ask("PUT", &format!("{roles}/clusterroles/approver"), &rule(json!([update, sign]))).await.unwrap();
    approver.ask("PUT", &format!("{REQUESTS}/joe/approval"), &approved(&made)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_a_service_account_opens_its_own_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let admin = Somebody::admin(&server, "one").await;
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "robot" } });
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    admin.ask("POST", accounts, &account).await.unwrap();
    let asked = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    let made = admin.ask("POST", &format!("{accounts}/robot/token"), &asked).await.unwrap();
    let token = made["status"]["token"].as_str().unwrap().to_owned();
    let with = |token: &str| AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
    let robot = Somebody::of(&server, "one", with(&token)).await;
    let (code, message) = robot.get(PODS).await.unwrap_err();
    assert_eq!(code, 403);
    assert!(message.contains("User \"system:serviceaccount:default:robot\" cannot list resource"), "{message}");
    let_read(&admin, json!({ "kind": "ServiceAccount", "name": "robot", "namespace": "default" })).await;
    assert_eq!(robot.code(PODS).await, 200);
    let groups = json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]);
    assert_eq!(who(&robot).await["groups"], groups);

    assert_eq!(Somebody::of(&server, "two", with(&token)).await.code(PODS).await, 401);
    let mut forged = token.clone();
    let last = if forged.ends_with('A') { "B" } else { "A" };
    forged.replace_range(forged.len() - 1.., last);
    assert_eq!(Somebody::of(&server, "one", with(&forged)).await.code(PODS).await, 401);

    server.stop();
    server.run_until_stopped().await;
    let server = start(folder.path()).await;
    let robot = Somebody::of(&server, "one", with(&token)).await;
    assert_eq!(robot.code(PODS).await, 200, "it is good after a restart");
    let admin = Somebody::admin(&server, "one").await;
    admin.ask("DELETE", &format!("{accounts}/robot"), &Value::Null).await.unwrap();
    assert_eq!(robot.code(PODS).await, 401, "it ends with its account");
}
