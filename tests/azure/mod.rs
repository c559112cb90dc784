//! A stand-in for Azure's API on the loopback: for the real az, and for a fake one that is fast.
#![allow(unreachable_pub, reason = "shared by several test targets, in some of which it is not the root")]
#![allow(dead_code, reason = "tests and benches each use a part of it")]
#![allow(missing_docs, reason = "the names say it; nothing outside the tests reads them")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

pub mod api;
pub mod fake;
pub mod fault;
pub mod kubernetes;
pub mod offer;
pub mod real;
pub mod server;

/// Id of the service principal that logs in.
pub const CLIENT: &str = "00000000-0000-0000-0000-00000000c11e";
/// Its secret.
pub const SECRET: &str = "not-a-secret-of-anybody";
