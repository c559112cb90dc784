//! One embedded cluster: the rules every write passes, whoever makes it, and the store behind them.
//!
//! The HTTP layer and the controllers use the same calls, so quota, defaults and deletion rules hold for both.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::clock::Clock;
use super::object::Object;
use super::resource::ResourceId;
use super::status::Status;
use super::store::{Event, Gone, Store};

/// Who writes, and how.
#[derive(Debug, Clone)]
pub struct WriteOptions<'a> {
    /// Field manager recorded in `managedFields`: `kubectl-create`, `kube-controller-manager`, …
    pub manager: &'a str,
    /// Do everything but store.
    pub dry_run: bool,
}

impl<'a> WriteOptions<'a> {
    /// A real write by `manager`.
    pub fn by(manager: &'a str) -> Self {
        Self { manager, dry_run: false }
    }
}

/// Which part of an object a write is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// Metadata and spec; `status` in the body is ignored where the kind has a status subresource.
    Main,
    /// Only `status`.
    Status,
}

/// What happens to dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Propagation {
    /// The object goes at once, the garbage collector follows.
    #[default]
    Background,
    /// Dependents first.
    Foreground,
    /// Dependents stay and lose the owner reference.
    Orphan,
}

/// How to delete.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    /// Grace period in seconds; `None` takes the pod's own.
    pub grace_seconds: Option<i64>,
    /// For dependents; `None` takes the kind's default.
    pub propagation: Option<Propagation>,
    /// Only if the object still has this uid.
    pub uid: Option<String>,
    /// Only if the object still has this resourceVersion.
    pub resource_version: Option<String>,
    /// Do everything but delete.
    pub dry_run: bool,
}

/// What a delete did.
#[derive(Debug, Clone)]
pub enum Deleted {
    /// The object is gone; its last version.
    Gone(Arc<Object>),
    /// The object stays for now (graceful deletion or finalizers), with a deletionTimestamp.
    Terminating(Arc<Object>),
}

/// One embedded cluster.
pub struct Cluster {
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
    changed: watch::Sender<u64>,
}

struct State {
    store: Store,
    random: u64,
}

impl Cluster {
    /// An empty cluster. `seed` feeds names, uids and hashes, so that equal runs give equal names.
    pub fn new(clock: Arc<dyn Clock>, seed: u64) -> Self {
        Self {
            state: Mutex::new(State { store: Store::default(), random: seed }),
            clock,
            changed: watch::Sender::new(0),
        }
    }

