//! Hollow nodes: what a kubelet tells the API server of a pod's life, without running anything.

mod command;
mod status;
mod steps;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use self::command::{exit_code, run_time};
use self::status::{base_status, conditions, container_names, container_reference, identified, unstarted};
use self::steps::{Step, Steps};
use super::controller::Controller;
use super::events::Note;
use super::plane::Plane;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::value::{integer, items, list_mut, text, time_of, time_text};
use super::view::{NodeInfo, Phase, PodInfo};
use crate::cluster::{DeleteOptions, Part, WriteOptions};
use crate::resource::{NODES, PODS};

const COMPONENT: &str = "kubelet";
/// Images with this in their name cannot be pulled.
const MISSING_IMAGE: &str = "does-not-exist";

/// Runs the pods that are bound to a node, and ends those that are deleted.
#[derive(Default)]
pub(super) struct Kubelet {
    steps: Steps,
}

fn key(name: ObjectName) -> Key {
    Key::new(Controller::Kubelet, PODS, name)
}

impl Reconciler for Kubelet {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.resource() == NODES {
            let (before, after) = (change.node.before.as_deref(), change.node.after.as_deref());
            let awake = |node: Option<&NodeInfo>| node.is_some_and(|node| !node.stopped);
            let ready = |node: Option<&NodeInfo>| node.is_some_and(|node| node.ready.as_ref() == "True");
            if (awake(after) && !awake(before)) || (ready(after) && !ready(before)) {
                for pod in plane.view.pods_on(&change.object.name) {
                    plane.queue.add(key(pod.name()));
                }
            }
            return;
        }
        if change.gone {
            self.steps.forget(&change.name());
        }
        if change.pod.after.as_ref().is_some_and(|pod| !pod.node.is_empty()) {
            plane.queue.add(key(change.name()));
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        self.sync_pod(plane, &key.name);
    }
}

impl Kubelet {
    /// Takes a bound pod one step further, when that step is due.
    fn sync_pod(&mut self, plane: &mut Plane, name: &ObjectName) {
        let Some(pod) = plane.view.pod(name).map(Arc::clone) else { return };
        let Some(node) = plane.view.node(&pod.node).map(Arc::clone) else { return };
        if node.stopped {
            return;
        }
        let now = plane.now();
        if pod.object.deleting {
            self.stop_pod(plane, &pod, now);
        } else if pod.finished() {
        } else if pod.started.is_none() {
            self.admit_pod(plane, &pod, &node, now);
        } else if pod.phase == Phase::Pending {
            let (due, _) = self.steps.due(&pod, Step::Start, now, plane.settings.hollow.start);
            if due <= now {
                plane.start_pod(&pod, &node, now);
            } else {
                plane.queue.add_at(key(name.clone()), due);
            }
        } else if pod.phase == Phase::Running && !pod.ready && node.ready.as_ref() == "True" {
            plane.report_ready(&pod, now);
        } else if pod.phase == Phase::Running
            && pod.object.controller().is_some_and(|owner| owner.kind.as_ref() == "Job")
        {
            self.finish_pod(plane, &pod, now);
        }
    }

    /// The kubelet has seen the pod: ContainerCreating, or at once Running.
    fn admit_pod(&mut self, plane: &mut Plane, pod: &PodInfo, node: &NodeInfo, now: Timestamp) {
        if plane.settings.hollow.start.is_zero() {
            plane.start_pod(pod, node, now);
            return;
        }
        let value = pod.object.value();
        let containers = container_names(&value);
        let creating = || json!({ "waiting": { "reason": "ContainerCreating" } });
        let mut status = base_status(&value, node, now);
        status["phase"] = json!("Pending");
        status["containerStatuses"] =
            Value::Array(items(&value["spec"]["containers"]).iter().map(|it| unstarted(it, creating())).collect());
        let init = items(&value["spec"]["initContainers"]);
        if !init.is_empty() {
            status["initContainerStatuses"] = Value::Array(
                init.iter().map(|it| unstarted(it, json!({ "waiting": { "reason": "PodInitializing" } }))).collect(),
            );
        }
        let conditions = conditions(&value, false, &containers, now);
        plane.write_pod_status(pod, status, conditions);
        let (due, _) = self.steps.due(pod, Step::Start, now, plane.settings.hollow.start);
        plane.queue.add_at(key(pod.name()), due);
    }

