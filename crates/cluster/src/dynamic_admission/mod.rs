//! Admission that users configure: the webhooks and policies, the requests that each is for, and their answers. `admission`
//! asks them.

mod authorizer;
pub(crate) mod condition;
pub(crate) mod matching;
mod pending_webhooks;
pub(crate) mod policy;
pub(crate) mod request;
pub(crate) mod scene;
pub(crate) mod webhooks;

pub use pending_webhooks::PendingWebhooks;
pub(crate) use pending_webhooks::{Batch, Beginning, waiting};
pub(crate) use request::Operation;

/// The parsed webhooks and policies of a cluster, so that no write reads them again.
#[derive(Debug, Default)]
pub(crate) struct AdmissionCache {
    pub(crate) webhooks: webhooks::Configurations,
    pub(crate) policies: policy::Policies,
}
