//! The fewest nodes of a cluster on which every pod has a place, also where one more node is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use klab_lab::words::{first_of, plural};
use klab_scheduler::Cluster;
use serde_json::{Value, json};

use crate::capture::Capture;
use crate::model::{LostPod, Model, ModelNode, UNKNOWN};
use crate::pool::CONTROL_PLANE;
use crate::twin::TwinError;

/// Which nodes can go.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shrunk {
    /// How many nodes each pool has.
    pub before: BTreeMap<String, usize>,
    /// The nodes that can go, by pool.
    pub removed: BTreeMap<String, Vec<String>>,
    /// Dollars an hour that they cost; none where klab does not know a price.
    pub saved: Option<f64>,
    /// Nodes that stay because of pods whose controller klab does not know.
    pub unknown: Vec<String>,
    /// Nodes that the cluster cannot lose even now. They stay, and no more pods depend on them than now.
    pub fragile: Vec<String>,
}

/// The nodes that the cluster cannot lose even now, and the pods that have no place then.
type Fragile<'a> = BTreeMap<&'a str, BTreeSet<String>>;

/// Looks for nodes that can go: the dearest first where `cheapest`, else those with the fewest pods. Nodes of control planes stay, and
/// those with pods that nothing makes again.
///
/// # Errors
/// [`TwinError`] where there is nothing to ask about.
pub fn shrink(capture: &Capture, cheapest: bool) -> Result<Shrunk, TwinError> {
    let model = Model::of(capture)?;
    if model.nodes.is_empty() {
        return Err(TwinError::NoNodes);
    }
    let mut shrunk = Shrunk::default();
    for node in model.nodes.values() {
        *shrunk.before.entry(node.pool.clone()).or_default() += 1;
    }
    let has_unknown = |node: &ModelNode| node.alone().any(|lost| lost.why == UNKNOWN);
    let unknown = model.nodes.iter().filter(|(_, node)| has_unknown(node));
    shrunk.unknown = unknown.map(|(name, _)| name.clone()).collect();
    let mut order: Vec<&str> = model
        .nodes
        .iter()
        .filter(|(_, node)| node.pool != CONTROL_PLANE && node.can_go())
        .map(|(name, _)| name.as_str())
        .collect();
    let names: Vec<&str> = model.nodes.keys().map(String::as_str).collect();
    let unplaced = |lost: Vec<LostPod>| lost.into_iter().map(|lost| lost.pod).collect();
    let lost = losses(&model, &model.scheduler(), &names, &[], &|_, _| false);
    let fragile: Fragile<'_> = lost.into_iter().map(|(name, lost)| (name, unplaced(lost))).collect();
    order.retain(|name| !fragile.contains_key(name));
    order.sort_by(|one, other| {
        let (one, other) = (&model.nodes[*one], &model.nodes[*other]);
        let price = |cents: Option<f64>| cents.unwrap_or_default();
        let dearer = if cheapest { price(other.price).total_cmp(&price(one.price)) } else { std::cmp::Ordering::Equal };
        dearer.then(one.moving().cmp(&other.moving()))
    });
    let gone = most(&model, &order, &fragile);
    // The sum of no numbers is minus zero.
    shrunk.saved = gone.iter().map(|name| model.nodes[*name].price).sum::<Option<f64>>().map(|sum| sum + 0.0);
    shrunk.fragile = fragile.keys().map(|name| (*name).to_owned()).collect();
    for name in gone {
        shrunk.removed.entry(model.nodes[name].pool.clone()).or_default().push(name.to_owned());
    }
    Ok(shrunk)
}

/// How many nodes go between two states of the scheduler that are kept.
const BETWEEN: usize = 64;

/// A scheduler after nodes went one by one, and which did.
#[derive(Clone)]
struct Emptied<'a> {
    scheduler: Cluster,
    gone: Vec<&'a str>,
}

impl<'a> Emptied<'a> {
    /// Takes the next node away, if all its pods find other places.
    fn take(&mut self, model: &Model, name: &'a str) {
        if model.empty(&mut self.scheduler, name, &self.gone, true).is_empty() {
            self.gone.push(name);
        }
    }
}

