//! Since when nodes have been unneeded, and which of them go now.

// upstream: cluster-autoscaler/core/scaledown/unneeded/nodes.go Update, RemovableAt (v1.36)
// upstream: cluster-autoscaler/core/scaledown/budgets/budgets.go CropNodes (v1.36)

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::profile::Profile;
use super::scale_down::{Judgement, Verdict};

/// At most this many nodes are emptied at the same time (`--max-drain-parallelism`).
const DRAINED_AT_ONCE: usize = 1;

/// Since when nodes have been unneeded.
#[derive(Debug, Clone, Default)]
pub struct Unneeded {
    since: BTreeMap<Arc<str>, Timestamp>,
}

/// Removals that are under way.
#[derive(Debug, Clone, Copy, Default)]
pub struct InProgress {
    /// Of empty nodes.
    pub empty: usize,
    /// Of nodes that are being emptied.
    pub drained: usize,
}

/// A node that goes.
#[derive(Debug, Clone, Copy)]
pub struct Removal<'a> {
    /// What was found about it.
    pub judgement: &'a Judgement,
    /// Whether pods are evicted first.
    pub drains: bool,
}

impl Unneeded {
    /// Takes in what was found now: nodes that were unneeded before stay so since then. `before` tells of a node from
    /// elsewhere since when it has been, such as from its taint.
    pub fn update(&mut self, judgements: &[Judgement], now: Timestamp, before: impl Fn(&str) -> Option<Timestamp>) {
        let unneeded = judgements.iter().filter(|it| matches!(it.verdict, Verdict::Unneeded { .. }));
        let since = unneeded.map(|it| {
            let since = self.since.get(&it.node).copied().or_else(|| before(&it.node));
            (Arc::clone(&it.node), since.unwrap_or(now))
        });
        self.since = since.collect();
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.since.clear();
    }

    /// The nodes and since when they have been unneeded.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, Timestamp)> {
        self.since.iter().map(|(node, since)| (node, *since))
    }

    /// Whether a node is unneeded.
    pub fn contains(&self, node: &str) -> bool {
        self.since.contains_key(node)
    }

    /// When a node may go, as far as its time decides.
    pub fn due(&self, node: &str, is_ready: bool, profile: &Profile) -> Option<Timestamp> {
        let time = if is_ready { profile.unneeded_time } else { profile.unready_time };
        self.since.get(node)?.saturating_add(time).ok()
    }

    /// The nodes that go now: long enough unneeded, no more than their pools can spare, no more than at once may go. Empty
    /// ones come first, then those whose evictions all budgets allow.
    ///
    /// `spare` says how many nodes each pool has beyond its least, `group` to which pool and in which condition a node is.
    pub fn removable<'a>(
        &self,
        judgements: &'a [Judgement],
        profile: &Profile,
        now: Timestamp,
        mut spare: BTreeMap<Arc<str>, u32>,
        node: impl Fn(&str) -> Option<(Arc<str>, bool)>,
        under_way: InProgress,
    ) -> Vec<Removal<'a>> {
        let mut empty = Vec::new();
        let mut drained = Vec::new();
        for judgement in judgements {
            let Verdict::Unneeded { moved, awaits_completion, is_risky } = &judgement.verdict else { continue };
            let Some((group, is_ready)) = node(&judgement.node) else { continue };
            if self.due(&judgement.node, is_ready, profile).is_none_or(|due| due > now) || *awaits_completion {
                continue;
            }
            if moved.is_empty() { empty.push((judgement, group)) } else { drained.push((judgement, group, *is_risky)) }
        }
        drained.sort_by_key(|(_, _, is_risky)| *is_risky);
        let drained = drained.into_iter().map(|(judgement, group, _)| (judgement, group, true));
        let all = empty.into_iter().map(|(judgement, group)| (judgement, group, false)).chain(drained);
        let mut left = (profile.most_at_once as usize).saturating_sub(under_way.empty + under_way.drained);
        let mut left_to_drain = DRAINED_AT_ONCE.saturating_sub(under_way.drained);
        let mut removals = Vec::new();
        for (judgement, group, drains) in all {
            let Some(spare) = spare.get_mut(&group).filter(|spare| **spare > 0) else { continue };
            if left == 0 || (drains && left_to_drain == 0) {
                continue;
            }
            *spare -= 1;
            left -= 1;
            left_to_drain -= usize::from(drains);
            removals.push(Removal { judgement, drains });
        }
        removals
    }
}
