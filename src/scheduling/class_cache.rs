//! Verdicts and scores per node, kept for each class of pods and recomputed only for nodes that changed.

use std::collections::HashMap;

use super::cycle::{Cycle, Refused, Tallies};
use super::plugins::{self, Delta, Normalize, PLUGINS, Raw, View};
use super::state::{ClassId, LabelsId, NodeId, State};

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

    fn refresh(&mut self, state: &State, class: ClassId, labels: LabelsId, name: &str) {
        let changed = self.position.and_then(|position| state.changed_since(position));
        self.position = Some(state.log_end());
        if changed.is_some_and(<[NodeId]>::is_empty) {
            return;
        }
        self.cells.resize(state.nodes.len(), NO_NODE);
        let none = Tallies::default();
        let cycle = Cycle::new(state, class, labels, name, None, &none);
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
                for (score, slot) in local_scores() {
                    let Raw::Local { active, score: raw } = score.raw else { continue };
                    if !active(cycle) {
                        continue;
                    }
                    let raw = raw(cycle, node);
                    match slot {
                        None => cell.fixed += (score.weight * raw) as i32,
                        Some(slot) => cell.normalized[slot] = raw as i32,
                    }
                }
            }
        }
        self.cells[id as usize] = cell;
    }
}

/// Scores that depend on the node only, each with its slot in [`Cell::normalized`] if it is normalised.
pub(crate) fn local_scores() -> impl Iterator<Item = (&'static plugins::Score, Option<usize>)> {
    let local = PLUGINS.iter().filter_map(|plugin| plugin.score.as_ref());
    let local = local.filter(|score| matches!(score.raw, Raw::Local { .. }));
    local.scan(0, |slots, score| {
        let slot = (score.normalize != Normalize::None).then(|| {
            *slots += 1;
            *slots - 1
        });
        Some((score, slot))
    })
}

/// The caches of the classes that were scheduled lately.
#[derive(Debug, Default)]
pub(crate) struct ClassCaches {
    by_class: HashMap<ClassId, ClassCache>,
    clock: u64,
}

/// Cells kept at most over all classes; beyond it the class not used for the longest time is dropped.
const MOST_CELLS: usize = 1 << 20;

impl ClassCaches {
    /// The cache of a class, brought up to date for a pod with these labels.
    pub(crate) fn refreshed(&mut self, state: &mut State, class: ClassId, labels: LabelsId, name: &str) -> &ClassCache {
        self.clock += 1;
        let clock = self.clock;
        let info = std::sync::Arc::clone(&state.class(class).info);
        state.refresh_matching(labels);
        let default_selector = if info.spread.is_empty() {
            let labels = &state.label_set(labels).labels;
            state.workloads.default_selector(&info.namespace, labels, info.controller.as_ref())
        } else {
            None
        };
        // Claims change without a node changing, and are rare.
        let usable = |cache: &ClassCache| {
            cache.epoch == state.epoch
                && (cache.image_epoch == state.image_epoch || info.images.is_empty())
                && cache.tallies.default_selector == default_selector
                && info.claims.is_empty()
        };
        if !self.by_class.get(&class).is_some_and(usable) {
            self.make_room(state.nodes.len());
            let tallies = Tallies::new(state, &info, default_selector);
            let cache = ClassCache {
                cells: Vec::new(),
                tallies,
                verdicts: Vec::new(),
                verdict_ids: HashMap::new(),
                position: None,
                epoch: state.epoch,
                image_epoch: state.image_epoch,
                last_used: clock,
            };
            self.by_class.insert(class, cache);
        }
        let cache = self.by_class.entry(class).or_insert_with(|| unreachable!("inserted above"));
        cache.last_used = clock;
        cache.refresh(state, class, labels, name);
        cache
    }

    fn make_room(&mut self, nodes: usize) {
        while self.by_class.len() > 1 && (self.by_class.len() + 1) * nodes > MOST_CELLS {
            let oldest = self.by_class.iter().min_by_key(|(_, cache)| cache.last_used).map(|(&class, _)| class);
            match oldest {
                Some(class) => drop(self.by_class.remove(&class)),
                None => return,
            }
        }
    }
}
