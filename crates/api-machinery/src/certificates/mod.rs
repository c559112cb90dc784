//! What CertificateSigningRequests ask for, and the DER that certificates are made of.

pub mod der;
mod name;
mod request;

pub use name::Subject;
pub use request::{Asked, DNS, EMAIL, IP, RequestFault, URI, parts};
