//! What became of a cluster by changes that were tried on copies of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::thread;
use std::time::Duration;

use klab_lab::spec::UndrainableNodeBehavior;
use klab_lab::words::plural;
use klab_scheduler::Resources;

use crate::autoscaled::bounds_of;
use crate::capture::Capture;
use crate::change::{Change, parts};
use crate::drain::Blocked;
use crate::error::ChangeError;
use crate::pool::pool_of;
use crate::trial::{Trial, rest};
use crate::twin::{Original, TwinError};
use crate::world::{Workload, World, refusals};

/// How many copies are asked; each chooses otherwise among equal nodes.
pub const COPIES: u64 = 3;

/// What became of a cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// The changes, in words.
    pub changes: Vec<String>,
    /// The pools before and after, by name.
    pub pools: BTreeMap<String, PoolChange>,
    /// The workloads to whose pods something happens, or that wait.
    pub workloads: Vec<WorkloadChange>,
    /// Pods that could not be evicted.
    pub blocked: BTreeSet<Blocked>,
    /// Objects of the changes that the copy has no place for.
    pub ignored: BTreeSet<String>,
    /// In how many of [`COPIES`] copies the same pods of each workload run in the end.
    pub agreeing: u64,
    /// What is open: what could not be read, and what a copy does not do.
    pub open: Vec<String>,
}

/// A pool before and after.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PoolChange {
    /// Before.
    pub before: PoolState,
    /// After.
    pub after: PoolState,
}

/// What a pool has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PoolState {
    /// How many nodes.
    pub nodes: usize,
    /// How many pods.
    pub pods: usize,
    /// What its nodes offer.
    pub allocatable: Resources,
    /// What their pods request.
    pub requested: Resources,
    /// Dollars an hour; none where klab does not know the price of one of its nodes.
    pub price: Option<f64>,
}

