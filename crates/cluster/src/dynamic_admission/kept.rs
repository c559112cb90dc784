//! What a cluster keeps of the configuration of admission, so that it is not read for each write.

use super::policy::Policies;
use super::webhooks::Configurations;

/// Webhooks and policies, as they were read last.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) webhooks: Configurations,
    pub(crate) policies: Policies,
}
