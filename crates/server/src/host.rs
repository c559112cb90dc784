//! What a server has for each cluster that it hosts: address, identity, threads, limits, and what it notes of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use rustls::ServerConfig;
use tokio::sync::Semaphore;

use super::activity::Activity;
use super::control_thread::ControlThreads;
use super::credentials::{Digest, Token};
use super::front::Front;
use super::host_name::HostNames;
use super::limits::Limits;
use super::public::path_to;
use super::register::Register;
use super::share::Shares;
use super::templates::Templates;
use super::tls::Identity;
use klab_cluster::clock::Clock;
use klab_cluster::cluster;
use klab_cluster::webhook::Transport;

/// What a server's clusters stand on.
pub(super) struct Host {
    /// The server's folder.
    pub(super) state: PathBuf,
    pub(super) address: SocketAddr,
    pub(super) identity: Identity,
    /// The server's own token.
    pub(super) admin: Token,
    pub(super) control: ControlThreads,
    /// The clusters' clock.
    pub(super) clock: Arc<dyn Clock>,
    /// What each cluster may hold.
    pub(super) room: Arc<cluster::Limits>,
    limits: RwLock<Limits>,
    /// How many connections are served at the same time.
    pub(super) connections: usize,
    /// What makes it one that other machines reach.
    pub(super) public: Option<Outside>,
    pub(super) register: Register,
    pub(super) templates: Templates,
    pub(super) shares: Shares,
    /// Clusters that are woken at a time.
    pub(super) waking: Semaphore,
    pub(super) activity: Activity,
    /// What carries the clusters' calls to webhooks.
    pub(super) webhooks: Arc<dyn Transport>,
    /// Copies that could not be woken, with the reason.
    broken: Mutex<BTreeMap<String, String>>,
}

/// What a host is made of.
pub(super) struct Parts {
    pub(super) state: PathBuf,
    pub(super) address: SocketAddr,
    pub(super) identity: Identity,
    pub(super) admin: Token,
    pub(super) register: Register,
    pub(super) connections: usize,
    pub(super) public: Option<Outside>,
    pub(super) webhooks: Arc<dyn Transport>,
    pub(super) limits: Limits,
    pub(super) clock: Arc<dyn Clock>,
}

/// A server as other machines reach it.
pub(super) struct Outside {
    /// What stands before the clusters.
    pub(super) front: Arc<dyn Front>,
    /// How connections are secured; none: not by this server.
    pub(super) config: Option<Arc<ServerConfig>>,
    /// What clients call it, without a slash at the end.
    pub(super) url: String,
    /// The part of the path before the name of a cluster.
    pub(super) folder: String,
    /// The authority that clients are to trust, PEM; none: those they trust anyway.
    pub(super) authority: Option<String>,
}

/// Where a cluster is, for its kubeconfig.
pub(super) struct At {
    pub(super) url: String,
    pub(super) host_name: String,
    pub(super) authority: String,
}

/// The part of the server's connections that one cluster may have where nothing else is said.
const CLUSTER_SHARE: usize = 4;

impl Host {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { state, address, identity, admin, register, connections, public, webhooks, limits, clock } = parts;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let templates = Templates::new(&state);
        let host = Self {
            state,
            address,
            identity,
            admin,
            control: ControlThreads::default(),
            clock,
            room: Arc::default(),
            limits: RwLock::new(limits),
            connections,
            public,
            register,
            templates,
            shares: Shares::new(),
            waking: Semaphore::new(processors),
            activity: Activity::default(),
            webhooks,
            broken: Mutex::default(),
        };
        host.set_limits(limits);
        host
    }

    /// Copies that could not be woken, with the reason.
    pub(super) fn broken(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What each cluster may use.
    pub(super) fn limits(&self) -> Limits {
        *self.limits.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what each cluster may use from now on.
    pub(super) fn set_limits(&self, limits: Limits) {
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
        self.room.set_most([limits.pods, limits.objects, limits.events, limits.bytes], limits.history_bytes);
    }

    /// How many connections one cluster may have.
    pub(super) fn connections_of_one(&self) -> usize {
        self.limits().connections.unwrap_or_else(|| self.connections.div_ceil(CLUSTER_SHARE))
    }

    /// The folder of a cluster.
    pub(super) fn folder(&self, name: &str) -> PathBuf {
        self.state.join("clusters").join(name)
    }

    /// What all kubeconfigs say of the server: where that is another than it was, they are written again.
    pub(super) fn face(&self) -> String {
        let authority = |authority: &str| Digest::of(authority.as_bytes()).text();
        match &self.public {
            Some(outside) => {
                let authority = authority(outside.authority.as_deref().unwrap_or_default());
                format!("{}/{} {authority}", outside.url, outside.folder)
            }
            None => format!("{} {}", self.address, authority(&self.identity.authority)),
        }
    }

    /// Where the cluster of this name and token is.
    pub(super) fn place(&self, name: &str, token: &Token) -> At {
        match &self.public {
            Some(outside) => At {
                url: format!("{}/{}/{}", outside.url, outside.folder, path_to(name)),
                // A proxy before the server has a name of its own.
                host_name: String::new(),
                authority: outside.authority.clone().unwrap_or_default(),
            },
            None => At {
                url: format!("https://{}/clusters/{name}", self.address),
                host_name: HostNames::new(&self.admin).name(token),
                authority: self.identity.authority.clone(),
            },
        }
    }
}
