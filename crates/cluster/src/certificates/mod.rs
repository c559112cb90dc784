//! Certificates that are signed for CertificateSigningRequests, and who holds them.

mod authority;
mod der;
#[cfg(feature = "server")]
mod holder;
mod name;

pub(crate) use authority::{Asked, Authority, Order};
#[cfg(feature = "server")]
pub(crate) use holder::Holder;
