//! The embedded cluster: a Kubernetes API, scheduler, controllers and hollow nodes inside this process.
//!
//! ```text
//! request ─ api (paths, encodings, tables) ─▶ cluster (admission, versions, deletion) ─▶ store (objects, history) ─▶ log
//!                                                  ▲
//!            control (scheduler, controllers, hollow nodes), driven by store changes and a clock it is given
//! ```

pub mod admission;
pub mod api;
pub mod clock;
pub mod cluster;
pub mod control;
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
pub mod server;
pub mod status;
pub mod store;
pub mod system;
pub mod table;
pub mod validation;
