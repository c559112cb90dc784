//! What CertificateSigningRequests ask for, the certificates that are signed for them, and who holds these.

mod authority;
pub mod der;
mod holder;
mod name;
mod request;

pub use authority::{Authority, Order, name};
pub use holder::{Holder, mark};
pub use name::Subject;
pub use request::{Asked, DNS, EMAIL, IP, RequestFault, URI, parts};
