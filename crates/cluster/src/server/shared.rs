//! What all connections of a server see: its clusters, which come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::access::{ACCESS_FILE, Access};
use super::broken::Broken;
use super::credentials::Digest;
use super::files::write_private;
use super::host::Host;
use super::hosted::{self, Hosted, remove_saved};
use crate::renaming::Renaming;
use crate::seed::Seed;
use crate::status::Status;

/// So many copies are made at a time: most of it is waiting for the disk, which writes what several wait for at once.
const COPIES_AT_ONCE: usize = 16;

/// A copy of a cluster, to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewCopy {
    /// Its name.
    pub name: String,
    /// What is called otherwise in it.
    pub renaming: Renaming,
}

/// What all connections see.
pub(super) struct Shared {
    pub(super) state: PathBuf,
    clusters: RwLock<BTreeMap<String, Arc<Hosted>>>,
    /// Those that could not be restored: each keeps nobody but itself from being served.
    broken: RwLock<BTreeMap<String, Broken>>,
    /// Names of clusters that are being made or removed, and word of each that is done.
    changing: Mutex<BTreeSet<String>>,
    changed: Condvar,
    /// Ends after the clusters, whose controllers run on its threads.
    pub(super) host: Host,
    pub(super) stop: watch::Sender<bool>,
}

impl Shared {
    /// Nothing is served yet.
    pub(super) fn new(state: PathBuf, host: Host) -> Self {
        Self {
            state,
            clusters: RwLock::default(),
            broken: RwLock::default(),
            changing: Mutex::default(),
            changed: Condvar::new(),
            host,
            stop: watch::Sender::new(false),
        }
    }

    pub(super) fn access(&self) -> Access {
        Access {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            address: self.host.address,
            token: self.host.admin.text().to_owned(),
            certificate: self.host.identity.authority.clone(),
            broken: self.broken().iter().map(|(name, broken)| (name.clone(), broken.reason.clone())).collect(),
        }
    }

    pub(super) fn write_access(&self) -> std::io::Result<()> {
        let text = serde_json::to_vec(&self.access())?;
        write_private(&self.state.join(ACCESS_FILE), &text)
    }

    fn broken(&self) -> RwLockReadGuard<'_, BTreeMap<String, Broken>> {
        self.broken.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The refusal of a cluster that cannot be served, to who shows its credentials.
    pub(super) fn refusal(&self, name: &str, token: Option<&Digest>) -> Option<Status> {
        self.broken().get(name).filter(|broken| broken.is_known(token)).map(Broken::status)
    }

    pub(super) fn cluster(&self, name: &str) -> Option<Arc<Hosted>> {
        self.clusters.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Hosted>> {
        self.clusters.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Serves the clusters that are there from before.
    pub(super) fn restore(&self, folder: &Path) -> std::io::Result<()> {
        let mut clusters = self.clusters.write().unwrap_or_else(PoisonError::into_inner);
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()).map(str::to_owned) else { continue };
            if !hosted::is_complete(&path) {
                // Left by a server that was killed while it made or removed this one.
                std::fs::remove_dir_all(&path)?;
                continue;
            }
            match Hosted::open(&name, &path, &self.host) {
                Ok(hosted) => drop(clusters.insert(name, hosted)),
                Err(status) => {
                    let broken = Broken::new(&name, &path, &status.message);
                    tracing::error!(cluster = name, "{}", broken.reason);
                    self.broken.write().unwrap_or_else(PoisonError::into_inner).insert(name, broken);
                }
            }
        }
        self.host.limits.share_among(clusters.len());
        Ok(())
    }

    pub(super) fn add(&self, name: &str, seed: Seed) -> Result<bool, Status> {
        self.make(name, |folder| Hosted::create(name, folder, seed, &self.host))
    }

