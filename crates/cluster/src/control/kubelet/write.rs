//! What a kubelet reports to the API server: statuses, conditions, events.

use std::sync::Arc;

use jiff::Timestamp;
use klab_api_machinery::resource::PODS;
use klab_api_machinery::value::{list_mut, map_mut, time_text};
use klab_api_machinery::views::{Pod, PodCondition};
use klab_scheduler::features::Gate;
use serde_json::{Value, json};

use super::super::events::Note;
use super::super::plane::Plane;
use super::super::view::{NodeInfo, Phase, PodInfo};
use super::container::{Container, containers, statuses};
use super::fields::base_status;
use super::life::{KILLED, Look};
use super::memory::{BACK_OFF, Memory, REDUCED_BACK_OFF};
use super::restart::may_restart_all;
use super::status::{conditions, phase, phase_text};
use super::volumes::Volumes;
use super::work::COMPONENT;
use crate::cluster::{Part, WriteOptions};
use crate::containers::ClusterObjects;

/// What is written into a pod's status.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Fields of the status.
    pub(super) status: Value,
    /// Conditions, merged by type with those that are there.
    pub(super) conditions: Vec<Value>,
    /// Conditions that are taken away.
    pub(super) lifted: Vec<&'static str>,
}

impl Report {
    /// Whether it says more than the pod's status does.
    pub(super) fn is_news(&self, pod: Pod<'_>) -> bool {
        let have = pod.status().0;
        let fields = self.status.as_object().into_iter().flatten();
        // A pod that was made without a generation reports none.
        let is_new = |field: &str, have: &Value, value: &Value| {
            *have != *value && (field != "observedGeneration" || *value != 0)
        };
        let news =
            fields.filter(|(field, _)| *field != "startTime").any(|(field, value)| is_new(field, &have[field], value));
        let old = pod.status().conditions();
        news || self.lifted.iter().any(|kind| old.clone().of_type(kind).is_some())
            || self.conditions.iter().map(PodCondition).any(|condition| {
                old.clone().of_type(condition.type_()).is_none_or(|have| {
                    ["status", "reason", "message", "observedGeneration"]
                        .iter()
                        .any(|field| is_new(field, &have.0[*field], &condition.0[*field]))
                })
            })
    }
}

/// A pod whose containers are killed for the node's sake.
pub(super) fn evicted(pod: &PodInfo, message: &str, now: Timestamp, target: Option<Value>) -> Report {
    let value = pod.object.value();
    let value = Pod(&value);
    let mut containers = containers(value);
    for container in containers.iter_mut().filter(|container| container.is_running()) {
        container.end(KILLED, now, None);
    }
    let mut status = json!({ "phase": "Failed", "reason": "Evicted", "message": message });
    map_mut(&mut status).extend(statuses(&containers).into_iter().map(|(field, list)| (field.to_owned(), list)));
    let mut conditions = conditions(value, &containers, Phase::Failed, true, now);
    conditions.extend(target);
    Report { status, conditions, lifted: Vec::new() }
}

impl Plane {
    /// A look at a pod that begins now.
    pub(super) fn look<'a, 'm>(
        &self,
        pod: &'a PodInfo,
        value: Pod<'a>,
        memory: &'m mut Memory,
        volumes: &'m mut Volumes,
    ) -> Look<'a, 'm> {
        Look {
            pod,
            value,
            now: self.now(),
            hollow: self.settings.hollow,
            objects: ClusterObjects::of(&self.cluster),
            programs: self.cluster.containers(),
            missing: Arc::clone(&self.settings.missing_images),
            span: if self.settings.features.has(Gate::ReduceDefaultCrashLoopBackOffDecay) {
                REDUCED_BACK_OFF
            } else {
                BACK_OFF
            },
            memory,
            volumes,
            containers: containers(value),
            next: None,
            said: Vec::new(),
            said_of_pod: Vec::new(),
            lacks: false,
            awaits: false,
            resets: false,
        }
    }

