//! Which pods an anti-affinity rule is about, as remembered during a cycle.

use foldhash::HashMap;

use super::ids::PodId;
use super::topology::HeldId;

/// A rule that pods in a domain can be at odds with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    /// An anti-affinity term of the pod itself.
    AntiAffinity(usize),
    /// An anti-affinity term of existing pods.
    Held(HeldId),
}

/// The first pods by name, per domain, that a rule is about; found for all domains in one pass over the cluster.
pub(crate) type Culprits = HashMap<Rule, HashMap<u32, PodId>>;
