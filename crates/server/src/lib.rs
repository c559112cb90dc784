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
mod active;
mod activity;
mod admin;
mod any_client;
mod broken;
pub mod checked_lines;
mod connection;
mod control_thread;
mod credentials;
pub mod ephemeral;
mod exchange;
pub mod files;
mod front;
mod handshake;
mod host;
mod host_name;
mod hosted;
mod kubeconfig;
mod limits;
mod maintenance;
mod offline;
mod public;
mod quiescence;
mod quota;
mod rate;
mod refusal;
mod register;
mod server;
mod share;
mod shared;
mod start_error;
mod templates;
mod tls;
mod webhooks;
mod write_timeout;

pub use access::{ACCESS_FILE, Access};
pub use admin::{ClusterAccess, Copied, Health, Removed};
pub use credentials::{Digest, Token};
pub use front::{Asker, BodyError, Front, FrontBody};
pub use hosted::is_served;
pub use klab_api_machinery::renaming::Renaming;
pub use klab_cluster::seed::{Delays, Figures, Seed};
pub use klab_cluster::system::Flavour;
pub use limits::Limits;
pub use offline::remove_saved;
pub use public::{Certificate, Public};
pub use quiescence::Quiescence;
pub use server::{Server, ServerOptions};
pub use shared::{ClusterState, NewCopy};
pub use start_error::StartError;
pub use webhooks::{HttpsWebhooks, Webhooks};

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