    /// What a look has found. `over`: nothing of the pod runs again.
    pub(super) fn report(&self, look: &Look<'_, '_>, node: &NodeInfo, over: bool) -> Report {
        let value = look.value;
        let phase = phase(value, &look.containers, over);
        // Where nothing waits to be made, the pod has its network.
        let made = |container: &Container<'_>| {
            container.has_started() || !matches!(container.waits_for(), "ContainerCreating" | "PodInitializing")
        };
        let sandbox = look.containers.iter().any(made);
        let mut status = base_status(value, node, look.now);
        status["phase"] = json!(phase_text(phase));
        if sandbox {
            let ip = match (&look.pod.ip, value.spec().host_network()) {
                (Some(ip), _) => ip.to_string(),
                (None, true) => node.address.to_string(),
                (None, false) => self.free_address(node),
            };
            status["podIP"] = json!(ip);
            status["podIPs"] = json!([{ "ip": ip }]);
        }
        map_mut(&mut status)
            .extend(statuses(&look.containers).into_iter().map(|(field, list)| (field.to_owned(), list)));
        let mut conditions = conditions(value, &look.containers, phase, sandbox, look.now);
        if !look.hollow.as_recorded {
            conditions.push(json!({
                "type": "PodScheduled", "observedGeneration": look.pod.generation, "status": "True",
                "lastProbeTime": null, "lastTransitionTime": time_text(look.now),
            }));
            let whole = value.spec().resources();
            if whole.is_set() {
                status["resources"] = whole.0.clone();
                status["allocatedResources"] = whole.0["requests"].clone();
            }
        }
        if may_restart_all(value) {
            let resets = look.containers.iter().any(Container::is_reset);
            let mut condition = json!({
                "type": "AllContainersRestarting", "observedGeneration": look.pod.generation,
                "status": if resets { "True" } else { "False" }, "lastProbeTime": null, "lastTransitionTime": time_text(look.now),
            });
            if resets {
                condition["reason"] = json!("RestartAllContainersStarted");
                condition["message"] = json!("container exited with restart policy rule");
            }
            conditions.push(condition);
        }
        Report { status, conditions, lifted: Vec::new() }
    }

    /// Writes an event of a node's kubelet.
    pub(super) fn say(&mut self, node: &str, about: &Value, warning: bool, reason: &str, message: &str) {
        let note = Note { component: COMPONENT, host: node, warning, reason, message };
        self.recorder.record(&self.cluster, about, note);
    }

    /// Writes a pod's status; the kubelet's conditions come first, merged by type with those that are there, as the
    /// kubelet's patch does. Returns whether the pod was there to write.
    pub(super) fn write_pod_status(&self, pod: &PodInfo, report: Report) -> bool {
        let Report { status, conditions, lifted } = report;
        let keeps_words = self.settings.hollow.as_recorded;
        let knows_sandbox = self.settings.features.has(Gate::PodReadyToStartContainersCondition);
        let is_known = |condition: &Value| knows_sandbox || kind(condition) != "PodReadyToStartContainers";
        let written = self.cluster.modify(
            PODS,
            Part::Status,
            &pod.object.namespace,
            &pod.object.name,
            &WriteOptions::by(COMPONENT),
            |value| {
                let before = std::mem::take(list_mut(&mut value["status"]["conditions"]));
                let mut merged: Vec<Value> = Vec::new();
                for condition in conditions.into_iter().filter(is_known) {
                    let had = before.iter().find(|have| kind(have) == kind(&condition));
                    let mut entry = had.cloned().unwrap_or_else(|| json!({}));
                    let same = PodCondition(&entry).status() == PodCondition(&condition).status();
                    let since = entry["lastTransitionTime"].clone();
                    if let (Some(entry), Some(condition)) = (entry.as_object_mut(), condition.as_object()) {
                        entry.retain(|field, _| keeps_words || !matches!(field.as_str(), "reason" | "message"));
                        entry.extend(condition.clone());
                    }
                    if same && !since.is_null() {
                        entry["lastTransitionTime"] = since;
                    }
                    merged.push(entry);
                }
                let others: Vec<Value> = before
                    .into_iter()
                    .filter(|have| !merged.iter().any(|entry| kind(entry) == kind(have)))
                    .filter(|have| !lifted.iter().any(|lifted| kind(have) == *lifted))
                    .collect();
                merged.extend(others);
                let start = value["status"]["startTime"].clone();
                if let (Some(target), Value::Object(fields)) = (value["status"].as_object_mut(), status) {
                    target.extend(fields);
                }
                if !start.is_null() {
                    value["status"]["startTime"] = start;
                }
                value["status"]["conditions"] = Value::Array(merged);
            },
        );
        written.is_ok()
    }

    /// An address of the node's range that no pod there has; the one after the greatest in use, so that addresses
    /// are not handed out again at once.
    fn free_address(&self, node: &NodeInfo) -> String {
        let (range, _) = node.pod_range.split_once('/').unwrap_or(("10.244.255.0", ""));
        let prefix = range.rsplit_once('.').map_or("10.244.255", |(prefix, _)| prefix);
        let used: Vec<u8> = self
            .view
            .pods_on(&node.object.name)
            .iter()
            .filter_map(|pod| pod.ip.as_deref()?.strip_prefix(prefix)?.strip_prefix('.')?.parse().ok())
            .collect();
        let after = used.iter().max().map_or(2, |most| most.saturating_add(1));
        let host = if after < 255 { after } else { (2..255).find(|host| !used.contains(host)).unwrap_or(254) };
        format!("{prefix}.{host}")
    }
}

/// The type of a condition.
fn kind(condition: &Value) -> &str {
    PodCondition(condition).type_()
}
