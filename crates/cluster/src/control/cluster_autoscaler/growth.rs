//! Pools that grow: for pods that wait, and up to their least.

// upstream: cluster-autoscaler/core/static_autoscaler.go RunOnce, filterOutYoungPods (v1.36)
// upstream: cluster-autoscaler/core/scaleup/orchestrator/orchestrator.go ScaleUpToNodeGroupMinSize (v1.36)
// upstream: cluster-autoscaler/core/scaleup/orchestrator/executor.go executeScaleUp (v1.36)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use klab_api_machinery::protobuf::go_duration;
use klab_api_machinery::resource::DAEMON_SETS;
use klab_api_machinery::views;

use super::component::{COMPONENT, tell};
use super::configuration::priorities;
use super::machines::{self, start};
use crate::clock::later;
use crate::control::plane::Plane;
use crate::control::view::PodInfo;
use klab_api_machinery::node_pools::NodePool;
use klab_scheduler::autoscaler::{
    Backoffs, EXPENDABLE_BELOW, Failure, NEW_PODS_WAIT, NodeGroup, Profile, Resize, ScaleUp, Template, scale_up,
};
use klab_scheduler::typed::Typed;

/// Annotation of a pod with a longer delay of its own than `new-pod-scale-up-delay`.
const DELAY: &str = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay";

/// The pools as the autoscaler sees them, those that have a template.
pub(super) fn groups(
    plane: &Plane,
    pools: &BTreeMap<String, NodePool>,
    counts: &BTreeMap<String, u32>,
    backoffs: &Backoffs,
) -> Vec<NodeGroup> {
    let now = plane.now();
    let (sets, _) = plane.cluster.list(DAEMON_SETS, None);
    let sets: Vec<_> = sets.iter().filter_map(|set| DaemonSet::from_json(&set.json).ok()).collect();
    let group = |(name, pool): (&String, &NodePool)| {
        let node = Node::from_value(&pool.sample()?).ok()?;
        let starting = u32::try_from(pool.starting.len()).unwrap_or(u32::MAX);
        let is_backed_off = backoffs.of(&pool.group, now).is_some();
        Some(NodeGroup {
            name: Arc::from(pool.group.as_str()),
            min: pool.min,
            max: pool.max,
            target: counts.get(name).copied().unwrap_or_default().saturating_add(starting),
            // A pool that failed is not asked for more.
            upcoming: if is_backed_off { 0 } else { starting },
            is_backed_off,
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
    backoffs: &mut Backoffs,
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
    if waiting.is_empty() {
        return growth;
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
    let decided = scale_up(&plane.scheduler_cache, &pods, groups, profile, priorities.as_ref(), seed);
    let fitting: BTreeSet<usize> = decided.fitting.iter().copied().collect();
    let oldest = (0..pods.len()).filter(|at| !fitting.contains(at)).map(|at| waiting[at].0.created).min();
    let Some(oldest) = oldest else { return growth };
    let begin = later(oldest, NEW_PODS_WAIT);
    if begin > now {
        growth.keeps_nodes = true;
        growth.again = Some(growth.again.map_or(begin, |again| again.min(begin)));
        return growth;
    }
    growth.has_grown = carry_out(plane, &decided.resizes, pools, backoffs);
    if growth.has_grown || decided.resizes.is_empty() {
        tell_pods(plane, &decided, &waiting);
    }
    growth
}

/// Brings pools to their least. AKS does (`--enforce-node-group-min-size`).
pub(super) fn grow_to_least(
    plane: &mut Plane,
    groups: &[NodeGroup],
    pools: &mut BTreeMap<String, NodePool>,
    backoffs: &mut Backoffs,
) -> bool {
    let below = groups.iter().filter_map(|group| Some((group, group.lacking()?)));
    let resizes: Vec<Resize> = below
        .map(|(group, lacking)| {
            let to = group.target.saturating_add(lacking);
            Resize { group: Arc::clone(&group.name), from: group.target, to, max: group.max }
        })
        .collect();
    carry_out(plane, &resizes, pools, backoffs)
}

/// Gives up the machines that pools have waited for too long, and leaves those pools alone for a while.
// upstream: cluster-autoscaler/clusterstate/clusterstate.go updateScaleRequests (v1.36)
pub(super) fn give_up_late(
    plane: &mut Plane,
    profile: &Profile,
    pools: &mut BTreeMap<String, NodePool>,
    backoffs: &mut Backoffs,
) {
    let now = plane.now();
    backoffs.forget_stale(now);
    for (name, pool) in pools {
        let Some(waited) = machines::asked(pool).map(|asked| now.duration_since(asked)) else { continue };
        if waited <= profile.provision_time {
            continue;
        }
        let (group, waited) = (&pool.group, go_duration(waited.as_secs().saturating_mul(1_000_000_000)));
        let message = format!("Nodes added to group {group} failed to register within {waited}");
        tell(plane, true, "ScaleUpTimedOut", &message);
        let message = format!("Scale-up timed out for node group {group} after {waited}");
        backoffs.fail(&Arc::from(group.as_str()), Failure { code: "timeout", message }, now);
        // Upstream asks the cloud to take them back, and writes FailedToRevertScaleUp where it refuses: one that would have to
        // delete nodes that have come. Only what is missing is given up here.
        machines::give_up(plane, name, pool);
    }
}

/// Starts the machines of pools that grow; says whether any does.
fn carry_out(
    plane: &mut Plane,
    resizes: &[Resize],
    pools: &mut BTreeMap<String, NodePool>,
    backoffs: &mut Backoffs,
) -> bool {
    let mut any = false;
    for Resize { group, from, to, max } in resizes {
        let Some((name, pool)) = pools.iter_mut().find(|(_, pool)| *pool.group == **group) else { continue };
        let message = format!("Scale-up: setting group {group} size to {to} instead of {from} (max: {max})");
        tell(plane, false, "ScaledUpGroup", &message);
        if let Err(status) = start(plane, name, pool, to.saturating_sub(*from)) {
            let message = format!("Scale-up failed for group {group}: {}", status.message);
            tell(plane, true, "FailedToScaleUpGroup", &message);
            let message = format!("failed to increase node group size: {}", status.message);
            backoffs.fail(group, Failure { code: "cloudProviderError", message }, plane.now());
            continue;
        }
        let message = format!("Scale-up: group {group} size set to {to} instead of {from} (max: {max})");
        tell(plane, false, "ScaledUpGroup", &message);
        any = true;
    }
    any
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
    let refused = |pod: views::Pod<'_>| {
        let scheduled = pod.status().conditions().of_type("PodScheduled");
        scheduled.is_some_and(|it| it.status() == "False" && it.reason() == "Unschedulable")
            && pod.status().nominated_node_name().is_empty()
            && pod.spec().priority().unwrap_or_default() >= i64::from(EXPENDABLE_BELOW)
    };
    let refused = |info: &PodInfo| refused(views::Pod(&info.object.value()));
    let pods = plane.view.unbound().filter(|info| info.active() && !info.of_daemon_set() && refused(info));
    pods.filter_map(|info| Some((Arc::clone(info), Pod::from_json(&info.object.json).ok()?))).collect()
}

/// How old a pod must be before a pool grows for it.
fn delay(pod: &Pod, profile: &Profile) -> SignedDuration {
    let own = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(DELAY));
    let own = own.and_then(|text| text.parse::<SignedDuration>().ok());
    own.map_or(profile.new_pod_delay, |own| own.max(profile.new_pod_delay))
}