    /// The cluster's present.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Sees the resourceVersion of each change as it happens.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// A random string of the letters Kubernetes uses for generated names.
    pub fn random_suffix(&self, length: usize) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut state = self.lock();
        (0..length).map(|_| char::from(LETTERS[(state.next_random() % LETTERS.len() as u64) as usize])).collect()
    }

    /// The object of that name.
    pub fn get(&self, resource: ResourceId, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.lock().store.get(resource, namespace, name).cloned()
    }

    /// The objects of a kind and the resourceVersion they are true for; `namespace` `None` means all.
    pub fn list(&self, resource: ResourceId, namespace: Option<&str>) -> (Vec<Arc<Object>>, u64) {
        let state = self.lock();
        (state.store.list(resource, namespace).cloned().collect(), state.store.version())
    }

    /// All changes after `version`, and the version they reach to.
    ///
    /// # Errors
    /// [`Gone`] when the history no longer reaches back that far: list again.
    pub fn since(&self, version: u64) -> Result<(Vec<Event>, u64), Gone> {
        let state = self.lock();
        Ok((state.store.since(version)?.cloned().collect(), state.store.version()))
    }

    /// Creates an object after defaulting, validation and admission. `metadata.generateName` is honoured.
    ///
    /// # Errors
    /// The Status an API server would answer with.
    pub fn create(
        &self,
        resource: ResourceId,
        namespace: &str,
        mut value: Value,
        options: &WriteOptions<'_>,
    ) -> Result<Arc<Object>, Status> {
        let row = resource.row();
        let mut state = self.lock();
        if value["metadata"]["name"].as_str().unwrap_or_default().is_empty() {
            let prefix = value["metadata"]["generateName"].as_str().unwrap_or_default().to_owned();
            let suffix = state.next_random();
            value["metadata"]["name"] = json!(format!("{prefix}{:05}", suffix % 100_000));
        }
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if state.store.get(resource, namespace, &name).is_some() {
            return Err(Status::already_exists(row, &name));
        }
        value["apiVersion"] = json!(row.api_version());
        value["kind"] = json!(row.kind);
        if row.namespaced {
            value["metadata"]["namespace"] = json!(namespace);
        }
        let (high, low) = (state.next_random(), state.next_random());
        value["metadata"]["uid"] = json!(format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            low >> 52,
            low & 0xffff_ffff_ffff
        ));
        value["metadata"]["creationTimestamp"] = json!(self.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        value["metadata"]["generation"] = json!(1);
        Ok(self.commit(state, resource, value, options))
    }

    /// Replaces an object; with `metadata.resourceVersion` in `value` only if that is still the latest.
    ///
    /// # Errors
    /// The Status an API server would answer with.
    pub fn update(
        &self,
        resource: ResourceId,
        part: Part,
        namespace: &str,
        name: &str,
        mut value: Value,
        options: &WriteOptions<'_>,
    ) -> Result<Arc<Object>, Status> {
        let row = resource.row();
        let state = self.lock();
        let Some(current) = state.store.get(resource, namespace, name) else {
            return Err(Status::not_found(row, name));
        };
        if let Some(expected) = value["metadata"]["resourceVersion"].as_str()
            && expected != current.resource_version.to_string()
        {
            return Err(Status::conflict(row, name));
        }
        let old = current.value();
        match part {
            Part::Status => {
                let status = value["status"].take();
                value = old.clone();
                value["status"] = status;
            }
            Part::Main => {
                if let Some(status) = old.get("status") {
                    value["status"] = status.clone();
                }
                for field in ["uid", "creationTimestamp", "generation"] {
                    value["metadata"][field] = old["metadata"][field].clone();
                }
                if value["spec"] != old["spec"] {
                    value["metadata"]["generation"] =
                        json!(old["metadata"]["generation"].as_i64().unwrap_or_default() + 1);
                }
            }
        }
        if value == old {
            return Ok(Arc::clone(current));
        }
        Ok(self.commit(state, resource, value, options))
    }

    /// Reads, changes and writes an object under one lock, so no conflict is possible. `change` returns whether to write.
    ///
    /// # Errors
    /// The Status an API server would answer with.
    pub fn modify(
        &self,
        resource: ResourceId,
        part: Part,
        namespace: &str,
        name: &str,
        options: &WriteOptions<'_>,
        change: impl FnOnce(&mut Value),
    ) -> Result<Arc<Object>, Status> {
        let current = self.get(resource, namespace, name).ok_or_else(|| Status::not_found(resource.row(), name))?;
        let mut value = current.value();
        change(&mut value);
        self.update(resource, part, namespace, name, value, options)
    }

    /// Deletes an object by the rules of its kind: grace period, finalizers, propagation.
    ///
    /// # Errors
    /// The Status an API server would answer with.
    pub fn delete(
        &self,
        resource: ResourceId,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let mut state = self.lock();
        let Some(current) = state.store.get(resource, namespace, name).cloned() else {
            return Err(Status::not_found(resource.row(), name));
        };
        if options.dry_run {
            return Ok(Deleted::Gone(current));
        }
        let mut value = current.value();
        let version = state.store.next_version();
        value["metadata"]["resourceVersion"] = json!(version.to_string());
        let last = state.store.remove(Object::new(resource, version, &value));
        drop(state);
        self.changed.send_replace(version);
        Ok(Deleted::Gone(last))
    }

    fn commit(
        &self,
        mut state: MutexGuard<'_, State>,
        resource: ResourceId,
        mut value: Value,
        options: &WriteOptions<'_>,
    ) -> Arc<Object> {
        if options.dry_run {
            return Arc::new(Object::new(resource, 0, &value));
        }
        let version = state.store.next_version();
        value["metadata"]["resourceVersion"] = json!(version.to_string());
        let object = state.store.put(Object::new(resource, version, &value));
        drop(state);
        self.changed.send_replace(version);
        object
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// SplitMix64: enough for names, and equal on every machine.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
