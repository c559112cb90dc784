//! Who manages the number of replicas that is written through the subresource `scale`, and server-side apply of a Scale.

// upstream: apimachinery pkg/util/managedfields/scalehandler.go ToSubresource, ToParent (v1.36)

use klab_api_machinery::object::Object;
use klab_api_machinery::status::Status;
use serde_json::{Value, json};

use super::apply::{check_types, conflict, no_manager, wrong_kind};
use super::fields::Fields;
use super::managed::{Entry, Managed, Writer};

const VERSION: &str = "autoscaling/v1";
const KIND: &str = "Scale";

/// The managers of an object whose Scale is written. Of its fields a Scale has the number of replicas alone.
pub struct ScaleManagers<'a> {
    managed: Managed,
    writer: Writer<'a>,
    /// Where the object has that number.
    path: Vec<String>,
    applied: bool,
}

impl<'a> ScaleManagers<'a> {
    /// The managers of an object that has the number of its replicas at `path`.
    pub fn of(object: &Object, writer: Writer<'a>, path: &[String]) -> Self {
        let path = path.iter().map(|part| format!("f:{part}")).collect();
        Self { managed: Managed::of(object), writer, path, applied: false }
    }

    /// Applies a configuration to a Scale.
    ///
    /// # Errors
    /// What is wrong with the configuration; 409 where others want another number.
    pub fn apply(&mut self, mut scale: Value, config: &Value, force: bool) -> Result<Value, Status> {
        if self.writer.manager.is_empty() {
            return Err(no_manager());
        }
        if config["apiVersion"] != VERSION || config["kind"] != KIND {
            return Err(wrong_kind(config));
        }
        check_types(VERSION, KIND, None, config)?;
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
        // From now on only the managers that want this number count; see `after`.
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
    pub fn after(mut self, changed: bool) -> Managed {
        if !changed || !self.managed.0.iter().any(|entry| entry.fields.has(&self.path)) {
            // upstream: skipnonapplied.go: where no manager has the number, none has it after an update.
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
