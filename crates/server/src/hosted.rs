//! One cluster of a server: its name, its credentials, and what its clients ask of it, whether it is awake or not.

mod parking;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};

use http::{Request, Response};
use jiff::Timestamp;
use klab_api_machinery::status::Status;
use tokio::sync::watch;

use super::active::Active;
use super::credentials::{Digest, Token};
use super::host::Host;
use super::kubeconfig::{self, Place};
use super::quota::Quota;
use super::register::{CopyOf, Entry, Note, Parked};
use super::tls;
use crate::files::{create_private_folder, gone, write_private, write_private_later};
use klab_api_machinery::certificates::Holder;
use klab_cluster::account_token::Signed;
use klab_cluster::api::{Api, Body, User, receive_at_most, status_response, user_of};
use klab_cluster::cluster::{Cluster, ControlFault, EverDefined, Voice};
use klab_cluster::seed::{Figures, Seed};

/// Marks a request of klab itself, which an API server that is silent or stopped answers.
#[derive(Clone, Copy)]
pub(super) struct OfKlab;

/// A cluster of a server.
pub(super) struct Hosted {
    name: Arc<str>,
    pub(super) host: Arc<Host>,
    /// What it is a copy of; none of one that is made of a seed in its own folder.
    pub(super) copy: Option<CopyOf>,
    token: RwLock<Arc<Token>>,
    /// Says that the credentials are other ones.
    pub(super) renewed: watch::Sender<()>,
    certificate: Mutex<Option<Digest>>,
    quota: Quota,
    /// The kinds that it has ever defined.
    pub(super) kinds: EverDefined,
    /// Whether its API server answers.
    pub(super) voice: Arc<watch::Sender<Voice>>,
    /// What its metrics show, where that was changed since it was made.
    pub(super) figures: Mutex<Option<Figures>>,
    /// When it was last asked for anything: milliseconds since 1970, 0 for never.
    used: AtomicI64,
    /// Whether what every cluster has was looked at since the server started.
    pub(super) checked: AtomicBool,
    stage: Mutex<Stage>,
}

/// Whether a cluster is awake.
pub(super) enum Stage {
    /// It is on the disk alone.
    Parked(Parked),
    /// It is in memory, and its control plane runs.
    Active(Arc<Active>),
    /// It was removed.
    Gone,
}

/// File that says that the folder of a cluster that is no copy is complete, and holds its seed.
pub(super) const SEED_FILE: &str = "seed.json";
/// Made last: the objects of the seed are in the cluster.
pub(super) const SEEDED_FILE: &str = "seeded";
/// The cluster's objects; of a copy what has changed since.
pub(super) const LOG_FILE: &str = "objects.log";
/// File that says that its API server does not run.
pub(super) const STOPPED_FILE: &str = "stopped";
const KUBECONFIG: &str = "kubeconfig";
const TOKEN: &str = "token";
const CERTIFICATE: &str = "client.pem";
const CERTIFICATE_KEY: &str = "client.key";

/// Names that are good in paths and file names.
pub(super) fn is_name(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !name.starts_with('-')
}

pub(super) fn io_status(what: &str, error: &io::Error) -> Status {
    let words = error.to_string();
    // Only the log names places of this machine: others may read the answer.
    let (words, place) = words.split_once(" at path ").unwrap_or((&words, ""));
    if !place.is_empty() {
        tracing::error!("could not {what}: {error}");
    }
    Status::new(500, "InternalError", format!("could not {what}: {words}"))
}

/// What is said when a file of a cluster cannot be used.
pub(super) fn io_failure(file: &'static str) -> impl Fn(io::Error) -> Status + Copy {
    move |error| io_status(&format!("use its `{file}`"), &error)
}

impl Hosted {
    /// Makes a cluster of a seed, which is awake.
    pub(super) fn create(name: &str, seed: Seed, host: &Arc<Host>) -> Result<Arc<Self>, Status> {
        let failed = |error: io::Error| io_status("make the cluster's folder", &error);
        let folder = host.folder(name);
        create_private_folder(&folder).map_err(failed)?;
        let text = serde_json::to_vec(&seed).map_err(|error| failed(error.into()))?;
        write_private(&folder.join(SEED_FILE), &text).map_err(failed)?;
        Self::open(name, &Entry::default(), host)
    }

    /// Serves the cluster of a folder with a seed; it is awake.
    pub(super) fn open(name: &str, entry: &Entry, host: &Arc<Host>) -> Result<Arc<Self>, Status> {
        let folder = host.folder(name);
        let token = Token::open(&folder.join(TOKEN)).map_err(io_failure(TOKEN))?;
        let certificate = kept_certificate(&folder).map_err(io_failure(CERTIFICATE))?;
        let hosted = Self::new(name, host, token, None, entry);
        *hosted.certificate() = certificate;
        if folder.join(STOPPED_FILE).exists() {
            hosted.voice.send_replace(Voice::Stopped);
        }
        let hosted = Arc::new(hosted);
        hosted.wake()?;
        hosted.write_kubeconfig().map_err(io_failure("folder"))?;
        Ok(hosted)
    }

