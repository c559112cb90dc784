//! A cluster in memory, with what runs its control plane.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::control_thread::{Rest, Running};
use klab_cluster::api::Api;
use klab_cluster::control::Settings;

/// A cluster in memory.
pub(super) struct Active {
    pub(super) api: Api,
    pub(super) settings: Settings,
    running: Mutex<Option<Running>>,
    /// The version up to which the log is on the disk.
    pub(super) synced: AtomicU64,
}

impl Active {
    /// One whose control plane does not run yet.
    pub(super) fn new(api: Api, settings: Settings) -> Self {
        Self { api, settings, running: Mutex::default(), synced: AtomicU64::new(0) }
    }

    /// What runs its control plane.
    pub(super) fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends its control plane, if one runs.
    pub(super) fn end_control(&self) {
        let running = self.running().take();
        if let Some(running) = running {
            running.end();
        }
    }

    /// Where its control plane rests, having seen all there is; none while it works.
    pub(super) fn rest(&self) -> Option<Rest> {
        let version = self.api.cluster().version();
        match &*self.running() {
            Some(running) => running.rest().filter(|rest| rest.version == version),
            None => Some(Rest { version, due: None }),
        }
    }
}
