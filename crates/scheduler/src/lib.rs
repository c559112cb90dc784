//! Where pods go, and why: the pure scheduler, equal to kube-scheduler v1.36 with its default profile, and its other profiles.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::{Node, Pod};
//! use klab_scheduler::{Cluster, TieBreak, admission};
//! use serde_json::{from_value, json};
//!
//! let mut cluster = Cluster::new(TieBreak::Seeded(0));
//! for (name, cpu) in [("a", "4"), ("b", "1")] {
//!     let allocatable = json!({ "cpu": cpu, "memory": "8Gi", "pods": "110" });
//!     let node: Node = from_value(json!({ "metadata": { "name": name }, "status": { "allocatable": allocatable } }))?;
//!     cluster.set_node(&node)?;
//! }
//! for (name, placed) in [("first", Some("a")), ("second", None)] {
//!     let mut pod: Pod = from_value(json!({
//!         "metadata": { "name": name, "namespace": "default" },
//!         "spec": { "containers": [{ "name": "main", "resources": { "requests": { "cpu": "3" } } }] },
//!     }))?;
//!     admission::admit(&mut pod)?;
//!     let decision = cluster.schedule(&pod)?;
//!     assert_eq!(decision.outcome.node().map(|node| &**node), placed);
//!     match placed {
//!         Some(node) => drop(cluster.bind(&pod, node)?),
//!         None => assert!(decision.message.starts_with("0/2 nodes are available: 2 Insufficient cpu.")),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Cluster`] is the state: hand it nodes, pods (after [`admission`]), namespaces and the objects whose selectors
//! matter; it keeps running totals and is cheap to clone for what-if questions. Ask it
//!
//! - [`Cluster::schedule`]: where a pending pod goes ([`Decision`], fast; nothing changes until [`Cluster::bind`]),
//! - [`Cluster::attempt`]: the same with every verdict, score and preemption candidate ([`Attempt`]),
//! - [`Cluster::evaluate`], [`Cluster::evaluate_all`]: *every* reason why a node cannot take a pod, not only the first,
//!   as data ([`Reason`]) whose text is kube-scheduler's,
//! - [`Cluster::reconsider`]: where a placed pod would go if it were new.
//!
//! [`Profiles::from_configuration`] reads the profiles of a configured scheduler for [`Cluster::set_profiles`].
//! [`autoscaler`] decides which pools of nodes grow and shrink, as the cluster autoscaler does.
//! [`queue::Queue`] is the scheduling queue with its backoff and requeue rules; [`Cluster`] returns the events it wants.
//! [`quantity`] and [`selector`] are Kubernetes' quantities and selectors, exact, for everybody; [`owner`] says whose a pod is;
//! [`typed`] reads Kubernetes objects from JSON.
//!
//! **Experimental:** the modules, and the types that are only fields of others. [`Cluster`], [`Decision`], [`Attempt`] and
//! [`Reason`] are meant to stay; until version 1.0 they may change between minor versions, as the changelog says.
//!
//! Inside: `ids` and `pod_key` name things; `state` is the cluster; `tally` counts matching pods per topology domain;
//! `plugins` has one file per plugin and the table that registers them; `profile` says which of them run, and how; `class_cache` is what is kept per class of equal
//! pods between attempts; `devices` is dynamic resource allocation; `schedule` is the attempt itself.

#![deny(missing_docs)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "what clients send may be any number"))]

pub mod admission;
pub mod autoscaler;
mod class_cache;
mod cluster;
mod culprits;
mod cycle;
mod decision;
mod delta;
mod devices;
mod disruption;
mod error;
mod evaluation;
mod failure;
pub mod features;
pub mod hash;
mod ids;
pub mod kubelet;
pub mod message;
mod node_info;
pub mod node_selector;
pub mod owner;
mod plugins;
mod pod_info;
mod pod_key;
mod profile;
pub mod quantity;
pub mod queue;
mod reason;
mod resources;
mod schedule;
pub mod selector;
mod state;
pub mod taint;
mod tally;
mod tie;
mod topology;
pub mod typed;
mod verdict;
mod volumes;
mod workloads;

pub use cluster::{Cluster, NodeUsage};
pub use decision::{
    Attempt, Candidate, ClaimAllocation, Decision, ExtendedAllocation, NodeVerdict, Outcome, PluginScore, Preemption,
    Rejection, ScoreRow, ScoreTable,
};
pub use devices::{
    DeviceFacts, DeviceHolder, DeviceObstacle, DeviceSelector, DeviceShortage, JudgedDevice, RequestShortage,
    SelectorLanguage, SelectorOwner, Together, UnusablePool,
};
pub use error::ObjectError;
pub use node_info::NodeSpec;
pub use pod_info::HostPort;
pub use pod_key::PodKey;
pub use profile::{ConfigurationError, DEFAULT_SCHEDULER, Profile, Profiles, SCHEDULERS_ANNOTATION};
pub use reason::{Code, PluginName, Reason};
pub use resources::{PodResources, Resources, container_limits, container_requests, pod_requests};
pub use tie::TieBreak;

#[cfg(test)]
mod tests;

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
