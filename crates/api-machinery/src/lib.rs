//! Kubernetes' objects as pure functions of JSON: what kinds there are, what their fields mean, what is filled in, what is
//! wrong, and how objects are written for clients.
//!
//! ```text
//! resource (kinds) ─ schema (fields) ─ defaults, validation ─▶ registry (what each kind has of these) ─ table, protobuf
//!                                      └ cron, names, CEL       custom (kinds that a cluster defines)
//! object, value, status: an object, reading and writing its JSON, a refusal
//! access, pod_security, certificates: what roles, standards and requests for certificates say
//! ```
//!
//! Nothing here does I/O, has a clock, or knows of other objects than those it is given. `work` counts what a request costs.

#![allow(
    missing_docs,
    reason = "tables of kinds and fields, whose names are those of Kubernetes; used by klab's crates alone"
)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "what clients send may be any number"))]

pub mod access;
pub mod certificates;
pub mod cron;
pub mod custom;
pub mod defaults;
pub mod device_selector;
pub mod duplicate_keys;
pub mod go_text;
pub mod ip_range;
pub mod managed_fields;
pub mod node_pools;
pub mod object;
pub mod openapi;
pub mod part;
pub mod pod_resources;
pub mod pod_security;
pub mod policy_expression;
pub mod policy_type_check;
pub mod pool_upgrades;
pub mod protobuf;
pub mod registry;
pub mod renaming;
pub mod resource;
pub mod schema;
pub mod selector;
pub mod status;
pub mod table;
pub mod texts;
pub mod validation;
pub mod value;
pub mod views;
pub mod work;
pub mod yaml;
