//! Admission that users configure: the webhooks and policies, the requests that each is for, and their answers. `admission`
//! asks them.

mod admission_cache;
mod authorizer;
pub(crate) mod condition;
pub(crate) mod matching;
mod pending_webhooks;
pub(crate) mod policy;
pub(crate) mod request;
pub(crate) mod scene;
pub(crate) mod webhooks;

pub(crate) use admission_cache::AdmissionCache;
pub use pending_webhooks::PendingWebhooks;
pub(crate) use pending_webhooks::{Batch, Beginning, waiting};
pub(crate) use request::Operation;
