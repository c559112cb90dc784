//! Certificates that are signed for CertificateSigningRequests, and who holds them.

mod authority;
mod holder;

pub use authority::{Authority, Order, name};
pub use holder::{Holder, mark};
