//! StatefulSets: pods with names and claims of their own, made, updated and deleted in order.

// upstream: pkg/controller/statefulset/stateful_set_control.go UpdateStatefulSet (v1.36)

mod claims;

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS};
use klab_api_machinery::value::{int_or_percent, list_mut, map_mut};
use klab_api_machinery::views::{PodTemplateSpec, StatefulSet, StatefulSetSpec, Volume};
use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::pods::{pod_of_template, writes};
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::revisions::{HASH_LABEL, Revision};
use super::view::{Phase, PodInfo};
use crate::cluster::Part;
use klab_scheduler::features::Gate;
use klab_scheduler::selector::Selector;

const COMPONENT: &str = "statefulset-controller";
const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// One StatefulSet during a sync.
struct Set {
    object: Arc<Object>,
    value: Arc<Value>,
    selector: Selector,
    /// Revision that pods below the partition keep.
    current: Revision,
    /// Revision of the present template.
    update: Revision,
}

impl Set {
    fn spec(&self) -> StatefulSetSpec<'_> {
        StatefulSet(&self.value).spec()
    }

    fn start(&self) -> i64 {
        self.spec().ordinals().start()
    }

    fn replicas(&self) -> i64 {
        self.spec().replicas().unwrap_or(1)
    }

    fn min_ready(&self) -> i64 {
        self.spec().min_ready_seconds()
    }

    fn ordered(&self) -> bool {
        self.spec().pod_management_policy() != "Parallel"
    }

    /// How many pods may be unavailable during a roll-out.
    // upstream: pkg/controller/statefulset/stateful_set_utils.go getStatefulSetMaxUnavailable (v1.36)
    fn max_unavailable(&self) -> usize {
        let most = self.spec().update_strategy().rolling_update().max_unavailable();
        usize::try_from(int_or_percent(most, self.replicas(), false).unwrap_or(1)).unwrap_or(1).max(1)
    }

    fn partition(&self) -> i64 {
        self.spec().update_strategy().rolling_update().partition().unwrap_or_default()
    }

    fn rolling(&self) -> bool {
        self.spec().update_strategy().type_() != "OnDelete"
    }

    fn ordinal(&self, pod: &PodInfo) -> Option<i64> {
        self.ordinal_of(&pod.object.name)
    }

    fn ordinal_of(&self, pod: &str) -> Option<i64> {
        pod.strip_prefix(self.object.name.as_ref())?.strip_prefix('-')?.parse().ok()
    }

    /// The template a revision holds: the present one, or an older one from its data.
    fn template(&self, revision: &Revision) -> Option<Value> {
        if revision.object.uid == self.update.object.uid {
            return Some(self.spec().template().0.clone());
        }
        let mut template = revision.data()["spec"]["template"].clone();
        template.as_object_mut()?.remove("$patch");
        Some(template)
    }
}

fn is_at(pod: &PodInfo, revision: &Revision) -> bool {
    pod.object.label(HASH_LABEL) == Some(&revision.object.name)
}

fn running_and_ready(pod: &PodInfo) -> bool {
    pod.phase == Phase::Running && pod.ready
}

/// Makes pods of StatefulSets.
#[derive(Default)]
pub(super) struct StatefulSets;

impl Reconciler for StatefulSets {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.resource() == PERSISTENT_VOLUME_CLAIMS {
            // Claims carry the labels that their set selects.
            for set in plane.view.selecting(STATEFUL_SETS, change.object) {
                plane.queue.add(key(set));
            }
            return;
        }
        plane.workload_changed(change, Controller::StatefulSet, STATEFUL_SETS, Selector::from_json);
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        plane.sync_stateful_set(&key.name);
    }
}

fn key(name: ObjectName) -> Key {
    Key::new(Controller::StatefulSet, STATEFUL_SETS, name)
}

impl Plane {
    fn sync_stateful_set(&mut self, name: &ObjectName) {
        let Some(object) = self.cluster.get(STATEFUL_SETS, &name.namespace, &name.name) else {
            self.refused.remove(&key(name.clone()));
            return;
        };
        if object.deleting {
            return;
        }
        let value = object.value();
        let read = StatefulSet(&value);
        let revisions = self.sync_revisions(&object, read.metadata(), read.spec().template());
        let Some(update) = revisions.last().cloned() else { return };
        let current_name = read.status().current_revision();
        let current =
            revisions.iter().find(|revision| revision.object.name.as_ref() == current_name).unwrap_or(&update).clone();
        let selector = Selector::from_json(read.spec().selector().0);
        let set = Set { object, value, selector, current, update };
        let pods: Vec<Arc<PodInfo>> =
            self.claim_pods(&set.object, &set.selector).into_iter().filter(|pod| set.ordinal(pod).is_some()).collect();
        for pod in &pods {
            self.tie_claims(&set, &pod.object.name, Some(&pod.object.uid));
        }
        let acted = self.order_pods(&set, &pods);
        let live = |revision: &Revision| {
            pods.iter().any(|pod| is_at(pod, revision)) || revision.object.name == set.current.object.name
        };
        self.trim_revisions(set.spec().revision_history_limit(), &revisions, &live);
        if !acted {
            self.write_stateful_set_status(name, &set, &pods);
        }
    }

