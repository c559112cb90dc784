//! Admission policies: rules in the expression language that refuse objects, or change them.

mod definition;
mod mutating;
mod parameters;
pub(crate) mod type_check;
mod validating;

pub(crate) use definition::Policies;
