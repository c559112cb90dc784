//! The scheduler's loop around [`klab_scheduler`]: keeps the picture of the cluster, tries the pods that wait, and
//! writes what came of it.

// upstream: pkg/scheduler/eventhandlers.go addAllEventHandlers (v1.36)
// upstream: pkg/scheduler/schedule_one.go handleSchedulingFailure (v1.36)

mod binding;
mod picture;
mod resource_claims;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::HashMap;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{DAEMON_SETS, PODS, RESOURCE_CLAIMS};
use klab_api_machinery::value::{map_mut, set_condition, time_text};
use klab_api_machinery::views::{self, PodStatus};
use serde_json::{Value, json};

use self::binding::{Binding, Readiness};
use self::picture::object_changed;
use self::resource_claims::writes;
use super::controller::Controller;
use super::daemon_set;
use super::events::{Note, reference};
use super::fault::Subject;
use super::plane::Plane;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::view::PodInfo;
use crate::cluster::{DeleteOptions, Part};
use klab_scheduler::queue::{Event, Queue};
use klab_scheduler::taint::{NO_EXECUTE, Taint};
use klab_scheduler::typed::Typed;
use klab_scheduler::{DEFAULT_SCHEDULER, Decision, Outcome, PodKey, Preemption, message};

/// Why a pod has no node, as its condition says.
const UNSCHEDULABLE: &str = "Unschedulable";

/// What becomes of `status.nominatedNodeName`.
#[derive(Clone, Copy)]
enum Nomination<'a> {
    Kept,
    Withdrawn,
    Node(&'a str),
}

/// Binds pods to nodes.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    waiting: Queue,
    /// Pods that wait, as read from this version of theirs.
    read: HashMap<PodKey, (u64, Pod)>,
    /// Pods that have a node and wait for their devices.
    binding: BTreeMap<PodKey, Binding>,
    /// Pods of which a change was left to the next one.
    skipped: BTreeSet<PodKey>,
}

fn turn() -> Key {
    Key::at_large(Controller::Scheduler)
}

impl Reconciler for Scheduler {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.resource() == PODS {
            self.pod_changed(plane, change);
        } else {
            // Where the scheduler has written meanwhile, the picture is ahead of this change, which must not take it back.
            if is_outdated(plane, change) {
                return;
            }
            let event = object_changed(&mut plane.scheduler_cache, change);
            if change.resource() == RESOURCE_CLAIMS && !self.binding.is_empty() {
                plane.queue.add(turn());
            }
            self.pass_on(plane, event);
        }
    }

    /// Tries the pod whose turn it is; comes back while others are ready.
    fn sync(&mut self, plane: &mut Plane, _: &Key) {
        let now = plane.now();
        self.bind_ready(plane);
        if let Some(pod) = self.waiting.pop(now) {
            self.try_pod(plane, &pod);
        }
        if self.waiting.is_ready() {
            plane.queue.add(turn());
        } else if let Some(wake) = self.next_wake() {
            plane.queue.add_at(turn(), wake.max(now));
        }
    }

    fn forget(&mut self) {
        *self = Self::default();
    }

    /// Pods that fit nowhere are tried again now and then, for what may have been overlooked: as long as nothing changes,
    /// they still fit nowhere.
    fn may_wait(&self, _: &Plane, _: &Key) -> bool {
        self.binding.is_empty()
    }
}

impl Scheduler {
    fn next_wake(&self) -> Option<Timestamp> {
        let bindings = self.binding.values().map(Binding::deadline);
        bindings.chain(self.waiting.next_wake()).min()
    }

    /// Binds the pods whose devices are ready, and takes back those whose are not to get so.
    fn bind_ready(&mut self, plane: &mut Plane) {
        let keys: Vec<PodKey> = self.binding.keys().cloned().collect();
        for key in keys {
            let Some(readiness) = self.binding.get(&key).map(|binding| binding.look(plane)) else { continue };
            if matches!(readiness, Readiness::Pending) {
                continue;
            }
            let Some(binding) = self.binding.remove(&key) else { continue };
            plane.begin(Subject::Pod(ObjectName::new(&key.namespace, &key.name)));
            if let Readiness::Failed(message) = readiness {
                let event = plane.scheduler_cache.remove_pod(&key.namespace, &key.name);
                let message = binding::failed(&message);
                let failed = Decision { message, refused_by: Vec::new(), ..binding.decision.clone() };
                self.refuse(plane, &binding.info, &failed, "SchedulerError", Nomination::Withdrawn);
                let events = binding.unreserve(plane);
                self.pass_on(plane, event.into_iter().chain(events));
            } else {
                self.bind(plane, &key, &binding.info, &binding.pod, &binding.node);
            }
        }
    }