    /// Makes copies of a cluster, several at a time; says of each whether it is new.
    pub(super) fn copy(&self, of: &Arc<Hosted>, copies: &[NewCopy]) -> Vec<Result<bool, Status>> {
        let one =
            |copy: &NewCopy| self.make(&copy.name, |folder| of.copy(&copy.name, folder, &copy.renaming, &self.host));
        let each = copies.len().div_ceil(COPIES_AT_ONCE).max(1);
        std::thread::scope(|scope| {
            let work = |part: &'_ [NewCopy]| part.iter().map(one).collect::<Vec<_>>();
            let parts: Vec<_> = copies.chunks(each).map(|part| (part.len(), scope.spawn(move || work(part)))).collect();
            let panicked = || Err(Status::new(500, "InternalError", "the copy could not be made"));
            let outcomes = parts.into_iter().map(|(count, part)| {
                part.join().unwrap_or_else(|_| std::iter::repeat_with(panicked).take(count).collect())
            });
            outcomes.flatten().collect()
        })
    }

    fn make(&self, name: &str, make: impl FnOnce(&Path) -> Result<Arc<Hosted>, Status>) -> Result<bool, Status> {
        if !hosted::is_name(name) {
            return Err(Status::bad_request(format!("{name:?} is not a name for a cluster: [a-z0-9-], at most 63")));
        }
        // Most of this is waiting for the disk: others are made and served meanwhile.
        let _turn = self.turn(name);
        if self.cluster(name).is_some() {
            return Ok(false);
        }
        if let Some(broken) = self.broken().get(name) {
            return Err(broken.status());
        }
        let folder = self.state.join("clusters").join(name);
        match make(&folder) {
            Ok(hosted) => {
                let mut clusters = self.clusters.write().unwrap_or_else(PoisonError::into_inner);
                clusters.insert(name.to_owned(), hosted);
                self.host.limits.share_among(clusters.len());
                Ok(true)
            }
            // Nothing of a cluster that could not be made stays; the error that matters is the first one.
            Err(status) => {
                let _ = std::fs::remove_dir_all(&folder);
                Err(status)
            }
        }
    }

    /// Removes a cluster with everything it kept, also one that is being made for somebody who has gone. Says whether
    /// there was one.
    pub(super) fn remove(&self, name: &str) -> Result<bool, Status> {
        let _turn = self.turn(name);
        let removed = {
            let mut clusters = self.clusters.write().unwrap_or_else(PoisonError::into_inner);
            let removed = clusters.remove(name);
            self.host.limits.share_among(clusters.len());
            removed
        };
        let Some(hosted) = removed else { return self.remove_broken(name) };
        hosted.close();
        remove_saved(hosted.folder()).map_err(|error| hosted::io_status("remove the cluster's folder", &error))?;
        Ok(true)
    }

    fn remove_broken(&self, name: &str) -> Result<bool, Status> {
        let failed = |error: std::io::Error| hosted::io_status("remove the cluster's folder", &error);
        if !self.broken().contains_key(name) {
            return Ok(false);
        }
        remove_saved(&self.state.join("clusters").join(name)).map_err(failed)?;
        self.broken.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        self.write_access().map_err(failed)?;
        Ok(true)
    }

    /// Waits until nobody makes or removes the cluster of that name.
    fn turn<'a>(&'a self, name: &'a str) -> Turn<'a> {
        let mut changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        while changing.contains(name) {
            changing = self.changed.wait(changing).unwrap_or_else(PoisonError::into_inner);
        }
        changing.insert(name.to_owned());
        Turn { shared: self, name }
    }

    pub(super) fn close(&self) {
        for hosted in self.all() {
            hosted.close();
            hosted.sync();
        }
        // Only a hint to other processes; they look whether the process lives.
        let _ = std::fs::remove_file(self.state.join(ACCESS_FILE));
    }
}

/// The right to make or remove the cluster of a name, until this is dropped.
struct Turn<'a> {
    shared: &'a Shared,
    name: &'a str,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.shared.changing.lock().unwrap_or_else(PoisonError::into_inner).remove(self.name);
        self.shared.changed.notify_all();
    }
}
