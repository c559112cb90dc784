//! What makes an object invalid, in Kubernetes' own words.

mod errors;

pub use errors::{Errors, FieldError, Problem};
