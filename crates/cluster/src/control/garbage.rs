//! Garbage collection by owner references: dependents follow their owners, or are let go, or go first.

// upstream: pkg/controller/garbagecollector/garbagecollector.go attemptToDeleteItem (v1.36)

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::value::list_mut;
use klab_api_machinery::views::{OwnerReference, metadata};

use super::controller::Controller;
use super::plane::Plane;
use super::pods::{drop_owner, writes};
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use crate::cluster::{DeleteOptions, Part, Propagation};

const COMPONENT: &str = "garbage-collector-controller";
const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// Deletes objects whose owners are gone.
#[derive(Default)]
pub(super) struct GarbageCollector;

impl Reconciler for GarbageCollector {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        plane.collect_after(change);
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        if let Some((resource, name)) = key.object() {
            plane.collect(resource, name);
        }
    }
}

/// How it is with an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is there.
    Solid,
    /// It is being deleted, and waits for what it owns.
    Waiting,
    /// It is not there.
    Absent,
    /// It cannot be looked up.
    Unknown,
}

/// Whether an object is being deleted and waits for what it owns.
fn is_deleting_dependents(object: &Object) -> bool {
    object.deleting && metadata(&object.value()).finalizers().any(|have| have == FOREGROUND)
}

/// The version of the kind of one of the owners of an object.
fn version_of_owner(object: &Object, at: usize) -> String {
    metadata(&object.value()).owner_references().nth(at).map_or("", OwnerReference::api_version).to_owned()
}

fn key(resource: ResourceId, name: ObjectName) -> Key {
    Key::new(Controller::GarbageCollector, resource, name)
}

impl Plane {
    /// Asks for what a change may leave without owners, and for what waited for the object to go.
    fn collect_after(&mut self, change: &Change<'_>) {
        let object = change.object;
        if change.gone {
            for (resource, name) in self.view.dependents_of(&object.uid) {
                self.queue.add(key(*resource, name.clone()));
            }
            for owner in &object.owners {
                if let Some((resource, name)) = self.view.find(&owner.uid) {
                    self.queue.add(key(*resource, name.clone()));
                }
            }
            return;
        }
        let owners_changed = change.previous.is_none_or(|previous| previous.owners != object.owners);
        if owners_changed && !object.owners.is_empty() {
            self.note_foreign_owners(object);
        }
        // An owner that waited for it may wait no longer.
        if owners_changed && let Some(previous) = change.previous {
            for owner in &previous.owners {
                if let Some((resource, name)) = self.view.find(&owner.uid) {
                    self.queue.add(key(*resource, name.clone()));
                }
            }
        }
        if object.deleting || (owners_changed && !object.owners.is_empty()) {
            self.queue.add(key(object.resource, change.name()));
        }
    }

    /// Looks at one object: its owners may be gone, or it is being deleted and has dependents to care for.
    fn collect(&mut self, resource: ResourceId, name: &ObjectName) {
        let Some(object) = self.cluster.get(resource, &name.namespace, &name.name) else { return };
        if object.deleting {
            let value = object.value();
            let has = |finalizer: &str| metadata(&value).finalizers().any(|have| have == finalizer);
            if has(ORPHAN) {
                self.orphan_dependents(resource, name, &object.uid);
            } else if has(FOREGROUND) {
                self.delete_dependents_first(resource, name, &object.uid);
            }
        }
        if object.owners.is_empty() || object.deleting {
            return;
        }
        let (mut absent, mut waiting, mut solid) = (Vec::new(), false, false);
        for (at, owner) in object.owners.iter().enumerate() {
            match self.standing_of(&object, at) {
                // What cannot be looked up is left alone, and so is what it owns.
                Standing::Unknown => return,
                Standing::Absent => absent.push(owner.uid.clone()),
                Standing::Waiting => waiting = true,
                Standing::Solid => solid = true,
            }
        }
        if solid {
            if waiting {
                let leaving = |uid: &str| {
                    object.owners.iter().enumerate().any(|(at, owner)| {
                        &*owner.uid == uid && matches!(self.standing_of(&object, at), Standing::Waiting)
                    })
                };
                absent.extend(object.owners.iter().map(|owner| owner.uid.clone()).filter(|uid| leaving(uid)));
            }
            for uid in absent {
                let _dropped =
                    self.cluster.modify(resource, Part::Main, &name.namespace, &name.name, &writes(), |value| {
                        drop_owner(value, &uid);
                    });
            }
            return;
        }
        let has_dependents = self.view.dependents_of(&object.uid).next().is_some();
        let propagation = if waiting && has_dependents { Propagation::Foreground } else { Propagation::Background };
        if waiting && self.is_in_circle(&object) {
            self.stop_blocking(resource, name);
        }
        // Finalizers that are set already keep their say, as with the real collector.
        let value = object.value();
        let set = metadata(&value).finalizers().find_map(|finalizer| match finalizer {
            ORPHAN => Some(Propagation::Orphan),
            FOREGROUND => Some(Propagation::Foreground),
            _ => None,
        });
        let options = DeleteOptions {
            propagation: Some(set.unwrap_or(propagation)),
            uid: Some(object.uid.to_string()),
            ..DeleteOptions::default()
        };
        let _deleted = self.cluster.delete(resource, &name.namespace, &name.name, &options);
    }

