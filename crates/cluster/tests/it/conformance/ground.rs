//! What the tests of every area stand on: a cluster on a stepped clock, asked by plain requests.
#![allow(dead_code, reason = "each area uses some of it")]

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use klab_cluster::Cluster;
use klab_cluster::api::Api;
use serde_json::Value;

/// A whole answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) bytes: Bytes,
}

impl Answer {
    /// The body as JSON; null when it is none.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }

    /// The body, which must be that of a success.
    #[track_caller]
    pub(super) fn good(&self) -> Value {
        assert!((200..300).contains(&self.status), "{}: {}", self.status, String::from_utf8_lossy(&self.bytes));
        self.json()
    }

    /// The message of a refusal with this code.
    #[track_caller]
    pub(super) fn refused(&self, code: u16) -> String {
        assert_eq!(self.status, code, "{}", String::from_utf8_lossy(&self.bytes));
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }

    /// All warnings, in their order.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.headers.get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    }
}

/// A cluster and its API; after every request its control plane does what is due.
pub(super) struct Ground {
    pub(super) cluster: Cluster,
    api: Api,
    runtime: tokio::runtime::Runtime,
}

impl Ground {
    /// A cluster with so many nodes.
    pub(super) fn with_nodes(nodes: usize) -> Self {
        Self::of(Cluster::builder().nodes(nodes).build().unwrap())
    }

    /// What asks this cluster.
    pub(super) fn of(cluster: Cluster) -> Self {
        let api = Api::new(std::sync::Arc::clone(cluster.inner()));
        Self { cluster, api, runtime: tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap() }
    }

    /// A request with headers and a body of bytes.
    pub(super) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        let answer = self.runtime.block_on(async {
            let (parts, body) = self.api.answer(request).await.into_parts();
            let bytes = body.collect().await.unwrap().to_bytes();
            Answer { status: parts.status.as_u16(), headers: parts.headers, bytes }
        });
        self.cluster.settle();
        answer
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], Bytes::new())
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[], body.to_string())
    }

    pub(super) fn put(&self, path: &str, body: &Value) -> Answer {
        self.send("PUT", path, &[], body.to_string())
    }

    pub(super) fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], Bytes::new())
    }

    /// A merge patch.
    pub(super) fn merge(&self, path: &str, body: &Value) -> Answer {
        self.send("PATCH", path, &[("content-type", "application/merge-patch+json")], body.to_string())
    }

    /// A server-side apply of JSON or YAML.
    pub(super) fn apply(&self, path: &str, query: &str, body: impl Into<Bytes>) -> Answer {
        let path = format!("{path}?fieldManager=tester{query}");
        self.send("PATCH", &path, &[("content-type", "application/apply-patch+yaml")], body)
    }

    /// The events of a watch so far: it is given up when nothing more comes at once.
    pub(super) fn events(&self, path: &str, headers: &[(&str, &str)]) -> Vec<Value> {
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let text = self.runtime.block_on(async {
            let mut body = self.api.answer(request).await.into_body();
            let mut text = Vec::new();
            while let Some(Some(Ok(frame))) = futures::FutureExt::now_or_never(body.frame()) {
                text.extend_from_slice(&frame.into_data().unwrap_or_default());
            }
            text
        });
        text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// What answers requests.
    pub(super) fn api(&self) -> Api {
        self.api.clone()
    }

    /// Waits for something that may take its time.
    pub(super) fn wait_for<T>(&self, what: impl Future<Output = T>) -> T {
        self.runtime.block_on(what)
    }

    /// Lets time pass.
    pub(super) fn pass(&self, seconds: u64) {
        self.cluster.advance(Duration::from_secs(seconds));
    }
}

#[test]
fn answers_show_what_the_control_plane_did() {
    let ground = Ground::with_nodes(1);
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" },
        "spec": { "containers": [{ "name": "main", "image": "nginx:1.27" }] },
    });
    ground.post("/api/v1/namespaces/default/pods", &pod).good();
    let bound = ground.get("/api/v1/namespaces/default/pods/web").good();
    assert!(bound["spec"]["nodeName"].is_string(), "{bound}");
    let events = ground.events("/api/v1/namespaces/default/pods?watch=1&resourceVersion=0", &[]);
    assert_eq!(events[0]["type"], "ADDED", "{events:?}");
    assert_eq!(ground.get("/api/v1/namespaces/default/pods/none").refused(404), "pods \"none\" not found");
}
