//! The server as clients see it, over TLS: one binary, one module per subject.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop, and says where")]

mod clients;
mod copies;
mod credentials;
mod kubectl;
#[path = "../../../../tests/skipped/mod.rs"]
mod skipped;
