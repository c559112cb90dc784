//! The server of embedded clusters: one TLS port on loopback, many clusters behind it, each with its own credentials.
//!
//! ```text
//! https://127.0.0.1:PORT/clusters/<name>/…   the Kubernetes API of a cluster, with that cluster's credentials
//! https://127.0.0.1:PORT/klab/v1/…           klab's own face, with the server's token
//! ```
//!
//! The state folder holds the certificate, the port, the server's token and a folder for each cluster. A server that
//! starts there again serves the same clusters, under the same credentials, and at the same port if it is free.

mod admin;
mod broken;
mod connection;
mod control_thread;
mod credentials;
pub mod files;
mod handshake;
mod host_name;
mod hosted;
mod kubeconfig;
mod lane;
mod tls;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use self::admin::{ClusterAccess, Health};
pub use self::hosted::{is_complete, remove_saved};
pub use super::seed::{Delays, Figures, Seed};
pub use super::system::Flavour;

use self::broken::Broken;
use self::control_thread::ControlThreads;
use self::credentials::{Digest, Token};
use self::hosted::Hosted;
use super::cluster::Limits;
use super::status::Status;
use crate::server::files::{create_private_folder, write_private};

/// How to start a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where certificate, tokens and clusters are kept; made if it is not there.
    pub state_directory: PathBuf,
    /// Port to listen at; `None` takes the last one again if it is free, else any.
    pub port: Option<u16>,
}