    fn no_longer_waits(&mut self, key: &PodKey) {
        self.binding.remove(key);
        self.waiting.remove(key);
        self.read.remove(key);
    }

    /// Takes a change of a pod into the scheduler's picture.
    fn pod_changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        let (object, before) = (change.object, change.pod.before.as_deref());
        let now = plane.now();
        let key = PodKey::new(&object.namespace, &object.name);
        let Some(after) = change.pod.after.as_deref() else {
            self.no_longer_waits(&key);
            self.skipped.remove(&key);
            let event = plane.scheduler_cache.remove_pod(&object.namespace, &object.name);
            self.pass_on(plane, event);
            return;
        };
        let was_skipped = self.skipped.remove(&key);
        // A later change says where the pod is now.
        if after.node.is_empty() && is_outdated(plane, change) {
            self.skipped.insert(key);
            return;
        }
        // Most changes of a running pod (readiness, restarts) do not matter here.
        let same_but_for_place = before.is_some_and(|before| {
            before.finished() == after.finished()
                && before.object.deleting == object.deleting
                && before.object.labels == object.labels
                && before.generation == after.generation
        });
        let known = !after.node.is_empty()
            && plane.scheduler_cache.node_of(&object.namespace, &object.name).as_deref() == Some(&*after.node);
        if same_but_for_place && known && !was_skipped {
            if before.is_some_and(|before| before.node.is_empty()) {
                // The picture has had it since the scheduler bound it.
                self.no_longer_waits(&key);
                plane.queue.add(turn());
            }
            if before.is_some_and(|before| before.started != after.started) {
                let started = after.started.map(Timestamp::as_microsecond);
                plane.scheduler_cache.set_started(&object.namespace, &object.name, started);
            }
            return;
        }
        // What the types do not hold cannot be scheduled; admission keeps such pods out.
        let Ok(pod) = Pod::from_json(&object.json) else { return };
        // It has its place already, though no change said so.
        self.waiting.set_profiles(plane.scheduler_cache.profiles());
        if plane.settings.shuffled {
            self.waiting.shuffle(plane.settings.seed);
        }
        if after.node.is_empty() && !object.deleting && self.binding.contains_key(&key) {
            let _refused = self.waiting.set(&pod, now);
            return;
        }
        self.binding.remove(&key);
        let event = plane.scheduler_cache.set_pod(&pod);
        if after.node.is_empty() {
            let _refused = self.waiting.set(&pod, now);
            self.read.insert(key, (object.resource_version, pod));
        } else {
            self.no_longer_waits(&key);
        }
        if let Ok(event) = event {
            self.pass_on(plane, event);
        }
        plane.queue.add(turn());
    }

    fn pass_on(&mut self, plane: &mut Plane, events: impl IntoIterator<Item = Event>) {
        for event in events {
            if concerns_daemons(&event) {
                for name in plane.names_in_all(DAEMON_SETS) {
                    plane.queue.add(daemon_set::key(name));
                }
            }
            let (now, scheduler_cache) = (plane.cluster.now(), &plane.scheduler_cache);
            self.waiting.event(&event, &|resource| scheduler_cache.is_devices(resource), now);
            plane.queue.add(turn());
        }
    }

    fn try_pod(&mut self, plane: &mut Plane, key: &PodKey) {
        let name = ObjectName::new(&key.namespace, &key.name);
        if !plane.faults.is_empty() && plane.faults.bar_pod(&name) {
            self.waiting.remove(key);
            return;
        }
        plane.begin(Subject::Pod(name.clone()));
        let pod = plane.view.pod(&name).map(Arc::clone).and_then(|info| {
            let read = self.read.remove(key).filter(|(version, _)| *version == info.object.resource_version);
            let pod = read.map(|(_, pod)| pod).or_else(|| Pod::from_json(&info.object.json).ok())?;
            Some((info, pod))
        });
        let Some((info, pod)) = pod else {
            self.waiting.remove(key);
            return;
        };
        let mut decision = match plane.scheduler_cache.schedule(&pod) {
            Ok(decision) => decision,
            Err(error) => {
                tracing::warn!(pod = %key, %error, "the scheduler cannot read the pod");
                self.waiting.remove(key);
                return;
            }
        };
        match &decision.outcome.clone() {
            Outcome::Scheduled { node } => {
                let mut events = Vec::new();
                match resource_claims::reserve(plane, &pod, &mut decision, &mut events) {
                    Ok(()) => match Binding::of(plane, &info, &pod, node, &decision) {
                        None => self.bind(plane, key, &info, &pod, node),
                        Some(binding) => self.wait_for_devices(plane, key, binding),
                    },
                    Err(message) => {
                        let message = binding::failed(&message);
                        let failed = Decision { message, refused_by: Vec::new(), ..decision.clone() };
                        self.refuse(plane, &info, &failed, "SchedulerError", Nomination::Withdrawn);
                        events.extend(resource_claims::unreserve(plane, &pod, &decision));
                    }
                }
                self.pass_on(plane, events);
            }
            Outcome::AwaitingClaims => self.waiting.awaits_claims(key),
            Outcome::Failed => self.refuse(plane, &info, &decision, "SchedulerError", Nomination::Withdrawn),
            Outcome::Unschedulable { withdraw_nomination } => {
                let nomination = if *withdraw_nomination { Nomination::Withdrawn } else { Nomination::Kept };
                self.refuse(plane, &info, &decision, UNSCHEDULABLE, nomination);
            }
            Outcome::Preempting(preemption) => self.preempt(plane, &info, &decision, preemption),
            Outcome::Gated { .. } | Outcome::Bound { .. } | Outcome::Ignored { .. } => {
                self.waiting.remove(key);
            }
        }
    }

    /// Keeps a place for a pod until its devices are ready.
    // upstream: pkg/scheduler/schedule_one.go bindingCycle, NominatedNodeNameForExpectation (v1.36)
    fn wait_for_devices(&mut self, plane: &mut Plane, key: &PodKey, binding: Binding) {
        let _written = plane.cluster.modify(PODS, Part::Status, &key.namespace, &key.name, &writes(), |value| {
            nominate(&mut value["status"], Nomination::Node(&binding.node));
        });
        if let Ok(event) = plane.scheduler_cache.bind(&binding.pod, &binding.node) {
            self.pass_on(plane, event);
        }
        let (action, reason) = ("Scheduling", "BindingConditionsPending");
        note_scheduling(plane, &binding.info.object, action, false, reason, &binding::pending(&binding.node));
        self.binding.insert(key.clone(), binding);
        // They may be ready as they are.
        plane.queue.add(turn());
    }

    fn bind(&mut self, plane: &mut Plane, key: &PodKey, info: &PodInfo, pod: &Pod, node: &str) {
        self.waiting.remove(key);
        if plane.cluster.bind(&key.namespace, &key.name, node).is_err() {
            // Bound or deleted meanwhile: the change that says so is on its way.
            return;
        }
        if let Ok(event) = plane.scheduler_cache.bind(pod, node) {
            self.pass_on(plane, event);
        }
        let message = format!("Successfully assigned {}/{} to {node}", key.namespace, key.name);
        note_scheduling(plane, &info.object, "Binding", false, "Scheduled", &message);
    }

    /// Writes that a pod could not be placed.
    fn refuse(
        &mut self,
        plane: &mut Plane,
        info: &PodInfo,
        decision: &Decision,
        reason: &str,
        nomination: Nomination<'_>,
    ) {
        let now = plane.now();
        self.waiting.failed(decision, now);
        if let Some((namespace, name)) = &decision.deallocate {
            resource_claims::deallocate(plane, namespace, name);
        }
        note_scheduling(
            plane,
            &info.object,
            "Scheduling",
            true,
            "FailedScheduling",
            &message::event_text(&decision.message),
        );
        let (namespace, name) = (&info.object.namespace, &info.object.name);
        let _written = plane.cluster.modify(PODS, Part::Status, namespace, name, &writes(), |value| {
            let nominated = nominate(&mut value["status"], nomination);
            let had = views::Pod(value).status().conditions().of_type("PodScheduled");
            let is_known = had.is_some_and(|had| {
                had.status() == "False" && had.reason() == reason && had.message() == decision.message
            });
            if is_known && !nominated {
                return;
            }
            let condition = json!({
                "type": "PodScheduled", "observedGeneration": views::Pod(value).metadata().generation(), "status": "False",
                "lastProbeTime": null, "lastTransitionTime": time_text(now), "reason": reason,
                "message": decision.message,
            });
            set_condition(&mut value["status"]["conditions"], condition);
        });
    }

    /// Evicts the victims, keeps the node for the pod, and lets it wait for their end.
    fn preempt(&mut self, plane: &mut Plane, info: &PodInfo, decision: &Decision, preemption: &Preemption) {
        let now = plane.now();
        let scheduler = scheduler_of(plane, &info.object);
        let mut preemptor = reference(&info.object);
        if let Some(preemptor) = preemptor.as_object_mut() {
            preemptor.remove("resourceVersion");
        }
        for pod in &preemption.withdrawn_nominations {
            let _withdrawn = plane.cluster.modify(PODS, Part::Status, &pod.namespace, &pod.name, &writes(), |value| {
                map_mut(&mut value["status"]).remove("nominatedNodeName");
            });
        }
        self.refuse(plane, info, decision, UNSCHEDULABLE, Nomination::Node(&preemption.nominated));
        for victim in &preemption.victims {
            let name = ObjectName::new(&victim.namespace, &victim.name);
            let Some(victim) = plane.view.pod(&name).map(Arc::clone) else { continue };
            if victim.object.deleting {
                continue;
            }
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
                "lastTransitionTime": time_text(now), "reason": "PreemptionByScheduler",
                "message": format!("{scheduler}: preempting to accommodate a higher priority pod"),
            });
            let _marked = plane.cluster.modify(PODS, Part::Status, &name.namespace, &name.name, &writes(), |value| {
                let mut condition = condition;
                condition["observedGeneration"] = json!(views::Pod(value).metadata().generation());
                set_condition(&mut value["status"]["conditions"], condition);
            });
            let options = DeleteOptions { uid: Some(victim.object.uid.to_string()), ..DeleteOptions::default() };
            let _deleted = plane.cluster.delete(PODS, &name.namespace, &name.name, &options);
            let message = format!("Preempted by pod {} on node {}", info.object.uid, preemption.nominated);
            let (host, reason) = (&plane.settings.host, "Preempted");
            let note = Note { component: &scheduler, host, warning: false, reason, message: &message };
            let about = reference(&victim.object);
            plane.recorder.record_action(&plane.cluster, &about, Some(&preemptor), "Preempting", note);
        }
    }
}

