//! ControllerRevisions: the history of a DaemonSet's or StatefulSet's template.

// upstream: pkg/controller/history/controller_history.go realHistory (v1.36)

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::CONTROLLER_REVISIONS;
use klab_api_machinery::value::{controller_reference, map_mut};
use klab_api_machinery::views::{ControllerRevision, ObjectMeta, PodTemplateSpec};
use serde_json::{Value, json};

use super::hash::safe_encode;
use super::plane::Plane;
use super::pods::writes;
use crate::cluster::{DeleteOptions, Part};
use klab_scheduler::hash::fnv32;

/// The label a revision's hash is in, on revisions and on pods.
pub(super) const HASH_LABEL: &str = "controller-revision-hash";

/// One revision.
#[derive(Debug, Clone)]
pub(super) struct Revision {
    pub(super) object: Arc<Object>,
    pub(super) number: i64,
    value: Arc<Value>,
}

impl Revision {
    fn new(object: Arc<Object>) -> Self {
        let value = object.value();
        Self { number: ControllerRevision(&value).revision(), value, object }
    }

    pub(super) fn data(&self) -> &Value {
        ControllerRevision(&self.value).data()
    }

    /// The hash alone.
    pub(super) fn hash(&self) -> &str {
        self.object.label(HASH_LABEL).unwrap_or_default()
    }
}

/// A template as a revision keeps it: a strategic merge patch that puts it back.
pub(super) fn data_of_template(template: &Value) -> Value {
    let mut template = template.clone();
    map_mut(&mut template).insert("$patch".to_owned(), json!("replace"));
    json!({ "spec": { "template": template } })
}

/// Whether that is what a revision keeps of the template.
fn is_data_of(data: &Value, template: &Value) -> bool {
    let Some(kept) = data["spec"]["template"].as_object() else { return false };
    let fields = template.as_object().map_or(0, serde_json::Map::len);
    kept.len() == fields + 1
        && kept.get("$patch").is_some_and(|patch| patch == "replace")
        && template.as_object().into_iter().flatten().all(|(field, value)| kept.get(field) == Some(value))
}

impl Plane {
    /// The revisions of an owner, oldest first.
    fn revisions_of(&self, owner: &Object) -> Vec<Revision> {
        let mut revisions: Vec<Revision> = self
            .view
            .dependents_of(&owner.uid)
            .filter(|(resource, _)| *resource == CONTROLLER_REVISIONS)
            .filter_map(|(_, name)| self.cluster.get(CONTROLLER_REVISIONS, &name.namespace, &name.name))
            .map(Revision::new)
            .collect();
        revisions.sort_by(|left, right| {
            left.number.cmp(&right.number).then_with(|| left.object.name.cmp(&right.object.name))
        });
        revisions
    }

    /// Finds the revision of the present template, renumbering an older equal one, or makes it. Gives back all
    /// revisions with the present one last.
    pub(super) fn sync_revisions(
        &mut self,
        owner: &Object,
        metadata: ObjectMeta<'_>,
        template: PodTemplateSpec<'_>,
    ) -> Vec<Revision> {
        let mut revisions = self.revisions_of(owner);
        let next = revisions.last().map_or(1, |last| last.number + 1);
        if let Some(place) = revisions.iter().rposition(|revision| is_data_of(revision.data(), template.0)) {
            if place + 1 < revisions.len() {
                let name = revisions[place].object.name.clone();
                let renumbered = self.cluster.modify(
                    CONTROLLER_REVISIONS,
                    Part::Main,
                    &owner.namespace,
                    &name,
                    &writes(),
                    |revision| revision["revision"] = json!(next),
                );
                revisions.remove(place);
                revisions.extend(renumbered.ok().map(Revision::new));
            }
            return revisions;
        }
        let data = data_of_template(template.0);
        // The hash covers the template, and what tells it from an earlier revision of the same hash.
        let data_text = data.to_string();
        for collision in 0..10u8 {
            let salt: &[u8] = if collision == 0 { &[] } else { &[collision] };
            let hash = safe_encode(fnv32(&[data_text.as_bytes(), salt]));
            let mut labels = template.metadata().0["labels"].clone();
            map_mut(&mut labels).insert(HASH_LABEL.to_owned(), json!(hash));
            let revision = json!({
                "metadata": {
                    "name": format!("{}-{hash}", owner.name), "labels": labels,
                    // The owner's annotations go along, for `kubernetes.io/change-cause`.
                    "annotations": metadata.0["annotations"], "ownerReferences": [controller_reference(owner)],
                },
                "data": data, "revision": next,
            });
            match self.cluster.create(CONTROLLER_REVISIONS, &owner.namespace, revision, &writes()) {
                Ok(object) => {
                    revisions.push(Revision::new(object));
                    break;
                }
                Err(status) if status.reason == "AlreadyExists" => {}
                Err(_) => break,
            }
        }
        revisions
    }

    /// Deletes the oldest revisions beyond the limit (`spec.revisionHistoryLimit`) that no pod (`live` hashes) has.
    pub(super) fn trim_revisions(
        &mut self,
        limit: Option<i64>,
        revisions: &[Revision],
        live: &dyn Fn(&Revision) -> bool,
    ) {
        let Some((_, history)) = revisions.split_last() else { return };
        let unused: Vec<&Revision> = history.iter().filter(|revision| !live(revision)).collect();
        let excess = unused.len().saturating_sub(usize::try_from(limit.unwrap_or(10)).unwrap_or_default());
        for revision in unused.into_iter().take(excess) {
            let _deleted = self.cluster.delete(
                CONTROLLER_REVISIONS,
                &revision.object.namespace,
                &revision.object.name,
                &DeleteOptions::default(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_a_patch_that_replaces_the_template() {
        let template = json!({"metadata": {"labels": {"app": "db"}}, "spec": {}});
        let data = data_of_template(&template);
        assert_eq!(data["spec"]["template"]["$patch"], "replace");
        assert_eq!(data["spec"]["template"]["metadata"], template["metadata"]);
        assert!(is_data_of(&data, &template));
        for other in [json!({"metadata": {"labels": {"app": "web"}}, "spec": {}}), json!({"spec": {}}), json!(null)] {
            assert!(!is_data_of(&data, &other), "{other}");
            assert!(is_data_of(&data_of_template(&other), &other), "{other}");
        }
    }
}
