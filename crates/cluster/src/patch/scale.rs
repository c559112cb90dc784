//! Who manages the number of replicas that is written through the subresource `scale`, and server-side apply of a Scale.

// upstream: apimachinery pkg/util/managedfields/scalehandler.go ToSubresource, ToParent (v1.36)

use klab_api_machinery::object::Object;
use klab_api_machinery::status::Status;
use serde_json::{Value, json};

use super::apply::{checked, conflict, no_manager, wrong_kind};
use super::fields::Fields;
use super::managed::{Entry, Managed, Writer};

const VERSION: &str = "autoscaling/v1";
const KIND: &str = "Scale";

/// The managers of an object whose Scale is written. Of its fields a Scale has the number of replicas alone.
pub(crate) struct ScaleManagers<'a> {
    managed: Managed,
    writer: Writer<'a>,
    /// Where the object has that number.
    path: Vec<String>,
    applied: bool,
}

impl<'a> ScaleManagers<'a> {
    pub(crate) fn of(object: &Object, writer: Writer<'a>, path: &[String]) -> Self {
        let path = path.iter().map(|part| format!("f:{part}")).collect();
        Self { managed: Managed::of(object), writer, path, applied: false }
    }

    /// Applies a configuration to a Scale.
    ///
    /// # Errors
    /// What is wrong with the configuration; 409 where others want another number.
    pub(crate) fn apply(&mut self, mut scale: Value, config: &Value, force: bool) -> Result<Value, Status> {
        if self.writer.manager.is_empty() {
            return Err(no_manager());
        }
        if config["apiVersion"] != VERSION || config["kind"] != KIND {
            return Err(wrong_kind(config));
        }
        checked(VERSION, KIND, config)?;
        self.applied = true;
        let others = |entry: &&Entry| !self.is_own(entry) && entry.fields.has(&self.path);
        let wanted = &config["spec"]["replicas"];
        if wanted.is_null() {
            let had = self.managed.0.iter().any(|entry| self.is_own(entry) && entry.fields.has(&self.path));
            if had && !self.managed.0.iter().any(|entry| others(&entry)) {
                scale["spec"] = json!({});
            }
        } else if scale["spec"]["replicas"].as_i64().unwrap_or_default() != wanted.as_i64().unwrap_or_default() {
            let disputed = self.managed.0.iter().filter(others).map(|entry| {
                let shown = Entry { api_version: VERSION.to_owned(), ..entry.clone() };
                (shown.title(), vec![".spec.replicas".to_owned()])
            });
            let disputed: Vec<_> = disputed.collect();
            if !force && !disputed.is_empty() {
                return Err(conflict(disputed));
            }
            scale["spec"]["replicas"] = wanted.clone();
        }
        // Nobody's writes count from now on but those of who wants it so; see `after`.
        let own = self.managed.0.iter().position(|entry| self.is_own(entry));
        if let Some(own) = own {
            self.managed.0.remove(own);
        }
        for part in ["name", "resourceVersion", "uid"] {
            if let Some(given) = config["metadata"].get(part) {
                scale["metadata"][part] = given.clone();
            }
        }
        if !wanted.is_null() {
            self.managed.0.push(self.entry());
        }
        Ok(scale)
    }

    /// The managers after the write, which has changed the number or not.
    pub(crate) fn after(mut self, changed: bool) -> Managed {
        if !changed || !self.managed.0.iter().any(|entry| entry.fields.has(&self.path)) {
            // upstream: skipnonapplied.go: where nobody manages the number, nobody does after an update.
            return self.managed;
        }
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let keeps = |entry: &Entry| self.applied && self.is_own(entry);
        let (own, mut others): (Vec<Entry>, Vec<Entry>) = self.managed.0.iter().cloned().partition(keeps);
        for entry in &mut others {
            entry.fields.cut(&path);
        }
        others.retain(|entry| !entry.fields.is_empty());
        others.extend(own);
        if !self.applied && !self.writer.manager.is_empty() {
            others.push(self.entry());
        }
        self.managed.0 = others;
        self.managed
    }

    fn is_own(&self, entry: &Entry) -> bool {
        entry.applied == self.applied && entry.manager == self.writer.manager && entry.subresource == "scale"
    }

