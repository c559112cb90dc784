//! Garbage collection by owner references: dependents follow their owners, or are let go, or go first.

// upstream: pkg/controller/garbagecollector/garbagecollector.go attemptToDeleteItem (v1.36)

use super::controller::Controller;
use super::plane::Plane;
use super::pods::{drop_owner, writes};
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::value::{items, text};
use crate::cluster::{DeleteOptions, Part, Propagation};
use crate::resource::ResourceId;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// Deletes objects whose owners are gone.
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
        if object.deleting || (owners_changed && !object.owners.is_empty()) {
            self.queue.add(key(object.resource, change.name()));
        }
    }

    /// Looks at one object: its owners may be gone, or it is being deleted and has dependents to care for.
    fn collect(&mut self, resource: ResourceId, name: &ObjectName) {
        let Some(object) = self.cluster.get(resource, &name.namespace, &name.name) else { return };
        if object.deleting {
            let value = object.value();
            let has = |finalizer: &str| items(&value["metadata"]["finalizers"]).iter().any(|have| have == finalizer);
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
        for owner in &object.owners {
            match self.view.find(&owner.uid) {
                None => absent.push(owner.uid.clone()),
                Some((owner_resource, owner_name)) => {
                    let foreground = self
                        .cluster
                        .get(*owner_resource, &owner_name.namespace, &owner_name.name)
                        .is_some_and(|owner| {
                            owner.deleting
                                && items(&owner.value()["metadata"]["finalizers"]).iter().any(|have| have == FOREGROUND)
                        });
                    if foreground {
                        waiting = true;
                    } else {
                        solid = true;
                    }
                }
            }
        }
        if solid {
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
        // Finalizers that are set already keep their say, as with the real collector.
        let value = object.value();
        let set = items(&value["metadata"]["finalizers"]).iter().find_map(|finalizer| match finalizer.as_str() {
            Some(ORPHAN) => Some(Propagation::Orphan),
            Some(FOREGROUND) => Some(Propagation::Foreground),
            _ => None,
        });
        let options = DeleteOptions {
            propagation: Some(set.unwrap_or(propagation)),
            uid: Some(object.uid.to_string()),
            ..DeleteOptions::default()
        };
        let _deleted = self.cluster.delete(resource, &name.namespace, &name.name, &options);
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
            let left: Vec<_> = items(&value["metadata"]["finalizers"])
                .iter()
                .filter(|have| have.as_str() != Some(finalizer))
                .cloned()
                .collect();
            if let Some(metadata) = value["metadata"].as_object_mut() {
                if left.is_empty() {
                    metadata.remove("finalizers");
                } else {
                    metadata.insert("finalizers".to_owned(), left.into());
                }
            }
        });
    }

    /// Clears `kind`'s finalizer on any object; used by the controllers that protect objects with one.
    pub(super) fn release(&mut self, resource: ResourceId, name: &ObjectName, finalizer: &str) {
        let held = self.cluster.get(resource, &name.namespace, &name.name).is_some_and(|object| {
            items(&object.value()["metadata"]["finalizers"]).iter().any(|have| text(have, &[]) == finalizer)
        });
        if held {
            self.drop_finalizer(resource, name, finalizer);
        }
    }
}
