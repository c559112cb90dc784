//! The scheduler's loop around [`klab_scheduler`]: keeps its picture of the cluster, tries the pods that wait, and
//! writes what came of it.

// upstream: pkg/scheduler/eventhandlers.go addAllEventHandlers (v1.36)
// upstream: pkg/scheduler/schedule_one.go handleSchedulingFailure (v1.36)

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::ControlPlane;
use super::events::{Note, reference};
use super::fault::Subject;
use super::queue::{Key, ObjectName};
use super::value::{map_mut, set_condition, time_text};
use super::view::PodInfo;
use crate::cluster::{DeleteOptions, Part, WriteOptions};
use crate::object::Object;
use crate::resource::{
    DAEMON_SETS, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, POD_DISRUPTION_BUDGETS, PODS,
    REPLICA_SETS, ResourceId, SERVICES, STATEFUL_SETS, STORAGE_CLASSES,
};
use klab_scheduler::queue::Event;
use klab_scheduler::taint::{NO_EXECUTE, Taint};
use klab_scheduler::{DEFAULT_SCHEDULER, Decision, Outcome, PodKey, Preemption, message};

/// The field manager of the scheduler.
fn writes() -> WriteOptions<'static> {
    WriteOptions::by("kube-scheduler")
}

/// What becomes of `status.nominatedNodeName`.
#[derive(Clone, Copy)]
enum Nomination<'a> {
    Kept,
    Withdrawn,
    Node(&'a str),
}

impl ControlPlane {
    /// Takes a change of a pod into the scheduler's picture.
    pub(super) fn pod_changed_for_scheduler(
        &mut self,
        object: &Object,
        before: Option<&PodInfo>,
        after: Option<&PodInfo>,
    ) {
        let now = self.now();
        let key = PodKey::new(&object.namespace, &object.name);
        let Some(after) = after else {
            self.scheduler.no_longer_waits(&key);
            let event = self.scheduler.picture.remove_pod(&object.namespace, &object.name);
            self.pass_on(event);
            return;
        };
        // Most changes of a running pod (readiness, restarts) concern nobody here.
        let same_but_for_place = before.is_some_and(|before| {
            before.finished() == after.finished()
                && before.object.deleting == object.deleting
                && before.object.labels == object.labels
                && before.generation == after.generation
        });
        let known = !after.node.is_empty()
            && self.scheduler.picture.node_of(&object.namespace, &object.name).as_deref() == Some(&*after.node);
        if same_but_for_place && known {
            if before.is_some_and(|before| before.node.is_empty()) {
                // The picture was told when the scheduler bound it.
                self.scheduler.no_longer_waits(&key);
                self.queue.add(Key::Schedule);
            }
            if before.is_some_and(|before| before.started != after.started) {
                let started = after.started.map(Timestamp::as_microsecond);
                self.scheduler.picture.set_started(&object.namespace, &object.name, started);
            }
            return;
        }
        // What the types do not hold cannot be scheduled; admission keeps such pods out.
        let Ok(pod) = object.decode::<Pod>() else { return };
        let event = self.scheduler.picture.set_pod(&pod);
        if after.node.is_empty() {
            let _refused = self.scheduler.waiting.set(&pod, now);
            self.scheduler.read.insert(key, (object.resource_version, pod));
        } else {
            self.scheduler.no_longer_waits(&key);
        }
        if let Ok(event) = event {
            self.pass_on(event);
        }
        self.queue.add(Key::Schedule);
    }

