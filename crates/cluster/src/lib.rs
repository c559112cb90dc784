//! The embedded cluster: a Kubernetes API, scheduler, controllers and hollow nodes inside this process.
//!
//! ```text
//! request ─ api (paths, encodings, tables) ─▶ cluster (admission, versions, deletion) ─▶ store (objects, history) ─▶ log
//!                                                  ▲
//!            control (scheduler, controllers, hollow nodes), driven by store changes and a clock it is given
//! ```

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "what clients send may be any number"))]

pub mod admission;
pub mod api;
pub mod clock;
pub mod cluster;
pub mod control;
pub mod deadline;
pub mod defaults;
pub mod embedded;
mod log;
pub mod object;
pub mod openapi;
pub mod patch;
pub mod protobuf;
mod rbac;
pub mod resource;
pub mod schema;
pub mod seed;
#[cfg(feature = "server")]
pub mod server;
pub mod status;
pub mod store;
pub mod system;
pub mod table;
pub mod validation;

/// The examples of the README.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../README.md")]
struct Readme;
