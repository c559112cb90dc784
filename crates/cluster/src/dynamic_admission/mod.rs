//! Admission that users configure: the webhooks and policies, the requests that each is for, and their answers. `admission`
//! asks them.

mod authorizer;
pub(crate) mod condition;
mod consultation;
mod kept;
pub(crate) mod matching;
pub(crate) mod policy;
pub(crate) mod request;
pub(crate) mod scene;
pub(crate) mod webhooks;

pub use consultation::Consultation;
pub(crate) use consultation::{Batch, Beginning, waiting};
pub(crate) use kept::Kept;
pub(crate) use request::Operation;