    /// The containers of a Job's pod end by themselves: after what their command sleeps, else after the set delay.
    fn finish_pod(&mut self, plane: &mut Plane, pod: &PodInfo, now: Timestamp) {
        let value = pod.object.value();
        let containers = items(&value["spec"]["containers"]);
        let Some(run) = containers
            .iter()
            .map(|container| run_time(container, plane.settings.hollow.job))
            .try_fold(SignedDuration::ZERO, |longest, run| Some(longest.max(run?)))
        else {
            return;
        };
        let (due, _) = self.steps.due(pod, Step::Finish, now, run);
        if due > now {
            plane.queue.add_at(key(pod.name()), due);
            return;
        }
        let mut status = value["status"].clone();
        let finished = time_text(now);
        let mut worst = 0;
        for (container, have) in containers.iter().zip(list_mut(&mut status["containerStatuses"])) {
            let code = exit_code(container);
            worst = worst.max(code);
            have["state"] = json!({ "terminated": {
                "exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" },
                "startedAt": have["state"]["running"]["startedAt"], "finishedAt": finished,
                "containerID": have["containerID"],
            }});
            have["ready"] = json!(false);
            have["started"] = json!(false);
        }
        let restarts = worst != 0 && text(&value, &["spec", "restartPolicy"]) != "Never";
        if restarts {
            self.restart_containers(plane, pod, &value, status, now);
            return;
        }
        status["phase"] = json!(if worst == 0 { "Succeeded" } else { "Failed" });
        let (reason, message) = if worst == 0 { ("PodCompleted", "") } else { ("PodFailed", "") };
        let generation = value["metadata"]["generation"].clone();
        let mut ended = Vec::new();
        for (kind, held) in [
            ("PodReadyToStartContainers", "False"),
            ("Initialized", "True"),
            ("Ready", "False"),
            ("ContainersReady", "False"),
        ] {
            let mut condition = json!({
                "type": kind, "observedGeneration": generation, "status": held, "lastProbeTime": null,
                "lastTransitionTime": finished,
            });
            if kind != "PodReadyToStartContainers" {
                condition["reason"] = json!(reason);
                if !message.is_empty() {
                    condition["message"] = json!(message);
                }
            }
            ended.push(condition);
        }
        plane.write_pod_status(pod, status, ended);
    }

    /// A container that failed under a restart policy runs again, after the kubelet's back-off of 10 s, doubled each
    /// time up to 5 min.
    fn restart_containers(
        &mut self,
        plane: &mut Plane,
        pod: &PodInfo,
        value: &Value,
        mut status: Value,
        now: Timestamp,
    ) {
        let mut most = 0;
        for have in list_mut(&mut status["containerStatuses"]) {
            let restarts = integer(have, &["restartCount"]).unwrap_or_default() + 1;
            most = most.max(restarts);
            have["lastState"] = have["state"].take();
            have["restartCount"] = json!(restarts);
            have["state"] = json!({ "running": { "startedAt": time_text(now) } });
            have["ready"] = json!(true);
            have["started"] = json!(true);
        }
        let conditions = conditions(value, true, &container_names(value), now);
        self.steps.forget(&pod.name());
        plane.write_pod_status(pod, status, conditions);
        let back_off = SignedDuration::from_secs((10 << (most - 1).clamp(0, 5)).min(300));
        let (due, _) = self.steps.due(pod, Step::Finish, now, back_off.saturating_add(plane.settings.hollow.job));
        plane.queue.add_at(key(pod.name()), due);
    }

    fn stop_pod(&mut self, plane: &mut Plane, pod: &PodInfo, now: Timestamp) {
        let value = pod.object.value();
        let deadline = time_of(&value["metadata"]["deletionTimestamp"]).unwrap_or(now);
        let (due, first) = self.steps.due(pod, Step::Stop, now, plane.settings.hollow.stop);
        if first && !pod.finished() && pod.phase == Phase::Running {
            let host = pod.node.to_string();
            for container in items(&value["spec"]["containers"]) {
                let name = text(container, &["name"]);
                let message = format!("Stopping container {name}");
                let about = container_reference(pod, "containers", name);
                let note =
                    Note { component: COMPONENT, host: &host, warning: false, reason: "Killing", message: &message };
                plane.recorder.record(&plane.cluster, &about, note);
            }
        }
        let due = due.min(deadline.max(now));
        if due > now {
            plane.queue.add_at(key(pod.name()), due);
            return;
        }
        let options =
            DeleteOptions { grace_seconds: Some(0), uid: Some(pod.object.uid.to_string()), ..DeleteOptions::default() };
        let _gone = plane.cluster.delete(PODS, &pod.object.namespace, &pod.object.name, &options);
    }
}

