//! What all connections of a server see: its clusters, which come and go.

mod copies;
mod state;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use klab_api_machinery::status::Status;
use tokio::sync::watch;

use super::access::{ACCESS_FILE, Access};
use super::broken::Broken;
use super::credentials::Digest;
use super::files::rewrite_private;
use super::host::Host;
use super::host_name::HostNames;
use super::hosted::{self, Hosted, remove_folder};
use super::register::{Contents, Entry, Note, Parked};
use super::tls;
use klab_api_machinery::certificates::{self, Holder};
use klab_cluster::api::User;
use klab_cluster::seed::Seed;

pub use self::copies::NewCopy;
pub use self::state::ClusterState;

/// What all connections see.
pub(super) struct Shared {
    clusters: RwLock<Clusters>,
    /// Those that could not be restored: the others are served all the same.
    broken: RwLock<BTreeMap<String, Broken>>,
    /// Names of clusters that are being made or removed, and word of each that is done.
    changing: Mutex<BTreeSet<String>>,
    changed: Condvar,
    /// Whether files were written that are to be synced with all others.
    pub(super) files_written: AtomicBool,
    /// Ends after the clusters, whose controllers run on its threads.
    pub(super) host: Arc<Host>,
    pub(super) stop: watch::Sender<bool>,
}

#[derive(Default)]
struct Clusters {
    by_name: BTreeMap<String, Arc<Hosted>>,
    by_credential: HashMap<Digest, Arc<Hosted>>,
}

impl Clusters {
    fn insert(&mut self, hosted: Arc<Hosted>) {
        for credential in hosted.credentials() {
            self.by_credential.insert(credential, Arc::clone(&hosted));
        }
        self.by_name.insert(hosted.name().to_owned(), hosted);
    }

    fn remove(&mut self, name: &str) -> Option<Arc<Hosted>> {
        let hosted = self.by_name.remove(name)?;
        for credential in hosted.credentials() {
            self.by_credential.remove(&credential);
        }
        Some(hosted)
    }
}

impl Shared {
    /// Nothing is served yet.
    pub(super) fn new(host: Arc<Host>) -> Self {
        Self {
            clusters: RwLock::default(),
            broken: RwLock::default(),
            changing: Mutex::default(),
            changed: Condvar::new(),
            files_written: AtomicBool::new(false),
            host,
            stop: watch::Sender::new(false),
        }
    }

    /// What another process needs to talk to this server.
    pub(super) fn access(&self) -> Access {
        let folders = self.broken();
        let of_folders = folders.iter().map(|(name, broken)| (name.clone(), broken.reason.clone()));
        let copies = self.host.broken();
        Access {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            address: self.host.address,
            token: self.host.admin.text().to_owned(),
            certificate: self.host.identity.authority.clone(),
            broken: of_folders.chain(copies.iter().map(|(name, reason)| (name.clone(), reason.clone()))).collect(),
        }
    }

    pub(super) fn write_access(&self) -> std::io::Result<()> {
        let text = serde_json::to_vec(&self.access())?;
        rewrite_private(&self.host.state.join(ACCESS_FILE), &text)
    }

    fn broken(&self) -> RwLockReadGuard<'_, BTreeMap<String, Broken>> {
        self.broken.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The refusal of a cluster that cannot be served, to who shows its credentials.
    pub(super) fn refusal(&self, name: &str, token: Option<&Digest>) -> Option<Status> {
        self.broken().get(name).filter(|broken| broken.is_known(token)).map(Broken::status)
    }

    /// Why a cluster cannot be served, if that is so.
    pub(super) fn reason(&self, name: &str) -> Option<String> {
        let of_folder = self.broken().get(name).map(|broken| broken.reason.clone());
        of_folder.or_else(|| self.host.broken().get(name).cloned())
    }

    fn clusters(&self) -> RwLockReadGuard<'_, Clusters> {
        self.clusters.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn clusters_mut(&self) -> RwLockWriteGuard<'_, Clusters> {
        self.clusters.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn cluster(&self, name: &str) -> Option<Arc<Hosted>> {
        self.clusters().by_name.get(name).cloned()
    }

