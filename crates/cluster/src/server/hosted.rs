//! One cluster of a server: its folder, credentials, API and control plane.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::super::api::{Api, User};
use super::super::clock::SystemClock;
use super::super::cluster::Cluster;
use super::super::renaming::Renaming;
use super::super::seed::{Seed, add_objects};
use super::super::status::Status;
use super::super::system;
use super::control_thread::Running;
use super::credentials::{Digest, Token};
use super::host::Host;
use super::host_name::HostNames;
use super::kubeconfig::Place;
use super::lane::Lane;
use super::{kubeconfig, tls};
use crate::server::files::{create_private_folder, gone, write_private};

/// A cluster of a server.
pub(super) struct Hosted {
    name: String,
    folder: PathBuf,
    api: Api,
    token: Token,
    certificate: Digest,
    kubeconfig: String,
    lane: Lane,
    control: Mutex<Option<Running>>,
    /// The version up to which the log is on the disk.
    synced: AtomicU64,
}

/// The part of the server's connections that one cluster may have.
const CLUSTER_SHARE: usize = 4;

/// File that says that a cluster's folder is complete, and holds its seed.
const SEED_FILE: &str = "seed.json";
/// Made last: the objects of the seed are in the cluster.
const SEEDED_FILE: &str = "seeded";

/// The cluster's objects.
const LOG_FILE: &str = "objects.log";

