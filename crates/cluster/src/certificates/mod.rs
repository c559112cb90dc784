//! Certificates that are signed for CertificateSigningRequests.

mod authority;
mod der;

pub(crate) use authority::{Asked, Authority, Order};
