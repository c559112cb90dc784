//! The network as a command finds it: what names mean, and who takes a connection.

use std::fmt;

use jiff::SignedDuration;

/// What a name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    Known,
    Missing,
    Unknown,
}

/// What becomes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connection {
    Taken,
    NoSuchName,
    Refused,
    /// What is sent there is dropped.
    Silence,
    Unknown,
}

/// The network of a cluster. A container is asked about whose end its pod waits for.
pub(crate) trait Resolver: Send + Sync {
    /// What a name means, at a time since the start of the container.
    fn look_up(&self, at: SignedDuration, host: &str) -> Name;

    /// What becomes of a TCP connection, at a time since the start of the container.
    fn connect(&self, at: SignedDuration, host: &str, port: u16) -> Connection;

    /// When it began to answer as it does.
    fn news(&self) -> SignedDuration;
}

impl fmt::Debug for dyn Resolver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Resolver")
    }
}
