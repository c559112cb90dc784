//! The server of embedded clusters: one TLS port on loopback, many clusters behind it, each with its own credentials.
//!
//! ```text
//! https://127.0.0.1:PORT/clusters/<name>/…   the Kubernetes API of a cluster, with that cluster's credentials
//! https://127.0.0.1:PORT/klab/v1/…           klab's own face, with the server's token
//! ```
//!
//! The state folder holds the certificate, the port, the server's token and a folder for each cluster. A server that
//! starts there again serves the same clusters, under the same credentials, and at the same port if it is free.

mod access;
mod admin;
mod broken;
mod connection;
mod control_thread;
mod credentials;
pub mod files;
mod handshake;
mod host;
mod host_name;
mod hosted;
mod kubeconfig;
mod lane;
mod refusal;
mod shared;
mod tls;

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

pub use self::access::{ACCESS_FILE, Access};
pub use self::admin::{ClusterAccess, Copied, Health};
pub use self::credentials::{Digest, Token};
pub use self::hosted::{is_complete, remove_saved};
pub use self::shared::NewCopy;
pub use super::renaming::Renaming;
pub use super::seed::{Delays, Figures, Seed};
pub use super::system::Flavour;

use self::control_thread::ControlThreads;
use self::files::{create_private_folder, write_private};
use self::host::Host;
use self::shared::Shared;
use super::status::Status;

/// How to start a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where certificate, tokens and clusters are kept; made if it is not there.
    pub state_directory: PathBuf,
    /// Port to listen at; `None` takes the last one again if it is free, else any.
    pub port: Option<u16>,
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

/// How often what was acknowledged is made to survive the machine (it survives the process at once).
const SYNC: Duration = Duration::from_secs(1);

/// A running server. It serves as long as this value lives and its runtime runs.
pub struct Server {
    shared: Arc<Shared>,
    serving: tokio::task::JoinHandle<()>,
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
        let host = Host {
            address,
            identity,
            admin,
            control: ControlThreads::default(),
            limits: Arc::default(),
            connections: connection::most(),
        };
        let shared = Arc::new(Shared::new(state.clone(), host));
        shared.restore(&clusters_folder).map_err(unusable)?;
        shared.write_access().map_err(unusable)?;
        let place = place(&state).map_err(unusable)?;
        let serving = tokio::spawn(connection::serve(listener, Arc::clone(&shared)));
        tokio::spawn(sync_now_and_then(Arc::clone(&shared), place));
        Ok(Self { shared, serving })
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.shared.host.address
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

    /// Makes copies of a cluster under other names, which begin with what it holds and go their own ways; says of each
    /// whether it is new. A cluster of such a name stays as it is.
    ///
    /// # Errors
    /// When there is no such cluster.
    pub fn copy(&self, of: &str, copies: &[NewCopy]) -> Result<Vec<Result<bool, Status>>, Status> {
        Ok(self.shared.copy(&admin::found(&self.shared, of)?, copies))
    }

    /// The kubeconfig of a cluster, with a bearer token.
    pub fn kubeconfig(&self, name: &str) -> Option<String> {
        Some(self.shared.cluster(name)?.kubeconfig())
    }

    /// A kubeconfig of a cluster with a client certificate instead of a token, and a server URL without a path.
    pub fn kubeconfig_with_certificate(&self, name: &str, context: &str, user: &str) -> Option<String> {
        self.shared.cluster(name)?.kubeconfig_with_certificate(context, user, &self.shared.host)
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
        let _ = tokio::time::timeout(connection::FAREWELL, self.serving).await;
        self.shared.close();
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").field("address", &self.shared.host.address).finish_non_exhaustive()
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
