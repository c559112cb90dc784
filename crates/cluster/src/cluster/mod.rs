//! One embedded cluster: its lock, and the store behind it. Every write of every client goes through `pipeline`.
//!
//! The HTTP layer and the controllers use the same calls, so quota, defaults and deletion rules hold for both.
//! Every write runs under one lock from reading the old version to storing the new one.

mod checkpoint;
mod common;
mod consulting;
mod converting;
mod copy;
mod durable;
mod event;
mod patch;
mod reading;
mod served;
mod services;
mod subresource;
mod template;
#[cfg(test)]
mod tests;
mod voice;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, TryLockError};
use std::time::Duration;

use jiff::Timestamp;
use klab_api_machinery::object::Object;
pub use klab_api_machinery::part::Part;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::status::Status;
use klab_api_machinery::work;
use klab_containers::{Containers, Simulated};
use klab_scheduler::features::Features;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::Value;
use tokio::sync::watch;

use super::clock::Clock;
use super::definitions::Definitions;
use super::dynamic_admission::AdmissionCache;
use super::flavour::Flavour;
pub use super::log::Base;
use super::pipeline;
pub(crate) use super::pipeline::{EventSource, KIND_RANGE, NewEvent, RANGE, ROOT_CERTIFICATE, SERVICE_CIDR};
use super::store::Store;
pub use super::store::{Change, Event, Gone};
pub use super::transaction::EverDefined;
pub use super::transaction::{DeleteOptions, Deleted, FieldValidation, Limits, Propagation, WriteOptions, Written};
pub(crate) use super::transaction::{Guard, Intent};
use super::transaction::{JsonCache, Random, State, Transaction};
use super::webhook::Transport;
pub use checkpoint::Checkpoint;
pub(crate) use common::Common;
pub use durable::Recovery;
use klab_api_machinery::certificates::Authority;
pub(crate) use served::{fixed, group_versions, has_other_kinds, listings, resource_at, resources_of};
pub(crate) use services::service_range;
pub use template::Template;
pub use voice::Voice;

/// One embedded cluster.
pub struct Cluster {
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
    changed: watch::Sender<u64>,
    faults: Mutex<Vec<ControlFault>>,
    /// Up to which change the controllers have done what was due, and when something is due next.
    settled: Mutex<(u64, Option<Timestamp>)>,
    /// How many long requests are under way.
    busy: watch::Sender<usize>,
    /// Whether the API answers.
    voice: Arc<watch::Sender<Voice>>,
    /// What it is a copy of.
    template: Option<Arc<Template>>,
    /// Who signs certificate requests, if anybody does.
    authority: OnceLock<Arc<Authority>>,
    /// What tokens of ServiceAccounts are signed with.
    token_key: OnceLock<[u8; 32]>,
    /// The features that it has, for requests that change nothing.
    features: RwLock<Features>,
    /// Who carries calls to webhooks.
    webhooks: RwLock<Option<Arc<dyn Transport>>>,
    /// What the containers of pods do.
    containers: Arc<dyn Containers>,
}

/// A long request is under way until this is dropped.
pub struct Busy(Arc<Cluster>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.send_modify(|requests| *requests -= 1);
    }
}

/// A fault of klab's own: a controller panicked, and goes on without the object that it was working on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlFault {
    /// Kind, namespace and name of the object: `Job default/report`.
    pub about: String,
    /// What the panic said.
    pub message: String,
    /// When it happened, by the cluster's clock.
    pub at: Timestamp,
}

impl Cluster {
    /// A fresh cluster in memory, as an API server starts with: the four standard namespaces and the system priority
    /// classes. `seed` feeds names, uids and hashes, so that equal runs give equal names.
    pub fn new(clock: Arc<dyn Clock>, seed: u64) -> Self {
        let cluster = Self::empty(clock, seed);
        let made = cluster.transact(&WriteOptions::by("kube-apiserver"), |transaction| {
            pipeline::standard_objects(transaction);
            Ok(())
        });
        debug_assert!(made.is_ok(), "{made:?}");
        cluster
    }

    fn empty(clock: Arc<dyn Clock>, seed: u64) -> Self {
        Self {
            state: Mutex::new(State {
                store: Store::default(),
                random: Random::new(seed),
                addresses: None,
                log: None,
                kinds: EverDefined::default(),
                refused: false,
                root_certificate: String::new(),
                json_cache: JsonCache::default(),
                limits: Arc::default(),
                flavour: Flavour::default(),
                features: Features::default(),
                definitions: Definitions::default(),
                admission: AdmissionCache::default(),
                kept_random: None,
            }),
            clock,
            changed: watch::Sender::new(0),
            faults: Mutex::default(),
            settled: Mutex::default(),
            busy: watch::Sender::new(0),
            voice: Arc::new(watch::Sender::new(Voice::Answers)),
            template: None,
            authority: OnceLock::new(),
            token_key: OnceLock::new(),
            features: RwLock::default(),
            webhooks: RwLock::default(),
            containers: Arc::new(Simulated),
        }
    }

