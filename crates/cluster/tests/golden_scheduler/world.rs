//! A cluster for one scenario: its API, the controllers that ran beside the real scheduler, and a kubelet.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::resource::{PODS, ResourceId};
use klab_cluster::api::Api;
use klab_cluster::clock::SteppedClock;
use klab_cluster::cluster::{Cluster, DeleteOptions, Part, WriteOptions};
use klab_cluster::control::{ControlPlane, Controller, Settings};
use serde_json::{Value, json};

/// The controllers that ran when the scenarios were recorded.
const RECORDED: &[Controller] = &[
    Controller::DeviceTaintEviction,
    Controller::Disruption,
    Controller::EphemeralVolume,
    Controller::GarbageCollector,
    Controller::PersistentVolumeBinder,
    Controller::ResourceClaim,
    Controller::Scheduler,
];

pub(crate) struct World {
    clock: Arc<SteppedClock>,
    pub(crate) cluster: Arc<Cluster>,
    api: Api,
    runtime: tokio::runtime::Runtime,
    plane: ControlPlane,
    /// When the kubelet started the last pod.
    started: Timestamp,
}

/// An answer that is no success.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) code: u64,
    pub(crate) message: String,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let start: Timestamp = "2026-06-01T08:00:00Z".parse().unwrap();
        let clock = Arc::new(SteppedClock::new(start));
        let cluster = Arc::new(Cluster::new(Arc::<SteppedClock>::clone(&clock), 7));
        let switched_off: BTreeSet<_> =
            Controller::ALL.iter().copied().filter(|controller| !RECORDED.contains(controller)).collect();
        let settings = Settings { seed, switched_off, ..Settings::default() };
        let plane = ControlPlane::new(Arc::clone(&cluster), settings);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut world = Self { clock, api: Api::new(Arc::clone(&cluster)), runtime, cluster, plane, started: start };
        world.settle();
        world
    }

    pub(crate) fn settle(&mut self) {
        self.plane.run();
    }

    /// Lets time pass: without it, every back-off would last forever.
    pub(crate) fn pass(&mut self, duration: SignedDuration) {
        self.clock.step_to(self.cluster.now() + duration);
        self.settle();
    }

    /// Sends `{create: …}`, `{delete: …}` or `{patch: …}` of a recording.
    pub(crate) fn send(&mut self, request: &Value) -> Result<(), Refused> {
        let (verb, what) = request.as_object().unwrap().iter().next().unwrap();
        let text = |field: &str| what[field].as_str().unwrap_or_default();
        let sent = match verb.as_str() {
            "create" => {
                let resource = ResourceId::by_kind(text("apiVersion"), text("kind")).unwrap();
                let namespace = what["metadata"]["namespace"].as_str().unwrap_or_default();
                self.answer("POST", &path(resource, namespace, "", ""), "application/json", what)
            }
            "delete" => {
                let path = path(by_kind(text("kind")), text("namespace"), text("name"), "");
                let options = json!({ "gracePeriodSeconds": what["gracePeriodSeconds"] });
                self.answer("DELETE", &path, "application/json", &options)
            }
            "patch" => {
                let path = path(by_kind(text("kind")), text("namespace"), text("name"), text("subresource"));
                let kind = match text("type") {
                    "json" => "application/json-patch+json",
                    "merge" => "application/merge-patch+json",
                    "strategic" => "application/strategic-merge-patch+json",
                    other => panic!("a patch of type {other}"),
                };
                self.answer("PATCH", &path, kind, &what["patch"])
            }
            other => panic!("a request that would {other}"),
        };
        self.settle();
        sent
    }

    fn answer(&self, method: &str, path: &str, kind: &str, body: &Value) -> Result<(), Refused> {
        let body = Full::new(Bytes::from(body.to_string()));
        let request = Request::builder().method(method).uri(path).header("content-type", kind).body(body).unwrap();
        let response = self.runtime.block_on(self.api.answer(request));
        if response.status().is_success() {
            return Ok(());
        }
        let code = u64::from(response.status().as_u16());
        let body = self.runtime.block_on(response.into_body().collect()).unwrap().to_bytes();
        let status: Value = serde_json::from_slice(&body).unwrap();
        Err(Refused { code, message: status["message"].as_str().unwrap_or_default().to_owned() })
    }

    /// What the kubelet does: pods that were deleted vanish from their nodes, pods that are bound run.
    pub(crate) fn kubelet(&mut self) {
        for pod in self.cluster.list(PODS, None).0 {
            let value = pod.value();
            if value["spec"]["nodeName"].is_null() {
                continue;
            }
            if !value["metadata"]["deletionTimestamp"].is_null() {
                let now = DeleteOptions { grace_seconds: Some(0), ..DeleteOptions::default() };
                self.cluster.delete(PODS, &pod.namespace, &pod.name, &now).unwrap();
                // One after another: a pod that waits for several of them is tried again after each.
                self.settle();
            } else if value["status"]["phase"] == "Pending" {
                let since = self.started;
                self.started += SignedDuration::from_secs(1);
                self.cluster
                    .modify(PODS, Part::Status, &pod.namespace, &pod.name, &WriteOptions::by("kubelet"), |pod| {
                        pod["status"]["phase"] = json!("Running");
                        pod["status"]["startTime"] = json!(since.to_string());
                        let ready = json!({ "type": "Ready", "status": "True", "lastProbeTime": null,
                            "lastTransitionTime": since.to_string() });
                        let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
                        conditions.retain(|condition| condition["type"] != "Ready");
                        conditions.push(ready);
                        pod["status"]["conditions"] = Value::Array(conditions);
                    })
                    .unwrap();
            }
        }
        self.settle();
    }
}

/// The kinds that the recordings delete and change.
fn by_kind(kind: &str) -> ResourceId {
    ["v1", "resource.k8s.io/v1"].iter().find_map(|version| ResourceId::by_kind(version, kind)).unwrap()
}

fn path(resource: ResourceId, namespace: &str, name: &str, subresource: &str) -> String {
    let row = resource.row();
    let mut path = if row.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", row.group) };
    path += &format!("/{}", row.version);
    if row.namespaced {
        path += &format!("/namespaces/{}", if namespace.is_empty() { "default" } else { namespace });
    }
    for part in [row.plural, name, subresource].iter().filter(|part| !part.is_empty()) {
        path += &format!("/{part}");
    }
    path
}
