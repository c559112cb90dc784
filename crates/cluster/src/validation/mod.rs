//! What makes an object invalid, in Kubernetes' own words.
//!
//! Objects come tidied and defaulted, so fields have their types; rules look only at what the types cannot say.

pub(crate) mod config;
mod container;
mod errors;
mod field;
pub(crate) mod job;
pub(crate) mod metadata;
pub(crate) mod names;
pub(crate) mod node;
mod placement;
pub(crate) mod pod;
pub(crate) mod pod_update;
pub(crate) mod service;
pub(crate) mod workload;

pub(crate) use errors::Errors;

/// Whether a text can be the name of a namespace.
pub(crate) fn is_namespace_name(text: &str) -> bool {
    names::label(text).is_empty()
}

/// Whether a text can be the name of most objects.
pub(crate) fn is_object_name(text: &str) -> bool {
    names::subdomain(text).is_empty()
}
