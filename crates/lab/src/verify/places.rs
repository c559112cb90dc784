//! Where a check wants pods that are not there, and which pods are where it wants none.

use std::collections::BTreeSet;

use super::conditions::{placed, rule};
use super::diagnose::target_nodes::{Homes, HomesOwned};
use super::rollout::Group;
use super::verdict::CheckResult;
use super::view::{PodView, View};
use crate::spec::{Check, Condition, NodeSet};

/// A place where a pod may be shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PodLocation {
    Node(String),
    /// A pool that has no node for it yet.
    Pool(String),
    /// No node: the pod is to stay Pending.
    Pending,
}

/// What a check that does not hold says about places.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Places {
    /// Where pods should be and are not, one entry a pod.
    pub(crate) wanted: Vec<PodLocation>,
    /// Pods (`namespace/name`) that should not be where they are, sorted.
    pub(crate) misplaced: Vec<String>,
}

/// The places of a check, as far as it names some. Of one that holds there are none.
pub(crate) fn places(check: &Check, result: &CheckResult, view: &View<'_>) -> Places {
    let mut places = Places::default();
    let Some(group) = Group::of(view, &check.subject.value) else { return places };
    if result.verdict.is_held() {
        return places;
    }
    let homes = Homes::of(check, view);
    let mut misplaced = BTreeSet::new();
    for (condition, finding) in check.conditions.iter().zip(&result.findings).filter(|(_, finding)| !finding.holds) {
        let offenders: Vec<&PodView<'_>> =
            group.counted.iter().copied().filter(|pod| finding.offenders.contains(&pod.id())).collect();
        let elsewhere = |pod: &&PodView<'_>| pod.node.is_some_and(|node| !rule(&condition.value).accepts(view, node));
        match &condition.value {
            Condition::On(set) | Condition::OnePerNode(set) => {
                misplaced.extend(offenders.iter().filter(|pod| elsewhere(pod)).map(|pod| pod.id()));
                let free = match &condition.value {
                    Condition::OnePerNode(_) => without_pod(view, set, &group),
                    _ => homes.nodes.iter().cloned().collect(),
                };
                let lacking = offenders.iter().filter(|pod| pod.node.is_none() || elsewhere(pod)).count();
                let lacking = lacking.saturating_add(group.to_come() as usize);
                let most = if matches!(condition.value, Condition::OnePerNode(_)) { free.len() } else { lacking };
                places.wanted.extend(spread(&free, pool_of(set, &homes), most));
            }
            Condition::Placement(pools) => {
                for (pool, count) in pools {
                    let is_here = |pod: &&&PodView<'_>| pod.node.and_then(|node| view.pool_of(node)) == Some(pool);
                    let here = group.counted.iter().filter(is_here).filter(|pod| placed(pod)).count();
                    let nodes: Vec<String> = view.members(pool).map(|(name, _)| name.to_owned()).collect();
                    let lacking = (count.min as usize).saturating_sub(here);
                    places.wanted.extend(spread(&nodes, Some(pool), lacking));
                    if count.max.is_some_and(|max| here > max as usize) {
                        misplaced.extend(group.counted.iter().filter(is_here).map(|pod| pod.id()));
                    }
                }
            }
            Condition::Pending { count, .. } => {
                let waiting = group.counted.iter().filter(|pod| pod.node.is_none()).count();
                let lacking = (count.min as usize).saturating_sub(waiting);
                places.wanted.extend(std::iter::repeat_n(PodLocation::Pending, lacking.min(MAX_PLACES)));
                if lacking > 0 {
                    misplaced.extend(offenders.iter().filter(|pod| pod.node.is_some()).map(|pod| pod.id()));
                }
            }
            Condition::NotOn(_) | Condition::Spread { .. } | Condition::With(_) | Condition::ApartFrom(_) => {
                misplaced.extend(offenders.iter().filter(|pod| pod.node.is_some()).map(|pod| pod.id()));
            }
            _ => {}
        }
    }
    places.wanted.truncate(MAX_PLACES);
    places.misplaced = misplaced.into_iter().collect();
    places
}

/// Most places of one check: more would hide what is there.
const MAX_PLACES: usize = 50;

/// The nodes of a set that have no pod of the group.
fn without_pod(view: &View<'_>, set: &NodeSet, group: &Group<'_, '_>) -> Vec<String> {
    let taken: BTreeSet<&str> = group.counted.iter().filter_map(|pod| pod.node).collect();
    view.nodes_in(set).map(|(name, _)| name).filter(|name| !taken.contains(name)).map(str::to_owned).collect()
}

/// The pool that is meant, where it has no node.
fn pool_of<'s>(set: &'s NodeSet, homes: &'s HomesOwned) -> Option<&'s str> {
    match set {
        NodeSet::Pool(pool) => Some(pool),
        NodeSet::Node(_) | NodeSet::Selector(_) => homes.pools.first().map(String::as_str),
    }
}

/// This many places, on the nodes in turn; in the pool where there is no node.
fn spread(nodes: &[String], pool: Option<&str>, count: usize) -> Vec<PodLocation> {
    let count = count.min(MAX_PLACES);
    if nodes.is_empty() {
        return pool.map_or_else(Vec::new, |pool| vec![PodLocation::Pool(pool.to_owned()); count]);
    }
    nodes.iter().cycle().take(count).cloned().map(PodLocation::Node).collect()
}
