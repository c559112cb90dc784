//! Everything of a cluster that its lock protects.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use super::limits::Limits;
use super::random::Random;
use super::trees::Trees;
use crate::admission::Kept;
use crate::custom::Definitions;
use crate::defaults::Addresses;
use crate::log::Log;
use crate::resource::ResourceId;
use crate::store::Store;
use crate::webhook::PodServers;

/// The kinds that a cluster has ever defined. They outlive its being parked: an id is good as long as the process lives.
pub(crate) type Ever = Arc<Mutex<HashSet<ResourceId>>>;

/// Everything behind the lock.
pub(crate) struct State {
    pub(crate) store: Store,
    pub(super) random: Random,
    /// What Services hold, once someone asked.
    pub(super) addresses: Option<Addresses>,
    /// Where writes go before they are acknowledged; `None` for a cluster in memory.
    pub(super) log: Option<Log>,
    /// The kinds that it has ever defined.
    pub(super) kinds: Ever,
    /// Whether writes were refused because the log could not be written.
    pub(super) refused: bool,
    /// The certificate authority published to pods in `kube-root-ca.crt`.
    pub(super) root_certificate: String,
    pub(super) trees: Trees,
    pub(super) limits: Arc<Limits>,
    /// Definitions of custom resources that were asked for.
    pub(crate) definitions: Definitions,
    /// What is configured of admission.
    pub(crate) admission: Kept,
    /// What is known of servers in pods.
    pub(crate) pod_servers: &'static dyn PodServers,
    /// The cluster's random numbers, while an attempt of a write that is made again draws those of the first one.
    pub(super) kept_random: Option<Random>,
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
    pub(super) fn repeat_random(&mut self, state: u64) {
        self.kept_random = Some(std::mem::replace(&mut self.random, Random::new(state)));
    }

    /// Goes on with the random numbers where the cluster was.
    pub(super) fn end_repetition(&mut self) {
        if let Some(kept) = self.kept_random.take() {
            self.random = kept;
        }
    }

    /// From where the random numbers go on, when this is restored.
    pub(super) fn random_state(&self) -> u64 {
        self.kept_random.unwrap_or(self.random).state()
    }
}