    /// What the writer manages. Upstream forgets when.
    fn entry(&self) -> Entry {
        let mut fields = Fields::default();
        self.path.iter().fold(&mut fields, |fields, part| fields.child(part.as_str())).member = true;
        Entry {
            manager: self.writer.manager.to_owned(),
            applied: self.applied,
            api_version: self.writer.resource.row().api_version(),
            time: None,
            subresource: "scale".to_owned(),
            fields,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::*;
    use crate::clock::SteppedClock;
    use crate::cluster::{Cluster, Part, WriteOptions};
    use crate::patch::Patch;
    use klab_api_machinery::resource::DEPLOYMENTS;

    fn cluster() -> Cluster {
        Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 7)
    }

    fn apply(cluster: &Cluster, replicas: Option<i64>) {
        let mut value = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
            "spec": {
                "selector": { "matchLabels": { "app": "web" } },
                "template": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": { "containers": [{ "name": "main", "image": "nginx:1.27" }] },
                },
            },
        });
        if let Some(replicas) = replicas {
            value["spec"]["replicas"] = json!(replicas);
        }
        let patch = Patch::Apply { value, force: false };
        let options = WriteOptions::client("test");
        cluster.patch(DEPLOYMENTS, Part::Main, "default", "web", patch, &options).expect("applied");
    }

    fn to(replicas: i64) -> Patch {
        Patch::Merge(json!({ "spec": { "replicas": replicas } }))
    }

    fn applied(replicas: i64, force: bool) -> Patch {
        let value = json!({ "apiVersion": VERSION, "kind": KIND, "spec": { "replicas": replicas } });
        Patch::Apply { value, force }
    }

    fn scale(cluster: &Cluster, manager: &str, patch: Patch) -> Result<Value, Status> {
        cluster.scale_patch(DEPLOYMENTS, "default", "web", patch, &WriteOptions::client(manager))
    }

    /// Manager, operation and subresource of those who manage the number of replicas.
    fn owners(cluster: &Cluster) -> Vec<String> {
        let object = cluster.get(DEPLOYMENTS, "default", "web").expect("a deployment");
        let list = object.managed_fields();
        let list = list.as_array().into_iter().flatten();
        let owners = list.filter(|entry| entry["fieldsV1"]["f:spec"]["f:replicas"].is_object()).map(|entry| {
            assert_eq!(entry["apiVersion"], "apps/v1");
            let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", text("manager"), text("operation"), text("subresource"))
        });
        owners.collect()
    }

    /// upstream: scalehandler_test.go TestTransformingManagedFieldsToParent.
    #[test]
    fn who_scales_manages_the_number_by_way_of_the_subresource() {
        let cluster = cluster();
        apply(&cluster, Some(3));
        assert_eq!(owners(&cluster), ["test Apply "]);
        scale(&cluster, "scale", to(3)).expect("nothing to do");
        assert_eq!(owners(&cluster), ["test Apply "]);
        scale(&cluster, "scale", to(4)).expect("scaled");
        assert_eq!(owners(&cluster), ["scale Update scale"]);
        scale(&cluster, "scale", to(5)).expect("scaled");
        scale(&cluster, "other", to(6)).expect("scaled");
        assert_eq!(owners(&cluster), ["other Update scale"]);
        let refused = scale(&cluster, "scale", applied(7, false)).expect_err("a conflict");
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (
                409,
                "Apply failed with 1 conflict: conflict with \"other\" with subresource \"scale\" using autoscaling/v1: .spec.replicas"
            )
        );
        scale(&cluster, "scale", applied(7, true)).expect("forced");
        assert_eq!(owners(&cluster), ["scale Apply scale"]);
        scale(&cluster, "third", applied(7, false)).expect("shared");
        assert_eq!(owners(&cluster), ["scale Apply scale", "third Apply scale"]);
        apply(&cluster, Some(7));
        assert_eq!(owners(&cluster), ["scale Apply scale", "third Apply scale", "test Apply "]);
    }

    #[test]
    fn where_nobody_manages_the_number_nobody_does_after_an_update() {
        let cluster = cluster();
        apply(&cluster, None);
        scale(&cluster, "scale", to(4)).expect("scaled");
        assert!(owners(&cluster).is_empty());
        let wrong = json!({ "apiVersion": "apps/v1", "kind": "Deployment" });
        let refused = scale(&cluster, "scale", Patch::Apply { value: wrong, force: false }).expect_err("refused");
        assert_eq!((refused.code, refused.message.as_str()), (400, "invalid object type: apps/v1, Kind=Deployment"));
    }
}