    /// Makes, replaces and deletes pods as far as their order allows now; whether it did anything.
    fn order_pods(&mut self, set: &Set, pods: &[Arc<PodInfo>]) -> bool {
        let now = self.now();
        let (start, end) = (set.start(), set.start() + set.replicas());
        let at = |ordinal: i64| pods.iter().find(|pod| set.ordinal(pod) == Some(ordinal));
        let healthy = |pod: &PodInfo| running_and_ready(pod) && !pod.object.deleting;
        let mut acted = false;
        for ordinal in start..end {
            match at(ordinal) {
                None => {
                    if !self.create_replica(set, ordinal) {
                        return acted;
                    }
                    acted = true;
                    if set.ordered() {
                        return true;
                    }
                }
                Some(pod) if pod.finished() && !pod.object.deleting => {
                    if !self.may_replace(&key(name_of(&set.object)), &pod.object.name, pod.created) {
                        return acted;
                    }
                    self.delete_replica(set, pod);
                    acted = true;
                    if set.ordered() {
                        return true;
                    }
                }
                Some(pod) if set.ordered() && !(healthy(pod) && pod.available(set.min_ready(), now)) => {
                    self.wait_for_availability(key(name_of(&set.object)), pods, set.min_ready());
                    return acted;
                }
                Some(_) => {}
            }
        }
        let mut condemned: Vec<&Arc<PodInfo>> =
            pods.iter().filter(|pod| set.ordinal(pod).is_some_and(|at| at < start || at >= end)).collect();
        condemned.sort_by_key(|pod| std::cmp::Reverse(set.ordinal(pod)));
        let first_unhealthy = pods.iter().filter(|pod| !healthy(pod)).min_by_key(|pod| set.ordinal(pod));
        for pod in condemned {
            if pod.object.deleting {
                if set.ordered() {
                    return acted;
                }
                continue;
            }
            let blocked = set.ordered()
                && !running_and_ready(pod)
                && first_unhealthy.is_some_and(|unhealthy| unhealthy.object.uid != pod.object.uid);
            if blocked {
                return acted;
            }
            self.delete_replica(set, pod);
            acted = true;
            if set.ordered() {
                return true;
            }
        }
        if acted || !set.rolling() {
            return acted;
        }
        if self.settings.features.has(Gate::MaxUnavailableStatefulSet) {
            return self.replace_together(set, pods);
        }
        for ordinal in ((start + set.partition())..end).rev() {
            let Some(pod) = at(ordinal) else { return false };
            if !is_at(pod, &set.update) && !pod.object.deleting {
                self.delete_replica(set, pod);
                return true;
            }
            if !(healthy(pod) && pod.available(set.min_ready(), now)) {
                self.wait_for_availability(key(name_of(&set.object)), pods, set.min_ready());
                return false;
            }
        }
        false
    }

    /// Deletes pods of another revision, the last ones first, as long as no more than the set allows are unavailable; whether
    /// it did.
    // upstream: pkg/controller/statefulset/stateful_set_control.go updateStatefulSetAfterInvariantEstablished (v1.36)
    fn replace_together(&mut self, set: &Set, pods: &[Arc<PodInfo>]) -> bool {
        let (now, start, end) = (self.now(), set.start(), set.start() + set.replicas());
        let mut own: Vec<_> =
            pods.iter().filter(|pod| set.ordinal(pod).is_some_and(|at| at >= start && at < end)).collect();
        own.sort_by_key(|pod| std::cmp::Reverse(set.ordinal(pod)));
        let healthy = |pod: &PodInfo| running_and_ready(pod) && !pod.object.deleting;
        let is_available = |pod: &&&Arc<PodInfo>| healthy(pod) && pod.available(set.min_ready(), now);
        let unavailable = own.len() - own.iter().filter(is_available).count();
        if unavailable > 0 {
            self.wait_for_availability(key(name_of(&set.object)), pods, set.min_ready());
        }
        own.retain(|pod| set.ordinal(pod) >= Some(start + set.partition()));
        own.retain(|pod| !is_at(pod, &set.update) && !pod.object.deleting);
        own.truncate(set.max_unavailable().saturating_sub(unavailable));
        for pod in &own {
            self.delete_replica(set, pod);
        }
        !own.is_empty()
    }

