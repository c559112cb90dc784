//! The end of namespaces: content first, then the namespace.

// upstream: pkg/controller/namespace/deletion/namespaced_resources_deleter.go Delete (v1.36)

use std::collections::BTreeMap;

use jiff::SignedDuration;
use klab_api_machinery::resource::{EVENTS, NAMESPACES, PODS, ResourceId};
use klab_api_machinery::value::{list_mut, set_condition, time_text};
use klab_api_machinery::views::metadata;
use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use crate::clock::later;
use crate::cluster::{DeleteOptions, Part, Propagation};

const FINALIZER: &str = "kubernetes";
/// How long the real controller waits before it empties a namespace.
const GRACE: SignedDuration = SignedDuration::from_secs(5);

/// Empties namespaces that are deleted.
#[derive(Default)]
pub(super) struct Namespaces;

impl Reconciler for Namespaces {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        let object = change.object;
        if change.resource() != NAMESPACES {
            if plane.view.terminating.contains(&object.namespace) {
                plane.queue.add(key(&object.namespace));
            }
        } else if object.deleting && !change.gone {
            plane.queue.add(key(&object.name));
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        plane.empty_namespace(&key.name.name);
    }
}

fn key(name: &str) -> Key {
    Key::new(Controller::Namespace, NAMESPACES, ObjectName::new("", name))
}

impl Plane {
    /// Deletes what a terminating namespace holds; when nothing is left, lets the namespace go.
    fn empty_namespace(&mut self, name: &str) {
        let Some(object) = self.cluster.get(NAMESPACES, "", name).filter(|object| object.deleting) else { return };
        // The real controller waits, for the word to get round among API servers; here that is of use only where
        // everything is to take its time.
        if self.settings.hollow.as_recorded {
            let deleted = metadata(&object.value()).deletion_timestamp().unwrap_or_default();
            if later(deleted, GRACE) > self.now() {
                self.queue.add_at(key(name), later(deleted, GRACE));
                return;
            }
        }
        // Pods go first: what they need is there until they are gone. Until then the conditions say nothing of the rest.
        let mut finalizers = BTreeMap::new();
        if self.empty_of(PODS, name, &mut finalizers) > 0 {
            self.write_namespace_conditions(name, &[], &BTreeMap::new());
            return;
        }
        let mut kinds = self.cluster.kinds();
        kinds.retain(|id| id.row().namespaced && *id != EVENTS);
        let mut left: Vec<(ResourceId, usize)> = Vec::new();
        for kind in kinds {
            let remaining = self.empty_of(kind, name, &mut finalizers);
            if remaining > 0 {
                left.push((kind, remaining));
            }
        }
        if left.is_empty() {
            let _deleted = self.cluster.delete_collection(EVENTS, Some(name), &DeleteOptions::default(), |_| true);
        }
        self.write_namespace_conditions(name, &left, &finalizers);
        // Pods go gracefully; each that is gone brings the namespace back here.
        if left.is_empty() {
            let _finalized = self.cluster.modify(NAMESPACES, Part::Finalize, "", name, &writes(), |value| {
                list_mut(&mut value["spec"]["finalizers"]).retain(|have| have != FINALIZER);
            });
        }
    }

    /// Deletes the objects of a kind in a namespace; how many are left, and what holds them.
    fn empty_of(&mut self, kind: ResourceId, namespace: &str, finalizers: &mut BTreeMap<String, usize>) -> usize {
        let mut remaining = 0;
        for object in self.cluster.list(kind, Some(namespace)).0 {
            if !object.deleting {
                let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
                let _deleted = self.cluster.delete(kind, namespace, &object.name, &options);
            }
            if let Some(object) = self.cluster.get(kind, namespace, &object.name) {
                remaining += 1;
                for finalizer in metadata(&object.value()).finalizers() {
                    *finalizers.entry(finalizer.to_owned()).or_default() += 1;
                }
            }
        }
        remaining
    }

    fn write_namespace_conditions(
        &mut self,
        name: &str,
        left: &[(ResourceId, usize)],
        finalizers: &BTreeMap<String, usize>,
    ) {
        let transition = time_text(self.now());
        let remaining = left
            .iter()
            .map(|(kind, count)| {
                let row = kind.row();
                let qualified = if row.group.is_empty() { format!("{}.", row.plural) } else { row.qualified() };
                format!("{qualified} has {count} resource instances")
            })
            .collect::<Vec<_>>()
            .join(", ");
        let held = finalizers
            .iter()
            .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"))
            .collect::<Vec<_>>()
            .join(", ");
        let content = if left.is_empty() {
            ("False", "ContentRemoved", "All content successfully removed".to_owned())
        } else {
            ("True", "SomeResourcesRemain", format!("Some resources are remaining: {remaining}"))
        };
        let waiting = if held.is_empty() {
            ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished".to_owned())
        } else {
            ("True", "SomeFinalizersRemain", format!("Some content in the namespace has finalizers remaining: {held}"))
        };
        let deleted = "All content successfully deleted, may be waiting on finalization".to_owned();
        let wanted = [
            (
                "NamespaceDeletionDiscoveryFailure",
                ("False", "ResourcesDiscovered", "All resources successfully discovered".to_owned()),
            ),
            (
                "NamespaceDeletionGroupVersionParsingFailure",
                ("False", "ParsedGroupVersions", "All legacy kube types successfully parsed".to_owned()),
            ),
            ("NamespaceDeletionContentFailure", ("False", "ContentDeleted", deleted)),
            ("NamespaceContentRemaining", content),
            ("NamespaceFinalizersRemaining", waiting),
        ];
        let _written = self.cluster.modify(NAMESPACES, Part::Status, "", name, &writes(), |value: &mut Value| {
            for (kind, (status, reason, message)) in wanted {
                let condition = json!({
                    "type": kind, "status": status, "lastTransitionTime": transition, "reason": reason,
                    "message": message,
                });
                set_condition(&mut value["status"]["conditions"], condition);
            }
        });
    }
}