/// Writes which node is kept for a pod. Whether that is another one than before.
fn nominate(status: &mut Value, nomination: Nomination<'_>) -> bool {
    let had = PodStatus(status).nominated_node_name().to_owned();
    match nomination {
        Nomination::Kept => false,
        Nomination::Node(node) => {
            status["nominatedNodeName"] = json!(node);
            had != node
        }
        Nomination::Withdrawn => {
            map_mut(status).remove("nominatedNodeName");
            !had.is_empty()
        }
    }
}

/// Whether an object that the scheduler writes, too, has changed again since.
fn is_outdated(plane: &Plane, change: &Change<'_>) -> bool {
    let object = change.object;
    let writes = [PODS, RESOURCE_CLAIMS].contains(&object.resource) && !change.gone;
    writes
        && plane
            .cluster
            .get(object.resource, &object.namespace, &object.name)
            .is_none_or(|now| now.resource_version > object.resource_version)
}

fn note_scheduling(plane: &mut Plane, about: &Object, action: &str, warning: bool, reason: &str, message: &str) {
    let scheduler = scheduler_of(plane, about);
    let note = Note { component: &scheduler, host: &plane.settings.host, warning, reason, message };
    plane.recorder.record_action(&plane.cluster, &reference(about), None, action, note);
}

/// The name of the profile that a pod asks for, as which the scheduler speaks of it.
fn scheduler_of(plane: &Plane, pod: &Object) -> Cow<'static, str> {
    match plane.scheduler_cache.profiles().all() {
        // The pod need not be read.
        [only] if only.name() == DEFAULT_SCHEDULER => Cow::Borrowed(DEFAULT_SCHEDULER),
        // Admission names the scheduler of every pod.
        _ => Cow::Owned(views::Pod(&pod.value()).spec().scheduler_name().to_owned()),
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
