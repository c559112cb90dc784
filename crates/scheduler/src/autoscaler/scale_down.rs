//! Unneeded nodes: hardly used, and their pods would find another place.

// upstream: cluster-autoscaler/core/scaledown/eligibility/eligibility.go FilterOutUnremovable (v1.36)
// upstream: cluster-autoscaler/core/scaledown/planner/planner.go categorizeNodes (v1.36)
// upstream: cluster-autoscaler/simulator/cluster.go SimulateNodeRemoval, findPlaceFor (v1.36)

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::TO_BE_DELETED;
use super::drain::{BlockingReason, Budgets, Drain, Owner, drain};
use super::profile::Profile;
use super::simulation::Simulation;
use super::utilization::Utilization;
use crate::cluster::Cluster;
use crate::pod_key::PodKey;
use crate::taint::{NO_SCHEDULE, Taint};

/// A node that could go: its pool has more than its least.
#[derive(Debug, Clone)]
pub struct Candidate<'a> {
    /// Its name.
    pub node: Arc<str>,
    /// Its annotation keeps it.
    pub is_disabled: bool,
    /// Its pods.
    pub pods: Vec<&'a Pod>,
}

/// What was found about a node.
#[derive(Debug, Clone)]
pub struct Judgement {
    /// The node.
    pub node: Arc<str>,
    /// How full it is, where somebody looked.
    pub utilization: Option<Utilization>,
    /// Whether it could go.
    pub verdict: Verdict,
}

/// Whether a node could go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is unneeded.
    Unneeded {
        /// The pods that move elsewhere.
        moved: Vec<PodKey>,
        /// Whether a pod is waited for that must not be interrupted.
        awaits_completion: bool,
        /// Whether disruption budgets do not allow all evictions at once.
        is_risky: bool,
    },
    /// It stays.
    Needed(Obstacle),
}

/// Why a node stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// Its annotation says so.
    ScaleDownDisabledAnnotation,
    /// It is used.
    NotUnderutilized,
    /// A pod keeps it.
    BlockedByPod(PodKey, BlockingReason),
    /// Its pods would find no other place.
    NoPlaceToMovePods,
    /// The cluster does not know it.
    UnexpectedError,
}

impl fmt::Display for Obstacle {
    /// In words, about the node.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ScaleDownDisabledAnnotation => f.write_str("it is annotated scale-down-disabled"),
            Self::NotUnderutilized => f.write_str("it is used above the threshold"),
            Self::BlockedByPod(pod, reason) => write!(f, "pod {pod} keeps it: {}", reason.words()),
            Self::NoPlaceToMovePods => f.write_str("its pods would find no other place"),
            Self::UnexpectedError => f.write_str("it is not known"),
        }
    }
}

/// Judges the candidates in this order: those that could go count as gone for the ones behind them.
///
/// `cluster` has the nodes that are ready with all their pods; `owner` says whether a pod's controller is there.
pub fn judge(
    cluster: &Cluster,
    candidates: &[Candidate<'_>],
    mut budgets: Budgets,
    owner: &dyn Fn(&Pod) -> Owner,
    profile: &Profile,
    now: Timestamp,
) -> Vec<Judgement> {
    let mut simulation = Simulation::of(cluster);
    let mut judgements = Vec::new();
    for candidate in candidates {
        let mut judgement = Judgement {
            node: Arc::clone(&candidate.node),
            utilization: None,
            verdict: Verdict::Needed(Obstacle::UnexpectedError),
        };
        judgement.verdict = match eligible(&simulation, candidate, profile, now, &mut judgement.utilization) {
            Err(obstacle) => Verdict::Needed(obstacle),
            Ok(()) => {
                remove(&mut simulation, candidate, &mut budgets, owner, profile, now).unwrap_or_else(Verdict::Needed)
            }
        };
        judgements.push(judgement);
    }
    judgements
}

/// Whether a node is used so little that it is worth a look.
fn eligible(
    simulation: &Simulation,
    candidate: &Candidate<'_>,
    profile: &Profile,
    now: Timestamp,
    found: &mut Option<Utilization>,
) -> Result<(), Obstacle> {
    if candidate.is_disabled {
        return Err(Obstacle::ScaleDownDisabledAnnotation);
    }
    let node = simulation.node(&candidate.node).ok_or(Obstacle::UnexpectedError)?;
    let used = Utilization::of(&node, &candidate.pods, profile, now).ok_or(Obstacle::UnexpectedError)?;
    *found = Some(used);
    if used.greatest().0 > profile.utilization_threshold { Err(Obstacle::NotUnderutilized) } else { Ok(()) }
}

/// Moves a node's pods elsewhere, in thought; the node is gone then.
fn remove(
    simulation: &mut Simulation,
    candidate: &Candidate<'_>,
    budgets: &mut Budgets,
    owner: &dyn Fn(&Pod) -> Owner,
    profile: &Profile,
    now: Timestamp,
) -> Result<Verdict, Obstacle> {
    let (mut moved, mut awaits_completion) = (Vec::new(), false);
    for pod in &candidate.pods {
        match drain(pod, profile, budgets, owner(pod), now) {
            Drain::Skipped | Drain::Daemon => {}
            Drain::Moved => moved.push(*pod),
            Drain::AwaitsCompletion => awaits_completion = true,
            Drain::Blocks(reason) => return Err(Obstacle::BlockedByPod(PodKey::of(pod), reason)),
        }
    }
    let mut tried = simulation.fork();
    find_places(&mut tried, &candidate.node, &moved)?;
    tried.remove_node(&candidate.node);
    *simulation = tried;
    let is_risky = !budgets.evict(&moved);
    Ok(Verdict::Unneeded { moved: moved.into_iter().map(PodKey::of).collect(), awaits_completion, is_risky })
}

/// Puts all pods of a node on other nodes. The node itself stays, tainted, as it does while it is drained: rules that count
/// pods by topology go on counting it.
fn find_places(simulation: &mut Simulation, node: &str, pods: &[&Pod]) -> Result<(), Obstacle> {
    if pods.is_empty() {
        return Ok(());
    }
    for pod in pods {
        simulation.remove_pod(&PodKey::of(pod));
    }
    if let Some(spec) = simulation.node(node) {
        let mut spec = (*spec).clone();
        spec.taints.push(Taint { key: TO_BE_DELETED.to_owned(), value: String::new(), effect: NO_SCHEDULE.to_owned() });
        simulation.add_node(spec);
    }
    let others: Vec<Arc<str>> = simulation.nodes().into_iter().filter(|other| **other != *node).collect();
    let mut from = 0;
    for pod in pods {
        let kind = simulation.kind(pod).map_err(|_| Obstacle::UnexpectedError)?;
        let pod = PodKey::of(pod);
        let room = simulation.room(kind, &pod.name, others.len(), |place| &others[place], from);
        let place = room.ok_or(Obstacle::NoPlaceToMovePods)?;
        simulation.place(kind, pod, &others[place]);
        from = place + 1;
    }
    Ok(())
}