    /// Takes a change of any other object into the scheduler's picture.
    pub(super) fn object_changed_for_scheduler(&mut self, gone: bool, object: &Object, previous: Option<&Object>) {
        let picture = &mut self.scheduler.picture;
        let (namespace, name) = (object.namespace.as_ref(), object.name.as_ref());
        let workload = |resource: ResourceId| [REPLICA_SETS, STATEFUL_SETS].contains(&resource);
        // Selectors of these never change.
        if workload(object.resource) && previous.is_some() && !gone {
            return;
        }
        let event = match object.resource {
            NODES if gone => picture.remove_node(name),
            NODES => object.decode().ok().and_then(|node| picture.set_node(&node).ok()).flatten(),
            NAMESPACES if gone => {
                picture.remove_namespace(name);
                None
            }
            NAMESPACES => {
                if let Ok(namespace) = object.decode() {
                    picture.set_namespace(&namespace);
                }
                None
            }
            SERVICES | REPLICA_SETS | STATEFUL_SETS if gone => {
                picture.remove_workload(object.resource.row().kind, namespace, name);
                None
            }
            SERVICES => {
                if let Ok(service) = object.decode() {
                    picture.set_service(&service);
                }
                None
            }
            REPLICA_SETS => {
                if let Ok(set) = object.decode() {
                    let _refused = picture.set_replica_set(&set);
                }
                None
            }
            STATEFUL_SETS => {
                if let Ok(set) = object.decode() {
                    let _refused = picture.set_stateful_set(&set);
                }
                None
            }
            POD_DISRUPTION_BUDGETS if gone => {
                picture.remove_disruption_budget(namespace, name);
                None
            }
            POD_DISRUPTION_BUDGETS => {
                if let Ok(budget) = object.decode() {
                    let _refused = picture.set_disruption_budget(&budget);
                }
                None
            }
            PERSISTENT_VOLUME_CLAIMS if gone => Some(picture.remove_claim(namespace, name)),
            PERSISTENT_VOLUME_CLAIMS => object.decode().ok().map(|claim| picture.set_claim(&claim)),
            PERSISTENT_VOLUMES if gone => Some(picture.remove_volume(name)),
            PERSISTENT_VOLUMES => object.decode().ok().and_then(|volume| picture.set_volume(&volume).ok()),
            STORAGE_CLASSES if gone => Some(picture.remove_storage_class(name)),
            STORAGE_CLASSES => object.decode().ok().map(|class| picture.set_storage_class(&class)),
            _ => None,
        };
        self.pass_on(event);
    }

    fn pass_on(&mut self, event: Option<Event>) {
        if let Some(event) = event {
            if concerns_daemons(&event) {
                for name in self.names_in_all(DAEMON_SETS) {
                    self.queue.add(Key::DaemonSet(name));
                }
            }
            self.scheduler.waiting.event(&event, self.cluster.now());
            self.queue.add(Key::Schedule);
        }
    }

    /// Tries the pod whose turn it is; comes back while others are ready.
    pub(super) fn schedule(&mut self) {
        let now = self.now();
        if let Some(key) = self.scheduler.waiting.pop(now) {
            self.try_pod(&key);
        }
        if self.scheduler.waiting.is_ready() {
            self.queue.add(Key::Schedule);
        } else if let Some(wake) = self.scheduler.waiting.next_wake() {
            self.queue.add_at(Key::Schedule, wake.max(now));
        }
    }

    fn try_pod(&mut self, key: &PodKey) {
        let name = ObjectName::new(&key.namespace, &key.name);
        if !self.faults.is_empty() && self.faults.bar_pod(&name) {
            self.scheduler.waiting.remove(key);
            return;
        }
        self.begin(Subject::Pod(name.clone()));
        let pod = self.view.pod(&name).map(Arc::clone).and_then(|info| {
            let read = self.scheduler.read.remove(key).filter(|(version, _)| *version == info.object.resource_version);
            let pod = read.map(|(_, pod)| pod).or_else(|| info.object.decode().ok())?;
            Some((info, pod))
        });
        let Some((info, pod)) = pod else {
            self.scheduler.waiting.remove(key);
            return;
        };
        let decision = match self.scheduler.picture.schedule(&pod) {
            Ok(decision) => decision,
            Err(error) => {
                tracing::warn!(pod = %key, %error, "the scheduler cannot read the pod");
                self.scheduler.waiting.remove(key);
                return;
            }
        };
        match &decision.outcome {
            Outcome::Scheduled { node } => self.bind(key, &info, &pod, node),
            Outcome::Unschedulable { withdraw_nomination } => {
                let nomination = if *withdraw_nomination { Nomination::Withdrawn } else { Nomination::Kept };
                self.refuse(&info, &decision, nomination);
            }
            Outcome::Preempting(preemption) => self.preempt(&info, &decision, preemption),
            Outcome::Gated { .. } | Outcome::Bound { .. } | Outcome::Ignored { .. } => {
                self.scheduler.waiting.remove(key);
            }
        }
    }