    fn create_replica(&mut self, set: &Set, ordinal: i64) -> bool {
        let name = format!("{}-{ordinal}", set.object.name);
        let keeps_current = set.rolling() && ordinal < set.start() + set.partition();
        let revision = if keeps_current { &set.current } else { &set.update };
        let Some(template) = set.template(revision) else { return false };
        if self.has_stale_claim(set, &name) {
            return false;
        }
        for claim in set.spec().volume_claim_templates() {
            if !self.ensure_claim(set, claim, &name) {
                return false;
            }
        }
        self.tie_claims(set, &name, None);
        let pod = replica(set, &template, revision, &name, ordinal);
        match self.cluster.create(PODS, &set.object.namespace, pod, &writes()) {
            Ok(_) => {
                let message = format!("Create Pod {name} in StatefulSet {} successful", set.object.name);
                self.note(&set.object, COMPONENT, false, "SuccessfulCreate", &message);
                self.refused.remove(&key(name_of(&set.object)));
                true
            }
            Err(status) => {
                let message = format!("create Pod {name} in StatefulSet {} failed error: {status}", set.object.name);
                self.note(&set.object, COMPONENT, true, "FailedCreate", &message);
                self.retry_later(key(name_of(&set.object)));
                false
            }
        }
    }

    fn delete_replica(&mut self, set: &Set, pod: &PodInfo) {
        self.tie_claims(set, &pod.object.name, Some(&pod.object.uid));
        if self.remove_pod(pod) {
            let message = format!("Delete Pod {} in StatefulSet {} successful", pod.object.name, set.object.name);
            self.note(&set.object, COMPONENT, false, "SuccessfulDelete", &message);
        }
    }

    fn write_stateful_set_status(&mut self, name: &ObjectName, set: &Set, pods: &[Arc<PodInfo>]) {
        let now = self.now();
        let count = |wanted: &dyn Fn(&PodInfo) -> bool| pods.iter().filter(|pod| wanted(pod)).count();
        let replicas = count(&|_| true);
        let ready = count(&running_and_ready);
        let updated = count(&|pod| !pod.object.deleting && is_at(pod, &set.update));
        let mut current = count(&|pod| !pod.object.deleting && is_at(pod, &set.current));
        let mut current_revision = &set.current;
        if set.rolling() && updated == replicas && ready == replicas {
            current = updated;
            current_revision = &set.update;
        }
        let mut status = json!({
            "observedGeneration": StatefulSet(&set.value).metadata().generation(), "replicas": replicas,
            "currentRevision": current_revision.object.name, "updateRevision": set.update.object.name,
            "collisionCount": 0,
            "availableReplicas": count(&|pod| running_and_ready(pod) && pod.available(set.min_ready(), now)),
        });
        for (field, number) in [("readyReplicas", ready), ("currentReplicas", current), ("updatedReplicas", updated)] {
            if number > 0 {
                status[field] = json!(number);
            }
        }
        if status != *StatefulSet(&set.value).status().0 {
            let _written =
                self.cluster.modify(STATEFUL_SETS, Part::Status, &name.namespace, &name.name, &writes(), |value| {
                    value["status"] = status;
                });
        }
    }
}

fn name_of(object: &Object) -> ObjectName {
    ObjectName::new(&object.namespace, &object.name)
}

/// The pod of an ordinal.
fn replica(set: &Set, template: &Value, revision: &Revision, name: &str, ordinal: i64) -> Value {
    let mut pod = pod_of_template(&set.object, PodTemplateSpec(template));
    pod["metadata"]["name"] = json!(name);
    let labels = map_mut(&mut pod["metadata"]["labels"]);
    labels.insert(POD_NAME_LABEL.to_owned(), json!(name));
    labels.insert(POD_INDEX_LABEL.to_owned(), json!(ordinal.to_string()));
    labels.insert(HASH_LABEL.to_owned(), json!(revision.object.name));
    pod["spec"]["hostname"] = json!(name);
    let service = set.spec().service_name();
    if !service.is_empty() {
        pod["spec"]["subdomain"] = json!(service);
    }
    let volumes = list_mut(&mut pod["spec"]["volumes"]);
    for volume in set.spec().volume_claim_templates().map(|claim| claim.metadata().name()) {
        volumes.retain(|have| Volume(have).name() != volume);
        volumes.push(json!({ "name": volume, "persistentVolumeClaim": { "claimName": format!("{volume}-{name}") } }));
    }
    pod
}
