//! What the pod says of a container: its environment, its files and who runs in it; and why it cannot be created.

mod environment;
mod fields;
pub(crate) mod file;
pub(crate) mod files;
mod given;
pub(crate) mod mounts;
pub(crate) mod obstacles;
pub(crate) mod place;
