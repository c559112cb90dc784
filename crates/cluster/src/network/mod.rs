//! The network of a cluster in which nothing runs: what names mean in it, where a connection leads, and what the servers
//! that are known answer. Whatever else somebody would have to run to know is not made up.
//!
//! ```text
//! names ─▶ routes ─▶ answers ─ reviews, conversion
//!   └────────┴──────────┴── view, awaited: what a pod finds; calls: what the API server finds
//! ```

mod answers;
mod awaited;
mod calls;
mod conversion;
mod names;
mod reviews;
mod routes;
#[cfg(feature = "server")]
mod view;

pub(crate) use self::awaited::Awaited;
pub(crate) use self::calls::{KnownServers, proxied};
#[cfg(feature = "server")]
pub(crate) use self::view::FromPod;
