//! Nodes that are removed: tainted, emptied, taken away.

// upstream: cluster-autoscaler/core/scaledown/actuation/actuator.go startDeletion, deleteNodesAsync (v1.36)
// upstream: cluster-autoscaler/core/scaledown/actuation/drain.go drainNode, evictPod, waitPodsToDisappear (v1.36)
// upstream: cluster-autoscaler/core/scaledown/actuation/delete_in_batch.go remove (v1.36)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::resource::{NODES, PODS};
use klab_api_machinery::views::Pod;
use serde_json::json;

use super::component::{COMPONENT, set_taint, tell, tell_of_node};
use crate::clock::later;
use crate::cluster::DeleteOptions;
use crate::control::plane::Plane;
use crate::control::queue::ObjectName;
use crate::control::view::PodInfo;
use klab_scheduler::autoscaler::{InProgress, Profile, TO_BE_DELETED, Utilization};

/// From the taint to the first eviction (`--node-delete-delay-after-taint`): the scheduler must have seen it.
const AFTER_TAINT: SignedDuration = SignedDuration::from_secs(5);
/// How often an eviction that was refused is tried again, and for how long.
const EVICTION_RETRY: SignedDuration = SignedDuration::from_secs(10);
const EVICTION_TIME: SignedDuration = SignedDuration::from_mins(2);
/// Beyond their grace periods pods are waited for this long, and looked at so often.
const HEADROOM: SignedDuration = SignedDuration::from_secs(30);
const LOOK: SignedDuration = SignedDuration::from_secs(5);

/// A node on its way out.
#[derive(Debug)]
struct TerminatingObjects {
    group: Arc<str>,
    drains: bool,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// It is tainted, and left alone until then.
    Tainted(Timestamp),
    /// Its pods are evicted: those that were, and until when the others are tried.
    Evicting { evicted: BTreeSet<ObjectName>, next: Timestamp, until: Timestamp },
    /// Its pods end, until then.
    Emptying { evicted: BTreeSet<ObjectName>, until: Timestamp },
}

/// What the step of a removal came to.
enum Step {
    /// There is more to do, at that instant at the latest.
    Goes(Stage, Timestamp),
    /// The node can be taken away.
    Done,
    /// It stays, for this reason.
    Failed(String),
}

/// The nodes that are being removed.
#[derive(Debug, Default)]
pub(super) struct Removals(BTreeMap<Arc<str>, TerminatingObjects>);

/// What became of removals.
#[derive(Default)]
pub(super) struct Outcome {
    /// Whether one of them failed.
    pub(super) has_failed: bool,
    /// Whether a node has gone.
    pub(super) has_removed: bool,
    /// When to look again.
    pub(super) again: Option<Timestamp>,
}

impl Removals {
    /// How many are under way.
    pub(super) fn in_progress(&self) -> InProgress {
        let drained = self.0.values().filter(|leaving| leaving.drains).count();
        InProgress { empty: self.0.len() - drained, drained }
    }

    /// How many nodes of a group are under way.
    pub(super) fn of_group(&self, group: &str) -> u32 {
        u32::try_from(self.0.values().filter(|leaving| *leaving.group == *group).count()).unwrap_or(u32::MAX)
    }

    /// Whether a node is under way.
    pub(super) fn contains(&self, node: &str) -> bool {
        self.0.contains_key(node)
    }

    /// Begins to remove a node.
    pub(super) fn begin(
        &mut self,
        plane: &mut Plane,
        node: &Arc<str>,
        group: &Arc<str>,
        moved: Option<&[String]>,
        used: Option<Utilization>,
    ) {
        let now = plane.now();
        let taint = json!({ "key": TO_BE_DELETED, "value": now.as_second().to_string(), "effect": "NoSchedule" });
        set_taint(plane, node, TO_BE_DELETED, Some(taint));
        tell_of_node(plane, node, false, "ScaleDown", "marked the node as toBeDeleted/unschedulable");
        match moved {
            None => {
                let message = format!("Scale-down: removing empty node \"{node}\"");
                tell(plane, false, "ScaleDownEmpty", &message);
            }
            Some(pods) => {
                let used = used.map(|used| used.to_string()).unwrap_or_default();
                let pods = pods.join(",");
                let message =
                    format!("Scale-down: removing node {node}, utilization: {used}, pods to reschedule: {pods}");
                tell(plane, false, "ScaleDown", &message);
            }
        }
        let stage = Stage::Tainted(later(now, AFTER_TAINT));
        self.0
            .insert(Arc::clone(node), TerminatingObjects { group: Arc::clone(group), drains: moved.is_some(), stage });
    }

    /// Goes on with all removals; with those of pools that are no longer autoscaled (not among `groups`) no more.
    pub(super) fn proceed(&mut self, plane: &mut Plane, profile: &Profile, groups: &BTreeSet<String>) -> Outcome {
        let mut outcome = Outcome::default();
        for (node, mut leaving) in std::mem::take(&mut self.0) {
            if plane.cluster.get(NODES, "", &node).is_none() || !groups.contains(&*leaving.group) {
                continue;
            }
            match proceed(plane, profile, &node, leaving.drains, leaving.stage) {
                Step::Goes(stage, again) => {
                    outcome.again = Some(outcome.again.map_or(again, |known| known.min(again)));
                    leaving.stage = stage;
                    self.0.insert(node, leaving);
                }
                Step::Done => {
                    take_away(plane, &node, leaving.drains);
                    outcome.has_removed = true;
                }
                Step::Failed(why) => {
                    let what = if leaving.drains { "drain and delete node" } else { "delete empty node" };
                    tell_of_node(plane, &node, true, "ScaleDownFailed", &format!("failed to {what}: {why}"));
                    set_taint(plane, &node, TO_BE_DELETED, None);
                    outcome.has_failed = true;
                }
            }
        }
        outcome
    }
}

