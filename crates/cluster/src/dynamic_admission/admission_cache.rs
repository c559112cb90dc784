//! The parsed webhooks and policies of a cluster, so that no write reads them again.

use super::policy::Policies;
use super::webhooks::Configurations;

/// Webhooks and policies, as they were read last.
#[derive(Debug, Default)]
pub(crate) struct AdmissionCache {
    pub(crate) webhooks: Configurations,
    pub(crate) policies: Policies,
}
