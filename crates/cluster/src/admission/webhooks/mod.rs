//! Admission webhooks: what they are configured to be asked, what they answer, and what follows from it.

mod answer;
mod configuration;
mod dispatch;

pub(crate) use configuration::Configurations;
pub(super) use dispatch::Chain;
