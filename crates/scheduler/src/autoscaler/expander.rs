//! Which of several pools grows.

// upstream: cluster-autoscaler/expander/factory/chain.go BestOption (v1.36)
// upstream: cluster-autoscaler/expander/waste/waste.go BestOptions (v1.36)
// upstream: cluster-autoscaler/expander/mostpods/mostpods.go BestOptions (v1.36)
// upstream: cluster-autoscaler/expander/priority/priority.go BestOptions (v1.36)

use std::collections::BTreeMap;
use std::sync::Arc;

use super::estimate::Estimate;
use super::group::NodeGroup;
use crate::hash::{fnv64_mixed, mix};

/// How a pool is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expander {
    /// By chance.
    Random,
    /// The one whose new nodes would be left with the least CPU and memory.
    LeastWaste,
    /// The one that takes the most pods.
    MostPods,
    /// The one with the greatest priority in the ConfigMap `cluster-autoscaler-priority-expander`.
    Priority,
}

impl Expander {
    /// All of them, by name.
    pub const ALL: [Self; 4] = [Self::LeastWaste, Self::MostPods, Self::Priority, Self::Random];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::LeastWaste => "least-waste",
            Self::MostPods => "most-pods",
            Self::Priority => "priority",
        }
    }
}

/// A pool that could grow: its place among the groups, and what that would bring.
pub(super) struct Choice<'a> {
    pub(super) group: usize,
    pub(super) estimate: &'a Estimate,
}

/// Chooses one of the pools, whose expanders are asked in order; where several are left, chance decides.
pub(super) fn choose(
    expanders: &[Expander],
    choices: &[Choice<'_>],
    groups: &[NodeGroup],
    priorities: Option<&BTreeMap<Arc<str>, i64>>,
    seed: u64,
) -> Option<usize> {
    let mut left: Vec<&Choice<'_>> = choices.iter().collect();
    for expander in expanders {
        left = match expander {
            Expander::Random => break,
            Expander::LeastWaste => least_by(left, |choice| waste(choice, &groups[choice.group])),
            Expander::MostPods => least_by(left, |choice| -(choice.estimate.pods.len() as f64)),
            Expander::Priority => by_priority(left, groups, priorities),
        };
    }
    let rank = |choice: &&&Choice<'_>| mix(seed ^ fnv64_mixed(&[&groups[choice.group].name]));
    left.iter().min_by_key(rank).map(|choice| choice.group)
}

fn least_by<'a, 'b>(choices: Vec<&'a Choice<'b>>, of: impl Fn(&Choice<'b>) -> f64) -> Vec<&'a Choice<'b>> {
    let least = choices.iter().map(|choice| of(choice)).min_by(f64::total_cmp);
    choices.into_iter().filter(|choice| least.is_some_and(|least| of(choice) <= least)).collect()
}

/// The share of CPU and of memory, added up, that the new nodes would be left with.
fn waste(choice: &Choice<'_>, group: &NodeGroup) -> f64 {
    let share = |offered: i64, asked: i64| {
        let offered = offered as f64 * f64::from(choice.estimate.nodes);
        if offered > 0.0 { (offered - asked as f64) / offered } else { 1.0 }
    };
    let (capacity, asked) = (&group.template.capacity, &choice.estimate.requests);
    share(capacity.cpu, asked.cpu) + share(capacity.memory, asked.memory)
}

fn by_priority<'a, 'b>(
    choices: Vec<&'a Choice<'b>>,
    groups: &[NodeGroup],
    priorities: Option<&BTreeMap<Arc<str>, i64>>,
) -> Vec<&'a Choice<'b>> {
    let Some(priorities) = priorities else { return choices };
    let of = |choice: &Choice<'b>| priorities.get(&groups[choice.group].name).copied();
    let Some(greatest) = choices.iter().filter_map(|choice| of(choice)).max() else { return choices };
    choices.into_iter().filter(|choice| of(choice) == Some(greatest)).collect()
}