    fn bind(&mut self, key: &PodKey, info: &PodInfo, pod: &Pod, node: &str) {
        self.scheduler.waiting.remove(key);
        if self.cluster.bind(&key.namespace, &key.name, node).is_err() {
            // Bound or deleted meanwhile: the change that says so is on its way.
            return;
        }
        if let Ok(event) = self.scheduler.picture.bind(pod, node) {
            self.pass_on(event);
        }
        let message = format!("Successfully assigned {}/{} to {node}", key.namespace, key.name);
        self.note_scheduling(&info.object, None, "Binding", false, "Scheduled", &message);
    }

    /// Writes that a pod could not be placed.
    fn refuse(&mut self, info: &PodInfo, decision: &Decision, nomination: Nomination<'_>) {
        let now = self.now();
        self.scheduler.waiting.failed(decision, now);
        let text = decision.message.clone();
        self.note_scheduling(
            &info.object,
            None,
            "Scheduling",
            true,
            "FailedScheduling",
            &message::event_text(&decision.message),
        );
        let _written =
            self.cluster.modify(PODS, Part::Status, &info.object.namespace, &info.object.name, &writes(), |value| {
                let condition = json!({
                    "type": "PodScheduled", "observedGeneration": value["metadata"]["generation"], "status": "False",
                    "lastProbeTime": null, "lastTransitionTime": time_text(now), "reason": "Unschedulable",
                    "message": text,
                });
                set_condition(&mut value["status"]["conditions"], condition);
                match nomination {
                    Nomination::Node(node) => value["status"]["nominatedNodeName"] = json!(node),
                    Nomination::Withdrawn => drop(map_mut(&mut value["status"]).remove("nominatedNodeName")),
                    Nomination::Kept => {}
                }
            });
    }

    /// Evicts the victims, keeps the node for the pod, and lets it wait for their end.
    fn preempt(&mut self, info: &PodInfo, decision: &Decision, preemption: &Preemption) {
        let now = self.now();
        let mut preemptor = reference(&info.object);
        if let Some(preemptor) = preemptor.as_object_mut() {
            preemptor.remove("resourceVersion");
        }
        for pod in &preemption.withdrawn_nominations {
            let _withdrawn = self.cluster.modify(PODS, Part::Status, &pod.namespace, &pod.name, &writes(), |value| {
                map_mut(&mut value["status"]).remove("nominatedNodeName");
            });
        }
        self.refuse(info, decision, Nomination::Node(&preemption.nominated));
        for victim in &preemption.victims {
            let name = ObjectName::new(&victim.namespace, &victim.name);
            let Some(victim) = self.view.pod(&name).map(Arc::clone) else { continue };
            if victim.object.deleting {
                continue;
            }
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
                "lastTransitionTime": time_text(now), "reason": "PreemptionByScheduler",
                "message": format!("{DEFAULT_SCHEDULER}: preempting to accommodate a higher priority pod"),
            });
            let _marked = self.cluster.modify(PODS, Part::Status, &name.namespace, &name.name, &writes(), |value| {
                let mut condition = condition;
                condition["observedGeneration"] = value["metadata"]["generation"].clone();
                set_condition(&mut value["status"]["conditions"], condition);
            });
            let options = DeleteOptions { uid: Some(victim.object.uid.to_string()), ..DeleteOptions::default() };
            let _deleted = self.cluster.delete(PODS, &name.namespace, &name.name, &options);
            let message = format!("Preempted by pod {} on node {}", info.object.uid, preemption.nominated);
            self.note_scheduling(&victim.object, Some(&preemptor), "Preempting", false, "Preempted", &message);
        }
    }

    fn note_scheduling(
        &mut self,
        about: &Object,
        related: Option<&Value>,
        action: &str,
        warning: bool,
        reason: &str,
        message: &str,
    ) {
        let note = Note { component: DEFAULT_SCHEDULER, host: &self.settings.host, warning, reason, message };
        self.recorder.record_action(&self.cluster, &reference(about), related, action, note);
    }
}

/// Whether DaemonSets have something to do: not for a taint that only bars new pods, nor for a change of size.
fn concerns_daemons(event: &Event) -> bool {
    match event {
        Event::NodeAdded(_) | Event::NodeRemoved(_) => true,
        Event::NodeChanged { old, new } => {
            let added = |taint: &&Taint| !old.taints.contains(taint);
            old.labels != new.labels
                || old.taints.iter().any(|taint| !new.taints.contains(taint))
                || new.taints.iter().filter(added).any(|taint| taint.effect == NO_EXECUTE)
        }
        _ => false,
    }
}
