//! The server itself: started, asked and stopped by the process that has it.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use klab_api_machinery::status::Status;
use klab_cluster::api::Api;
use klab_cluster::clock::{Clock, FastClock, SystemClock};
use klab_cluster::seed::{Seed, add_objects};
use tokio::net::TcpListener;

use super::access::Access;
use super::credentials::{Digest, Token};
use super::files::{create_private_folder, rewrite_private};
use super::host::{Host, Outside, Parts};
use super::limits::Limits;
use super::public::{Certificate, Public};
use super::quiescence::Quiescence;
use super::register::Register;
use super::shared::{ClusterState, NewCopy, Shared};
use super::start_error::StartError;
use super::webhooks::{HttpsWebhooks, Webhooks};
use super::{admin, connection, maintenance, tls};

/// How to start a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where certificate, tokens and clusters are kept; made if it is not there.
    pub state_directory: PathBuf,
    /// Port to listen at; `None` takes the last one again if it is free, else any.
    pub port: Option<u16>,
    /// What each cluster may use.
    pub limits: Limits,
    /// How long a cluster is unused until it is parked, if nothing is to be done in it; `None`: never.
    pub park_after: Option<Duration>,
    /// Which webhooks its clusters may call.
    pub webhooks: Webhooks,
    /// How many times as fast as the machine's its clusters' clock goes, since the state folder was made.
    pub clock_times: u32,
}

/// How long a cluster is unused until it is parked, where nothing else is said.
const PARK_AFTER: Duration = Duration::from_secs(15);

impl ServerOptions {
    /// A server that keeps what it has in this folder, at the port it had before.
    pub fn at(state_directory: impl Into<PathBuf>) -> Self {
        Self {
            state_directory: state_directory.into(),
            port: None,
            limits: Limits::default(),
            park_after: Some(PARK_AFTER),
            webhooks: Webhooks::default(),
            clock_times: 1,
        }
    }
}

