//! An API server that is asked in process.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use klab_cluster::api::Api;
use klab_cluster::clock::SteppedClock;
use klab_cluster::cluster::Cluster;
use serde_json::Value;

pub(super) const JSON: &str = "application/json";
pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const OPERATIONS: &str = "application/json-patch+json";
pub(super) const APPLY: &str = "application/apply-patch+yaml";

/// An answer of the API server.
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) warnings: Vec<String>,
    pub(super) value: Value,
}

/// An API server with a cluster of its own, whose controllers stand still.
pub(super) struct Place {
    api: Api,
    runtime: tokio::runtime::Runtime,
}

impl Place {
    pub(super) fn new() -> Self {
        let clock = Arc::new(SteppedClock::new("2026-06-01T08:00:00Z".parse().unwrap()));
        let api = Api::new(Arc::new(Cluster::new(clock, 7)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Self { api, runtime }
    }

    pub(super) fn ask(&self, method: &str, uri: &str, kind: &str, body: &Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(uri).header("content-type", kind);
        let request = request.body(Full::new(Bytes::from(text))).unwrap();
        self.runtime.block_on(async {
            let response = self.api.answer(request).await;
            let code = response.status().as_u16();
            let warnings = response.headers().get_all("warning").iter();
            let warnings = warnings.map(|one| one.to_str().unwrap_or_default().to_owned()).collect();
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            Answer { code, warnings, value: serde_json::from_slice(&bytes).unwrap_or_default() }
        })
    }
}
