//! Everything of a cluster that its lock protects.

use std::collections::HashSet;
use std::sync::Arc;

use super::limits::Limits;
use super::random::Random;
use super::trees::Trees;
use crate::defaults::Addresses;
use crate::log::Log;
use crate::resource::ResourceId;
use crate::store::Store;

/// Everything behind the lock.
pub(crate) struct State {
    pub(crate) store: Store,
    pub(super) random: Random,
    /// What Services hold, once someone asked.
    pub(super) addresses: Option<Addresses>,
    /// Where writes go before they are acknowledged; `None` for a cluster in memory.
    pub(super) log: Option<Log>,
    /// The kinds that it has ever defined.
    pub(super) kinds: HashSet<ResourceId>,
    /// Whether writes were refused because the log could not be written.
    pub(super) refused: bool,
    /// The certificate authority published to pods in `kube-root-ca.crt`.
    pub(super) root_certificate: String,
    pub(super) trees: Trees,
    pub(super) limits: Arc<Limits>,
}

impl State {
    /// A random string of the letters Kubernetes uses for generated names.
    pub(crate) fn random_suffix(&mut self, length: usize) -> String {
        self.random.suffix(length)
    }
}