    /// The cluster of a host name, where it is silent.
    pub(super) fn silent(&self, host_name: &str) -> Option<Arc<Hosted>> {
        let clusters = self.clusters();
        let mut silent = clusters.by_name.values().filter(|hosted| hosted.is_silent()).peekable();
        silent.peek()?;
        let names = HostNames::new(&self.host.admin);
        silent.find(|hosted| names.name(&hosted.token()) == host_name).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Hosted>> {
        self.clusters().by_name.values().cloned().collect()
    }

    /// Those that are awake.
    pub(super) fn active(&self) -> Vec<Arc<Hosted>> {
        let names = self.host.activity.active();
        let clusters = self.clusters();
        names.iter().filter_map(|name| clusters.by_name.get(&**name).cloned()).collect()
    }

    /// The cluster whose credentials somebody shows, and who that is.
    pub(super) fn by_credentials(
        &self,
        token: Option<&Digest>,
        certificate: Option<&Digest>,
    ) -> Option<(Arc<Hosted>, User)> {
        let clusters = self.clusters();
        let of_token = token.and_then(|token| {
            let hosted = clusters.by_credential.get(token)?;
            hosted.user_of_token(token).map(|user| (Arc::clone(hosted), user))
        });
        of_token.or_else(|| {
            let certificate = certificate?;
            let hosted = clusters.by_credential.get(certificate)?;
            hosted.user_of_certificate(certificate).map(|user| (Arc::clone(hosted), user))
        })
    }

    /// The cluster that a certificate was signed for.
    pub(super) fn by_mark(&self, mark: &[u8; 32]) -> Option<Arc<Hosted>> {
        self.clusters().by_name.values().find(|hosted| tls::mark(&hosted.token()) == *mark).cloned()
    }

    /// Who holds a certificate in DER that one of the clusters signed.
    pub(super) fn holder(&self, der: &[u8]) -> Option<Holder> {
        let hosted = self.by_mark(&certificates::mark(der)?)?;
        tls::signer(&hosted.token())?.holder(der)
    }

    /// Serves the clusters that are there from before. Copies are not opened: those that were awake are, soon.
    pub(super) fn restore(&self, folder: &Path, contents: Contents) -> std::io::Result<()> {
        for note in contents.notes {
            tracing::warn!("the register of clusters: {note}");
        }
        let face = self.host.face();
        let mut clusters = self.clusters_mut();
        for (name, entry) in &contents.entries {
            let Some(copy) = entry.copy.clone() else { continue };
            self.host.templates.refer(&copy.base.template, 1);
            if !self.host.templates.has(&copy.base.template) {
                let (template, folder) = (&copy.base.template, self.host.folder(name));
                let reason = format!(
                    "cluster `{name}` cannot be served: its template `{template}` is missing; it is kept in `{}`",
                    folder.display()
                );
                tracing::error!(cluster = name, "{reason}");
                self.host.broken().insert(name.clone(), reason);
            }
            let hosted = Hosted::of_copy(name, copy, entry, &self.host);
            if contents.place != face || !hosted.has_kubeconfig() {
                if let Err(error) = hosted.write_kubeconfig() {
                    // The others are served; who has this one's token is served, too.
                    tracing::error!(cluster = name, %error, "the kubeconfig could not be written");
                }
                self.files_written.store(true, Ordering::Relaxed);
            }
            let due = entry.parked.map_or_else(|| Some(self.host.clock.now()), |parked| parked.due);
            self.host.activity.is_parked(hosted.shared_name(), due);
            clusters.insert(hosted);
        }
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()).map(str::to_owned) else { continue };
            let entry = contents.entries.get(&name);
            if entry.is_some_and(|entry| entry.copy.is_some()) {
                continue;
            }
            if !hosted::is_complete(&path) {
                // Left by a server that was killed while it made or removed this one.
                std::fs::remove_dir_all(&path)?;
                continue;
            }
            match Hosted::open(&name, entry.unwrap_or(&Entry::default()), &self.host) {
                Ok(hosted) => clusters.insert(hosted),
                Err(status) => {
                    let broken = Broken::new(&name, &path, &status.message);
                    tracing::error!(cluster = name, "{}", broken.reason);
                    self.broken.write().unwrap_or_else(PoisonError::into_inner).insert(name, broken);
                }
            }
        }
        self.host.room.share_among(clusters.by_name.len());
        drop(clusters);
        self.host.templates.sweep()?;
        self.rewrite_register()
    }

    /// Writes the register again with what is true now.
    pub(super) fn rewrite_register(&self) -> std::io::Result<()> {
        self.host.register.rewrite(&self.host.face(), || {
            self.all().iter().filter_map(|hosted| Some((hosted.name().to_owned(), hosted.entry()?))).collect()
        })
    }

    pub(super) fn add(&self, name: &str, seed: Seed) -> Result<bool, Status> {
        if !hosted::is_name(name) {
            return Err(not_a_name(name));
        }
        // Most of this is waiting for the disk: others are made and served meanwhile.
        let _turn = self.turn(&[name]);
        if self.is_taken(name)? {
            return Ok(false);
        }
        match Hosted::create(name, seed, &self.host) {
            Ok(hosted) => {
                let mut clusters = self.clusters_mut();
                clusters.insert(hosted);
                self.host.room.share_among(clusters.by_name.len());
                Ok(true)
            }
            // Nothing of a cluster that could not be made stays; the error that matters is the first one.
            Err(status) => {
                let _ = remove_folder(&self.host.folder(name));
                Err(status)
            }
        }
    }

    /// Whether there is a cluster of that name.
    ///
    /// # Errors
    /// When there is one that cannot be served.
    pub(super) fn is_taken(&self, name: &str) -> Result<bool, Status> {
        match self.broken().get(name) {
            Some(broken) => Err(broken.status()),
            None => Ok(self.cluster(name).is_some()),
        }
    }

    /// Adds copies, all of them or none, and writes them into the register.
    pub(super) fn insert(&self, made: &[(Arc<Hosted>, Entry)]) -> std::io::Result<()> {
        let mut register = self.host.register.write();
        register.note(made.iter().map(|(hosted, entry)| Note::Is(hosted.name().to_owned(), entry.clone())))?;
        let mut clusters = self.clusters_mut();
        for (hosted, entry) in made {
            self.host.activity.is_parked(hosted.shared_name(), entry.parked.and_then(|parked: Parked| parked.due));
            clusters.insert(Arc::clone(hosted));
        }
        self.host.room.share_among(clusters.by_name.len());
        Ok(())
    }

    /// Removes a cluster with everything it kept, also one that is being made for somebody who has gone. Says whether there
    /// was one.
    pub(super) fn remove(&self, name: &str) -> Result<bool, Status> {
        let removed = self.remove_all(&[name]);
        removed.into_iter().next().unwrap_or(Ok(false))
    }

    /// Removes clusters with everything they kept; says of each whether there was one.
    pub(super) fn remove_all(&self, names: &[&str]) -> Vec<Result<bool, Status>> {
        let failed = |error: std::io::Error| hosted::io_status("remove the cluster's folder", &error);
        let _turn = self.turn(names);
        let removed: Vec<Option<Arc<Hosted>>> = {
            let mut clusters = self.clusters_mut();
            let removed = names.iter().map(|name| clusters.remove(name)).collect();
            self.host.room.share_among(clusters.by_name.len());
            removed
        };
        removed.iter().flatten().for_each(|hosted| hosted.close());
        // What the register does not know any more is removed by the next server, if this one is killed here.
        let known = removed.iter().flatten().filter(|hosted| hosted.copy.is_some());
        let gone: Vec<Note> = known.map(|hosted| Note::Gone(hosted.name().to_owned())).collect();
        let noted = if gone.is_empty() { Ok(()) } else { self.host.register.note(gone) };
        let noted = noted.map_err(|error| failed(error).message);
        let outcomes = names.iter().zip(removed).map(|(name, hosted)| {
            let Some(hosted) = hosted else { return self.remove_broken(name) };
            if let Err(message) = &noted {
                return Err(Status::new(500, "InternalError", message.clone()));
            }
            remove_folder(&hosted.folder()).map_err(failed)?;
            self.host.broken().remove(*name);
            self.host.templates.is_of_none(name);
            match &hosted.copy {
                Some(copy) => self.release(&copy.base.template).map_err(failed).map(|()| true),
                None => Ok(true),
            }
        });
        outcomes.collect()
    }

    /// A copy of a template is gone.
    pub(super) fn release(&self, template: &str) -> std::io::Result<()> {
        self.host.templates.release(template, || self.host.register.sync())
    }

    fn remove_broken(&self, name: &str) -> Result<bool, Status> {
        let failed = |error: std::io::Error| hosted::io_status("remove the cluster's folder", &error);
        if !self.broken().contains_key(name) {
            return Ok(false);
        }
        remove_folder(&self.host.folder(name)).map_err(failed)?;
        self.broken.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        self.write_access().map_err(failed)?;
        Ok(true)
    }

    /// Serves a cluster no more; nothing of it is removed.
    pub(super) fn forget(&self, name: &str) {
        self.clusters_mut().remove(name);
    }

    /// Puts a cluster's credentials where they are found.
    pub(super) fn learn_credentials(&self, hosted: &Arc<Hosted>) {
        let mut clusters = self.clusters_mut();
        if clusters.by_name.contains_key(hosted.name()) {
            clusters.insert(Arc::clone(hosted));
        }
    }

    /// Gives a cluster another token, as [`Hosted::renew_token`].
    pub(super) fn renew_token(&self, name: &str) -> Result<(), Status> {
        let _turn = self.turn(&[name]);
        let missing = || Status::new(404, "NotFound", format!("cluster {name:?} not found"));
        let hosted = self.cluster(name).ok_or_else(missing)?;
        let before: Vec<Digest> = hosted.credentials().collect();
        let renewed = hosted.renew_token();
        let mut clusters = self.clusters_mut();
        for credential in before {
            clusters.by_credential.remove(&credential);
        }
        clusters.insert(hosted);
        renewed.map_err(|error| hosted::io_status("give the cluster another token", &error))
    }

    /// Waits until no other thread makes or removes a cluster of these names.
    pub(super) fn turn(&self, names: &[&str]) -> Turn<'_> {
        let mut changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        while names.iter().any(|name| changing.contains(*name)) {
            changing = self.changed.wait(changing).unwrap_or_else(PoisonError::into_inner);
        }
        changing.extend(names.iter().map(|name| (*name).to_owned()));
        Turn { shared: self, names: names.iter().map(|name| (*name).to_owned()).collect() }
    }

    pub(super) fn close(&self) {
        for hosted in self.active() {
            if !hosted.put_away_for_good() {
                hosted.sync();
                hosted.close();
            }
        }
        if let Err(error) = self.host.register.sync() {
            tracing::error!(%error, "the register could not be synced");
        }
        // Only a hint to other processes; they look whether the process lives.
        let _ = std::fs::remove_file(self.host.state.join(ACCESS_FILE));
    }
}

/// The answer to a name that none can have.
pub(super) fn not_a_name(name: &str) -> Status {
    Status::bad_request(format!("{name:?} is not a name for a cluster: [a-z0-9-], at most 63"))
}

/// How long a control plane may take to come to rest before a template is made of what its cluster holds.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The right to make or remove the clusters of some names, until this is dropped.
pub(super) struct Turn<'a> {
    shared: &'a Shared,
    names: Vec<String>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut changing = self.shared.changing.lock().unwrap_or_else(PoisonError::into_inner);
        for name in &self.names {
            changing.remove(name);
        }
        self.shared.changed.notify_all();
    }
}