impl Plane {
    fn start_pod(&mut self, pod: &PodInfo, node: &NodeInfo, now: Timestamp) {
        let value = pod.object.value();
        let containers = items(&value["spec"]["containers"]);
        let missing = containers
            .iter()
            .chain(items(&value["spec"]["initContainers"]))
            .find(|container| text(container, &["image"]).contains(MISSING_IMAGE));
        if let Some(container) = missing {
            let image = text(container, &["image"]).to_owned();
            self.fail_to_pull(pod, node, &value, &image, now);
            return;
        }
        let mut status = base_status(&value, node, now);
        status["phase"] = json!("Running");
        let ip = if value["spec"]["hostNetwork"] == true { node.address.to_string() } else { self.free_address(node) };
        status["podIP"] = json!(ip);
        status["podIPs"] = json!([{ "ip": ip }]);
        let uid = &pod.object.uid;
        let time = time_text(now);
        status["containerStatuses"] = Value::Array(
            containers
                .iter()
                .map(|container| {
                    let mut status = identified(container, uid);
                    status["state"] = json!({ "running": { "startedAt": time } });
                    status["started"] = json!(true);
                    status
                })
                .collect(),
        );
        let init = items(&value["spec"]["initContainers"]);
        if !init.is_empty() {
            let done = |container: &Value| {
                let mut status = identified(container, uid);
                if text(container, &["restartPolicy"]) == "Always" {
                    status["state"] = json!({ "running": { "startedAt": time } });
                    status["started"] = json!(true);
                } else {
                    status["state"] = json!({ "terminated": {
                        "exitCode": 0, "reason": "Completed", "startedAt": time, "finishedAt": time,
                        "containerID": status["containerID"],
                    }});
                    status["started"] = json!(false);
                }
                status
            };
            status["initContainerStatuses"] = Value::Array(init.iter().map(done).collect());
        }
        let conditions = conditions(&value, true, &container_names(&value), now);
        if !self.write_pod_status(pod, status, conditions) {
            return;
        }
        let host = node.object.name.to_string();
        for container in containers {
            let about = container_reference(pod, "containers", text(container, &["name"]));
            let pulled = format!(
                "Container image \"{}\" already present on machine and can be accessed by the pod",
                text(container, &["image"])
            );
            for (reason, message) in
                [("Pulled", pulled.as_str()), ("Created", "Container created"), ("Started", "Container started")]
            {
                let note = Note { component: COMPONENT, host: &host, warning: false, reason, message };
                self.recorder.record(&self.cluster, &about, note);
            }
        }
    }

