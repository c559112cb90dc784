//! Kubernetes versions.

use std::fmt;

/// A Kubernetes version: `1.36`, or `1.36.2` where the patch matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KubernetesVersion {
    /// Second number.
    pub minor: u32,
    /// Third number, if given.
    pub patch: Option<u32>,
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}
