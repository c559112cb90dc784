//! The pages of signing in at an identity provider: a browser is led there, and back to its seat.

mod back;
mod begin;
pub(crate) mod routes;
mod shard_routing;
