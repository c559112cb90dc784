//! What a kernel cannot do for the sandbox.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One of the kernel's walls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Files: Landlock.
    Files,
    /// TCP ports: Landlock since Linux 6.7.
    Network,
    /// System calls: seccomp.
    Calls,
}

/// A wall that is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingFeature {
    /// Which.
    pub wall: Layer,
    /// Why not.
    pub reason: String,
}

impl fmt::Display for MissingFeature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.wall {
            Layer::Files => "kubectl could read the files of this machine that klab can read",
            Layer::Network => "kubectl could connect to other ports and machines than klab's",
            Layer::Calls => "kubectl could start processes and send signals",
        };
        write!(formatter, "{words} ({})", self.reason)
    }
}
