//! How fast pods leave nodes that do not answer: a zone at a time, and not at all when nothing answers any more.

// upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go ComputeZoneState, handleDisruption (v1.36)

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::view::View;
use crate::clock::later;

/// Between the evictions of two nodes of a zone (`--node-eviction-rate`, 0.1 a second).
const PACE: SignedDuration = SignedDuration::from_secs(10);
/// The same while a large zone is disrupted (`--secondary-node-eviction-rate`, 0.01 a second).
const SLOW_PACE: SignedDuration = SignedDuration::from_secs(100);
/// A zone is disrupted when more than two of its nodes, and this share of them, are not ready
/// (`--unhealthy-zone-threshold`), in percent.
const UNHEALTHY: usize = 55;
/// A disrupted zone of at most this many nodes loses no pods (`--large-cluster-size-threshold`).
const LARGE: usize = 50;

/// A node that falls silent is judged together with those that do so at the same time.
const TOGETHER: SignedDuration = SignedDuration::from_millis(100);

/// Whether the pods of a node that is not ready are to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Eviction {
    /// They are.
    Begins,
    /// Not yet, and perhaps at that instant; where it has begun it goes on.
    Waits(Option<Timestamp>),
    /// No node of the cluster is ready: more likely the network than the nodes, so what has begun is taken back.
    Withdrawn,
}

/// Ready and other nodes of a zone.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    ready: usize,
    other: usize,
}

impl Count {
    /// How long to wait between two nodes; `None` for ever.
    fn pace(self) -> Option<SignedDuration> {
        let total = self.ready + self.other;
        let disrupted = self.ready > 0 && self.other > 2 && self.other * 100 >= total * UNHEALTHY;
        match (disrupted, total > LARGE) {
            (false, _) => Some(PACE),
            (true, true) => Some(SLOW_PACE),
            (true, false) => None,
        }
    }
}

/// What is waited for before pods leave nodes that do not answer.
#[derive(Debug, Default)]
pub(super) struct Zones {
    /// When the next node of each zone may lose its pods.
    next: BTreeMap<Box<str>, Timestamp>,
    /// When each node that is not ready may be judged.
    judged: BTreeMap<Box<str>, Timestamp>,
}

impl Zones {
    /// The node is ready, or gone.
    pub(super) fn forget(&mut self, node: &str) {
        self.judged.remove(node);
    }

    /// Decides for a node that is not ready. `begun`: its pods are evicted already.
    pub(super) fn eviction(&mut self, view: &View, name: &str, begun: bool, now: Timestamp) -> Eviction {
        let Some(zone) = view.node(name).map(|node| node.zone.clone()) else { return Eviction::Waits(None) };
        let mut zones: BTreeMap<&str, Count> = BTreeMap::new();
        for node in view.nodes() {
            let count = zones.entry(&node.zone).or_default();
            // What the view has not seen yet, this node's own state, the caller knows.
            if node.ready.as_ref() == "True" && node.object.name.as_ref() != name {
                count.ready += 1;
            } else {
                count.other += 1;
            }
        }
        if zones.values().all(|count| count.ready == 0) {
            return Eviction::Withdrawn;
        }
        if begun {
            return Eviction::Waits(None);
        }
        let Some(pace) = zones.get(zone.as_ref()).and_then(|count| count.pace()) else { return Eviction::Waits(None) };
        let judged = *self.judged.entry(name.into()).or_insert(later(now, TOGETHER));
        let next = self.next.get(&zone).map_or(judged, |next| judged.max(*next));
        if next > now {
            return Eviction::Waits(Some(next));
        }
        self.next.insert(zone, later(now, pace));
        Eviction::Begins
    }
}
