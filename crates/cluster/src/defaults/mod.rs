//! The values Kubernetes v1.36 fills in where an object does not say.
//!
//! Objects are tidied before ([`crate::schema::Schema::tidy`]), so fields have their types.

pub(crate) mod admission;
pub(crate) mod config;
pub(crate) mod devices;
mod field;
pub(crate) mod flow_control;
pub(crate) mod job;
pub(crate) mod pod;
pub(crate) mod service;
pub(crate) mod storage;
pub(crate) mod workload;

pub(crate) use service::{Addresses, Ranges};