    /// How it is with one of the owners of an object.
    // upstream: pkg/controller/garbagecollector/garbagecollector.go isDangling (v1.36)
    fn standing_of(&self, object: &Object, at: usize) -> Standing {
        let owner = &object.owners[at];
        let version = || version_of_owner(object, at);
        let found = self.view.find(&owner.uid).filter(|(resource, name)| {
            let row = resource.row();
            name.name == owner.name
                && row.kind == &*owner.kind
                // What controllers write need not be read again.
                && (owner.controller || version().split_once('/').map_or("", |(group, _)| group) == row.group)
        });
        let Some((resource, name)) = found else {
            return match self.cluster.scope_of(&version(), &owner.kind) {
                // An object of the cluster cannot be owned by one of a namespace.
                Some(namespaced) if !namespaced || !object.namespace.is_empty() => Standing::Absent,
                _ => Standing::Unknown,
            };
        };
        if !name.namespace.is_empty() && name.namespace != object.namespace {
            return if object.namespace.is_empty() { Standing::Unknown } else { Standing::Absent };
        }
        let owner = self.cluster.get(*resource, &name.namespace, &name.name);
        if owner.is_some_and(|owner| is_deleting_dependents(&owner)) { Standing::Waiting } else { Standing::Solid }
    }

    /// Whether what the object owns waits for the object in turn.
    fn is_in_circle(&self, object: &Object) -> bool {
        self.view.dependents_of(&object.uid).any(|(resource, name)| {
            let dependent = self.cluster.get(*resource, &name.namespace, &name.name);
            dependent.is_some_and(|dependent| is_deleting_dependents(&dependent))
        })
    }

    /// Has an object block the deletion of none of its owners.
    fn stop_blocking(&self, resource: ResourceId, name: &ObjectName) {
        let _freed = self.cluster.modify(resource, Part::Main, &name.namespace, &name.name, &writes(), |value| {
            for owner in list_mut(&mut value["metadata"]["ownerReferences"]) {
                if OwnerReference(owner).block_owner_deletion() == Some(true) {
                    owner["blockOwnerDeletion"] = false.into();
                }
            }
        });
    }

    /// Says of an object that an owner it names is in another namespace.
    // upstream: pkg/controller/garbagecollector/graph_builder.go reportInvalidNamespaceOwnerRef (v1.36)
    fn note_foreign_owners(&mut self, object: &Object) {
        for (at, owner) in object.owners.iter().enumerate() {
            let foreign = self
                .view
                .find(&owner.uid)
                .is_some_and(|(_, name)| !name.namespace.is_empty() && name.namespace != object.namespace);
            if foreign {
                let version = version_of_owner(object, at);
                let message = format!(
                    "ownerRef [{version}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace \"{}\"",
                    owner.kind, object.namespace, owner.name, owner.uid, object.namespace
                );
                self.note(object, COMPONENT, true, "OwnerRefInvalidNamespace", &message);
                return;
            }
        }
    }

    fn orphan_dependents(&mut self, resource: ResourceId, name: &ObjectName, uid: &str) {
        let dependents: Vec<_> = self.view.dependents_of(uid).cloned().collect();
        for (dependent, at) in dependents {
            let _released = self
                .cluster
                .modify(dependent, Part::Main, &at.namespace, &at.name, &writes(), |value| drop_owner(value, uid));
        }
        self.drop_finalizer(resource, name, ORPHAN);
    }

    fn delete_dependents_first(&mut self, resource: ResourceId, name: &ObjectName, uid: &str) {
        let mut blocked = false;
        let dependents: Vec<_> = self.view.dependents_of(uid).cloned().collect();
        for (dependent, at) in dependents {
            let Some(object) = self.cluster.get(dependent, &at.namespace, &at.name) else { continue };
            blocked |= object.owners.iter().any(|owner| owner.uid.as_ref() == uid && owner.blocks_deletion);
            if !object.deleting {
                self.queue.add(key(dependent, at));
            }
        }
        if !blocked {
            self.drop_finalizer(resource, name, FOREGROUND);
        }
    }

    fn drop_finalizer(&mut self, resource: ResourceId, name: &ObjectName, finalizer: &str) {
        let _dropped = self.cluster.modify(resource, Part::Main, &name.namespace, &name.name, &writes(), |value| {
            list_mut(&mut value["metadata"]["finalizers"]).retain(|have| have != finalizer);
        });
    }

    /// Clears `kind`'s finalizer on any object; used by the controllers that protect objects with one.
    pub(super) fn release(&mut self, resource: ResourceId, name: &ObjectName, finalizer: &str) {
        let object = self.cluster.get(resource, &name.namespace, &name.name);
        if object.is_some_and(|object| metadata(&object.value()).finalizers().any(|have| have == finalizer)) {
            self.drop_finalizer(resource, name, finalizer);
        }
    }
}
