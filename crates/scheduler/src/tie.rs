//! Breaking ties: a stable hash of the seed, the pod and the node, or the first name.

use super::cycle::Cycle;
use super::hash::{fnv64_mixed, mix};
use super::ids::NodeId;

/// How one of several equally good nodes is chosen. kube-scheduler chooses at random; a lab must be repeatable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TieBreak {
    /// By a hash of this seed, the pod's namespace and name, and the node's name.
    Seeded(u64),
    /// The same, and also among pods that are equally important, when some of them have to go: kube-scheduler takes them as they come.
    Shuffled(u64),
    /// The first in byte order of names.
    FirstName,
}

impl Default for TieBreak {
    fn default() -> Self {
        Self::Seeded(0)
    }
}

/// Chooses among equally good nodes.
pub(crate) fn pick(cycle: &Cycle<'_>, nodes: &[NodeId], tie_break: TieBreak) -> NodeId {
    let name = |id: NodeId| cycle.node(id).map(|node| node.spec.name.as_ref());
    let chosen = match tie_break {
        TieBreak::FirstName => nodes.iter().copied().min_by_key(|&id| name(id)),
        TieBreak::Seeded(seed) | TieBreak::Shuffled(seed) => {
            let pod = mix(seed ^ fnv64_mixed(&[&cycle.info.namespace, cycle.name]));
            let mut first: Option<(u64, NodeId)> = None;
            for &id in nodes {
                let rank = mix(pod ^ cycle.state.name_hashes[id as usize]);
                let earlier =
                    first.is_none_or(|(least, other)| rank < least || (rank == least && name(id) < name(other)));
                if earlier {
                    first = Some((rank, id));
                }
            }
            first.map(|(_, id)| id)
        }
    };
    chosen.unwrap_or_default()
}