/// What a process needs to talk to a running server. Kept in `access.json` (mode 0600) of the state folder while the
/// server runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Process id of the server.
    pub pid: u32,
    /// klab's version.
    pub version: String,
    /// `127.0.0.1:6443`
    pub address: SocketAddr,
    /// The server's own token.
    pub token: String,
    /// The certificate authority, PEM.
    pub certificate: String,
    /// Clusters that are kept and cannot be served, with the reason.
    #[serde(default)]
    pub broken: BTreeMap<String, String>,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The state folder cannot be used.
    #[error("could not use the server's folder `{}`", .0.display())]
    Folder(PathBuf, #[source] std::io::Error),
    /// The port that was asked for cannot be had.
    #[error("could not listen at port {0}")]
    Port(u16, #[source] std::io::Error),
    /// No port can be had.
    #[error("could not listen on the loopback address")]
    Listen(#[source] std::io::Error),
}

/// File of [`Access`] in the state folder.
pub const ACCESS_FILE: &str = "access.json";

/// How long connections may take to end when the server stops.
const FAREWELL: Duration = Duration::from_millis(100);

/// How often what was acknowledged is made to survive the machine (it survives the process at once).
const SYNC: Duration = Duration::from_secs(1);

/// A running server. It serves as long as this value lives and its runtime runs.
pub struct Server {
    shared: Arc<Shared>,
    serving: tokio::task::JoinHandle<()>,
}

/// What all connections see.
struct Shared {
    state: PathBuf,
    address: SocketAddr,
    identity: tls::Identity,
    admin: Token,
    clusters: RwLock<BTreeMap<String, Arc<Hosted>>>,
    /// Those that could not be restored: each keeps nobody but itself from being served.
    broken: RwLock<BTreeMap<String, Broken>>,
    /// Names of clusters that are being made or removed, and word of each that is done.
    changing: Mutex<BTreeSet<String>>,
    changed: Condvar,
    control: ControlThreads,
    limits: Arc<Limits>,
    /// How many connections are served at the same time.
    connections: usize,
    stop: watch::Sender<bool>,
}

impl Server {
    /// Starts a server; it listens when this returns, and serves the clusters of its state folder.
    ///
    /// # Errors
    /// When the state folder cannot be used, or the port is taken.
    pub async fn start(options: ServerOptions) -> Result<Self, StartError> {
        let state = options.state_directory;
        let unusable = |error| StartError::Folder(state.clone(), error);
        create_private_folder(&state).map_err(unusable)?;
        let clusters_folder = state.join("clusters");
        create_private_folder(&clusters_folder).map_err(unusable)?;
        let identity = tls::Identity::open(&state).map_err(unusable)?;
        let admin = Token::open(&state.join("token")).map_err(unusable)?;
        let listener = listen(&state, options.port).await?;
        let address = listener.local_addr().map_err(StartError::Listen)?;
        write_private(&state.join("port"), address.port().to_string().as_bytes()).map_err(unusable)?;
        let shared = Arc::new(Shared {
            state: state.clone(),
            address,
            identity,
            admin,
            clusters: RwLock::default(),
            broken: RwLock::default(),
            changing: Mutex::default(),
            changed: Condvar::new(),
            control: ControlThreads::default(),
            limits: Arc::default(),
            connections: connection::most(),
            stop: watch::Sender::new(false),
        });
        shared.restore(&clusters_folder).map_err(unusable)?;
        shared.write_access().map_err(unusable)?;
        let place = place(&state).map_err(unusable)?;
        let serving = tokio::spawn(connection::serve(listener, Arc::clone(&shared)));
        tokio::spawn(sync_now_and_then(Arc::clone(&shared), place));
        Ok(Self { shared, serving })
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// What another process needs to talk to this server.
    pub fn access(&self) -> Access {
        self.shared.access()
    }

    /// Adds a cluster, or finds it: a cluster of that name stays as it is. Says whether it is new.
    ///
    /// # Errors
    /// When its folder cannot be written, or the seed holds an object that is refused.
    pub fn add(&self, name: &str, seed: Seed) -> Result<bool, Status> {
        self.shared.add(name, seed)
    }

    /// The kubeconfig of a cluster, with a bearer token.
    pub fn kubeconfig(&self, name: &str) -> Option<String> {
        Some(self.shared.cluster(name)?.kubeconfig())
    }

    /// A kubeconfig of a cluster with a client certificate instead of a token, and a server URL without a path.
    pub fn kubeconfig_with_certificate(&self, name: &str, context: &str, user: &str) -> Option<String> {
        self.shared.cluster(name)?.kubeconfig_with_certificate(context, user, &self.shared)
    }

    /// The API of a cluster, in process.
    pub fn api(&self, name: &str) -> Option<super::api::Api> {
        Some(self.shared.cluster(name)?.api().clone())
    }

    /// Tells the server to stop.
    pub fn stop(&self) {
        self.shared.stop.send_replace(true);
    }

    /// Waits until somebody asks the server to stop.
    pub async fn stopped(&self) {
        let mut stop = self.shared.stop.subscribe();
        // An error means that the sender is gone, which is this server's own.
        let _ = stop.wait_for(|stop| *stop).await;
    }

    /// Serves until somebody asks the server to stop, then ends connections and controllers.
    pub async fn run_until_stopped(self) {
        self.stopped().await;
        let _ = tokio::time::timeout(FAREWELL, self.serving).await;
        self.shared.close();
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").field("address", &self.shared.address).finish_non_exhaustive()
    }
}

impl Shared {
    fn access(&self) -> Access {
        Access {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            address: self.address,
            token: self.admin.text().to_owned(),
            certificate: self.identity.authority.clone(),
            broken: self.broken().iter().map(|(name, broken)| (name.clone(), broken.reason.clone())).collect(),
        }
    }

    fn write_access(&self) -> std::io::Result<()> {
        let text = serde_json::to_vec(&self.access())?;
        write_private(&self.state.join(ACCESS_FILE), &text)
    }

    fn broken(&self) -> RwLockReadGuard<'_, BTreeMap<String, Broken>> {
        self.broken.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The refusal of a cluster that cannot be served, to who shows its credentials.
    fn refusal(&self, name: &str, token: Option<&Digest>) -> Option<Status> {
        self.broken().get(name).filter(|broken| broken.is_known(token)).map(Broken::status)
    }

    fn cluster(&self, name: &str) -> Option<Arc<Hosted>> {
        self.clusters.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn all(&self) -> Vec<Arc<Hosted>> {
        self.clusters.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Serves the clusters that are there from before.
    fn restore(&self, folder: &std::path::Path) -> std::io::Result<()> {
        let mut clusters = self.clusters.write().unwrap_or_else(PoisonError::into_inner);
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()).map(str::to_owned) else { continue };
            if !hosted::is_complete(&path) {
                // Left by a server that was killed while it made or removed this one.
                std::fs::remove_dir_all(&path)?;
                continue;
            }
            match Hosted::open(&name, &path, self) {
                Ok(hosted) => drop(clusters.insert(name, hosted)),
                Err(status) => {
                    let broken = Broken::new(&name, &path, &status.message);
                    tracing::error!(cluster = name, "{}", broken.reason);
                    self.broken.write().unwrap_or_else(PoisonError::into_inner).insert(name, broken);
                }
            }
        }
        self.limits.share_among(clusters.len());
        Ok(())
    }

    fn add(&self, name: &str, seed: Seed) -> Result<bool, Status> {
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
        match Hosted::create(name, &folder, seed, self) {
            Ok(hosted) => {
                let mut clusters = self.clusters.write().unwrap_or_else(PoisonError::into_inner);
                clusters.insert(name.to_owned(), hosted);
                self.limits.share_among(clusters.len());
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
    fn remove(&self, name: &str) -> Result<bool, Status> {
        let _turn = self.turn(name);
        let removed = {
            let mut clusters = self.clusters.write().unwrap_or_else(PoisonError::into_inner);
            let removed = clusters.remove(name);
            self.limits.share_among(clusters.len());
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

    fn close(&self) {
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

/// Which folder it is, whatever its name.
fn place(folder: &std::path::Path) -> std::io::Result<(u64, u64)> {
    std::fs::metadata(folder).map(|folder| (folder.dev(), folder.ino()))
}

/// Writes what changed to the disk, about once a second, until the server stops. A server whose folder was removed stops:
/// nobody knows of it any more.
async fn sync_now_and_then(shared: Arc<Shared>, home: (u64, u64)) {
    let mut stop = shared.stop.subscribe();
    loop {
        tokio::select! {
            // An error means that the server is gone.
            _ = stop.changed() => return,
            () = tokio::time::sleep(SYNC) => {}
        }
        if place(&shared.state).ok() != Some(home) {
            tracing::warn!("the server's folder was removed; the server stops");
            shared.stop.send_replace(true);
            return;
        }
        let all = shared.all();
        let synced = tokio::task::spawn_blocking(move || all.iter().for_each(|hosted| hosted.sync()));
        if synced.await.is_err() {
            return;
        }
    }
}

/// Binds the wanted port, or the last one, or any.
async fn listen(state: &std::path::Path, wanted: Option<u16>) -> Result<TcpListener, StartError> {
    let bind = |port: u16| TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    if let Some(port) = wanted {
        return bind(port).await.map_err(|error| StartError::Port(port, error));
    }
    let last = std::fs::read_to_string(state.join("port")).ok().and_then(|text| text.trim().parse::<u16>().ok());
    if let Some(port) = last
        && let Ok(listener) = bind(port).await
    {
        return Ok(listener);
    }
    bind(0).await.map_err(StartError::Listen)
}
