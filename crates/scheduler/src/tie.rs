//! Breaking ties: a stable hash of the seed, the pod and the node, or the first name.

use super::cycle::Cycle;
use super::hash::fnv64_closed;
use super::state::NodeId;

/// How one of several equally good nodes is chosen. kube-scheduler chooses at random; a lab must be repeatable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TieBreak {
    /// By a hash of this seed, the pod's namespace and name, and the node's name.
    Seeded(u64),
    /// The first in byte order of names.
    FirstName,
}

impl Default for TieBreak {
    fn default() -> Self {
        Self::Seeded(0)
    }
}

/// A hash of texts, mixed. Placements in published labs depend on it.
pub(crate) fn hash(parts: &[&str]) -> u64 {
    mix(fnv64_closed(parts, 0))
}

/// The finaliser of SplitMix64.
pub(crate) const fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Chooses among equally good nodes.
pub(crate) fn pick(cycle: &Cycle<'_>, nodes: &[NodeId], tie_break: TieBreak) -> NodeId {
    let name = |id: NodeId| cycle.node(id).map(|node| node.spec.name.as_ref());
    let chosen = match tie_break {
        TieBreak::FirstName => nodes.iter().copied().min_by_key(|&id| name(id)),
        TieBreak::Seeded(seed) => {
            let pod = mix(seed ^ hash(&[&cycle.info.namespace, cycle.name]));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Placements in published labs depend on these: they must never change.
    #[test]
    fn hashes_are_fixed() {
        assert_eq!(hash(&["default", "web-0"]), 0xf967_e870_dd89_9722);
        assert_eq!(mix(1), 0x5692_161d_100b_05e5);
        assert_ne!(hash(&["a", "bc"]), hash(&["ab", "c"]));
    }
}