/// As many nodes of an order as can go: those that cannot be emptied are passed over, and the longest beginning counts after
/// which one more node may be lost.
fn most<'a>(model: &Model, order: &[&'a str], fragile: &Fragile<'_>) -> Vec<&'a str> {
    let mut all = Emptied { scheduler: model.scheduler(), gone: Vec::new() };
    let mut kept = vec![all.clone()];
    for name in order {
        all.take(model, name);
        if all.gone.len() >= kept.len() * BETWEEN {
            kept.push(all.clone());
        }
    }
    // The same nodes again, from the last state that was kept before.
    let emptied = |count: usize| {
        let mut emptied = kept[count / BETWEEN].clone();
        for name in all.gone.iter().take(count).skip(emptied.gone.len()) {
            emptied.take(model, name);
        }
        emptied
    };
    if stands(model, &all, fragile) {
        return all.gone;
    }
    let (mut low, mut high) = (0, all.gone.len().saturating_sub(1));
    while low < high {
        let middle = (low + high).div_ceil(2);
        if stands(model, &emptied(middle), fragile) { low = middle } else { high = middle - 1 }
    }
    emptied(low).gone
}

/// Whether every pod has a place after any further node is lost, but for those that have none even now.
fn stands(model: &Model, emptied: &Emptied<'_>, fragile: &Fragile<'_>) -> bool {
    let away: BTreeSet<&str> = emptied.gone.iter().copied().collect();
    let left: Vec<&str> = model.nodes.keys().map(String::as_str).filter(|name| !away.contains(name)).collect();
    let is_new = |name: &str, lost: &[LostPod]| {
        lost.iter().any(|lost| fragile.get(name).is_none_or(|now| !now.contains(&lost.pod)))
    };
    let lost = losses(model, &emptied.scheduler, &left, &emptied.gone, &is_new);
    !lost.iter().any(|(name, lost)| is_new(name, lost))
}

/// The nodes of these whose loss leaves pods without a place, and those pods; up to the first that is `enough`. Two threads share
/// the nodes, however many processors there are, so that the answer is the same everywhere.
fn losses<'a>(
    model: &Model,
    scheduler: &Cluster,
    names: &[&'a str],
    gone: &[&str],
    enough: &(dyn Fn(&str, &[LostPod]) -> bool + Sync),
) -> Vec<(&'a str, Vec<LostPod>)> {
    let is_over = AtomicBool::new(false);
    let look = |names: &[&'a str]| {
        let mut scheduler = scheduler.clone();
        let mut found = Vec::new();
        for name in names {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let lost = model.empty(&mut scheduler, name, gone, false);
            if !lost.is_empty() {
                is_over.fetch_or(enough(name, &lost), Ordering::Relaxed);
                found.push((*name, lost));
            }
        }
        found
    };
    let (first, second) = names.split_at(names.len() / 2);
    thread::scope(|scope| {
        let other = scope.spawn(|| look(second));
        let mut found = look(first);
        found.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        found
    })
}

impl Shrunk {
    /// For people.
    pub fn human(&self) -> String {
        let gone: usize = self.removed.values().map(Vec::len).sum();
        if gone == 0 {
            let none = "No node can go: without any of them the cluster could not lose one more.\n";
            return none.to_owned() + &self.unknown_words();
        }
        let mut text =
            format!("{} can go. Every pod has a place then, also where one more node is lost.\n", plural(gone, "node"));
        for (pool, before) in &self.before {
            let removed = self.removed.get(pool).map_or(&[] as &[String], Vec::as_slice);
            if !removed.is_empty() {
                let after = before - removed.len();
                text.push_str(&format!("  {pool}: {before} → {after} nodes, without {}\n", first_of(removed, 6)));
            }
        }
        if let Some(saved) = self.saved.filter(|saved| *saved > 0.0) {
            text.push_str(&format!("They cost ${saved:.2} an hour, ${:.0} a month.\n", saved * 730.0));
        }
        text + &self.unknown_words() + &self.fragile_words()
    }

    fn unknown_words(&self) -> String {
        let nodes = match self.unknown.len() {
            0 => return String::new(),
            1 => "1 node stays".to_owned(),
            nodes => format!("{nodes} nodes stay"),
        };
        format!("{nodes}, because klab does not know the controllers of pods there: {}\n", first_of(&self.unknown, 6))
    }

    fn fragile_words(&self) -> String {
        match self.fragile.len() {
            0 => String::new(),
            1 => format!("The cluster cannot lose {} even now; `klab survive` says why.\n", self.fragile[0]),
            nodes => format!("The cluster cannot lose any of {nodes} nodes even now; `klab survive` says why.\n"),
        }
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "schema": "klab.shrink/1", "before": self.before, "removed": self.removed, "dollarsAnHour": self.saved,
            "fragile": self.fragile, "unknownControllers": self.unknown,
        })
    }
}
