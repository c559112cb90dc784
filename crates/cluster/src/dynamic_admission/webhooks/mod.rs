//! Admission webhooks: their configurations and their answers.

pub(crate) mod answer;
pub(crate) mod configuration;

pub(crate) use configuration::Configurations;
