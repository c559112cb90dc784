//! What the pod says of a container: its environment, its files and who runs in it; and why it cannot be created.

pub(crate) mod create_errors;
mod environment;
mod fields;
pub(crate) mod file;
pub(crate) mod files;
pub(crate) mod place;
pub(crate) mod volumes;