/// A cluster that was made has objects: without them it is not a new one, but one that was lost.
fn refuse_lost(folder: &Path) -> Result<(), Status> {
    if !folder.join(SEEDED_FILE).exists() {
        return Ok(());
    }
    let what = match std::fs::metadata(folder.join(LOG_FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => "missing",
        Ok(log) if log.is_file() && log.len() == 0 => "empty",
        _ => return Ok(()),
    };
    Err(Status::new(500, "InternalError", format!("its objects are lost: `{LOG_FILE}` is {what}")))
}

/// Whether a folder holds a cluster; one that does not was being made or removed when a server was killed.
pub fn is_complete(folder: &Path) -> bool {
    folder.join(SEED_FILE).is_file()
}

/// Names that are good in paths and file names.
pub(super) fn is_name(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !name.starts_with('-')
}

pub(super) fn io_status(what: &str, error: &io::Error) -> Status {
    Status::new(500, "InternalError", format!("could not {what}: {error}"))
}

/// What is said when a file of a cluster cannot be used.
fn io_failure(file: &'static str) -> impl Fn(io::Error) -> Status + Copy {
    move |error| io_status(&format!("use its `{file}`"), &error)
}

impl Hosted {
    /// Makes a cluster.
    pub(super) fn create(name: &str, folder: &Path, seed: Seed, host: &Host) -> Result<Arc<Self>, Status> {
        let failed = |error: io::Error| io_status("make the cluster's folder", &error);
        create_private_folder(folder).map_err(failed)?;
        let text = serde_json::to_vec(&seed).map_err(|error| failed(error.into()))?;
        write_private(&folder.join(SEED_FILE), &text).map_err(failed)?;
        Self::open(name, folder, host)
    }

    /// Makes a cluster that begins with what this one holds, under other names: its objects are shared until one of the two
    /// writes them. What marks the folder as complete is written last.
    pub(super) fn copy(
        &self,
        name: &str,
        folder: &Path,
        renaming: &Renaming,
        host: &Host,
    ) -> Result<Arc<Self>, Status> {
        let failed = |error: io::Error| io_status("make the copy's folder", &error);
        let (text, seed) = self.seed()?;
        create_private_folder(folder).map_err(failed)?;
        let checkpoint = self.api.cluster().checkpoint().renamed(renaming);
        let log = folder.join(LOG_FILE);
        let cluster = Cluster::kept_from_checkpoint(&checkpoint, &log, Arc::new(SystemClock)).map_err(failed)?;
        cluster.set_limits(Arc::clone(&host.limits));
        write_private(&folder.join(SEEDED_FILE), b"").map_err(failed)?;
        write_private(&folder.join(SEED_FILE), &text).map_err(failed)?;
        Self::serve(name, folder, &seed, Arc::new(cluster), host)
    }

    /// Serves the cluster of a folder.
    pub(super) fn open(name: &str, folder: &Path, host: &Host) -> Result<Arc<Self>, Status> {
        let failed = io_failure("folder");
        let seed = std::fs::read(folder.join(SEED_FILE)).map_err(io_failure(SEED_FILE))?;
        let seed: Seed = serde_json::from_slice(&seed).map_err(|error| io_failure(SEED_FILE)(error.into()))?;
        refuse_lost(folder)?;
        let (cluster, recovery) =
            Cluster::open(&folder.join(LOG_FILE), Arc::new(SystemClock), seed.seed).map_err(io_failure(LOG_FILE))?;
        for note in recovery.notes {
            tracing::warn!(cluster = name, "{note}");
        }
        let cluster = Arc::new(cluster);
        cluster.set_limits(Arc::clone(&host.limits));
        cluster.set_root_certificate(&host.identity.authority);
        if !folder.join(SEEDED_FILE).exists() {
            seed.fill(&cluster, name)?;
            write_private(&folder.join(SEEDED_FILE), b"").map_err(failed)?;
        }
        // As an API server does at each start: an older klab may have made the cluster.
        system::ensure_roles(&cluster);
        Self::serve(name, folder, &seed, cluster, host)
    }

    /// Begins to serve a cluster, with the credentials in its folder.
    fn serve(name: &str, folder: &Path, seed: &Seed, cluster: Arc<Cluster>, host: &Host) -> Result<Arc<Self>, Status> {
        let failed = io_failure("folder");
        let token = Token::open(&folder.join("token")).map_err(io_failure("token"))?;
        let certificate = client_certificate(name, folder, host).map_err(io_failure("client.pem"))?;
        let digest = Digest::of(&tls::der(&certificate.certificate).map_err(io_failure("client.pem"))?);
        let api = Api::at(Arc::clone(&cluster), host.address.to_string());
        api.set_metrics(seed.metrics.metrics());
        let running = host.control.run(cluster, seed.settings()).map_err(failed)?;
        let context = format!("klab-{name}");
        let url = format!("https://{}/clusters/{name}", host.address);
        let host_name = HostNames::new(&host.admin).name(&token);
        let place = Place { url: &url, host_name: &host_name, authority: &host.identity.authority };
        let kubeconfig = kubeconfig::text(&context, &context, &place, &kubeconfig::Proof::Token(token.text()));
        write_private(&folder.join("kubeconfig"), kubeconfig.as_bytes()).map_err(failed)?;
        Ok(Arc::new(Self {
            name: name.to_owned(),
            folder: folder.to_owned(),
            api,
            token,
            certificate: digest,
            kubeconfig,
            lane: Lane::new(host.connections.div_ceil(CLUSTER_SHARE)),
            control: Mutex::new(Some(running)),
            synced: AtomicU64::new(0),
        }))
    }

    /// Makes what the cluster began with and has no more; gives what that was.
    pub(super) fn restore(&self) -> Result<Vec<String>, Status> {
        self.seed()?.1.fill(self.api.cluster(), &self.name)
    }

    /// The seed that it was made of, and its text.
    fn seed(&self) -> Result<(Vec<u8>, Seed), Status> {
        let failed = |error: io::Error| io_status("read the cluster's seed", &error);
        let text = std::fs::read(self.folder.join(SEED_FILE)).map_err(failed)?;
        let seed = serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
        Ok((text, seed))
    }

    /// Makes the objects of this JSON list; those that are there already stay as they are.
    pub(super) fn add_objects(&self, objects: &[u8]) -> Result<(), Status> {
        let objects: Vec<Value> = serde_json::from_slice(objects)
            .map_err(|error| Status::bad_request(format!("not a list of objects: {error}")))?;
        add_objects(self.api.cluster(), &objects).map(drop)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn api(&self) -> &Api {
        &self.api
    }

    /// The part of the server that is this cluster's.
    pub(super) fn lane(&self) -> &Lane {
        &self.lane
    }

    pub(super) fn kubeconfig(&self) -> String {
        self.kubeconfig.clone()
    }

    /// A kubeconfig with the client certificate, and without the cluster in the path: the certificate tells it.
    pub(super) fn kubeconfig_with_certificate(&self, context: &str, user: &str, host: &Host) -> Option<String> {
        let read = |name: &str| std::fs::read_to_string(self.folder.join(name)).ok();
        let (certificate, key) = (read("client.pem")?, read("client.key")?);
        let proof = kubeconfig::Proof::Certificate { certificate: &certificate, key: &key };
        let url = format!("https://{}", host.address);
        let host_name = HostNames::new(&host.admin).name(&self.token);
        let place = Place { url: &url, host_name: &host_name, authority: &host.identity.authority };
        Some(kubeconfig::text(context, user, &place, &proof))
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The user behind a bearer token, if it is this cluster's.
    pub(super) fn user_of_token(&self, presented: &Digest) -> Option<User> {
        self.token.is(presented).then(User::admin)
    }

    /// The user behind a client certificate, if it is this cluster's.
    pub(super) fn user_of_certificate(&self, presented: &Digest) -> Option<User> {
        let own = self.certificate.is(presented);
        own.then(|| User::admin().with_credential(format!("X509SHA256={}", presented.text())))
    }

    /// Ends the control plane. Idempotent.
    pub(super) fn close(&self) {
        self.control.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Makes what was written since the last time survive the machine, too.
    pub(super) fn sync(&self) {
        let version = self.api.cluster().version();
        if self.synced.swap(version, Ordering::Relaxed) != version
            && let Err(error) = self.api.cluster().sync()
        {
            tracing::error!(cluster = self.name, %error, "the cluster's log could not be synced");
        }
    }
}

/// Removes everything a cluster kept in its folder; what marks it as complete goes first. No server may be at work on it.
///
/// # Errors
/// When the file system refuses.
pub fn remove_saved(folder: &Path) -> io::Result<()> {
    gone(std::fs::remove_file(folder.join(SEED_FILE)))?;
    gone(std::fs::remove_dir_all(folder))
}

/// The cluster's client certificate, kept beside its token.
fn client_certificate(name: &str, folder: &Path, host: &Host) -> io::Result<tls::ClientCertificate> {
    let (certificate_file, key_file) = (folder.join("client.pem"), folder.join("client.key"));
    let kept = (std::fs::read_to_string(&certificate_file), std::fs::read_to_string(&key_file));
    if let (Ok(certificate), Ok(key)) = kept {
        return Ok(tls::ClientCertificate { certificate, key });
    }
    let made = host.identity.client(name)?;
    write_private(&key_file, made.key.as_bytes())?;
    write_private(&certificate_file, made.certificate.as_bytes())?;
    Ok(made)
}