    /// Has it say through this sender whether it answers: one that outlives it.
    pub fn with_voice(self, voice: Arc<watch::Sender<Voice>>) -> Self {
        Self { voice, ..self }
    }

    /// What the control plane goes on without.
    pub fn control_faults(&self) -> Vec<ControlFault> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the controllers have done all that is due now, having seen every change.
    pub(crate) fn is_settled(&self) -> bool {
        let (seen, due) = *self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        seen == self.version() && due.is_none_or(|due| due > self.now())
    }

    /// Notes up to which change its controllers have done what was due, and when something is due next.
    pub fn set_settled(&self, seen: u64, due: Option<Timestamp>) {
        *self.settled.lock().unwrap_or_else(PoisonError::into_inner) = (seen, due);
    }

    pub(crate) fn set_control_faults(&self, faults: Vec<ControlFault>) {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    /// Whether its API gives no answers; what runs in the cluster goes on.
    pub fn is_silent(&self) -> bool {
        *self.voice.borrow() != Voice::Answers
    }

    /// Silences the API, or lets it answer again; one that is stopped stays so.
    pub(crate) fn set_silent(&self, silent: bool) {
        let voice = if silent { Voice::Silent } else { Voice::Answers };
        self.voice.send_if_modified(|before| *before != Voice::Stopped && std::mem::replace(before, voice) != voice);
    }

    /// Says that a request may hold the cluster's lock for long.
    pub fn be_busy(self: &Arc<Self>) -> Busy {
        self.busy.send_modify(|requests| *requests += 1);
        Busy(Arc::clone(self))
    }

    /// Whether who asks for anything now has to wait.
    pub(crate) fn is_locked(&self) -> bool {
        *self.busy.borrow() > 0 || matches!(self.state.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Returns when no request holds the cluster's lock for long. What shares a thread with other clusters may look then.
    pub async fn at_leisure(&self) {
        while self.is_locked() {
            // An error means that the cluster is gone, which this reference keeps.
            let _ = self.busy.subscribe().wait_for(|requests| *requests == 0).await;
            // A controller has it, for one write.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Sets who signs certificate requests.
    pub fn set_authority(&self, authority: Arc<Authority>) {
        // It is the same for as long as the cluster is served.
        let _set = self.authority.set(authority);
    }

    /// Who signs certificate requests, if anybody does.
    pub fn authority(&self) -> Option<Arc<Authority>> {
        self.authority.get().cloned()
    }

    /// Sets what tokens of ServiceAccounts are signed with.
    pub fn set_token_key(&self, key: [u8; 32]) {
        // It is the same for as long as the cluster is served.
        let _set = self.token_key.set(key);
    }

    /// What tokens of ServiceAccounts are signed with: at random, by each process, unless somebody has set it.
    pub fn token_key(&self) -> [u8; 32] {
        *self.token_key.get_or_init(|| {
            let mut key = [0; 32];
            if SystemRandom::new().fill(&mut key).is_err() {
                // Without random numbers there are none that one could trust, either.
                tracing::error!("the system gives no random numbers; tokens of ServiceAccounts can be guessed");
            }
            key
        })
    }

    /// The cluster's present.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// How long the machine waits until an instant of the cluster.
    pub fn until(&self, instant: Timestamp) -> Duration {
        self.clock.until(instant)
    }

    /// Sees the resourceVersion of each change as it happens.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// How many see each change: watches, above all.
    pub(crate) fn watchers(&self) -> usize {
        self.changed.receiver_count()
    }

    /// Gives up what is only kept to save time while the cluster is busy.
    pub fn rest(&self) {
        self.lock().json_cache.forget();
    }

    /// A random string of the letters Kubernetes uses for generated names.
    pub fn random_suffix(&self, length: usize) -> String {
        self.lock().random.suffix(length)
    }

    /// Sets the certificate authority (PEM) that all namespaces publish in `kube-root-ca.crt`, also those that are made later.
    pub fn set_root_certificate(&self, pem: &str) {
        let written = self.transact(&WriteOptions::by("kube-controller-manager"), |transaction| {
            pem.clone_into(&mut transaction.state.root_certificate);
            pipeline::publish_root_certificate(transaction);
            Ok(())
        });
        // A log that cannot be written shows at the next write that someone waits for.
        drop(written);
    }

    /// Has the admission plugins of this look judge new objects.
    pub fn set_flavour(&self, flavour: Flavour) {
        self.lock().flavour = flavour;
    }

    /// Has the features of a configured cluster.
    pub fn set_features(&self, features: Features) {
        self.lock().features = features;
        *self.features.write().unwrap_or_else(PoisonError::into_inner) = features;
    }

    /// The features that it has.
    pub fn features(&self) -> Features {
        *self.features.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ConfigMap in which a namespace publishes the certificate authority.
    pub(crate) fn root_certificate(&self) -> Value {
        pipeline::root_certificate(&self.lock().root_certificate)
    }

    /// Creates an object after defaulting, validation and admission. `metadata.generateName` is honoured.
    ///
    /// # Errors
    /// The Status an API server would answer with.
    pub fn create(
        &self,
        resource: ResourceId,
        namespace: &str,
        value: Value,
        options: &WriteOptions<'_>,
    ) -> Result<Arc<Object>, Status> {
        Ok(self.create_reporting(resource, namespace, value, options)?.object)
    }

    /// [`Cluster::create`], with the warnings a client is to see.
    ///
    /// # Errors
    /// The Status an API server would answer with.
    pub fn create_reporting(
        &self,
        resource: ResourceId,
        namespace: &str,
        value: Value,
        options: &WriteOptions<'_>,
    ) -> Result<Written, Status> {
        self.write(options, value, |transaction, value| {
            let object = pipeline::create(transaction, resource, namespace, value)?;
            Ok(transaction.written(object, true))
        })
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
        value: Value,
        options: &WriteOptions<'_>,
    ) -> Result<Arc<Object>, Status> {
        Ok(self.update_reporting(resource, part, namespace, name, value, options)?.object)
    }

    /// [`Cluster::update`], with the warnings a client is to see.
    ///
    /// # Errors
    /// The Status an API server would answer with.
    pub fn update_reporting(
        &self,
        resource: ResourceId,
        part: Part,
        namespace: &str,
        name: &str,
        value: Value,
        options: &WriteOptions<'_>,
    ) -> Result<Written, Status> {
        self.write(options, value, |transaction, value| {
            let object = pipeline::replace(transaction, resource, part, namespace, name, value)?;
            Ok(transaction.written(object, false))
        })
    }

    /// Reads, changes and writes an object under one lock, so no conflict is possible; a change that changes nothing
    /// writes nothing. `change` must not call the cluster.
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
        if !self.consults() {
            return self.transact(options, |transaction| {
                pipeline::modify(transaction, resource, part, namespace, name, change)
            });
        }
        if !self.waits() {
            return self
                .once(options, |transaction| pipeline::modify(transaction, resource, part, namespace, name, change));
        }
        // The change is made once; if the object is another one when the answers are there, that is a conflict.
        let current = self.get(resource, namespace, name).ok_or_else(|| Status::not_found(resource.row(), name))?;
        let mut value = current.to_value();
        change(&mut value);
        self.write(options, value, |transaction, value| {
            pipeline::modify(transaction, resource, part, namespace, name, |current| {
                // With the version that was changed in it.
                *current = value;
            })
        })
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
        self.delete_by(resource, namespace, name, options, &WriteOptions::by(""))
    }

    /// [`Cluster::delete`] for somebody.
    ///
    /// # Errors
    /// The Status an API server would answer with.
    pub(crate) fn delete_by(
        &self,
        resource: ResourceId,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        write: &WriteOptions<'_>,
    ) -> Result<Deleted, Status> {
        let write = WriteOptions { dry_run: options.dry_run, ..write.clone() };
        self.write(&write, (), |transaction, ()| pipeline::delete(transaction, resource, namespace, name, options))
    }

    /// Deletes every object of a kind that `matches`, and returns them as they were before.
    ///
    /// # Errors
    /// The Status an API server would answer with; objects before the failing one are deleted.
    pub fn delete_collection(
        &self,
        resource: ResourceId,
        namespace: Option<&str>,
        options: &DeleteOptions,
        matches: impl Fn(&Object) -> bool,
    ) -> Result<Vec<Arc<Object>>, Status> {
        self.delete_collection_by(resource, namespace, options, &WriteOptions::by(""), matches)
    }

    /// [`Cluster::delete_collection`] for somebody.
    ///
    /// # Errors
    /// The Status an API server would answer with; objects before the failing one are deleted.
    pub(crate) fn delete_collection_by(
        &self,
        resource: ResourceId,
        namespace: Option<&str>,
        options: &DeleteOptions,
        write: &WriteOptions<'_>,
        matches: impl Fn(&Object) -> bool,
    ) -> Result<Vec<Arc<Object>>, Status> {
        let write = WriteOptions { dry_run: options.dry_run, ..write.clone() };
        self.write(&write, (), |transaction, ()| {
            let doomed: Vec<Arc<Object>> =
                transaction.state.store.list(resource, namespace).filter(|object| matches(object)).cloned().collect();
            for object in &doomed {
                pipeline::delete(transaction, resource, &object.namespace, &object.name, options)?;
            }
            Ok(doomed)
        })
    }

    /// Runs `write` as one transaction. All writes of a cluster go through here.
    ///
    /// # Errors
    /// What `write` answers, or 500 when changes cannot be saved: nothing is acknowledged, or seen by others, that is not
    /// in the log.
    pub(crate) fn transact<T>(
        &self,
        options: &WriteOptions<'_>,
        write: impl FnOnce(&mut Transaction<'_>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let mut state = self.lock();
        let before = state.store.version();
        let result = write(&mut Transaction::new(&mut state, self.clock.now(), options));
        if work::is_over() {
            state.take_back(before);
            return Err(work::stopped());
        }
        state.save(before)?;
        let after = state.store.version();
        if after != before {
            work::complete();
            self.changed.send_replace(after);
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
