//! Everything that acts on its own in the embedded cluster: controllers, the scheduler's loop, hollow nodes.
//!
//! One thread, no sleeping: changes are read from the cluster's history, each enqueues only the keys it concerns, and
//! whatever waits for time is a timer on the cluster's clock. Nothing is kept that the objects do not tell again, so a
//! new plane on a restored cluster carries on where the old one was stopped.

mod account_tokens;
mod api_services;
mod api_silence;
mod autoscaler;
mod certificate_approval;
mod certificates;
mod cluster_autoscaler;
mod cluster_roles;
mod component;
mod control_plane;
mod controller;
mod controllers;
mod cron_job;
mod daemon_set;
mod deployment;
mod device_taint_eviction;
mod disruption;
mod endpoints;
mod event_ttl;
mod events;
mod fault;
mod garbage;
mod hash;
mod hollow_devices;
mod job;
mod kubelet;
mod kubernetes_service;
mod namespace;
mod nodes;
mod observe;
mod plane;
mod pod_gc;
mod pod_ranges;
mod pods;
mod pool_upgrade;
mod queue;
mod reconcile;
mod replica_set;
mod resource_claim;
mod revisions;
mod root_certificate;
mod run;
mod scheduler;
mod schedulers;
mod service_account;
mod service_cidrs;
mod settings;
mod spot_eviction;
mod stateful_set;
mod taint_eviction;
mod terminating;
mod ttl_after_finished;
mod view;
mod volumes;
mod zones;

pub use api_silence::SILENCE_ANNOTATION;
pub use component::STOPPED_COMPONENTS_ANNOTATION;
pub use control_plane::ControlPlane;
pub use controller::Controller;
pub use controllers::UnknownController;
pub use kubelet::{Killing, REMOVED_STATIC_POD_ANNOTATION, kill};
pub use run::Progress;
pub use schedulers::SCHEDULER_CONFIGURATION_ANNOTATION;
pub(crate) use settings::STOPPED;
pub use settings::{DEVICES_ANNOTATION, HEARTBEAT_ANNOTATION, HollowDelays, PRESSURE_ANNOTATION, Settings};
pub use spot_eviction::{PREEMPT, SPOT_ANNOTATION};
