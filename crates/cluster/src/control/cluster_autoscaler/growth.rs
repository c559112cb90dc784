//! Pools that grow: for pods that wait, and up to their least.

// upstream: cluster-autoscaler/core/static_autoscaler.go RunOnce, filterOutYoungPods (v1.36)
// upstream: cluster-autoscaler/core/scaleup/orchestrator/orchestrator.go ScaleUpToNodeGroupMinSize (v1.36)
// upstream: cluster-autoscaler/core/scaleup/orchestrator/executor.go executeScaleUp (v1.36)

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::Value;

use super::component::{COMPONENT, tell};
use super::configuration::priorities;
use super::machines::start;
use crate::clock::later;
use crate::control::plane::Plane;
use crate::control::value::condition;
use crate::control::view::PodInfo;
use crate::node_pools::NodePool;
use crate::resource::DAEMON_SETS;
use klab_scheduler::autoscaler::{
    EXPENDABLE_BELOW, NEW_PODS_WAIT, NodeGroup, Profile, Resize, ScaleUp, Template, scale_up,
};

/// Annotation of a pod with a longer delay of its own than `new-pod-scale-up-delay`.
const DELAY: &str = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay";

/// The pools as the autoscaler sees them, those that have a template.
pub(super) fn groups(
    plane: &Plane,
    pools: &BTreeMap<String, NodePool>,
    counts: &BTreeMap<String, u32>,
) -> Vec<NodeGroup> {
    let (sets, _) = plane.cluster.list(DAEMON_SETS, None);
    let sets: Vec<_> = sets.iter().filter_map(|set| set.decode().ok()).collect();
    let group = |(name, pool): (&String, &NodePool)| {
        let node: Node = serde_json::from_value(pool.sample()?).ok()?;
        let upcoming = u32::try_from(pool.starting.len()).unwrap_or(u32::MAX);
        Some(NodeGroup {
            name: Arc::from(pool.group.as_str()),
            min: pool.min,
            max: pool.max,
            target: counts.get(name).copied().unwrap_or_default().saturating_add(upcoming),
            upcoming,
            template: Template::new(&node, &sets).ok()?,
        })
    };
    pools.iter().filter_map(group).collect()
}

/// What came of the pods that wait.
#[derive(Default)]
pub(super) struct Growth {
    /// Whether a pool grew.
    pub(super) has_grown: bool,
    /// Whether nothing may go in this turn: pods have just come.
    pub(super) keeps_nodes: bool,
    /// When time alone may change what is to be done.
    pub(super) again: Option<Timestamp>,
}

/// Lets pools grow for the pods that wait.
pub(super) fn grow(
    plane: &mut Plane,
    profile: &Profile,
    groups: &[NodeGroup],
    pools: &mut BTreeMap<String, NodePool>,
) -> Growth {
    let now = plane.now();
    let mut growth = Growth::default();
    let mut waiting: Vec<(Arc<PodInfo>, Pod)> = Vec::new();
    for (info, pod) in unschedulable(plane) {
        let due = later(info.created, delay(&pod, profile));
        if due > now {
            growth.again = Some(growth.again.map_or(due, |again| again.min(due)));
        } else {
            waiting.push((info, pod));
        }
    }
    let pods: Vec<&Pod> = waiting.iter().map(|(_, pod)| pod).collect();
    let seed = plane.settings.seed ^ now.as_microsecond().unsigned_abs();
    let priorities = match priorities(&plane.cluster, profile, groups) {
        Some(Ok(priorities)) => Some(priorities),
        Some(Err(problem)) => {
            tell(plane, true, "PriorityConfigMapInvalid", &problem);
            None
        }
        None => None,
    };
    let decided = scale_up(&plane.picture, &pods, groups, profile, priorities.as_ref(), seed);
    let unfit = |at: &usize| !decided.fitting.contains(at);
    let oldest = (0..pods.len()).filter(unfit).map(|at| waiting[at].0.created).min();
    let Some(oldest) = oldest else { return growth };
    let begin = later(oldest, NEW_PODS_WAIT);
    if begin > now {
        growth.keeps_nodes = true;
        growth.again = Some(growth.again.map_or(begin, |again| again.min(begin)));
        return growth;
    }
    growth.has_grown = !decided.resizes.is_empty();
    carry_out(plane, &decided.resizes, pools);
    tell_pods(plane, &decided, &waiting);
    growth
}

/// Brings pools to their least. AKS does (`--enforce-node-group-min-size`).
pub(super) fn grow_to_least(plane: &mut Plane, groups: &[NodeGroup], pools: &mut BTreeMap<String, NodePool>) -> bool {
    let below = groups.iter().filter(|group| group.target < group.min);
    let resizes: Vec<Resize> = below
        .map(|group| Resize { group: Arc::clone(&group.name), from: group.target, to: group.min, max: group.max })
        .collect();
    carry_out(plane, &resizes, pools);
    !resizes.is_empty()
}

fn carry_out(plane: &mut Plane, resizes: &[Resize], pools: &mut BTreeMap<String, NodePool>) {
    for Resize { group, from, to, max } in resizes {
        let Some((name, pool)) = pools.iter_mut().find(|(_, pool)| *pool.group == **group) else { continue };
        let message = format!("Scale-up: setting group {group} size to {to} instead of {from} (max: {max})");
        tell(plane, false, "ScaledUpGroup", &message);
        start(plane, name, pool, to.saturating_sub(*from));
        let message = format!("Scale-up: group {group} size set to {to} instead of {from} (max: {max})");
        tell(plane, false, "ScaledUpGroup", &message);
    }
}

fn tell_pods(plane: &mut Plane, decided: &ScaleUp, waiting: &[(Arc<PodInfo>, Pod)]) {
    if decided.resizes.is_empty() {
        for remaining in &decided.remaining {
            let pod = Arc::clone(&waiting[remaining.pod].0.object);
            plane.note(&pod, COMPONENT, false, "NotTriggerScaleUp", &remaining.message());
        }
        return;
    }
    let resizes: Vec<String> = decided.resizes.iter().map(ToString::to_string).collect();
    let message = format!("pod triggered scale-up: [{}]", resizes.join(" "));
    for pod in &decided.triggered {
        let pod = Arc::clone(&waiting[*pod].0.object);
        plane.note(&pod, COMPONENT, false, "TriggeredScaleUp", &message);
    }
}

/// The pods for which the scheduler found no node, without those of DaemonSets and those that only hold a place.
fn unschedulable(plane: &Plane) -> Vec<(Arc<PodInfo>, Pod)> {
    let refused = |value: &Value| {
        condition(&value["status"]["conditions"], "PodScheduled")
            .is_some_and(|it| it["status"] == "False" && it["reason"] == "Unschedulable")
            && value["status"]["nominatedNodeName"].is_null()
            && value["spec"]["priority"].as_i64().unwrap_or_default() >= i64::from(EXPENDABLE_BELOW)
    };
    let pods = plane.view.unbound().filter(|info| {
        let of_daemon = info.object.controller().is_some_and(|owner| &*owner.kind == "DaemonSet");
        info.active() && !of_daemon && refused(&info.object.value())
    });
    pods.filter_map(|info| Some((Arc::clone(info), info.object.decode().ok()?))).collect()
}

/// How old a pod must be before a pool grows for it.
fn delay(pod: &Pod, profile: &Profile) -> SignedDuration {
    let own = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(DELAY));
    let own = own.and_then(|text| text.parse::<SignedDuration>().ok());
    own.map_or(profile.new_pod_delay, |own| own.max(profile.new_pod_delay))
}
