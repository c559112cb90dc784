//! Kubernetes in process, for tests of operators and of other programs that talk to Kubernetes: the API, the scheduler, the
//! controllers and nodes whose pods "run" without containers, on a clock that a test steps.
//!
//! ```
//! # #[cfg(feature = "client")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use k8s_openapi::api::batch::v1::Job;
//! use klab_cluster::Cluster;
//! use kube::Api;
//! use serde_json::json;
//!
//! let job = json!({
//!     "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "report" },
//!     "spec": { "template": { "spec": {
//!         "restartPolicy": "Never",
//!         "containers": [{ "name": "report", "image": "busybox", "command": ["sleep", "600"] }],
//!     }}},
//! });
//! let cluster = Cluster::builder().nodes(3).objects([job]).build()?;
//! let jobs: Api<Job> = Api::default_namespaced(cluster.client());
//! assert_eq!(jobs.get("report").await?.status.and_then(|status| status.active), Some(1));
//!
//! // Time stands still until it is stepped; ten minutes take microseconds.
//! cluster.advance(Duration::from_secs(601));
//! assert_eq!(jobs.get("report").await?.status.and_then(|status| status.succeeded), Some(1));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "client"))]
//! # fn main() {}
//! ```
//!
//! [`Cluster`] is what tests need: made by [`Cluster::builder`], with the feature `client` asked through a `kube::Client`
//! (`Cluster::client`) and made to refuse requests (`Cluster::inject`), stepped by [`Cluster::advance`], kept and gone back to by
//! [`Cluster::snapshot`] and [`Cluster::restore`]. The crate `klab-server` is a TLS port with many clusters behind it.
//!
//! # What is experimental
//!
//! What stands at the crate's root is meant to stay: [`Cluster`] and the types of its methods. Until version 1.0 it may change
//! between minor versions, as the changelog says. **All public modules are experimental**, and so are the methods of [`Cluster`]
//! that say so: they are what klab itself needs, and change with it.
//!
//! # Inside
//!
//! ```text
//! request ─ api (paths, encodings, tables) ─▶ cluster (one lock) ─▶ pipeline (the stages of a write) ─▶ transaction
//!                                                  ▲                     └ admission, validation, …          │
//!                                                  │                       store (objects, history) ─▶ log ◀┘
//!            control (scheduler, controllers, hollow nodes), driven by store changes and a clock it is given
//! ```
//!
//! The crate's [`Cluster`] is all of these together; [`cluster::Cluster`] is the one in the picture, the rules that every write
//! passes and the store behind them.

#![deny(missing_docs)]
// docs.rs says which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "what clients send may be any number"))]

pub mod account_token;
mod admission;
pub mod api;
mod body;
mod builtin;
mod client_config;
pub mod clock;
pub mod cluster;
mod containers;
pub mod control;
mod custom_versions;
pub mod deadline;
mod definitions;
mod dynamic_admission;
mod embedded;
mod flavour;
mod load;
mod log;
mod openapi;
mod pipeline;
mod pod_token;
mod rbac;
pub mod record;
pub mod seed;
mod store;
pub mod system;
mod transaction;
pub mod webhook;

/// The Kubernetes version that the embedded cluster answers as.
pub const KUBERNETES_VERSION: &str = "v1.36.2";

pub use api::VERSION_ANNOTATION;
pub use clock::SteppedClock;
pub use control::{
    Controller, DEVICES_ANNOTATION, HEARTBEAT_ANNOTATION, Killing, REMOVED_STATIC_POD_ANNOTATION, SILENCE_ANNOTATION,
    STOPPED_COMPONENTS_ANNOTATION, UnknownController, kill,
};
pub use embedded::{BuildError, Cluster, ClusterBuilder, KeptObjects, Snapshot};
#[cfg(feature = "client")]
pub use embedded::{Fault, Injected, Verb};
pub use klab_api_machinery::status::Status;
pub use system::Flavour;

/// Kubernetes' language of device selectors, for schedulers that look at a cluster from outside.
pub fn device_selectors() -> std::sync::Arc<dyn klab_scheduler::SelectorLanguage> {
    std::sync::Arc::new(klab_api_machinery::device_selector::Language)
}

/// The examples of the README.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// The examples of the page about operators.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../../../docs/do/testing-operators.md")]
struct TestingOperators;
