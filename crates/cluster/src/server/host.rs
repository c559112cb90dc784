//! What a server has for each cluster that it hosts: address, identity, threads, limits.

use std::net::SocketAddr;
use std::sync::Arc;

use super::control_thread::ControlThreads;
use super::credentials::Token;
use super::tls::Identity;
use crate::cluster::Limits;

/// What a server's clusters stand on.
pub(super) struct Host {
    pub(super) address: SocketAddr,
    pub(super) identity: Identity,
    /// The server's own token.
    pub(super) admin: Token,
    pub(super) control: ControlThreads,
    pub(super) limits: Arc<Limits>,
    /// How many connections are served at the same time.
    pub(super) connections: usize,
}