    fn fail_to_pull(&mut self, pod: &PodInfo, node: &NodeInfo, value: &Value, image: &str, now: Timestamp) {
        let message = format!("Back-off pulling image \"{image}\": ErrImagePull: image \"{image}\": not found");
        let waiting = |container: &Value| {
            let state = if text(container, &["image"]).contains(MISSING_IMAGE) {
                json!({ "waiting": { "reason": "ImagePullBackOff", "message": message } })
            } else {
                json!({ "waiting": { "reason": "ContainerCreating" } })
            };
            unstarted(container, state)
        };
        let mut status = base_status(value, node, now);
        status["phase"] = json!("Pending");
        let ip = pod.ip.as_ref().map_or_else(|| self.free_address(node), ToString::to_string);
        status["podIP"] = json!(ip);
        status["podIPs"] = json!([{ "ip": ip }]);
        status["containerStatuses"] = Value::Array(items(&value["spec"]["containers"]).iter().map(waiting).collect());
        let init = items(&value["spec"]["initContainers"]);
        if !init.is_empty() {
            status["initContainerStatuses"] = Value::Array(init.iter().map(waiting).collect());
        }
        if text(&value["status"]["containerStatuses"][0], &["state", "waiting", "reason"]) == "ImagePullBackOff" {
            return;
        }
        let conditions = conditions(value, false, &container_names(value), now);
        if self.write_pod_status(pod, status, conditions) {
            let host = node.object.name.to_string();
            let containers = items(&value["spec"]["containers"]);
            let bad = containers.iter().find(|container| text(container, &["image"]) == image);
            let about = container_reference(pod, "containers", bad.map_or("", |bad| text(bad, &["name"])));
            let pulling = format!("Pulling image \"{image}\"");
            let failed = format!("Failed to pull image \"{image}\": image \"{image}\": not found");
            let backing_off = format!("Back-off pulling image \"{image}\"");
            for (warning, reason, message) in [
                (false, "Pulling", pulling.as_str()),
                (true, "Failed", failed.as_str()),
                (true, "Failed", "Error: ErrImagePull"),
                (false, "BackOff", backing_off.as_str()),
                (true, "Failed", "Error: ImagePullBackOff"),
            ] {
                let note = Note { component: COMPONENT, host: &host, warning, reason, message };
                self.recorder.record(&self.cluster, &about, note);
            }
        }
    }

    /// The node controller marked the pods of a node that was not ready; its kubelet says again how they are.
    fn report_ready(&mut self, pod: &PodInfo, now: Timestamp) {
        let value = pod.object.value();
        let conditions = conditions(&value, true, &container_names(&value), now);
        let status = json!({ "phase": "Running" });
        self.write_pod_status(pod, status, conditions);
    }

    /// Writes a pod's status; `kubelet` conditions come first, merged by type with those that are there, as the
    /// kubelet's patch does. Returns whether the pod was there to write.
    fn write_pod_status(&mut self, pod: &PodInfo, status: Value, kubelet: Vec<Value>) -> bool {
        let written = self.cluster.modify(
            PODS,
            Part::Status,
            &pod.object.namespace,
            &pod.object.name,
            &WriteOptions::by(COMPONENT),
            |value| {
                let before = std::mem::take(list_mut(&mut value["status"]["conditions"]));
                let mut merged: Vec<Value> = Vec::new();
                for condition in kubelet {
                    let mut entry = before
                        .iter()
                        .find(|have| have["type"] == condition["type"])
                        .cloned()
                        .unwrap_or_else(|| json!({}));
                    let same = entry["status"] == condition["status"];
                    let since = entry["lastTransitionTime"].clone();
                    if let (Some(entry), Some(condition)) = (entry.as_object_mut(), condition.as_object()) {
                        entry.extend(condition.clone());
                    }
                    if same && !since.is_null() {
                        entry["lastTransitionTime"] = since;
                    }
                    merged.push(entry);
                }
                let others: Vec<Value> = before
                    .into_iter()
                    .filter(|have| !merged.iter().any(|entry| entry["type"] == have["type"]))
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