    /// Serves a copy, which is parked. Nothing is read or written.
    pub(super) fn of_copy(name: &str, copy: CopyOf, entry: &Entry, host: &Arc<Host>) -> Arc<Self> {
        let token = Token::of(&copy.token);
        let hosted = Self::new(name, host, token, Some(copy), entry);
        *hosted.certificate() = entry.certificate.as_deref().and_then(Digest::from_text);
        Arc::new(hosted)
    }

    fn new(name: &str, host: &Arc<Host>, token: Token, copy: Option<CopyOf>, entry: &Entry) -> Self {
        let parked = entry.parked.unwrap_or_default();
        Self {
            name: name.into(),
            host: Arc::clone(host),
            copy,
            token: RwLock::new(Arc::new(token)),
            renewed: watch::Sender::new(()),
            certificate: Mutex::default(),
            quota: Quota::new(),
            kinds: EverDefined::default(),
            voice: Arc::new(watch::Sender::new(Voice::Answers)),
            figures: Mutex::default(),
            used: AtomicI64::new(parked.used.map_or(0, Timestamp::as_millisecond)),
            checked: AtomicBool::new(false),
            stage: Mutex::new(Stage::Parked(parked)),
        }
    }

    /// Whether it is awake. Only the holder of this changes that.
    pub(super) fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`Hosted::stage`], unless somebody else is about to change it.
    pub(super) fn try_stage(&self) -> Option<MutexGuard<'_, Stage>> {
        match self.stage.try_lock() {
            Ok(stage) => Some(stage),
            Err(TryLockError::Poisoned(stage)) => Some(stage.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// It, if it is awake and no other thread is about to change that.
    fn at_hand(&self) -> Option<Arc<Active>> {
        match &*self.try_stage()? {
            Stage::Active(active) => Some(Arc::clone(active)),
            _ => None,
        }
    }

    /// It, awake. A few are woken at a time, on other threads than this one.
    async fn active(self: &Arc<Self>) -> Result<Arc<Active>, Status> {
        if let Some(active) = self.at_hand() {
            return Ok(active);
        }
        // The semaphore is never closed.
        let _turn = self.host.waking.acquire().await;
        let hosted = Arc::clone(self);
        let woken = tokio::task::spawn_blocking(move || hosted.wake()).await;
        woken.map_err(|error| Status::new(500, "InternalError", error.to_string()))?
    }

    /// Answers a request of one of its users.
    pub(super) async fn answer<B>(self: &Arc<Self>, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let limits = self.host.limits();
        self.is_used();
        if let Some(refused) = self.quota.refused(&limits) {
            return refused;
        }
        if self.is_silent() && request.extensions().get::<OfKlab>().is_none() {
            // The connection ends, unless something else is under way on it.
            self.speaking().await;
        }
        let _room = self.quota.room(&request.body().size_hint()).await;
        let (parts, body) = match receive_at_most(request, limits.body_bytes).await {
            Ok(received) => received,
            Err(status) => return status_response(&status),
        };
        let response = match self.active().await {
            Ok(active) => self.quota.answer(&active.api, parts, body, &limits, &self.host.shares).await,
            Err(status) => status_response(&status),
        };
        self.is_used();
        response
    }

    /// Notes that it was asked for something.
    pub(super) fn is_used(&self) {
        self.used.store(Timestamp::now().as_millisecond(), Ordering::Relaxed);
    }

    /// When it was last asked for anything.
    pub(super) fn used(&self) -> Option<Timestamp> {
        let used = self.used.load(Ordering::Relaxed);
        Timestamp::from_millisecond(used).ok().filter(|_| used > 0)
    }

    /// Its API. It stays awake for as long as that is kept.
    pub(super) fn api(self: &Arc<Self>) -> Result<Api, Status> {
        self.is_used();
        Ok(self.wake()?.api.clone())
    }

    /// The resourceVersion of what it holds; none where klab would have to wait for it.
    pub(super) fn version(&self) -> Option<u64> {
        match &*self.try_stage()? {
            Stage::Active(active) => Some(active.api.cluster().version()),
            // The version of one that was active when a server was killed is not known.
            Stage::Parked(parked) => Some(parked.version).filter(|version| *version > 0),
            Stage::Gone => None,
        }
    }

    /// What its control plane goes on without.
    pub(super) fn faults(&self) -> Vec<ControlFault> {
        self.at_hand().map_or_else(Vec::new, |active| active.api.cluster().control_faults())
    }

    /// Sets what its metrics show.
    pub(super) fn set_figures(&self, figures: Figures) {
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner) = Some(figures);
        if let Stage::Active(active) = &*self.stage() {
            active.api.set_metrics(figures.metrics());
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// The part of the server that is this cluster's.
    pub(super) fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Whether it gives no answers.
    pub(super) fn is_silent(&self) -> bool {
        *self.voice.borrow() != Voice::Answers
    }

    /// Whether its API server does not run.
    pub(super) fn is_stopped(&self) -> bool {
        *self.voice.borrow() == Voice::Stopped
    }

    /// Returns when it answers.
    pub(super) async fn speaking(&self) {
        // An error means that the cluster is gone.
        let _ = self.voice.subscribe().wait_for(|voice| *voice == Voice::Answers).await;
    }

    /// Returns when it is silent.
    pub(super) async fn silenced(&self) {
        // An error means that the cluster is gone, which this reference keeps.
        let _ = self.voice.subscribe().wait_for(|voice| *voice != Voice::Answers).await;
    }

    /// What the register is to say of it; nothing of one whose folder says all.
    pub(super) fn entry(&self) -> Option<Entry> {
        let parked = match &*self.stage() {
            Stage::Gone => return None,
            Stage::Parked(parked) => Some(*parked),
            Stage::Active(_) => None,
        };
        let copy = self.copy.clone()?;
        let certificate = self.certificate().as_ref().map(Digest::text);
        let token = self.token();
        let copy = CopyOf { token: token.text().to_owned(), ..copy };
        Some(Entry { copy: Some(copy), certificate, parked })
    }

    /// What its clients show.
    pub(super) fn token(&self) -> Arc<Token> {
        Arc::clone(&self.token.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives it another token: the one before, all that was signed with it, and the connections of those who showed it are good no
    /// more.
    pub(super) fn renew_token(&self) -> io::Result<()> {
        let failed = |status: Status| io::Error::other(status.message);
        let swap = |token: Arc<Token>| {
            std::mem::replace(&mut *self.token.write().unwrap_or_else(PoisonError::into_inner), token)
        };
        let before = swap(Arc::new(Token::random()?));
        let certificate = self.certificate().take();
        let folder = self.folder();
        let written = gone(std::fs::remove_file(folder.join(CERTIFICATE))).and_then(|()| match self.entry() {
            // The register may be written again at any moment: it asks for the token that there is.
            Some(entry) if self.copy.is_some() => {
                self.host.register.note([Note::Is(self.name.to_string(), entry)])?;
                self.host.register.sync()
            }
            _ => write_private(&folder.join(TOKEN), self.token().text().as_bytes()),
        });
        if let Err(error) = written {
            swap(before);
            *self.certificate() = certificate;
            return Err(error);
        }
        if let Stage::Active(active) = &*self.stage() {
            self.sign_as_now(active.api.cluster()).map_err(failed)?;
        }
        self.renewed.send_replace(());
        self.write_kubeconfig()
    }

    /// Has a cluster sign with what follows from its token.
    pub(super) fn sign_as_now(&self, cluster: &Cluster) -> Result<(), Status> {
        let none = || Status::new(500, "InternalError", "no key can be made of the token");
        cluster.set_authority(Arc::new(tls::signer(&self.token()).ok_or_else(none)?));
        cluster.set_token_key(self.token_key());
        Ok(())
    }

    pub(super) fn kubeconfig(&self) -> String {
        self.kubeconfig_called(&format!("klab-{}", self.name))
    }

    /// Its kubeconfig with another name for cluster, user and context.
    pub(super) fn kubeconfig_called(&self, context: &str) -> String {
        let token = self.token();
        let at = self.host.place(&self.name, &token);
        let place = Place { url: &at.url, host_name: &at.host_name, authority: &at.authority };
        kubeconfig::text(context, context, &place, &kubeconfig::Proof::Token(token.text()))
    }

    /// Where its kubeconfig is kept.
    pub(super) fn kubeconfig_path(&self) -> PathBuf {
        self.folder().join(KUBECONFIG)
    }

    /// Whether its kubeconfig seems to be there; it is not read.
    pub(super) fn has_kubeconfig(&self) -> bool {
        std::fs::metadata(self.kubeconfig_path()).is_ok_and(|file| file.len() > 0)
    }

    /// Writes its kubeconfig, whole or not at all; it is on the disk with what the server syncs next. One that is good stays,
    /// with the users and contexts that somebody may have added.
    pub(super) fn write_kubeconfig(&self) -> io::Result<()> {
        let (path, wanted) = (self.kubeconfig_path(), self.kubeconfig());
        if std::fs::read_to_string(&path).is_ok_and(|kept| kubeconfig::leads_to(&kept, &wanted)) {
            return Ok(());
        }
        write_private_later(&path, wanted.as_bytes())
    }

    /// A kubeconfig with a client certificate, made unless there is one, and without the cluster in the path: the certificate
    /// tells it.
    pub(super) fn kubeconfig_with_certificate(&self, context: &str, user: &str) -> io::Result<String> {
        let made = self.make_certificate()?;
        let proof = kubeconfig::Proof::Certificate { certificate: &made.certificate, key: &made.key };
        let url = format!("https://{}", self.host.address);
        let host_name = super::host_name::HostNames::new(&self.host.admin).name(&self.token());
        let place = Place { url: &url, host_name: &host_name, authority: &self.host.identity.authority };
        Ok(kubeconfig::text(context, user, &place, &proof))
    }

    fn make_certificate(&self) -> io::Result<tls::ClientCertificate> {
        let folder = self.folder();
        let mut known = self.certificate();
        let read = |name: &str| std::fs::read_to_string(folder.join(name));
        let made = if let (Ok(certificate), Ok(key)) = (read(CERTIFICATE), read(CERTIFICATE_KEY)) {
            tls::ClientCertificate { certificate, key }
        } else {
            let made = self.host.identity.client(&self.name)?;
            create_private_folder(&folder)?;
            write_private(&folder.join(CERTIFICATE_KEY), made.key.as_bytes())?;
            write_private(&folder.join(CERTIFICATE), made.certificate.as_bytes())?;
            made
        };
        *known = Some(Digest::of(&tls::der(&made.certificate)?));
        Ok(made)
    }

    fn certificate(&self) -> MutexGuard<'_, Option<Digest>> {
        self.certificate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Digests of what its clients may show: a token, and a certificate where there is one.
    pub(super) fn credentials(&self) -> impl Iterator<Item = Digest> {
        [Some(self.token().digest()), *self.certificate()].into_iter().flatten()
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.host.folder(&self.name)
    }

    /// The user behind a bearer token, if it is this cluster's.
    pub(super) fn user_of_token(&self, presented: &Digest) -> Option<User> {
        self.token().is(presented).then(User::admin)
    }

    /// What tokens of its ServiceAccounts are signed with: the same whenever it is woken.
    pub(super) fn token_key(&self) -> [u8; 32] {
        self.token().secret("tokens of service accounts")
    }

    /// The user behind what looks like a token of one of its ServiceAccounts.
    pub(super) async fn service_account(self: &Arc<Self>, presented: &str) -> Option<User> {
        // A token that the cluster did not sign does not wake it.
        let token = Signed::with(&self.token_key(), presented)?;
        self.is_used();
        let active = self.active().await.ok()?;
        active.api.cluster().at_leisure().await;
        user_of(active.api.cluster(), &token)
    }

    /// The user who holds a certificate that was signed for this cluster, while it is good.
    pub(super) async fn holder(self: &Arc<Self>, holder: &Holder) -> Option<User> {
        if holder.mark != tls::mark(&self.token()) {
            return None;
        }
        self.is_used();
        let active = self.active().await.ok()?;
        holder.user(active.api.cluster().now())
    }

    /// The user behind a client certificate, if it is this cluster's.
    pub(super) fn user_of_certificate(&self, presented: &Digest) -> Option<User> {
        let own = self.certificate().is_some_and(|certificate| certificate.is(presented));
        own.then(|| User::admin().with_credential(format!("X509SHA256={}", presented.text())))
    }
}

/// The digest of a client certificate that is kept in a folder.
fn kept_certificate(folder: &Path) -> io::Result<Option<Digest>> {
    match std::fs::read_to_string(folder.join(CERTIFICATE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        text => Ok(Some(Digest::of(&tls::der(&text?)?))),
    }
}

/// Whether a folder holds a cluster that was made of a seed; one that does not was being made or removed when a server was
/// killed, or is a copy's.
pub(super) fn is_complete(folder: &Path) -> bool {
    folder.join(SEED_FILE).is_file()
}

/// Whether a cluster is there to be used, as far as its folder tells: its kubeconfig is written last. One that is no copy has
/// a token and a seed.
pub fn is_served(folder: &Path) -> bool {
    folder.join(KUBECONFIG).is_file() && (is_complete(folder) || !folder.join(TOKEN).exists())
}

/// Removes a cluster's folder; what marks it as complete goes first.
pub(super) fn remove_folder(folder: &Path) -> io::Result<()> {
    gone(std::fs::remove_file(folder.join(KUBECONFIG)))?;
    gone(std::fs::remove_file(folder.join(SEED_FILE)))?;
    gone(std::fs::remove_dir_all(folder))
}
