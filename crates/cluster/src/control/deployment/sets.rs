//! The ReplicaSets of one Deployment, old and new, during a sync.

// upstream: pkg/controller/deployment/sync.go getAllReplicaSetsAndSyncRevision, getNewReplicaSet (v1.36)

use std::sync::Arc;

use jiff::Timestamp;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::REPLICA_SETS;
use klab_api_machinery::value::{controller_reference, list_mut, selects};
use klab_api_machinery::views::{ReplicaSet, ReplicaSetStatus};
use serde_json::Value;

use super::super::plane::Plane;
use super::super::pods::{drop_owner, writes};
use super::spec::{DESIRED_REPLICAS, Deployment, HASH_LABEL, REVISION};
use crate::cluster::Part;
use klab_scheduler::selector::Selector;

/// One ReplicaSet.
#[derive(Debug, Clone)]
pub(super) struct ReplicaSetView {
    pub(super) object: Arc<Object>,
    pub(super) value: Arc<Value>,
}

impl ReplicaSetView {
    pub(super) fn new(object: Arc<Object>) -> Self {
        Self { value: object.value(), object }
    }

    pub(super) fn read(&self) -> ReplicaSet<'_> {
        ReplicaSet(&self.value)
    }

    /// `spec.replicas`.
    pub(super) fn replicas(&self) -> i64 {
        self.read().spec().replicas().unwrap_or(1)
    }

    pub(super) fn available(&self) -> i64 {
        self.read().status().available_replicas()
    }

    pub(super) fn revision(&self) -> i64 {
        self.annotated(REVISION).unwrap_or_default()
    }

    pub(super) fn annotated(&self, key: &str) -> Option<i64> {
        self.read().metadata().annotations().get(key)?.parse().ok()
    }

    fn age_key(&self) -> (Option<Timestamp>, Box<str>) {
        (self.read().metadata().creation_timestamp(), self.object.name.clone())
    }

    /// Whether it is of this template, apart from the hash label.
    fn is_of(&self, template: &Value) -> bool {
        let mut own = self.read().spec().template().0.clone();
        if let Some(labels) = own["metadata"]["labels"].as_object_mut() {
            labels.remove(HASH_LABEL);
        }
        own == *template
    }
}

/// All ReplicaSets of a Deployment, oldest first, and which one is of the present template.
#[derive(Debug)]
pub(super) struct Sets {
    pub(super) all: Vec<ReplicaSetView>,
    new: Option<usize>,
}

impl Sets {
    fn of(mut all: Vec<ReplicaSetView>, template: &Value) -> Self {
        all.sort_by_cached_key(ReplicaSetView::age_key);
        let new = all.iter().position(|set| set.is_of(template));
        Self { all, new }
    }

    pub(super) fn new_set(&self) -> Option<&ReplicaSetView> {
        self.new.map(|at| &self.all[at])
    }

    pub(super) fn new_set_mut(&mut self) -> Option<&mut ReplicaSetView> {
        self.new.map(|at| &mut self.all[at])
    }

    pub(super) fn add_new(&mut self, set: ReplicaSetView) {
        self.new = Some(self.all.len());
        self.all.push(set);
    }

    /// Whether the set at that place is of the present template.
    pub(super) fn is_new(&self, at: usize) -> bool {
        self.new == Some(at)
    }

    pub(super) fn old(&self) -> impl Iterator<Item = &ReplicaSetView> {
        self.all.iter().enumerate().filter(|(at, _)| !self.is_new(*at)).map(|(_, set)| set)
    }

    /// Places of the old sets, oldest first.
    pub(super) fn old_places(&self) -> Vec<usize> {
        (0..self.all.len()).filter(|at| !self.is_new(*at)).collect()
    }

    pub(super) fn max_old_revision(&self) -> i64 {
        self.old().map(ReplicaSetView::revision).max().unwrap_or_default()
    }

    /// Sum of `spec.replicas`.
    pub(super) fn total(&self) -> i64 {
        self.all.iter().map(ReplicaSetView::replicas).sum()
    }

    pub(super) fn sum<'a>(&'a self, count: impl Fn(ReplicaSetStatus<'a>) -> i64) -> i64 {
        self.all.iter().map(|set| count(set.read().status())).sum()
    }

    /// How many replicas the new set may have, given how many it has.
    pub(super) fn new_replicas(&self, deployment: &Deployment, present: i64) -> i64 {
        if !deployment.rolling() {
            return deployment.replicas();
        }
        let room = deployment.replicas() + deployment.max_surge() - self.total();
        if room <= 0 {
            return present;
        }
        present + room.min(deployment.replicas() - present)
    }

    /// Whether the Deployment's size has changed since its active sets were last sized.
    pub(super) fn is_scaling(&self, deployment: &Deployment) -> bool {
        self.all
            .iter()
            .filter(|set| set.replicas() > 0)
            .filter_map(|set| set.annotated(DESIRED_REPLICAS))
            .any(|desired| desired != deployment.replicas())
    }
}

impl Plane {
    /// The ReplicaSets a Deployment owns, after taking in orphans its selector matches and releasing others.
    pub(super) fn sets_of(&mut self, deployment: &Deployment) -> Sets {
        let selector = Selector::from_json(deployment.read().spec().selector().0);
        let uid = &deployment.object.uid;
        let mut all = Vec::new();
        for object in self.cluster.list(REPLICA_SETS, Some(&deployment.name.namespace)).0 {
            let matches = selects(&selector, &object);
            match object.controller() {
                Some(owner) if owner.uid == *uid => {
                    if matches || deployment.object.deleting {
                        all.push(ReplicaSetView::new(object));
                    } else {
                        let _released = self.cluster.modify(
                            REPLICA_SETS,
                            Part::Main,
                            &object.namespace,
                            &object.name,
                            &writes(),
                            |value| drop_owner(value, uid),
                        );
                    }
                }
                None if matches && !object.deleting && !deployment.object.deleting => {
                    let reference = controller_reference(&deployment.object);
                    let adopted = self.cluster.modify(
                        REPLICA_SETS,
                        Part::Main,
                        &object.namespace,
                        &object.name,
                        &writes(),
                        |value| list_mut(&mut value["metadata"]["ownerReferences"]).push(reference),
                    );
                    all.extend(adopted.ok().map(ReplicaSetView::new));
                }
                _ => {}
            }
        }
        Sets::of(all, deployment.read().spec().template().0)
    }
}
