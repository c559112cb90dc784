//! The write path: how a version of an object gets into the cluster, stage by stage, and how objects leave it.
//!
//! `write.rs` has the list of stages of each operation; a stage is a function on a transaction. Those that make a new version
//! of a patch, of a configuration or of a Scale, and those of a deletion, stand in a file of their own.

mod apply;
mod bootstrap;
mod capacity;
mod commit;
mod decode;
mod delete;
mod draft;
mod elsewhere;
mod event;
mod kind_stages;
mod kinds;
mod metadata;
mod parts;
mod patch;
mod root_certificate;
mod scale;
mod services;
mod size_limit;
mod stages;
mod strategy;
mod subresource;
mod write;

pub(crate) use apply::Configuration;
pub(crate) use bootstrap::{publish_root_certificate, standard_objects};
pub(crate) use decode::decode_scale;
pub(crate) use event::{EventSource, NewEvent, create_event};
pub(crate) use patch::refused;
pub(crate) use root_certificate::{ROOT_CERTIFICATE, root_certificate};
pub(crate) use scale::{ScaleChange, ScalePaths, no_scale, scale_of};
pub(crate) use services::{KIND_RANGE, RANGE, SERVICE_CIDR};
pub(crate) use subresource::{bind, evict};
pub(crate) use write::{apply, create, delete, modify, patch, replace, scale};
