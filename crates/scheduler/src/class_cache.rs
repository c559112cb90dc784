//! Verdicts and scores per node, kept for each class of pods and recomputed only for nodes that changed.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::cycle::{Cycle, Tallies};
use super::delta::Delta;
use super::devices::{Cells, DeviceCache, PodClaims};
use super::ids::{ClassId, LabelsId, NodeId};
use super::plugins::{self, Normalize, Raw, Refused, View};
use super::pod_info::PodInfo;
use super::profile::Profile;
use super::selector::Selector;
use super::state::State;

/// A node that takes the pod as far as the node itself is concerned.
pub(crate) const PASS: u16 = 0;
/// No node has this index.
pub(crate) const ABSENT: u16 = u16::MAX;
/// Plugins whose score depends on the node only and is normalised over the feasible nodes.
pub(crate) const NORMALIZED: usize = 2;

/// What is kept for one node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    /// [`PASS`], [`ABSENT`] or the number of a verdict.
    pub(crate) verdict: u16,
    /// Weighted scores that need no normalisation.
    pub(crate) fixed: i32,
    /// Raw scores that do.
    pub(crate) normalized: [i32; NORMALIZED],
}

const NO_NODE: Cell = Cell { verdict: ABSENT, fixed: 0, normalized: [0; NORMALIZED] };

/// Everything kept for one class.
#[derive(Debug)]
pub(crate) struct ClassCache {
    pub(crate) cells: Vec<Cell>,
    pub(crate) tallies: Tallies,
    verdicts: Vec<Refused>,
    verdict_ids: HashMap<Refused, u16>,
    /// Where in the log of changes this is up to date.
    position: Option<u64>,
    epoch: u64,
    image_epoch: u64,
    last_used: u64,
}

impl ClassCache {
    /// The verdict of a cell that is neither [`PASS`] nor [`ABSENT`].
    pub(crate) fn verdict(&self, number: u16) -> &Refused {
        &self.verdicts[number as usize - 1]
    }

    pub(crate) fn verdict_count(&self) -> usize {
        self.verdicts.len()
    }

    fn number(&mut self, refused: Refused) -> u16 {
        if let Some(&number) = self.verdict_ids.get(&refused) {
            return number;
        }
        self.verdicts.push(refused.clone());
        let number = self.verdicts.len() as u16;
        self.verdict_ids.insert(refused, number);
        number
    }

    fn refresh(&mut self, state: &State, profile: &Profile, class: ClassId, labels: LabelsId, name: &str) {
        let changed = self.position.and_then(|position| state.changed_since(position));
        self.position = Some(state.log_end());
        if changed.is_some_and(<[NodeId]>::is_empty) {
            return;
        }
        self.cells.resize(state.nodes.len(), NO_NODE);
        let none = Tallies::default();
        let cycle = Cycle::new(state, profile, class, labels, name, None, &none);
        match changed {
            Some(nodes) if nodes.len() < state.nodes.len() => {
                for &node in nodes {
                    self.refresh_node(&cycle, node);
                }
            }
            _ => (0..state.nodes.len()).for_each(|node| self.refresh_node(&cycle, node as NodeId)),
        }
    }

    fn refresh_node(&mut self, cycle: &Cycle<'_>, id: NodeId) {
        if !self.tallies.is_empty() {
            self.tallies.refresh(cycle.state, cycle.info, id);
        }
        let Some(node) = cycle.node(id) else {
            self.cells[id as usize] = NO_NODE;
            return;
        };
        let refused = plugins::local_verdict(cycle, &View { id, node, delta: Delta::NONE });
        let mut cell = Cell { verdict: PASS, fixed: 0, normalized: [0; NORMALIZED] };
        match refused {
            Some(refused) => cell.verdict = self.number(refused),
            None => {
                for (score, weight, slot) in local_scores(cycle.profile) {
                    let Raw::Local { active, score: raw } = score.raw else { continue };
                    if !active(cycle) {
                        continue;
                    }
                    let raw = raw(cycle, node);
                    match slot {
                        None => cell.fixed += (weight * raw) as i32,
                        Some(slot) => cell.normalized[slot] = raw as i32,
                    }
                }
            }
        }
        self.cells[id as usize] = cell;
    }
}

