//! Kubernetes versions.

use std::fmt;
use std::str::FromStr;

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

impl FromStr for KubernetesVersion {
    type Err = ();

    /// `1.36`, `1.36.2`, with or without a `v` before it.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.strip_prefix('v').unwrap_or(text).split('.').map(str::parse);
        let (major, minor, patch) = (parts.next(), parts.next(), parts.next());
        match (major, minor, patch, parts.next()) {
            (Some(Ok(1)), Some(Ok(minor)), None, None) => Ok(Self { minor, patch: None }),
            (Some(Ok(1)), Some(Ok(minor)), Some(Ok(patch)), None) => Ok(Self { minor, patch: Some(patch) }),
            _ => Err(()),
        }
    }
}
