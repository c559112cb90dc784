//! Scheduler profiles: which plugins judge and score the pods of a scheduler name, with which weights and arguments.

mod aks;
mod arguments;
mod configuration;
mod document;
mod node_terms;
mod plugin_arguments;
mod plugins;
mod profiles;
#[cfg(test)]
mod tests;

pub(crate) use arguments::{DefaultConstraint, Scoring, SpreadDefaults, Strategy};
pub use document::ConfigurationError;
pub(crate) use plugins::default_profile;
pub use profiles::{DEFAULT_SCHEDULER, Profile, Profiles, SCHEDULERS_ANNOTATION};