/// What becomes of a workload's pods.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadChange {
    /// Whose they are.
    pub workload: Workload,
    /// How many had a node, and how many have one.
    pub placed: (usize, usize),
    /// How many it is to have.
    pub desired: usize,
    /// How many go from one pool to another, or to another node of the same.
    pub moves: BTreeMap<(String, String), usize>,
    /// How many come that were not there, by pool.
    pub added: BTreeMap<String, usize>,
    /// How many go and do not come again, by pool.
    pub removed: BTreeMap<String, usize>,
    /// How many wait, by what the scheduler says of them.
    pub waiting: BTreeMap<String, usize>,
    /// Why the API server refuses pods of it.
    pub refused: Option<String>,
    /// Whether pods that run today do not run any more.
    pub fails: bool,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum TryError {
    /// There is no copy.
    #[error(transparent)]
    Twin(#[from] TwinError),
    /// A change cannot be tried.
    #[error(transparent)]
    Change(Box<ChangeError>),
}

/// Tries changes, one after the other, on copies of a captured cluster.
///
/// # Errors
/// [`TryError`] where there is nothing to copy, or a change names what is not there.
pub fn what_if(capture: &Capture, changes: &[Change]) -> Result<Answer, TryError> {
    what_if_of(capture, changes, 0..COPIES)
}

/// The same with copies of these seeds, of which the first gives the answer.
///
/// # Errors
/// As [`what_if`].
pub fn what_if_of(capture: &Capture, changes: &[Change], seeds: Range<u64>) -> Result<Answer, TryError> {
    let original = Original::of(capture)?;
    let first = seeds.start;
    let runs: Vec<Result<Run, TryError>> = thread::scope(|scope| {
        let run = |seed| run(&original, changes, seed, seed == first);
        let runs: Vec<_> = seeds.map(|seed| scope.spawn(move || run(seed))).collect();
        // A thread ends early by a panic alone, which goes on here.
        runs.into_iter().map(|run| run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let runs = runs.into_iter().collect::<Result<Vec<Run>, TryError>>()?;
    let Some(first) = runs.first() else { return Ok(Answer::default()) };
    let placed = first.after.placed();
    let agreeing = runs.iter().filter(|run| run.after.placed() == placed).count() as u64;
    let mut answer = Answer {
        changes: changes.iter().map(Change::words).collect(),
        blocked: first.trial.blocked.clone(),
        ignored: first.trial.ignored.clone(),
        agreeing,
        open: open(capture, changes),
        ..Answer::default()
    };
    answer.compare(&first.before, &first.after);
    if answer.workloads.iter().any(|workload| !workload.waiting.is_empty()) {
        answer.open.extend(room(capture, &answer.pools));
    }
    Ok(answer)
}

struct Run {
    before: World,
    after: World,
    trial: Trial,
}

/// What changes come to in one copy. With the state before them only for the first: all begin alike.
fn run(original: &Original, changes: &[Change], seed: u64, is_first: bool) -> Result<Run, TryError> {
    let twin = original.copy(seed)?;
    if refusals(&twin.cluster).next().is_some() {
        // A controller that is refused pods tries again ever more seldom. How long it has been refused, no capture says.
        twin.cluster.advance(Duration::from_secs([60, 0, 3, 0][(seed % 4) as usize]));
    }
    let before = if is_first { World::of(&twin.cluster) } else { World::default() };
    let mut trial = Trial { seed, ..Trial::default() };
    for change in changes {
        trial.perform(&twin.cluster, change).map_err(|why| TryError::Change(Box::new(why)))?;
    }
    rest(&twin.cluster);
    Ok(Run { before, after: World::of(&twin.cluster), trial })
}

/// What the answer does not know.
fn open(capture: &Capture, changes: &[Change]) -> Vec<String> {
    let mut open = capture.gap_words();
    let torn = capture.objects.len() - capture.untorn().count();
    if torn > 0 {
        let pods = plural(torn, "pod");
        open.push(format!("the cluster changed while klab read it: {pods} on nodes that are gone are left out"));
    }
    let autoscalers = capture.of("HorizontalPodAutoscaler").count();
    if autoscalers > 0 {
        let autoscalers = plural(autoscalers, "autoscaler");
        open.push(format!("the counts of {autoscalers} of workloads stay as they are"));
    }
    for change in changes {
        match change {
            // At 0 pods it is off.
            Change::Scale { workload, replicas } if *replicas > 0 => open.extend(bounds(capture, workload)),
            Change::Upgrade { pool, settings }
                if settings.undrainable_node_behavior == Some(UndrainableNodeBehavior::Cordon) =>
            {
                open.push(format!("AKS goes on with {pool} after a node that it cannot drain; klab ends there"));
            }
            _ => {}
        }
    }
    if changes.iter().any(|change| matches!(change, Change::Apply { .. })) {
        open.push(
            "klab does not see changes of commands, environment and configuration, which restart pods, too".to_owned(),
        );
    }
    if changes.iter().any(|change| matches!(change, Change::Nodes { .. })) {
        open.push("of a pool that shrinks, the nodes with the highest numbers go".to_owned());
    }
    open
}

/// Which pools the cluster autoscaler may still make larger for pods that wait, in words.
fn room(capture: &Capture, pools: &BTreeMap<String, PoolChange>) -> Vec<String> {
    let bounds: BTreeMap<String, (u64, u64)> =
        capture.values("Node").filter_map(|node| Some((pool_of(&node), bounds_of(&node)?))).collect();
    let room = |(pool, (min, max)): (String, (u64, u64))| {
        let nodes = pools.get(&pool).map_or(0, |pool| pool.after.nodes as u64);
        let more = max.checked_sub(nodes).filter(|more| *more > 0)?;
        let more = plural(usize::try_from(more).unwrap_or(usize::MAX), "node");
        Some(format!(
            "the cluster autoscaler, which keeps pool {pool} between {min} and {max} nodes, may add up to {more} for pods that wait; \
             klab adds none"
        ))
    };
    bounds.into_iter().filter_map(room).collect()
}

/// Between which numbers HorizontalPodAutoscalers keep a workload that a change scales, in words.
fn bounds<'a>(capture: &'a Capture, workload: &'a str) -> impl Iterator<Item = String> {
    let (namespace, kind, name) = parts(workload);
    let scalers = capture.of("HorizontalPodAutoscaler");
    let scalers = scalers.filter(move |scaler| namespace.is_none_or(|namespace| &*scaler.namespace == namespace));
    scalers.filter_map(move |object| {
        let scaler = object.value();
        let target = &scaler["spec"]["scaleTargetRef"];
        let is_its = target["kind"].as_str().is_some_and(|of_kind| kind.eq_ignore_ascii_case(of_kind));
        let spec = &scaler["spec"];
        let (least, most) =
            (spec["minReplicas"].as_u64().unwrap_or(1), spec["maxReplicas"].as_u64().unwrap_or_default());
        let words = || {
            format!("the HorizontalPodAutoscaler {} keeps {workload} between {least} and {most} pods", object.path())
        };
        (is_its && target["name"] == name).then(words)
    })
}

impl PoolState {
    fn add(&mut self, node: &crate::world::NodeFacts) {
        self.price = match (self.nodes, self.price, node.price) {
            (0, _, price) => price,
            (_, sum, price) => sum.zip(price).map(|(sum, price)| sum + price),
        };
        self.nodes += 1;
        self.pods += node.pods;
        self.allocatable.add(&node.allocatable);
        self.requested.add(&node.requested);
    }

    /// How full it is of a resource, in percent.
    pub fn percent(&self, resource: &str) -> i64 {
        let of = self.allocatable.get(resource);
        if of <= 0 { 0 } else { self.requested.get(resource).saturating_mul(100) / of }
    }
}

impl Answer {
    /// Whether something that runs today would not run.
    pub fn fails(&self) -> bool {
        self.workloads.iter().any(|workload| workload.fails) || !self.blocked.is_empty()
    }

    /// How many pods that run today would not run.
    pub fn lost(&self) -> usize {
        let failing = self.workloads.iter().filter(|change| change.fails);
        failing.map(|change| change.placed.0.min(change.desired) - change.placed.1).sum()
    }

    /// Dollars an hour before and after; none where klab does not know a price.
    pub fn price(&self) -> (Option<f64>, Option<f64>) {
        let sum = |state: fn(&PoolChange) -> &PoolState| {
            self.pools.values().map(state).filter(|pool| pool.nodes > 0).map(|pool| pool.price).sum::<Option<f64>>()
        };
        (sum(|pool| &pool.before), sum(|pool| &pool.after))
    }

    fn compare(&mut self, before: &World, after: &World) {
        self.compare_pools(before, after);
        self.compare_counts(before, after);
        self.compare_places(before, after);
        for change in &mut self.workloads {
            let waiting: usize = change.waiting.values().sum();
            if change.placed.1 + waiting < change.desired {
                change.refused = after.refused.get(&change.workload).cloned();
            }
        }
        self.workloads.retain(WorkloadChange::is_of_interest);
    }

    fn compare_pools(&mut self, before: &World, after: &World) {
        for (world, is_after) in [(before, false), (after, true)] {
            for node in world.nodes.values() {
                let pool = self.pools.entry(node.pool.clone()).or_default();
                if is_after { pool.after.add(node) } else { pool.before.add(node) }
            }
        }
    }

    /// How many pods of each workload have a node.
    fn compare_counts(&mut self, before: &World, after: &World) {
        let (placed_before, placed_after) = (before.placed(), after.placed());
        let all: BTreeSet<&Workload> =
            placed_before.keys().chain(placed_after.keys()).copied().chain(after.desired.keys()).collect();
        for workload in all {
            // The pods of a node itself come and go with it.
            if workload.kind == "Node" {
                continue;
            }
            let count = |placed: &BTreeMap<&Workload, usize>| placed.get(workload).copied().unwrap_or_default();
            let placed = (count(&placed_before), count(&placed_after));
            let mut change = WorkloadChange {
                workload: workload.clone(),
                placed,
                desired: after.desired.get(workload).copied().unwrap_or(placed.0),
                moves: BTreeMap::new(),
                added: BTreeMap::new(),
                removed: BTreeMap::new(),
                waiting: BTreeMap::new(),
                refused: None,
                fails: false,
            };
            change.fails = placed.1 < placed.0.min(change.desired);
            self.workloads.push(change);
        }
    }

    /// Where the pods of each workload go.
    fn compare_places(&mut self, before: &World, after: &World) {
        let places: BTreeMap<Workload, usize> =
            self.workloads.iter().enumerate().map(|(index, change)| (change.workload.clone(), index)).collect();
        let (mut lost, mut come) = (BTreeMap::new(), BTreeMap::new());
        for (world, other, found) in [(before, after, &mut lost), (after, before, &mut come)] {
            for (uid, pod) in &world.pods {
                let stays = other.pods.get(uid).is_some_and(|same| same.node == pod.node);
                if let (Some(node), false) = (&pod.node, stays) {
                    let pool = world.nodes.get(node).map_or_else(String::new, |node| node.pool.clone());
                    let pools: &mut BTreeMap<String, usize> =
                        found.entry(pod.workload.clone()).or_insert_with(BTreeMap::new);
                    *pools.entry(pool).or_default() += 1;
                }
            }
        }
        for (workload, index) in &places {
            let change = &mut self.workloads[*index];
            let (lost, come) = (lost.remove(workload).unwrap_or_default(), come.remove(workload).unwrap_or_default());
            change.pair(lost, come);
        }
        for pod in after.pods.values().filter(|pod| pod.node.is_none()) {
            if let Some(index) = places.get(&pod.workload) {
                *self.workloads[*index].waiting.entry(pod.waits.clone()).or_default() += 1;
            }
        }
    }
}

impl WorkloadChange {
    /// Whether there is something to say of it.
    fn is_of_interest(&self) -> bool {
        self.fails
            || self.comes_or_goes()
            || !(self.moves.is_empty() && self.waiting.is_empty())
            || self.refused.is_some()
    }

    /// Whether pods come or go for another reason than a node that does.
    pub fn comes_or_goes(&self) -> bool {
        self.workload.kind != "DaemonSet" && !(self.added.is_empty() && self.removed.is_empty())
    }

    /// How many pods move.
    pub fn moving(&self) -> usize {
        self.moves.values().sum()
    }

    /// Which pods went where, as far as that can be said of equal pods: those that stay in their pool first.
    fn pair(&mut self, mut lost: BTreeMap<String, usize>, mut come: BTreeMap<String, usize>) {
        let mut take =
            |from: &String, to: &String, lost: &mut BTreeMap<String, usize>, come: &mut BTreeMap<String, usize>| {
                let pods = lost.get(from).copied().unwrap_or_default().min(come.get(to).copied().unwrap_or_default());
                if pods > 0 {
                    *self.moves.entry((from.clone(), to.clone())).or_default() += pods;
                    lost.entry(from.clone()).and_modify(|left| *left -= pods);
                    come.entry(to.clone()).and_modify(|left| *left -= pods);
                }
            };
        let pools: Vec<String> = lost.keys().cloned().collect();
        for pool in &pools {
            take(pool, pool, &mut lost, &mut come);
        }
        let targets: Vec<String> = come.keys().cloned().collect();
        for from in &pools {
            for to in &targets {
                take(from, to, &mut lost, &mut come);
            }
        }
        self.removed = lost.into_iter().filter(|(_, pods)| *pods > 0).collect();
        self.added = come.into_iter().filter(|(_, pods)| *pods > 0).collect();
    }
}
