//! Which pods may be moved so that their node can go.

// upstream: cluster-autoscaler/simulator/drainability/rules/rules.go Default, Drainable (v1.36)
// upstream: cluster-autoscaler/utils/drain/drain.go HasBlockingLocalStorage, IsPodTerminal (v1.36)

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, Volume};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::profile::Profile;
use crate::owner::{controller, is_of_daemon_set};
use crate::pod_info::namespace_of;
use crate::selector::{Labels, Selector};

const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const SAFE_VOLUMES: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";
const MIRROR: &str = "kubernetes.io/config.mirror";
/// After so long a pod of kube-system keeps its node no more (`--blocking-system-pod-distruption-timeout`).
const SYSTEM_PODS_BLOCK: SignedDuration = SignedDuration::from_hours(1);
/// A pod that is so long beyond its grace period is not waited for.
const OVERDUE: SignedDuration = SignedDuration::from_secs(30);
const DEFAULT_GRACE: i64 = 30;

/// What becomes of a pod when its node goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drain {
    /// Nothing is done about it.
    Skipped,
    /// It is evicted and must find another place.
    Moved,
    /// It is of a DaemonSet and ends with its node.
    Daemon,
    /// It is waited for.
    AwaitsCompletion,
    /// It keeps the node.
    Blocks(BlockingReason),
}

/// Why a pod keeps its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockingReason {
    /// What made it exists no more.
    ControllerNotFound,
    /// Nothing would make it again.
    NotReplicated,
    /// It keeps data on the node.
    LocalStorageRequested,
    /// Its annotation says so.
    NotSafeToEvictAnnotation,
    /// It is of kube-system, and no disruption budget says that it may go.
    UnmovableKubeSystemPod,
    /// A disruption budget says that it may not go now.
    NotEnoughPdb,
}

impl fmt::Display for BlockingReason {
    /// Its name in the cluster autoscaler.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl BlockingReason {
    /// The reason in words, about the pod.
    pub const fn words(self) -> &'static str {
        match self {
            Self::ControllerNotFound => "what made it is gone",
            Self::NotReplicated => "no controller would make it again",
            Self::LocalStorageRequested => "it has local storage",
            Self::NotSafeToEvictAnnotation => "it is annotated safe-to-evict: \"false\"",
            Self::UnmovableKubeSystemPod => "it is a pod of kube-system without a disruption budget",
            Self::NotEnoughPdb => "its disruption budget allows no eviction now",
        }
    }
}

/// What is known of the controller that made a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// It is there.
    Present,
    /// It is gone.
    Gone,
}

/// How many evictions the disruption budgets allow, and how many are left after those that were thought of.
#[derive(Debug, Clone, Default)]
pub struct Budgets(Vec<Budget>);

#[derive(Debug, Clone)]
struct Budget {
    namespace: String,
    selector: Selector,
    allowed: i64,
}

impl Budgets {
    /// Those of a cluster. An unreadable one protects no pod.
    pub fn new<'a>(budgets: impl IntoIterator<Item = &'a PodDisruptionBudget>) -> Self {
        let budgets = budgets.into_iter().filter_map(|budget| {
            let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            let status = budget.status.as_ref();
            Some(Budget {
                namespace: budget.metadata.namespace.clone().unwrap_or_default(),
                selector: Selector::from_api(selector).ok()?,
                allowed: status.map_or(0, |status| i64::from(status.disruptions_allowed.unwrap_or(0))),
            })
        });
        Self(budgets.collect())
    }

    fn of<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = &'a Budget> {
        self.0.iter().filter(move |budget| budget.protects(pod))
    }

    /// Counts the evictions of pods; whether all of them are allowed at once.
    pub(super) fn evict(&mut self, pods: &[&Pod]) -> bool {
        let mut at_once = true;
        for budget in &mut self.0 {
            let count = pods.iter().filter(|pod| budget.protects(pod)).count() as i64;
            at_once &= count <= budget.allowed || count == 0;
            budget.allowed -= count;
        }
        at_once
    }
}

impl Budget {
    fn protects(&self, pod: &Pod) -> bool {
        let none = Labels::new();
        self.namespace == namespace_of(pod) && self.selector.matches(pod.metadata.labels.as_ref().unwrap_or(&none))
    }
}

fn annotation<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// What becomes of a pod when its node goes.
pub(super) fn drain(pod: &Pod, profile: &Profile, budgets: &Budgets, owner: Owner, now: Timestamp) -> Drain {
    if annotation(pod, MIRROR).is_some() || is_overdue(pod, now) {
        return Drain::Skipped;
    }
    let replicated = controller(&pod.metadata).map(|owner| owner.kind.as_str());
    if replicated.is_some() && owner == Owner::Gone {
        return Drain::Blocks(BlockingReason::ControllerNotFound);
    }
    if is_of_daemon_set(pod) {
        return Drain::Daemon;
    }
    let safe = annotation(pod, SAFE_TO_EVICT);
    if safe == Some("true") || is_terminal(pod) {
        return Drain::Moved;
    }
    if safe == Some("on-completion") {
        return Drain::AwaitsCompletion;
    }
    if !matches!(replicated, Some("ReplicationController" | "Job" | "ReplicaSet" | "StatefulSet")) {
        return Drain::Blocks(BlockingReason::NotReplicated);
    }
    let of_system = namespace_of(pod) == "kube-system" && budgets.of(pod).next().is_none();
    if profile.skips_system_pods && of_system {
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let movable = created.is_some_and(|created| now.duration_since(created) > SYSTEM_PODS_BLOCK);
        return if movable { Drain::Moved } else { Drain::Blocks(BlockingReason::UnmovableKubeSystemPod) };
    }
    if safe == Some("false") {
        return Drain::Blocks(BlockingReason::NotSafeToEvictAnnotation);
    }
    if profile.skips_local_storage && has_local_storage(pod) {
        return Drain::Blocks(BlockingReason::LocalStorageRequested);
    }
    if budgets.of(pod).any(|budget| budget.allowed < 1) {
        return Drain::Blocks(BlockingReason::NotEnoughPdb);
    }
    Drain::Moved
}

/// Whether a pod should have ended long ago.
pub(super) fn is_overdue(pod: &Pod, now: Timestamp) -> bool {
    let Some(deleted) = &pod.metadata.deletion_timestamp else { return false };
    let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(DEFAULT_GRACE);
    let late = now.duration_since(deleted.0).saturating_sub(OVERDUE);
    late > SignedDuration::from_secs(grace)
}

fn is_terminal(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    match phase {
        Some("Failed") => true,
        Some("Succeeded") => matches!(policy, Some("Never" | "OnFailure")),
        _ => false,
    }
}

fn has_local_storage(pod: &Pod) -> bool {
    let safe: Vec<&str> = annotation(pod, SAFE_VOLUMES).unwrap_or_default().split(',').collect();
    let is_local = |volume: &Volume| {
        volume.host_path.is_some()
            || volume.empty_dir.as_ref().is_some_and(|directory| directory.medium.as_deref() != Some("Memory"))
    };
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
    volumes.into_iter().flatten().any(|volume| is_local(volume) && !safe.contains(&volume.name.as_str()))
}
