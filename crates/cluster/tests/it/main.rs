//! The embedded cluster as clients see it: one binary, one module per subject.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop, and says where")]

mod api;
mod conformance;
mod control;
mod extremes;
mod features;
mod fuzz;
mod growth;
mod patches;
mod recorded;