/// The clock of clusters. A server that starts again goes on where the last one was.
fn clock(state: &Path, times: u32) -> std::io::Result<Arc<dyn Clock>> {
    if times <= 1 {
        return Ok(Arc::new(SystemClock));
    }
    let began = std::fs::metadata(state.join("token"))?.modified()?;
    let began = Timestamp::try_from(began).map_err(std::io::Error::other)?;
    Ok(Arc::new(FastClock::new(began, times)))
}

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
        Self::start_as(options, None).await
    }

    /// Starts a server that other machines reach.
    ///
    /// # Errors
    /// As [`Server::start`], and when its certificate cannot be used.
    pub async fn start_public(options: ServerOptions, public: Public) -> Result<Self, StartError> {
        Self::start_as(options, Some(public)).await
    }

    async fn start_as(options: ServerOptions, public: Option<Public>) -> Result<Self, StartError> {
        let state = options.state_directory;
        let unusable = |error| StartError::Folder(state.clone(), error);
        create_private_folder(&state).map_err(unusable)?;
        let clusters_folder = state.join("clusters");
        create_private_folder(&clusters_folder).map_err(unusable)?;
        let identity = match public.as_ref().map(|public| &public.certificate) {
            Some(Certificate::Own(names)) => tls::Identity::named(&state, names),
            _ => tls::Identity::open(&state),
        };
        let identity = identity.map_err(unusable)?;
        let admin = Token::open(&state.join("token")).map_err(unusable)?;
        let listener = match &public {
            Some(public) => listen_publicly(&state, public.listen).await?,
            None => listen(&state, options.port).await?,
        };
        let address = listener.local_addr().map_err(StartError::Listen)?;
        rewrite_private(&state.join("port"), address.port().to_string().as_bytes()).map_err(unusable)?;
        let public = public.map(|public| outside(public, address, &identity)).transpose();
        let (register, contents) = Register::open(&state).map_err(unusable)?;
        let host = Host::new(Parts {
            state: state.clone(),
            address,
            identity,
            admin,
            register,
            connections: connection::most(),
            public: public.map_err(StartError::Certificate)?,
            webhooks: Arc::new(HttpsWebhooks::new(options.webhooks)),
            limits: options.limits,
            clock: clock(&state, options.clock_times).map_err(unusable)?,
        });
        let shared = Arc::new(Shared::new(Arc::new(host)));
        shared.restore(&clusters_folder, contents).map_err(unusable)?;
        shared.write_access().map_err(unusable)?;
        let place = maintenance::place(&state).map_err(unusable)?;
        let serving = tokio::spawn(connection::serve(listener, Arc::clone(&shared)));
        tokio::spawn(maintenance::sync_now_and_then(Arc::clone(&shared), place));
        tokio::spawn(maintenance::park_and_wake(Arc::clone(&shared), options.park_after));
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
        self.shared.copy(self.shared.template(&admin::found(&self.shared, of)?)?.id(), copies)
    }

    /// Puts what its template holds in the place of all that a copy holds. Its credentials stay; watches end with 410.
    ///
    /// # Errors
    /// When there is no such cluster, it is no copy, or its files cannot be used.
    pub fn reset(&self, name: &str) -> Result<(), Status> {
        admin::found(&self.shared, name)?.reset()
    }

    /// Removes clusters and all they kept; says of each whether there was one.
    pub fn remove_all(&self, names: &[&str]) -> Vec<Result<bool, Status>> {
        self.shared.remove_all(names)
    }

    /// How a cluster is; it is not woken for it.
    pub fn state(&self, name: &str) -> Option<ClusterState> {
        self.shared.state(name)
    }

    /// Sets what each cluster may use from now on.
    pub fn set_limits(&self, limits: Limits) {
        self.shared.host.set_limits(limits);
    }

    /// The clusters that come to rest after changes, from now on.
    pub fn quiescence(&self) -> Quiescence {
        self.shared.host.control.quiescence().follow()
    }

    /// The kubeconfig of a cluster, with a bearer token.
    pub fn kubeconfig(&self, name: &str) -> Option<String> {
        Some(self.shared.cluster(name)?.kubeconfig())
    }

    /// The kubeconfig of a cluster, with a bearer token, and with this name for cluster, user and context.
    pub fn kubeconfig_called(&self, name: &str, context: &str) -> Option<String> {
        Some(self.shared.cluster(name)?.kubeconfig_called(context))
    }

    /// The bearer token of a cluster.
    pub fn token(&self, name: &str) -> Option<String> {
        Some(self.shared.cluster(name)?.token().text().to_owned())
    }

    /// Gives a cluster another bearer token. The one before is good no more, nor is what was signed with it, and the connections of
    /// those who showed it end.
    ///
    /// # Errors
    /// When there is no such cluster, or the token cannot be written.
    pub fn renew_token(&self, name: &str) -> Result<(), Status> {
        self.shared.renew_token(name)
    }

    /// Whether somebody presented the bearer token of a cluster.
    pub fn is_token(&self, name: &str, presented: &Digest) -> bool {
        self.shared.cluster(name).is_some_and(|hosted| hosted.token().is(presented))
    }

    /// The certificate authority that clients are to trust, PEM; none: those they trust anyway.
    pub fn authority(&self) -> Option<&str> {
        match &self.shared.host.public {
            Some(outside) => outside.authority.as_deref(),
            None => Some(&self.shared.host.identity.authority),
        }
    }

    /// What clients call the server.
    pub fn url(&self) -> String {
        let own = || format!("https://{}", self.shared.host.address);
        self.shared.host.public.as_ref().map_or_else(own, |outside| outside.url.clone())
    }

    /// The names of its clusters.
    pub fn names(&self) -> Vec<String> {
        self.shared.all().iter().map(|hosted| hosted.name().to_owned()).collect()
    }

    /// Makes objects in a cluster, in this order; those that are there already stay as they are.
    ///
    /// # Errors
    /// When there is no such cluster, or an object is refused.
    pub fn add_objects(&self, name: &str, objects: &[serde_json::Value]) -> Result<(), Status> {
        let hosted = admin::found(&self.shared, name)?;
        add_objects(hosted.api()?.cluster(), objects).map(drop)
    }

    /// Removes a cluster and all it kept; says whether there was one.
    ///
    /// # Errors
    /// When something could not be removed.
    pub fn remove(&self, name: &str) -> Result<bool, Status> {
        self.shared.remove(name)
    }

    /// A kubeconfig of a cluster with a client certificate instead of a token, and a server URL without a path.
    pub fn kubeconfig_with_certificate(&self, name: &str, context: &str, user: &str) -> Option<String> {
        let hosted = self.shared.cluster(name)?;
        let made = hosted.kubeconfig_with_certificate(context, user).ok()?;
        self.shared.learn_credentials(&hosted);
        Some(made)
    }

    /// The API of a cluster, in process; one that is parked is woken, and none that somebody holds is parked.
    pub fn api(&self, name: &str) -> Option<Api> {
        self.shared.cluster(name)?.api().ok()
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

    /// After [`Server::stop`]: waits until its connections have ended, for a moment, and ends its controllers.
    pub async fn close_down(&self) {
        tokio::time::sleep(connection::FAREWELL).await;
        let shared = Arc::clone(&self.shared);
        // An error means that it was closed half way, which is what happens when a process is killed, too.
        let _ = tokio::task::spawn_blocking(move || shared.close()).await;
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

/// A server as other machines reach it at this address.
fn outside(public: Public, address: SocketAddr, identity: &tls::Identity) -> std::io::Result<Outside> {
    let (config, authority) = match public.certificate {
        Certificate::Own(_) => {
            let (chain, key) = &identity.serving;
            (Some(tls::given(chain, key)?), Some(identity.authority.clone()))
        }
        Certificate::Given { chain, key, authority } => (Some(tls::given(&chain, &key)?), authority),
        Certificate::Proxied { authority } => (None, authority),
    };
    let scheme = if config.is_some() { "https" } else { "http" };
    // An address that stands for all of a machine is none that anybody reaches.
    let reached = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, address.port())),
        _ => address,
    };
    let url = public.url.unwrap_or_else(|| format!("{scheme}://{reached}"));
    let url = url.trim_end_matches('/').to_owned();
    Ok(Outside { front: public.front, config, url, folder: public.folder, authority })
}

/// Binds the wanted address; where any port will do, that of the last time, if it is free.
async fn listen_publicly(state: &std::path::Path, wanted: SocketAddr) -> Result<TcpListener, StartError> {
    let last = std::fs::read_to_string(state.join("port")).ok().and_then(|text| text.trim().parse::<u16>().ok());
    if let Some(port) = last.filter(|_| wanted.port() == 0)
        && let Ok(listener) = TcpListener::bind(SocketAddr::new(wanted.ip(), port)).await
    {
        return Ok(listener);
    }
    TcpListener::bind(wanted).await.map_err(|error| StartError::Address(wanted, error))
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
