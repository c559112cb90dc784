//! How many new nodes of a pool the pods that wait would need: they are packed, the large ones first.

// upstream: cluster-autoscaler/estimator/binpacking_estimator.go Estimate (v1.36)
// upstream: cluster-autoscaler/estimator/decreasing_pod_orderer.go calculatePodScore (v1.36)

use super::MAX_AT_ONCE;
use super::group::Template;
use super::simulation::{Kind, Simulation};
use crate::cycle::HOSTNAME;
use crate::pod_key::PodKey;
use crate::reason::PluginName;
use crate::resources::Resources;

/// Pods that are alike and wait.
#[derive(Debug, Clone)]
pub(super) struct Alike {
    pub(super) kind: Kind,
    /// Their places among the pods that wait, and their names.
    pub(super) pods: Vec<(usize, PodKey)>,
}

/// What new nodes would bring.
#[derive(Debug, Clone, Default)]
pub(super) struct Estimate {
    /// How many new nodes would have pods.
    pub(super) nodes: u32,
    /// The pods that would be on them.
    pub(super) pods: Vec<usize>,
    /// What those request.
    pub(super) requests: Resources,
}

/// The packing of pods on new nodes.
struct Packing<'a> {
    simulation: Simulation,
    template: &'a Template,
    /// The new nodes by name, and whether one has a pod.
    nodes: Vec<(String, bool)>,
    /// Where the search for room begins: behind the node where it found some.
    next: usize,
    room: u32,
    found: Estimate,
}

/// How many nodes of a template the pods need, `room` at most; all these pods fit on an empty one.
pub(super) fn estimate(simulation: &Simulation, template: &Template, groups: &[&Alike], room: u32) -> Estimate {
    let mut ordered: Vec<&Alike> = groups.to_vec();
    ordered.sort_by(|one, other| {
        let size = |alike: &Alike| size(&simulation.info(alike.kind).resources.requests, template);
        size(other).total_cmp(&size(one))
    });
    let room = room.min(MAX_AT_ONCE);
    let mut packing = Packing {
        simulation: simulation.fork(),
        template,
        nodes: Vec::new(),
        next: 0,
        room,
        found: Estimate::default(),
    };
    for alike in ordered {
        let left = packing.fill(alike);
        packing.extend(alike, left);
    }
    packing.found.nodes = packing.nodes.iter().filter(|(_, taken)| *taken).count() as u32;
    packing.found
}

/// What share of a node a pod takes, CPU and memory added up.
fn size(requests: &Resources, template: &Template) -> f64 {
    let share = |asked: i64, offered: i64| if offered > 0 { asked as f64 / offered as f64 } else { 0.0 };
    let offered = &template.spec.allocatable;
    share(requests.cpu, offered.cpu) + share(requests.memory, offered.memory)
}

impl Packing<'_> {
    /// Fills up the nodes that there are; gives how many pods found room.
    fn fill(&mut self, alike: &Alike) -> usize {
        for (at, (_, key)) in alike.pods.iter().enumerate() {
            let name = |place: usize| &*self.nodes[place].0;
            let room = self.simulation.room(alike.kind, &key.name, self.nodes.len(), name, self.next);
            let Some(place) = room else { return at };
            self.next = place + 1;
            self.put(alike, at, place);
        }
        alike.pods.len()
    }

    /// Adds nodes for the pods from `first` on, as long as that helps.
    fn extend(&mut self, alike: &Alike, first: usize) {
        for at in first..alike.pods.len() {
            let name = std::sync::Arc::clone(&alike.pods[at].1.name);
            if let Some(last) = self.nodes.len().checked_sub(1) {
                if self.simulation.fits(alike.kind, &name, &self.nodes[last].0) {
                    self.put(alike, at, last);
                    continue;
                }
                // A rule that counts per node may leave room on an earlier one, and none on a new one.
                if self.is_kept_apart(alike.kind, &name, last) {
                    let simulation = &mut self.simulation;
                    let earlier = self.nodes[..last].iter();
                    let found = earlier.map(|(node, _)| node).position(|node| simulation.fits(alike.kind, &name, node));
                    if let Some(place) = found {
                        self.put(alike, at, place);
                        continue;
                    }
                }
                // One more empty node would not take it either.
                if !self.nodes[last].1 {
                    return;
                }
            }
            if self.nodes.len() as u32 >= self.room {
                return;
            }
            let node = format!("new-{}", self.nodes.len());
            self.simulation.add_new(self.template, &node);
            self.nodes.push((node, false));
            let last = self.nodes.len() - 1;
            if !self.simulation.fits(alike.kind, &name, &self.nodes[last].0) {
                return;
            }
            self.put(alike, at, last);
        }
    }

    fn put(&mut self, alike: &Alike, at: usize, place: usize) {
        let (index, key) = &alike.pods[at];
        let (node, taken) = &mut self.nodes[place];
        *taken = true;
        self.simulation.place(alike.kind, key.clone(), node);
        self.found.pods.push(*index);
        self.found.requests.add(&self.simulation.info(alike.kind).resources.requests);
    }

    /// Whether a rule of the pod's own about nodes of different names keeps it off a node.
    fn is_kept_apart(&mut self, kind: Kind, name: &str, place: usize) -> bool {
        let info = self.simulation.info(kind);
        let spread = info.spread.iter().any(|rule| &*rule.topology_key == HOSTNAME);
        let terms = info.anti_affinity.iter().chain(&info.affinity);
        if !spread && !terms.into_iter().any(|term| &*term.topology_key == HOSTNAME) {
            return false;
        }
        let refusal = self.simulation.refusal(kind, name, &self.nodes[place].0);
        refusal.is_some_and(|refusal| refusal.plugin == Some(PluginName::PodTopologySpread))
    }
}
