//! What changed between two boards, and which pods moved.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;

use super::model::{Board, Check, Move, Node, PendingGroup, Pod, Pool, Step, Workload, Zone};

/// What makes one board of another.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Delta {
    /// When the cluster was looked at for the new board.
    pub taken_at: Option<String>,
    /// Nodes that were not there.
    pub nodes_came: Vec<Node>,
    /// Names of nodes that are not there any more.
    pub nodes_went: Vec<String>,
    /// Nodes that are otherwise than they were.
    pub nodes_changed: Vec<Node>,
    /// Pods that were not there; those that moved are among them.
    pub pods_came: Vec<Pod>,
    /// Pods (`namespace/name`) that are not there any more; those that moved are among them.
    pub pods_went: Vec<String>,
    /// Pods that are otherwise than they were.
    pub pods_changed: Vec<Pod>,
    /// What moved.
    pub moves: Vec<Move>,
    /// The order of the nodes, where it is another.
    pub node_order: Option<Vec<String>>,
    /// The pools, where they are others.
    pub pools: Option<Vec<Pool>>,
    /// The zones, where they are others.
    pub zones: Option<Vec<Zone>>,
    /// The workloads, where they are others.
    pub workloads: Option<Vec<Workload>>,
    /// Pods without a node, where they are others or for other reasons.
    pub pending: Option<Vec<PendingGroup>>,
    /// The checks, where they say something else.
    pub checks: Option<Vec<Check>>,
    /// The steps, where the learner has gone on.
    pub steps: Option<Vec<Step>>,
}

/// What came, went and changed among things with names.
struct Parts<T> {
    came: Vec<T>,
    went: Vec<String>,
    changed: Vec<T>,
}

fn parts<T: Clone + PartialEq>(old: &[T], new: &[T], name: impl Fn(&T) -> &str) -> Parts<T> {
    let before: BTreeMap<&str, &T> = old.iter().map(|one| (name(one), one)).collect();
    let after: BTreeSet<&str> = new.iter().map(&name).collect();
    let is_new = |one: &&T| !before.contains_key(name(one));
    let is_changed = |one: &&T| before.get(name(one)).is_some_and(|old| old != one);
    let went = before.keys().filter(|name| !after.contains(*name)).map(|name| (*name).to_owned());
    Parts {
        came: new.iter().filter(is_new).cloned().collect(),
        went: went.collect(),
        changed: new.iter().filter(is_changed).cloned().collect(),
    }
}

fn if_other<T: Clone + PartialEq>(old: &[T], new: &[T]) -> Option<Vec<T>> {
    (old != new).then(|| new.to_vec())
}

impl Delta {
    /// What makes `new` of `old`: two boards of one lab.
    pub fn between(old: &Board, new: &Board) -> Self {
        let nodes = parts(&old.nodes, &new.nodes, |node| &node.name);
        let pods = parts(&old.pods, &new.pods, |pod| &pod.id);
        let order = |board: &Board| board.nodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>();
        Self {
            taken_at: new.taken_at.clone(),
            nodes_came: nodes.came,
            nodes_went: nodes.went,
            nodes_changed: nodes.changed,
            pods_came: pods.came,
            pods_went: pods.went,
            pods_changed: pods.changed,
            moves: moves(old, new),
            node_order: if_other(&order(old), &order(new)),
            pools: if_other(&old.pools, &new.pools),
            zones: if_other(&old.zones, &new.zones),
            workloads: if_other(&old.workloads, &new.workloads),
            pending: if_other(&old.pending, &new.pending),
            checks: if_other(&old.checks, &new.checks),
            steps: if_other(&old.steps, &new.steps),
        }
    }

    /// Whether nothing changed but the time.
    pub fn is_empty(&self) -> bool {
        *self == Self { taken_at: self.taken_at.clone(), ..Self::default() }
    }
}

impl Board {
    /// The board with what moved since an earlier one.
    pub fn after(mut self, earlier: &Self) -> Self {
        self.moves = moves(earlier, &self);
        self
    }
}

/// Pods that left their place, each with one of the same workload that came to another: itself (a pod that got a node, or was
/// made again under its name), else one that was not there. A pod leaves when it begins to terminate.
fn moves(old: &Board, new: &Board) -> Vec<Move> {
    let (before, after) = (staying(old), staying(new));
    let known: BTreeSet<&str> = old.pods.iter().map(|pod| pod.id.as_str()).collect();
    let mut moves = Vec::new();
    let mut came: BTreeMap<&str, VecDeque<&Pod>> = BTreeMap::new();
    for pod in after.values().copied().filter(|pod| !known.contains(pod.id.as_str())) {
        came.entry(&pod.workload).or_default().push_back(pod);
    }
    for left in before.values() {
        let now = match after.get(left.id.as_str()).copied() {
            Some(same) => Some(same).filter(|same| same.node != left.node),
            None => came.get_mut(left.workload.as_str()).and_then(|came| {
                let at = came.iter().position(|pod| pod.node != left.node)?;
                came.remove(at)
            }),
        };
        if let Some(now) = now {
            moves.push(Move {
                workload: left.workload.clone(),
                left: left.id.clone(),
                from: left.node.clone(),
                came: now.id.clone(),
                to: now.node.clone(),
            });
        }
    }
    moves
}

/// The pods that are neither over nor about to go, by name.
fn staying(board: &Board) -> BTreeMap<&str, &Pod> {
    board.pods.iter().filter(|pod| pod.stays()).map(|pod| (pod.id.as_str(), pod)).collect()
}
