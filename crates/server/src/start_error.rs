//! Why a server cannot start.

use std::net::SocketAddr;
use std::path::PathBuf;

use klab_api_machinery::status::Status;

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The state folder cannot be used.
    #[error("could not use the server's folder `{}`", .0.display())]
    Folder(PathBuf, #[source] std::io::Error),
    /// The port that was asked for cannot be had.
    #[error("could not listen at port {0}")]
    Port(u16, #[source] std::io::Error),
    /// The address that was asked for cannot be had.
    #[error("could not listen at {0}")]
    Address(SocketAddr, #[source] std::io::Error),
    /// The certificate or key that was given is none.
    #[error("could not use the TLS certificate and key")]
    Certificate(#[source] std::io::Error),
    /// An object that the new cluster is to begin with is refused.
    #[error("could not make the cluster: {0}")]
    Refused(#[source] Status),
    /// The control plane of the new cluster cannot be run.
    #[error("could not run the control plane")]
    ControlPlane(#[source] std::io::Error),
    /// No port can be had.
    #[error("could not listen on the loopback address")]
    Listen(#[source] std::io::Error),
}
