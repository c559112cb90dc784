//! One cluster behind a port of loopback that is kept nowhere: what it holds ends with its process.
//!
//! ```text
//! https://127.0.0.1:PORT/…               the Kubernetes API of the cluster
//! https://127.0.0.1:PORT/klab/v1/clock   its clock, for its administrator
//! ```

mod clock;
mod clock_hand;
mod connection;
mod options;
mod world;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use klab_api_machinery::status::Status;
use serde_json::Value;
use tokio::net::TcpListener;

pub use self::options::{CONTEXT, EphemeralOptions, Time};

use self::world::World;
use super::kubeconfig::{self, Place};
use super::start_error::StartError;

/// One cluster behind a port of loopback, kept nowhere. It has its port when it is made, and answers once
/// [`EphemeralServer::serve`] runs.
pub struct EphemeralServer {
    world: Arc<World>,
    listener: TcpListener,
    address: SocketAddr,
}

impl EphemeralServer {
    /// Makes a cluster. Must be called in the runtime that is to serve it.
    ///
    /// # Errors
    /// When the port cannot be had.
    pub async fn start(options: EphemeralOptions) -> Result<Self, StartError> {
        let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port.unwrap_or(0)));
        let listener = TcpListener::bind(wanted).await.map_err(|error| match options.port {
            Some(port) => StartError::Port(port, error),
            None => StartError::Listen(error),
        })?;
        let address = listener.local_addr().map_err(StartError::Listen)?;
        Ok(Self { world: Arc::new(World::new(options, address)?), listener, address })
    }

    /// What clients call it.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Its kubeconfig: the administrator's, with a bearer token.
    pub fn kubeconfig(&self) -> String {
        let place = Place { url: &self.url(), host_name: "", authority: self.world.authority() };
        kubeconfig::text(CONTEXT, CONTEXT, &place, &kubeconfig::Proof::Token(self.world.token().text()))
    }

    /// Makes an object; one that is there already stays as it is.
    ///
    /// # Errors
    /// When it is refused.
    pub fn add_object(&self, object: &Value) -> Result<(), Status> {
        klab_cluster::seed::add_objects(self.world.api().cluster(), std::slice::from_ref(object)).map(drop)
    }

    /// Waits until the control plane has done what there was to do, such as making nodes ready; not for long.
    pub async fn settled(&self) {
        self.world.settled().await;
    }

    /// Answers all connections, until this is dropped.
    pub async fn serve(self) {
        connection::serve(self.listener, self.world).await;
    }
}

impl std::fmt::Debug for EphemeralServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("EphemeralServer").field("address", &self.address).finish_non_exhaustive()
    }
}
