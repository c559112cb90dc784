//! A class on Kubernetes: how large it is to be, and the manifests that make it so.

pub mod machines;
pub mod manifests;
pub mod sizing;
