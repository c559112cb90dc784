//! The values Kubernetes v1.36 fills in where an object does not say.
//!
//! Objects are tidied before ([`crate::schema::Schema::tidy`]), so fields have their types.

pub mod admission;
pub mod config;
pub mod devices;
mod field;
pub(crate) mod flow_control;
pub mod job;
pub mod pod;
pub mod service;
pub mod storage;
pub mod workload;

pub use service::{Addresses, Ranges};
