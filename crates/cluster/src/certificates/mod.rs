//! Certificates that are signed for CertificateSigningRequests, and who holds them.

mod authority;
#[cfg(feature = "server")]
mod holder;

#[cfg(feature = "server")]
pub(crate) use authority::name;
pub(crate) use authority::{Authority, Order};
#[cfg(feature = "server")]
pub(crate) use holder::{Holder, mark};
