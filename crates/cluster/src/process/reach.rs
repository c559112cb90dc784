//! The network as a command finds it: what names mean, and who answers at an address. Who answers is known elsewhere.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use jiff::SignedDuration;

/// How it is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

/// What a name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The whole name, and its addresses, of which there is one at least.
    Found(String, Vec<IpAddr>),
    /// There is no such name.
    Nobody,
    /// Why nobody knows.
    Unknown(String),
    /// It is asked at a time that has not come yet.
    Later,
}

/// An HTTP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    /// Whether it is sent in TLS.
    pub(crate) secure: bool,
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) body: Vec<u8>,
}

/// The answer to one, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) code: u16,
    pub(crate) content_type: &'static str,
    /// Where else to look.
    pub(crate) location: Option<String>,
    /// None where nobody knows what it says.
    pub(crate) body: Option<Vec<u8>>,
}

/// What is sent over a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent<'a> {
    /// It is opened, and closed.
    Nothing,
    Text(&'a [u8]),
    Http(&'a Request),
}

/// What comes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The connection is taken, and answered with this.
    Text(Vec<u8>),
    /// The request is answered with this.
    Http(Response),
    /// Nothing listens there.
    Refused,
    /// Nothing comes back at all.
    Silence,
    /// Why nobody knows.
    Unknown(String),
    /// It is asked at a time that has not come yet.
    Later,
}

/// When something is asked: the how-manyth question of a command, at a time since its start. What was answered once is
/// answered again, so that a command that is followed anew goes the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) question: usize,
    pub(crate) at: SignedDuration,
}

/// The network that a command finds.
pub(crate) trait Reach: Send + Sync {
    /// The addresses of a name, or of what is an address.
    fn look_up(&self, moment: Moment, host: &str) -> Lookup;

    /// What comes back from there when this is sent.
    fn send(&self, moment: Moment, to: SocketAddr, protocol: Protocol, sent: Sent<'_>) -> Heard;

    /// Where names are asked for: `10.96.0.10`.
    fn name_server(&self) -> Option<IpAddr>;

    /// When answers change, if they do.
    fn news(&self) -> Option<SignedDuration> {
        None
    }
}

impl fmt::Debug for dyn Reach + '_ {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Reach")
    }
}
