//! Hollow nodes: what a kubelet tells the API server of a pod's life, without running anything.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::ControlPlane;
use super::events::{Note, reference};
use super::memory::Step;
use super::queue::{Key, ObjectName};
use super::value::{at, integer, items, list_mut, text, time_of, time_text};
use super::view::{NodeInfo, Phase, PodInfo};
use crate::cluster::{DeleteOptions, Part, WriteOptions};
use crate::resource::PODS;
use klab_scheduler::hash::fnv64;

const COMPONENT: &str = "kubelet";
/// Images with this in their name cannot be pulled.
const MISSING_IMAGE: &str = "does-not-exist";

impl ControlPlane {
    /// Takes a bound pod one step further, when that step is due.
    pub(super) fn sync_pod(&mut self, name: &ObjectName) {
        let Some(pod) = self.view.pod(name).map(Arc::clone) else { return };
        let Some(node) = self.view.node(&pod.node).map(Arc::clone) else { return };
        if node.stopped {
            return;
        }
        let now = self.now();
        if pod.object.deleting {
            self.stop_pod(&pod, now);
        } else if pod.finished() {
        } else if pod.started.is_none() {
            self.admit_pod(&pod, &node, now);
        } else if pod.phase == Phase::Pending {
            let (due, _) = self.steps.due(&pod, Step::Start, now, self.settings.hollow.start);
            if due <= now {
                self.start_pod(&pod, &node, now);
            } else {
                self.queue.add_at(Key::Kubelet(name.clone()), due);
            }
        } else if pod.phase == Phase::Running && !pod.ready && node.ready.as_ref() == "True" {
            self.report_ready(&pod, now);
        } else if pod.phase == Phase::Running
            && pod.object.controller().is_some_and(|owner| owner.kind.as_ref() == "Job")
        {
            self.finish_pod(&pod, now);
        }
    }

