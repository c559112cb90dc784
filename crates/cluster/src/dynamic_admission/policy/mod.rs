//! Admission policies: rules in the expression language that refuse objects, or change them.

pub(crate) mod definition;
pub(crate) mod type_check;

pub(crate) use definition::Policies;
