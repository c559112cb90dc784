//! A class below a path of a proxy at which TLS ends, as `docs/do/running-a-host.md` says that nginx is configured.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use futures::TryStreamExt;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use klab_operations::client::bearer::{self, Trust};
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

use super::map;
use super::proxy::{Proxy, has_nginx};
use super::running::{Running, client_of, free_port};
use crate::skipped::is_there;

const PATIENCE: Duration = Duration::from_secs(120);

/// The `location` of the documentation, for a class at another port and path.
fn location(path: &str, port: u16) -> String {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/do/running-a-host.md")).unwrap();
    let (_, block) = text.split_once("```nginx\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let told = block.replace("/kubernetes/", path).replace("127.0.0.1:8443", &format!("127.0.0.1:{port}"));
    assert!(told.contains(path) && told.contains(&port.to_string()), "{block}");
    told
}

/// A host behind a proxy.
pub(super) struct Class {
    proxy: Proxy,
    host: Running,
    /// As people call it.
    url: String,
    _folder: tempfile::TempDir,
}

impl Class {
    pub(super) fn start(path: &str) -> Self {
        let port = free_port();
        let proxy = Proxy::start("", &location(path, port));
        let folder = tempfile::tempdir().unwrap();
        let authority = folder.path().join("ca.pem");
        std::fs::write(&authority, &proxy.authority).unwrap();
        let url = format!("{}{}", proxy.url, path.trim_end_matches('/'));
        let host = Running::start(&[
            "scheduling",
            "--listen",
            &format!("127.0.0.1:{port}"),
            "--behind-proxy",
            "127.0.0.1",
            "--url",
            &url,
            "--tls-ca",
            authority.to_str().unwrap(),
        ]);
        Self { proxy, host, url, _folder: folder }
    }

    /// What the proxy answers.
    async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> (u16, http::HeaderMap, String) {
        let client =
            bearer::client(&self.proxy.url, Trust::Authority(&self.proxy.authority), None, PATIENCE).await.unwrap();
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let asked = client.send(request.body(kube::client::Body::from(body.into_bytes())).unwrap());
        let (parts, body) = tokio::time::timeout(PATIENCE, asked).await.unwrap().unwrap().into_parts();
        let bytes = tokio::time::timeout(PATIENCE, body.collect()).await.unwrap().unwrap().to_bytes();
        (parts.status.as_u16(), parts.headers, String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(super) async fn join(&self, name: &str) -> Value {
        let body = json!({ "code": self.host.code, "name": name, "pin": "2468" }).to_string();
        let headers = [("content-type", "application/json"), ("accept", "application/json")];
        let (status, _, text) = self.ask("POST", &format!("{}/api/join", self.base()), &headers, body).await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    fn base(&self) -> &str {
        &self.url[self.proxy.url.len()..]
    }
}

#[tokio::test]
async fn clusters_and_their_watches_are_reached_below_the_path() {
    if !has_nginx() {
        return;
    }
    let class = Class::start("/kubernetes/");
    let ann = class.join("Ann").await;
    let kubeconfig = ann["kubeconfig"].as_str().unwrap();
    assert!(kubeconfig.contains(&format!("server: {}/seats/0/1", class.url)), "{kubeconfig}");
    let client = client_of(&ann["kubeconfig"]).await;
    let (nodes, all) = (Api::<Node>::all(client.clone()), ListParams::default());
    let nodes = tokio::time::timeout(PATIENCE, nodes.list(&all)).await.unwrap().unwrap();
    assert_eq!(nodes.items.len(), 3);
    // What happens is told while the request of the watch goes on: nothing on the way waits for its end.
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let since = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let watched = async {
        let mut events = Box::pin(maps.watch(&WatchParams::default(), &since).await.unwrap());
        maps.create(&PostParams::default(), &map("seen")).await.unwrap();
        while let Some(event) = events.try_next().await.unwrap() {
            if let WatchEvent::Added(one) = event {
                return one.metadata.name;
            }
        }
        None
    };
    assert_eq!(tokio::time::timeout(PATIENCE, watched).await.unwrap().as_deref(), Some("seen"));
}

#[tokio::test]
async fn pages_link_below_the_path_and_their_forms_are_taken() {
    if !has_nginx() {
        return;
    }
    let class = Class::start("/kubernetes/");
    let (status, _, page) = class.ask("GET", "/kubernetes/", &[("accept", "text/html")], String::new()).await;
    assert_eq!(status, 200);
    for link in page.split(['"', '\'']).filter(|word| word.starts_with('/')) {
        assert!(link.starts_with("/kubernetes/"), "{link} leads past the class: {page}");
    }
    let form = format!("code={}&name=Ann&pin=2468", class.host.code);
    let origin = ("origin", class.proxy.url.as_str());
    let kind = ("content-type", "application/x-www-form-urlencoded");
    let (status, headers, _) = class.ask("POST", "/kubernetes/join", &[kind, origin], form.clone()).await;
    assert_eq!((status, headers["location"].to_str().unwrap()), (303, "/kubernetes/learn/scheduling/"));
    let cookie = headers["set-cookie"].to_str().unwrap();
    assert!(cookie.contains("Path=/kubernetes") && cookie.contains("Secure"), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    let (status, _, page) = class.ask("GET", "/kubernetes/learn/scheduling/", &[("cookie", pair)], String::new()).await;
    assert!(status == 200 && page.contains("data-part"), "{status} {page}");
    let past = page.split(['"', '\'']).find(|word| word.starts_with("/learn") || word.starts_with("/host"));
    assert_eq!(past, None, "it leads past the class");
    // A page of another place is refused as it is without a proxy.
    let elsewhere = ("origin", "https://evil.example");
    assert_eq!(class.ask("POST", "/kubernetes/join", &[kind, elsewhere], form).await.0, 403);
}

#[test]
fn a_guesser_is_counted_by_the_address_that_the_proxy_saw() {
    if !has_nginx() || !is_there("curl") {
        return;
    }
    let class = Class::start("/kubernetes/");
    let mut statuses = std::collections::BTreeSet::new();
    for number in 0..60 {
        // From an address that is not the proxy's.
        let mut curl = Command::new("curl");
        curl.args(["-ksS", "--max-time", "20", "--interface", "127.0.0.2", "-o", "/dev/null", "-w", "%{http_code}"]);
        curl.args([
            "-H",
            &format!("X-Forwarded-For: 10.1.2.{number}"),
            "-d",
            &format!("code=aaaa-{number:04}&name=Eve"),
        ]);
        let output = curl.arg(format!("{}/api/join", class.url)).stdin(Stdio::null()).output().unwrap();
        statuses.insert(String::from_utf8(output.stdout).unwrap());
    }
    // What a client says of itself stands before what the proxy adds, and is not believed.
    assert_eq!(statuses.into_iter().collect::<Vec<_>>(), ["403", "429"]);
    let audit = std::fs::read_to_string(class.host.home().join("hosts/scheduling/audit.log")).unwrap();
    assert!(audit.contains("\"from\":\"127.0.0.2\"") && !audit.contains("10.1.2."), "{audit}");
}

#[tokio::test]
async fn a_learners_klab_goes_through_the_lesson() {
    if !has_nginx() {
        return;
    }
    let class = Class::start("/kubernetes/");
    let learner = tempfile::tempdir().unwrap();
    let klab = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_klab"))
            .args(arguments)
            .env("KLAB_HOME", learner.path())
            .env_remove("KUBECONFIG")
            .env("KLAB_PIN", "2468")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    let join = class.host.document["join"].as_str().unwrap();
    assert!(join.starts_with(&class.url), "{join}");
    let (code, _, said) = klab(&["join", join, &class.host.code, "--name", "Ann"]);
    assert_eq!(code, 0, "{said}");
    let (code, report, said) = klab(&["verify"]);
    assert!(code == 0 && report.contains("held"), "{report}{said}");
    let (code, _, said) = klab(&["step"]);
    assert_eq!(code, 0, "{said}");
}
