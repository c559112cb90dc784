//! The integration tests: one binary, one module per subject.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop, and says where")]

mod environment;
mod faults;
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod control;
mod render;
mod spec;
