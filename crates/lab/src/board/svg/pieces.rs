//! A board, looked up by what is drawn together: pods by node, workloads by id, what checks say of pods and places.

use std::collections::HashMap;

use super::cell::{self, Scale};
use super::drawing::Drawing;
use crate::board::model::{Board, Check, Pod, Spot, Workload};

pub(super) struct Pieces<'b> {
    workloads: HashMap<&'b str, (usize, &'b Workload)>,
    pods: HashMap<&'b str, &'b Pod>,
    /// The cluster's own pods of a node, and the others in the order of their workloads.
    nodes: HashMap<&'b str, (Vec<&'b Pod>, Vec<&'b Pod>)>,
    /// The first check that says a pod should not be where it is.
    misplaced: HashMap<&'b str, &'b Check>,
    checks: &'b [Check],
}

impl<'b> Pieces<'b> {
    pub(super) fn of(board: &'b Board) -> Self {
        let workloads = board.workloads.iter().enumerate().map(|(at, workload)| (workload.id.as_str(), (at, workload)));
        let mut misplaced = HashMap::new();
        for check in &board.checks {
            for pod in &check.misplaced {
                misplaced.entry(pod.as_str()).or_insert(check);
            }
        }
        let mut pieces = Self {
            workloads: workloads.collect(),
            pods: board.pods.iter().map(|pod| (pod.id.as_str(), pod)).collect(),
            nodes: HashMap::new(),
            misplaced,
            checks: &board.checks,
        };
        for pod in &board.pods {
            let Some(node) = pod.node.as_deref() else { continue };
            let is_system = pieces.workload(&pod.workload).is_some_and(|workload| workload.letter.is_none());
            let (system, own) = pieces.nodes.entry(node).or_default();
            if is_system { system.push(pod) } else { own.push(pod) }
        }
        let workloads = &pieces.workloads;
        for (_, own) in pieces.nodes.values_mut() {
            own.sort_by_key(|pod| workloads.get(pod.workload.as_str()).map(|(at, _)| *at));
        }
        pieces
    }

    pub(super) fn workload(&self, id: &str) -> Option<&'b Workload> {
        self.workloads.get(id).map(|(_, workload)| *workload)
    }

    pub(super) fn pod(&self, id: &str) -> Option<&'b Pod> {
        self.pods.get(id).copied()
    }

    /// The cluster's own pods of a node, and the others.
    pub(super) fn on(&self, node: &str) -> (&[&'b Pod], &[&'b Pod]) {
        self.nodes.get(node).map_or((&[], &[]), |(system, own)| (system, own))
    }

    pub(super) fn cell(&self, pod: &Pod, scale: Scale) -> Drawing {
        let wrong = self.misplaced.get(pod.id.as_str()).map(|check| check.name.as_str());
        cell::pod(pod, self.workload(&pod.workload), scale, wrong)
    }

    /// Cells of what should be in a place.
    pub(super) fn ghosts(&self, place: &Spot) -> Vec<Drawing> {
        let ghosts = self.checks.iter().flat_map(|check| check.ghosts.iter().map(move |ghost| (check, ghost)));
        ghosts
            .filter(|(_, ghost)| ghost.on == *place)
            .map(|(check, ghost)| {
                let workload = check.workload.as_deref().and_then(|id| self.workload(id));
                cell::ghost(workload, ghost.pods, &check.name)
            })
            .collect()
    }
}
