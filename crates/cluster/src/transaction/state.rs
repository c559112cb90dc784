//! Everything of a cluster that its lock protects.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use klab_api_machinery::defaults::Addresses;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::status::Status;
use klab_scheduler::features::Features;

use super::json_cache::JsonCache;
use super::limits::Limits;
use super::random::Random;
use crate::definitions::Definitions;
use crate::dynamic_admission::AdmissionCache;
use crate::flavour::Flavour;
use crate::log::{Contents, Entry, Log};
use crate::store::Store;

/// The kinds that a cluster has ever defined. They outlive its being parked: an id is good as long as the process lives.
pub type EverDefined = Arc<Mutex<HashSet<ResourceId>>>;

/// Everything behind the lock.
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) random: Random,
    /// What Services hold, once someone asked.
    pub(crate) addresses: Option<Addresses>,
    /// Where writes go before they are acknowledged; `None` for a cluster in memory.
    pub(crate) log: Option<Log>,
    /// The kinds that it has ever defined.
    pub(crate) kinds: EverDefined,
    /// Whether writes were refused because the log could not be written.
    pub(crate) refused: bool,
    /// The certificate authority published to pods in `kube-root-ca.crt`.
    pub(crate) root_certificate: String,
    pub(crate) json_cache: JsonCache,
    pub(crate) limits: Arc<Limits>,
    /// Whose admission plugins look at new objects.
    pub(crate) flavour: Flavour,
    /// The features that it has.
    pub(crate) features: Features,
    /// Definitions of custom resources that were asked for.
    pub(crate) definitions: Definitions,
    /// What is configured of admission.
    pub(crate) admission: AdmissionCache,
    /// The cluster's random numbers, while an attempt of a write that is made again draws those of the first one.
    pub(crate) kept_random: Option<Random>,
}

impl State {
    /// A random string of the letters Kubernetes uses for generated names.
    pub(crate) fn random_suffix(&mut self, length: usize) -> String {
        self.random.suffix(length)
    }

    /// A random uid.
    pub(crate) fn random_uid(&mut self) -> String {
        self.random.uid()
    }

    /// Draws the random numbers again that came after this state.
    pub(crate) fn repeat_random(&mut self, state: u64) {
        self.kept_random = Some(std::mem::replace(&mut self.random, Random::new(state)));
    }

    /// Goes on with the random numbers where the cluster was.
    pub(crate) fn end_repetition(&mut self) {
        if let Some(kept) = self.kept_random.take() {
            self.random = kept;
        }
    }

    /// From where the random numbers go on, when this is restored.
    pub(crate) fn random_state(&self) -> u64 {
        self.kept_random.unwrap_or(self.random).state()
    }

    /// Holds these objects and nothing else, without a history that reaches back before `version`.
    pub(crate) fn hold_objects(&mut self, objects: &[Arc<Object>], version: u64) {
        self.json_cache = JsonCache::default();
        self.addresses = None;
        self.store = Store::default();
        for object in objects {
            self.store.restore(Arc::clone(object));
        }
        self.store.resume(version);
    }

    /// Goes on from what a log tells, on top of what there is. Gives what a person should know of it.
    pub(crate) fn take_up(&mut self, log: Log, contents: Contents) -> Vec<String> {
        for entry in contents.entries {
            match entry {
                Entry::Put(object) => self.store.restore(object),
                Entry::Remove { resource, namespace, name } => self.store.forget(resource, &namespace, &name),
            }
        }
        let version = contents.version.max(self.store.version());
        self.store.resume(version);
        if let Some(random) = contents.random {
            self.random = Random::new(random);
        }
        self.log = Some(log);
        contents.notes
    }

    /// Takes back the transaction that began at version `before`, of which nothing is in the log.
    pub(crate) fn take_back(&mut self, before: u64) {
        self.store.undo(before);
        self.addresses = None;
        if let Some(log) = &mut self.log {
            log.discard();
        }
    }

    /// Hands the records of the transaction that began at version `before` to the kernel; takes the transaction back
    /// when that fails.
    pub(crate) fn save(&mut self, before: u64) -> Result<(), Status> {
        let written = self.log.as_mut().map_or(Ok(()), Log::flush);
        if let Err(error) = written {
            self.take_back(before);
            self.refused = true;
            let message = format!("the embedded cluster cannot save changes: {error}");
            return Err(Status::new(500, "InternalError", message));
        }
        if self.refused && self.store.version() > before {
            // Controllers whose writes were refused wait for a change of what they write: all of them look again.
            self.refused = false;
            self.store.forget_history();
        }
        self.store.trim(self.limits.history());
        Ok(())
    }
}
