//! What makes an object invalid, in Kubernetes' own words.
//!
//! Objects come tidied and defaulted, so fields have their types; rules look only at what the types cannot say.

mod addresses;
pub(crate) mod admission_policy;
mod admission_rules;
pub mod autoscaler;
pub mod claim;
mod claim_spec;
pub mod config;
mod container;
pub mod devices;
pub mod endpoints;
mod environment;
pub mod ephemeral_containers;
mod errors;
mod file_paths;
pub(crate) mod flow_control;
mod handlers;
pub mod ingress;
pub mod job;
mod job_policy;
mod job_status;
pub mod limit_range;
pub mod metadata;
mod mounts;
pub(crate) mod network_policy;
pub mod node;
pub(crate) mod persistent_volume;
mod place;
mod placement;
pub mod pod;
mod pod_claims;
mod pod_network;
pub mod pod_resize;
mod pod_status;
mod pod_system;
pub(crate) mod pod_update;
pub mod quota;
mod ranges;
pub mod rbac;
pub mod records;
pub mod runtime_class;
pub mod secret;
mod security_context;
pub mod service;
pub mod service_range;
pub(crate) mod signing_request;
pub mod stateful_set;
pub mod storage;
mod sysctl;
mod volume_sources;
mod volumes;
pub mod warnings;
pub mod webhook;
pub mod workload;

pub use errors::Errors;
pub use place::Place;

use klab_cel::names;
use serde_json::Value;

use crate::resource::{JOBS, PODS, RESOURCE_CLAIMS, ResourceId};

/// What is wrong with a change of an object's status alone.
pub fn status(resource: ResourceId, old: &Value, new: &Value, errors: &mut Errors) {
    match resource {
        JOBS => job_status::update(old, new, errors),
        PODS => pod_status::update(old, new, errors),
        RESOURCE_CLAIMS => devices::status(old, new, errors),
        _ => {}
    }
}

/// Whether a text can be the name of a namespace.
pub fn is_namespace_name(text: &str) -> bool {
    names::label(text).is_empty()
}

/// Whether a text can be the name of most objects.
pub fn is_object_name(text: &str) -> bool {
    names::subdomain(text).is_empty()
}
