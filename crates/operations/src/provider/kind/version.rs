//! The version of kind, and what klab can expect of it.

use std::fmt;

/// A release of kind: `0.MINOR.PATCH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindVersion {
    /// Second number.
    pub minor: u32,
    /// Third number.
    pub patch: u32,
}

impl KindVersion {
    /// The oldest release klab works with: the first whose node images read registry mirrors from `certs.d`.
    pub const OLDEST: Self = Self::new(27, 0);

    /// The newest release klab knows.
    pub const NEWEST: Self = Self::new(33, 0);

    /// A version by its numbers.
    pub const fn new(minor: u32, patch: u32) -> Self {
        Self { minor, patch }
    }

    /// Reads what `kind version` prints: `kind v0.33.0 go1.26.1 linux/amd64`.
    pub fn parse(text: &str) -> Option<Self> {
        let version = text.split_whitespace().find_map(|word| word.strip_prefix("v0."))?;
        let mut numbers = version.split(['.', '-', '+']);
        let minor = numbers.next()?.parse().ok()?;
        Some(Self { minor, patch: numbers.next().and_then(|patch| patch.parse().ok()).unwrap_or(0) })
    }

    /// Whether it writes kubeadm's `v1beta4` for nodes of this minor version, with its join time-outs.
    pub fn has_join_timeouts(self, kubernetes_minor: u32) -> bool {
        self.minor >= 32 && kubernetes_minor >= 36
    }

    /// The newest Kubernetes whose kubeadm understands what this release writes: 1.37 dropped `v1beta3`.
    pub fn newest_kubernetes(self) -> Option<u32> {
        (self.minor < 32).then_some(36)
    }
}

impl fmt::Display for KindVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "0.{}.{}", self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kind_prints_is_understood() {
        for (text, expected) in [
            ("kind v0.27.0 go1.24.4 linux/amd64\n", Some((27, 0))),
            ("kind v0.33.1 go1.26.1 darwin/arm64", Some((33, 1))),
            ("kind v0.34.0-alpha+8ec3a3e go1.26.1 linux/amd64", Some((34, 0))),
            ("kind version 9", None),
            ("", None),
        ] {
            let expected = expected.map(|(minor, patch)| KindVersion::new(minor, patch));
            assert_eq!(KindVersion::parse(text), expected, "{text}");
        }
    }
}
