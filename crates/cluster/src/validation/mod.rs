//! What makes an object invalid, in Kubernetes' own words.
//!
//! Objects come tidied and defaulted, so fields have their types; rules look only at what the types cannot say.

mod addresses;
pub(crate) mod admission_policy;
mod admission_rules;
pub(crate) mod autoscaler;
pub(crate) mod claim;
mod claim_spec;
pub(crate) mod config;
mod container;
pub(crate) mod devices;
pub(crate) mod endpoints;
mod environment;
pub(crate) mod ephemeral_containers;
mod errors;
mod field;
mod file_paths;
pub(crate) mod flow_control;
mod handlers;
pub(crate) mod ingress;
pub(crate) mod job;
mod job_policy;
mod job_status;
pub(crate) mod limit_range;
pub(crate) mod metadata;
mod mounts;
pub(crate) mod network_policy;
pub(crate) mod node;
pub(crate) mod persistent_volume;
mod placement;
pub(crate) mod pod;
mod pod_claims;
mod pod_network;
pub(crate) mod pod_resize;
mod pod_status;
mod pod_system;
pub(crate) mod pod_update;
pub(crate) mod quota;
mod ranges;
pub(crate) mod rbac;
pub(crate) mod records;
pub(crate) mod runtime_class;
pub(crate) mod secret;
mod security_context;
pub(crate) mod service;
pub(crate) mod service_range;
pub(crate) mod signing_request;
pub(crate) mod stateful_set;
pub(crate) mod storage;
mod sysctl;
mod volume_sources;
mod volumes;
pub(crate) mod warnings;
pub(crate) mod webhook;
pub(crate) mod workload;

pub(crate) use errors::Errors;

use klab_cel::names;
use serde_json::Value;

use crate::resource::{JOBS, PODS, RESOURCE_CLAIMS, ResourceId};

/// What is wrong with a change of an object's status alone.
pub(crate) fn status(resource: ResourceId, old: &Value, new: &Value, errors: &mut Errors) {
    match resource {
        JOBS => job_status::update(old, new, errors),
        PODS => pod_status::update(old, new, errors),
        RESOURCE_CLAIMS => devices::status(old, new, errors),
        _ => {}
    }
}

/// Whether a text can be the name of a namespace.
pub(crate) fn is_namespace_name(text: &str) -> bool {
    names::label(text).is_empty()
}

/// Whether a text can be the name of most objects.
pub(crate) fn is_object_name(text: &str) -> bool {
    names::subdomain(text).is_empty()
}
