//! Certificates that are signed for CertificateSigningRequests, and who holds them.

mod authority;
mod der;
#[cfg(feature = "server")]
mod holder;
mod name;
mod request;

#[cfg(feature = "server")]
pub(crate) use authority::name;
pub(crate) use authority::{Authority, Order};
#[cfg(feature = "server")]
pub(crate) use holder::{Holder, mark};
pub(crate) use request::{Asked, DNS, EMAIL, IP, RequestFault, URI};