    /// The kubelet has seen the pod: ContainerCreating, or at once Running.
    fn admit_pod(&mut self, pod: &PodInfo, node: &NodeInfo, now: Timestamp) {
        if self.settings.hollow.start.is_zero() {
            self.start_pod(pod, node, now);
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
        self.write_pod_status(pod, status, conditions);
        let (due, _) = self.steps.due(pod, Step::Start, now, self.settings.hollow.start);
        self.queue.add_at(Key::Kubelet(pod.name()), due);
    }

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

    /// The containers of a Job's pod end by themselves: after what their command sleeps, else after the set delay.
    fn finish_pod(&mut self, pod: &PodInfo, now: Timestamp) {
        let value = pod.object.value();
        let containers = items(&value["spec"]["containers"]);
        let Some(run) = containers
            .iter()
            .map(|container| run_time(container, self.settings.hollow.job))
            .try_fold(SignedDuration::ZERO, |longest, run| Some(longest.max(run?)))
        else {
            return;
        };
        let (due, _) = self.steps.due(pod, Step::Finish, now, run);
        if due > now {
            self.queue.add_at(Key::Kubelet(pod.name()), due);
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
            self.restart_containers(pod, &value, status, now);
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
        self.write_pod_status(pod, status, ended);
    }

    /// A container that failed under a restart policy runs again, after the kubelet's back-off of 10 s, doubled each
    /// time up to 5 min.
    fn restart_containers(&mut self, pod: &PodInfo, value: &Value, mut status: Value, now: Timestamp) {
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
        self.write_pod_status(pod, status, conditions);
        let back_off = SignedDuration::from_secs((10 << (most - 1).clamp(0, 5)).min(300));
        let (due, _) = self.steps.due(pod, Step::Finish, now, back_off.saturating_add(self.settings.hollow.job));
        self.queue.add_at(Key::Kubelet(pod.name()), due);
    }

    fn stop_pod(&mut self, pod: &PodInfo, now: Timestamp) {
        let value = pod.object.value();
        let deadline = time_of(&value["metadata"]["deletionTimestamp"]).unwrap_or(now);
        let (due, first) = self.steps.due(pod, Step::Stop, now, self.settings.hollow.stop);
        if first && !pod.finished() && pod.phase == Phase::Running {
            let host = pod.node.to_string();
            for container in items(&value["spec"]["containers"]) {
                let name = text(container, &["name"]);
                let message = format!("Stopping container {name}");
                let about = container_reference(pod, "containers", name);
                let note =
                    Note { component: COMPONENT, host: &host, warning: false, reason: "Killing", message: &message };
                self.recorder.record(&self.cluster, &about, note);
            }
        }
        let due = due.min(deadline.max(now));
        if due > now {
            self.queue.add_at(Key::Kubelet(pod.name()), due);
            return;
        }
        let options =
            DeleteOptions { grace_seconds: Some(0), uid: Some(pod.object.uid.to_string()), ..DeleteOptions::default() };
        let _gone = self.cluster.delete(PODS, &pod.object.namespace, &pod.object.name, &options);
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

fn container_names(pod: &Value) -> Vec<&str> {
    items(&pod["spec"]["containers"]).iter().map(|container| text(container, &["name"])).collect()
}

/// What a kubelet says of every pod it has.
fn base_status(pod: &Value, node: &NodeInfo, now: Timestamp) -> Value {
    let generation = pod["metadata"]["generation"].clone();
    json!({
        "observedGeneration": generation, "hostIP": node.address, "hostIPs": [{ "ip": node.address }],
        "startTime": time_text(now),
    })
}

/// The four conditions a kubelet keeps, in its order.
fn conditions(pod: &Value, ready: bool, containers: &[&str], now: Timestamp) -> Vec<Value> {
    let generation = pod["metadata"]["generation"].clone();
    let names = containers.join(" ");
    let held = if ready { "True" } else { "False" };
    [("PodReadyToStartContainers", held), ("Initialized", "True"), ("Ready", held), ("ContainersReady", held)]
        .into_iter()
        .map(|(kind, status)| {
            let mut condition = json!({
                "type": kind, "observedGeneration": generation, "status": status, "lastProbeTime": null,
                "lastTransitionTime": time_text(now),
            });
            if !ready && matches!(kind, "Ready" | "ContainersReady") {
                condition["reason"] = json!("ContainersNotReady");
                condition["message"] = json!(format!("containers with unready status: [{names}]"));
            }
            condition
        })
        .collect()
}

fn unstarted(container: &Value, state: Value) -> Value {
    json!({
        "name": container["name"], "state": state, "lastState": {}, "ready": false, "restartCount": 0,
        "image": container["image"], "imageID": "", "started": false,
    })
}

/// Status of a container that has been made: its ids are derived, stable for a pod.
fn identified(container: &Value, pod_uid: &str) -> Value {
    let name = text(container, &["name"]);
    let part = |part: u8| fnv64(&[&[part], pod_uid.as_bytes(), name.as_bytes()]);
    let id = format!("{:016x}{:016x}{:016x}{:016x}", part(0), part(1), part(2), part(3));
    json!({
        "name": name, "lastState": {}, "ready": true, "restartCount": 0, "image": container["image"],
        "imageID": image_id(text(container, &["image"])), "containerID": format!("containerd://{id}"),
    })
}

/// A full image reference. Nothing was pulled, so the digest is zero.
fn image_id(image: &str) -> String {
    let first = image.split('/').next().unwrap_or_default();
    let full = if !image.contains('/') {
        format!("docker.io/library/{image}")
    } else if first.contains(['.', ':']) || first == "localhost" {
        image.to_owned()
    } else {
        format!("docker.io/{image}")
    };
    if full.contains('@') { full } else { format!("{full}@sha256:{:064}", 0) }
}

fn container_reference(pod: &PodInfo, field: &str, container: &str) -> Value {
    let mut about = reference(&pod.object);
    about["fieldPath"] = json!(format!("spec.{field}{{{container}}}"));
    about
}

/// All words of a container's command and arguments.
fn command(container: &Value) -> String {
    ["command", "args"]
        .iter()
        .flat_map(|field| items(at(container, &[field])))
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join(" ")
}

/// How long a container runs: as long as it sleeps (`sleep 30`, `sleep 5m`), else `otherwise`; `None`: for ever.
fn run_time(container: &Value, otherwise: SignedDuration) -> Option<SignedDuration> {
    let command = command(container);
    let mut words =
        command.split(|letter: char| letter.is_whitespace() || matches!(letter, ';' | '&' | '|' | '"' | '\''));
    let mut slept = SignedDuration::ZERO;
    while let Some(word) = words.next() {
        if word != "sleep" {
            continue;
        }
        let amount = words.next().unwrap_or_default();
        if amount == "infinity" || amount == "inf" {
            return None;
        }
        let (number, factor) = match amount.as_bytes().last() {
            Some(b'm') => (&amount[..amount.len() - 1], 60.0),
            Some(b'h') => (&amount[..amount.len() - 1], 3600.0),
            Some(b'd') => (&amount[..amount.len() - 1], 86400.0),
            Some(b's') => (&amount[..amount.len() - 1], 1.0),
            _ => (amount, 1.0),
        };
        let seconds = number.parse::<f64>().ok().filter(|number| *number >= 0.0).unwrap_or_default();
        slept =
            slept.saturating_add(SignedDuration::try_from_secs_f64(seconds * factor).unwrap_or(SignedDuration::MAX));
    }
    Some(if slept.is_zero() { otherwise } else { slept })
}

/// What a container ends with: the number after `exit`, 1 for `false`, else 0.
fn exit_code(container: &Value) -> i64 {
    let command = command(container);
    let words: Vec<&str> = command
        .split(|letter: char| letter.is_whitespace() || matches!(letter, ';' | '&' | '|' | '"' | '\''))
        .collect();
    let exit = words.iter().position(|word| *word == "exit");
    match exit {
        Some(at) => words.get(at + 1).and_then(|code| code.parse().ok()).unwrap_or_default(),
        None => i64::from(words == ["false"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(command: &[&str]) -> Value {
        json!({ "name": "c", "command": command })
    }

    #[test]
    fn commands_tell_how_long_and_how_they_end() {
        let job = SignedDuration::from_secs(1);
        let run = |words: &[&str]| run_time(&container(words), job);
        assert_eq!(run(&["sh", "-c", "echo done"]), Some(job));
        assert_eq!(run(&["sleep", "30"]), Some(SignedDuration::from_secs(30)));
        assert_eq!(run(&["sh", "-c", "sleep 2m; sleep 5"]), Some(SignedDuration::from_secs(125)));
        assert_eq!(run(&["sleep", "infinity"]), None);
        assert_eq!(exit_code(&container(&["sh", "-c", "exit 3"])), 3);
        assert_eq!(exit_code(&container(&["sh", "-c", "echo hi && exit 0"])), 0);
        assert_eq!(exit_code(&container(&["false"])), 1);
    }

    #[test]
    fn image_ids_are_full_references() {
        let zeros = "0".repeat(64);
        assert_eq!(image_id("nginx:1.27"), format!("docker.io/library/nginx:1.27@sha256:{zeros}"));
        assert_eq!(image_id("acme/web"), format!("docker.io/acme/web@sha256:{zeros}"));
        assert_eq!(image_id("mcr.microsoft.com/x:1"), format!("mcr.microsoft.com/x:1@sha256:{zeros}"));
        assert_eq!(image_id("a.io/x@sha256:1"), "a.io/x@sha256:1");
    }
}
