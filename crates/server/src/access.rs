//! What a process needs to talk to a running server.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

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

/// File of [`Access`] in the state folder.
pub const ACCESS_FILE: &str = "access.json";