/// Scores that depend on the node only, each with its weight and its slot in [`Cell::normalized`] if it is normalised.
pub(crate) fn local_scores(profile: &Profile) -> impl Iterator<Item = (&'static plugins::Score, i64, Option<usize>)> {
    let local = plugins::scores(profile).filter(|(_, score, _)| matches!(score.raw, Raw::Local { .. }));
    local.scan(0, |slots, (_, score, weight)| {
        let slot = (score.normalize != Normalize::None).then(|| {
            *slots += 1;
            *slots - 1
        });
        Some((score, weight, slot))
    })
}

/// Pods share what is kept if they are of one class and one profile, and spread by the same default selector.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    profile: usize,
    class: ClassId,
    default_selector: Option<Arc<Selector>>,
}

/// The caches of the classes that were scheduled lately.
#[derive(Debug, Default)]
pub(crate) struct ClassCaches {
    by_key: HashMap<Key, ClassCache>,
    clock: u64,
    /// Default selectors found for classes and labels, as of a generation of the workloads.
    default_selectors: HashMap<(ClassId, LabelsId), Option<Arc<Selector>>>,
    workloads: u64,
    /// Verdicts on nodes for resource claims.
    pub(crate) devices: DeviceCache,
}

/// Cells kept at most over all classes; beyond it the class not used for the longest time is dropped.
const MAX_CELLS: usize = 1 << 20;
/// Default selectors kept at most.
const MAX_SELECTORS: usize = 1 << 14;

impl ClassCaches {
    /// The verdicts on nodes that are kept for a pod's claims, as far as they still hold.
    pub(crate) fn take_devices(&mut self, state: &State, claims: &PodClaims) -> Cells {
        let changed = |position| state.changed_since(position);
        self.devices.take(claims, state.devices.epoch, state.log_end(), state.nodes.len(), changed)
    }

    /// The cache of a class, brought up to date for a pod with these labels.
    pub(crate) fn refreshed(
        &mut self,
        state: &mut State,
        profile: &Profile,
        class: ClassId,
        labels: LabelsId,
        name: &str,
    ) -> &ClassCache {
        self.clock += 1;
        let clock = self.clock;
        let info = Arc::clone(&state.class(class).info);
        state.refresh_matching(labels);
        let key =
            Key { profile: profile.place, class, default_selector: self.default_selector(state, class, labels, &info) };
        // Claims change without a node changing, and are rare.
        let usable = |cache: &ClassCache| {
            cache.epoch == state.epoch
                && (cache.image_epoch == state.image_epoch || info.images.is_empty())
                && info.claims.is_empty()
        };
        if !self.by_key.get(&key).is_some_and(usable) {
            self.by_key.remove(&key);
            self.make_room(state.nodes.len());
        }
        let cache = self.by_key.entry(key).or_insert_with_key(|key| ClassCache {
            cells: Vec::new(),
            tallies: Tallies::new(state, &info, &profile.arguments.spread, key.default_selector.as_deref()),
            verdicts: Vec::new(),
            verdict_ids: HashMap::new(),
            position: None,
            epoch: state.epoch,
            image_epoch: state.image_epoch,
            last_used: clock,
        });
        cache.last_used = clock;
        cache.refresh(state, profile, class, labels, name);
        cache
    }

    fn default_selector(
        &mut self,
        state: &State,
        class: ClassId,
        labels: LabelsId,
        info: &PodInfo,
    ) -> Option<Arc<Selector>> {
        if !info.spread.is_empty() {
            return None;
        }
        if self.workloads != state.workloads.generation() || self.default_selectors.len() > MAX_SELECTORS {
            self.default_selectors.clear();
            self.workloads = state.workloads.generation();
        }
        let found = self.default_selectors.entry((class, labels)).or_insert_with(|| {
            let labels = &state.label_set(labels).labels;
            state.workloads.default_selector(&info.namespace, labels, info.controller.as_ref()).map(Arc::new)
        });
        found.clone()
    }

    fn make_room(&mut self, nodes: usize) {
        while self.by_key.len() > 1 && (self.by_key.len() + 1) * nodes > MAX_CELLS {
            let oldest = self.by_key.iter().min_by_key(|(_, cache)| cache.last_used).map(|(key, _)| key.clone());
            match oldest {
                Some(key) => drop(self.by_key.remove(&key)),
                None => return,
            }
        }
    }
}
