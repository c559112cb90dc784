//! klab: a Kubernetes scheduling lab from one TOML file.
//!
//! Data flows one way: the lab file ([`spec`]) becomes a plan ([`plan`]), a provider ([`provider`]) makes the cluster,
//! templates are rendered and applied, a snapshot of nodes and pods is verified and explained. [`scheduling`] is the one
//! place that knows where a pod may go; the embedded cluster ([`sim`]), the plan, the checks and the explanations all ask
//! it.

pub mod error;
pub mod event;
pub mod exec;
pub mod plan;
pub mod provider;
pub mod render;
pub mod report;
pub mod scheduling;
pub mod sim;
pub mod spec;
pub mod state;
pub mod ui;
pub mod verify;