fn proceed(plane: &mut Plane, profile: &Profile, node: &str, drains: bool, stage: Stage) -> Step {
    let now = plane.now();
    match stage {
        Stage::Tainted(until) if until > now => Step::Goes(Stage::Tainted(until), until),
        Stage::Tainted(_) if !drains => {
            if !plane.view.pods_to_drain(node).is_empty() {
                return Step::Failed(format!("failed to delete empty node \"{node}\", new pods scheduled"));
            }
            if profile.evicts_daemons_of_empty_nodes {
                evict_daemons(plane, profile, node);
            }
            Step::Done
        }
        Stage::Tainted(_) => {
            let until = later(now, EVICTION_TIME);
            evict(plane, profile, node, BTreeSet::new(), until)
        }
        Stage::Evicting { evicted, next, until } if next > now => {
            Step::Goes(Stage::Evicting { evicted, next, until }, next)
        }
        Stage::Evicting { evicted, until, .. } => evict(plane, profile, node, evicted, until),
        Stage::Emptying { evicted, until } => {
            let left = plane.view.pods_to_drain(node).iter().any(|pod| evicted.contains(&pod.name()));
            if !left {
                return Step::Done;
            }
            if until <= now {
                return Step::Failed(format!("Failed to drain node /{node}: pods remaining after timeout"));
            }
            Step::Goes(Stage::Emptying { evicted, until }, later(now, LOOK).min(until))
        }
    }
}

/// Evicts the pods that are left; those whose budgets forbid it now are tried again for a while.
fn evict(
    plane: &mut Plane,
    profile: &Profile,
    node: &str,
    mut evicted: BTreeSet<ObjectName>,
    until: Timestamp,
) -> Step {
    let now = plane.now();
    let mut refused = Vec::new();
    for pod in plane.view.pods_to_drain(node) {
        let name = pod.name();
        if evicted.contains(&name) {
            continue;
        }
        let object = Arc::clone(&pod.object);
        plane.note(&object, COMPONENT, false, "ScaleDown", "deleting pod for node scale down");
        match plane.cluster.evict(&name.namespace, &name.name, &grace(&pod, profile)) {
            Ok(_) => drop(evicted.insert(name)),
            Err(status) if status.code == 404 => {}
            Err(status) => refused.push((pod, status.message)),
        }
    }
    if refused.is_empty() {
        if profile.evicts_daemons_of_occupied_nodes {
            evict_daemons(plane, profile, node);
        }
        let until = later(later(now, profile.graceful_termination), HEADROOM);
        return Step::Goes(Stage::Emptying { evicted, until }, later(now, LOOK));
    }
    let next = later(now, EVICTION_RETRY);
    if next <= until {
        return Step::Goes(Stage::Evicting { evicted, next, until }, next);
    }
    let mut problems = Vec::new();
    for (pod, why) in refused {
        let object = Arc::clone(&pod.object);
        plane.note(&object, COMPONENT, true, "ScaleDownFailed", "failed to delete pod for ScaleDown");
        let (namespace, name) = (&object.namespace, &object.name);
        problems.push(format!("failed to evict pod {namespace}/{name} within allowed timeout (last error: {why})"));
    }
    Step::Failed(format!("Failed to drain node /{node}, due to following errors: [{}]", problems.join(" ")))
}

/// Evicts the pods of DaemonSets as far as that goes.
fn evict_daemons(plane: &mut Plane, profile: &Profile, node: &str) {
    for pod in plane.view.pods_on(node).into_iter().filter(|pod| pod.active() && pod.of_daemon_set()) {
        let object = Arc::clone(&pod.object);
        plane.note(&object, COMPONENT, false, "ScaleDown", "deleting pod for node scale down");
        let _evicted = plane.cluster.evict(&object.namespace, &object.name, &grace(&pod, profile));
    }
}

fn grace(pod: &PodInfo, profile: &Profile) -> DeleteOptions {
    let own = Pod(&pod.object.value()).spec().termination_grace_period_seconds().unwrap_or(30);
    let grace_seconds = Some(own.min(profile.graceful_termination.as_secs()));
    DeleteOptions { grace_seconds, uid: Some(pod.object.uid.to_string()), ..DeleteOptions::default() }
}

/// Takes a node away, with what is left on it.
fn take_away(plane: &mut Plane, node: &str, drains: bool) {
    let about = plane.view.node(node).map(|node| Arc::clone(&node.object));
    if plane.cluster.delete(NODES, "", node, &DeleteOptions::default()).is_err() {
        return;
    }
    for pod in plane.view.pods_on(node) {
        let options = DeleteOptions { grace_seconds: Some(0), ..DeleteOptions::default() };
        let _deleted = plane.cluster.delete(PODS, &pod.object.namespace, &pod.object.name, &options);
    }
    if let Some(about) = about {
        plane.note(&about, COMPONENT, false, "ScaleDown", "nodes removed by cluster autoscaler");
    }
    if drains {
        tell(plane, false, "ScaleDown", &format!("Scale-down: node {node} removed with drain"));
    } else {
        tell(plane, false, "ScaleDownEmpty", &format!("Scale-down: empty node {node} removed"));
    }
}
