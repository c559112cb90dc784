//! A class of two shards behind nginx, which routes as the Ingress of `deploy/ingress` does.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use klab::client::bearer::{self, Trust};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::map;
use super::proxy::{Proxy, has_nginx, is_free};
use super::running::{Running, client_of};

/// Two ports that differ in their last digit.
fn ports() -> (String, [u16; 2]) {
    let first = 2000 + u16::try_from(std::process::id() % 1200).unwrap();
    let base = (first..first + 1000).find(|base| is_free(base * 10) && is_free(base * 10 + 1)).unwrap();
    (base.to_string(), [base * 10, base * 10 + 1])
}

/// A proxy that routes as the Ingress does.
struct Routes(Proxy);

impl Routes {
    fn start(ports: [u16; 2]) -> Self {
        let routes: String = (0..2)
            .map(|number| format!("location /shards/{number}/ {{ proxy_pass http://127.0.0.1:{}; }}\n", ports[number]))
            .collect();
        let any = format!("upstream any {{ server 127.0.0.1:{}; server 127.0.0.1:{}; }}\n", ports[0], ports[1]);
        let inside = format!(
            "proxy_http_version 1.1;\nproxy_buffering off;\nproxy_read_timeout 3600s;\nproxy_set_header Host $http_host;\n\
             proxy_set_header X-Forwarded-For $remote_addr;\n{routes}location / {{ proxy_pass http://any; }}\n",
        );
        Self(Proxy::start(&any, &inside))
    }

    async fn post(&self, url: &str, body: String) -> (u16, Option<String>, String) {
        let (_, path) = url.split_at(self.0.url.len());
        let client = bearer::client(&self.0.url, Trust::Anybody, None, Duration::MAX).await.unwrap();
        let request =
            http::Request::post(path).header("content-type", "application/json").header("accept", "application/json");
        let answer = client.send(request.body(kube::client::Body::from(body.into_bytes())).unwrap()).await.unwrap();
        let (parts, body) = answer.into_parts();
        let to = parts.headers.get("location").map(|to| to.to_str().unwrap().to_owned());
        (parts.status.as_u16(), to, String::from_utf8_lossy(&body.collect().await.unwrap().to_bytes()).into_owned())
    }

    /// Joins at the class's own address, and goes where one is led.
    async fn join(&self, code: &str, name: &str, pin: &str) -> Result<Value, String> {
        let body = json!({ "code": code, "name": name, "pin": pin }).to_string();
        let mut url = format!("{}/api/join", self.0.url);
        for _ in 0..3 {
            let (status, to, text) = self.post(&url, body.clone()).await;
            match (status, to) {
                (307, Some(to)) => url = to,
                (200 | 201, _) => return Ok(serde_json::from_str(&text).unwrap()),
                _ => return Err(format!("{status} {text}")),
            }
        }
        Err("led in a circle".to_owned())
    }
}

fn shard(folder: &Path, proxy: &Routes, (base, ports): (&str, [u16; 2]), number: usize) -> Running {
    let (code, authority) = (folder.join("code"), folder.join("ca.pem"));
    std::fs::write(&code, "abcd-1234\n").unwrap();
    std::fs::write(&authority, &proxy.0.authority).unwrap();
    let (listen, url) = (format!("127.0.0.1:{}", ports[number]), format!("{}/shards/{number}", proxy.0.url));
    let address = format!("http://127.0.0.1:{base}{{}}");
    Running::start(&[
        "scheduling",
        "--resume",
        "--name",
        "class",
        "--listen",
        &listen,
        "--url",
        &url,
        "--behind-proxy",
        "127.0.0.0/8",
        "--tls-ca",
        authority.to_str().unwrap(),
        "--shard",
        &number.to_string(),
        "--shards",
        "2",
        "--shard-address",
        &address,
        "--max-seats",
        "2",
        "--join-code-file",
        code.to_str().unwrap(),
    ])
}

#[tokio::test]
async fn people_are_led_to_the_emptiest_shard_and_back_to_their_own() {
    if !has_nginx() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (base, ports) = ports();
    let proxy = Routes::start(ports);
    let mut first = shard(folder.path(), &proxy, (&base, ports), 0);
    let second = shard(folder.path(), &proxy, (&base, ports), 1);
    assert_eq!((first.code.as_str(), second.code.as_str()), ("abcd-1234", "abcd-1234"));
    let mut seats = BTreeMap::new();
    for name in ["Ann", "Bob", "Cyd", "Dan"] {
        seats.insert(name, proxy.join("abcd-1234", name, "2468").await.unwrap());
    }
    let numbers: Vec<&str> = seats.values().map(|seat| seat["seat"].as_str().unwrap()).collect();
    assert_eq!(numbers, ["0-1", "1-1", "0-2", "1-2"]);
    let refusal = proxy.join("abcd-1234", "Eve", "").await.unwrap_err();
    assert!(refusal.starts_with("503") && refusal.contains("taken"), "{refusal}");
    assert!(proxy.join("wrong-code", "Bob", "2468").await.unwrap_err().starts_with("403"));
    // Everybody comes back to their seat, wherever they are let in, and their cluster is below their shard's path.
    for _ in 0..2 {
        for (name, seat) in &seats {
            assert_eq!(&proxy.join("abcd-1234", name, "2468").await.unwrap()["seat"], &seat["seat"], "{name}");
        }
    }
    let kubeconfig = seats["Ann"]["kubeconfig"].as_str().unwrap();
    assert!(kubeconfig.contains(&format!("{}/shards/0/seats/0/1", proxy.0.url)), "{kubeconfig}");
    let maps: Api<ConfigMap> = Api::default_namespaced(client_of(&seats["Ann"]["kubeconfig"]).await);
    maps.create(&PostParams::default(), &map("written")).await.unwrap();
    // The word between shards is no secret of the proxy's, so nobody outside is told who is in the class.
    let (status, ..) =
        proxy.post(&format!("{}/shards/0/internal/room", proxy.0.url), json!({ "name": "Ann" }).to_string()).await;
    assert_eq!(status, 404);

    first.kill();
    // While a shard is away, who comes back waits: their seat may be there. Its learners are told by the proxy.
    let refusal = proxy.join("abcd-1234", "Ann", "2468").await.unwrap_err();
    assert!(refusal.starts_with("503") && refusal.contains("starting"), "{refusal}");
    assert_eq!(proxy.join("abcd-1234", "Bob", "2468").await.unwrap()["seat"], "1-1");
    first.begin_again();
    assert!(
        maps.get("written").await.is_ok(),
        "a shard that restarts keeps its seats, and nobody needs a new kubeconfig"
    );
    assert_eq!(proxy.join("abcd-1234", "Ann", "2468").await.unwrap()["token"], seats["Ann"]["token"]);
}
