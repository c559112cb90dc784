//! The write path: how a version of an object gets into the cluster, stage by stage, and how objects leave it.
//!
//! `write.rs` has the list of stages of each operation; a stage is a function on a transaction. What makes a new version
//! out of a request (a patch, server-side apply, a Scale) stands in a file of its own and hands the version to these lists.

mod apply;
mod bootstrap;
mod commit;
mod decode;
mod delete;
mod draft;
mod elsewhere;
mod event;
mod kind_stages;
mod kinds;
mod largest;
mod metadata;
mod parts;
mod patch;
mod room;
mod root_certificate;
mod services;
mod stages;
mod strategy;
mod subresource;
mod write;

pub(crate) use apply::apply;
pub(crate) use bootstrap::{publish_root_certificate, standard_objects};
pub(crate) use decode::decode_scale;
pub(crate) use delete::delete;
pub(crate) use event::{EventSource, NewEvent, create_event};
pub(crate) use patch::{patch, refused};
pub(crate) use root_certificate::{ROOT_CERTIFICATE, root_certificate};
pub(crate) use services::{KIND_RANGE, RANGE, SERVICE_CIDR};
pub(crate) use subresource::{ScaleChange, ScalePaths, bind, evict, no_scale, scale, scale_of};
pub(crate) use write::{create, modify, replace};
