//! What a pod is doing, as far as checks tell pods apart.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};

/// What a pod is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodState {
    /// It is being deleted; it counts for nothing.
    Terminating,
    /// All its containers ended well.
    Succeeded,
    /// It ended badly, or was evicted.
    Failed {
        /// `status.reason` or the reason of a container: `Evicted`, `OOMKilled`, `Error`.
        reason: String,
    },
    /// All its containers started.
    Running {
        /// Whether it is Ready.
        ready: bool,
        /// Why a container of it keeps ending or cannot start, such as `CrashLoopBackOff`.
        trouble: Option<String>,
    },
    /// It has a node, and not all of its containers have started.
    Starting {
        /// Why a container cannot start, such as `ImagePullBackOff`, or none of them can (`FailedMount`).
        trouble: Option<String>,
    },
    /// The scheduler found no node for it.
    Unschedulable {
        /// The scheduler's words.
        message: String,
        /// Preemption made room for it somewhere: it is to come there.
        nominated: Option<String>,
    },
    /// Its scheduling gates keep it from the scheduler.
    Gated {
        /// The scheduler's words.
        message: String,
    },
    /// No scheduler has looked at it yet.
    Unscheduled,
}

/// Container reasons after which a pod does not come up by itself, or only by chance.
const TROUBLES: [&str; 9] = [
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImageInspectError",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
];

impl PodState {
    /// Reads the state off a pod.
    pub fn of(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
        let finished = matches!(phase, "Succeeded" | "Failed");
        if pod.metadata.deletion_timestamp.is_some() && !finished {
            return Self::Terminating;
        }
        match phase {
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed { reason: failure(pod) },
            "Running" => Self::Running {
                ready: condition(pod, "Ready").is_some_and(|ready| ready.status == "True"),
                trouble: trouble(pod),
            },
            _ if node(pod).is_some() => Self::Starting { trouble: trouble(pod) },
            _ => match condition(pod, "PodScheduled").filter(|scheduled| scheduled.status == "False") {
                Some(PodCondition { reason: Some(reason), message, .. }) if reason == "Unschedulable" => {
                    Self::Unschedulable {
                        message: message.clone().unwrap_or_default(),
                        nominated: status
                            .and_then(|status| status.nominated_node_name.clone())
                            .filter(|node| !node.is_empty()),
                    }
                }
                Some(PodCondition { reason: Some(reason), message, .. }) if reason == "SchedulingGated" => {
                    Self::Gated { message: message.clone().unwrap_or_default() }
                }
                _ => Self::Unscheduled,
            },
        }
    }

    /// Whether it has a node and is not over: a pod that others can share a node with.
    pub fn is_present(&self) -> bool {
        matches!(self, Self::Running { .. } | Self::Starting { .. })
    }

    /// Whether all its containers have started.
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running { .. })
    }

    /// Whether it is Running and Ready.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Running { ready: true, .. })
    }

    /// Whether the state will change by itself, as far as the pod shows.
    pub fn is_moving(&self) -> bool {
        match self {
            Self::Terminating | Self::Unscheduled | Self::Unschedulable { nominated: Some(_), .. } => true,
            Self::Starting { trouble } | Self::Running { ready: false, trouble } => trouble.is_none(),
            _ => false,
        }
    }

    /// Stable word for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Terminating => "terminating",
            Self::Succeeded => "succeeded",
            Self::Failed { .. } => "failed",
            Self::Running { ready: true, .. } => "running",
            Self::Running { ready: false, .. } => "not-ready",
            Self::Starting { .. } => "starting",
            Self::Unschedulable { .. } => "unschedulable",
            Self::Gated { .. } => "gated",
            Self::Unscheduled => "unscheduled",
        }
    }

    /// The word for people.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Terminating => "terminating",
            Self::Succeeded => "succeeded",
            Self::Failed { .. } => "failed",
            Self::Running { ready: true, .. } => "running",
            Self::Running { ready: false, .. } => "not ready",
            Self::Starting { .. } => "starting",
            Self::Unschedulable { .. } => "Pending",
            Self::Gated { .. } => "gated",
            Self::Unscheduled => "not scheduled yet",
        }
    }
}

/// The node a pod is bound to.
pub(crate) fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// Whether a scheduler gave it its node; one that names a node itself is never looked at by any.
pub(crate) fn is_scheduled(pod: &Pod) -> bool {
    condition(pod, "PodScheduled").is_some_and(|scheduled| scheduled.status == "True")
}

pub(crate) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let init = status.and_then(|status| status.init_container_statuses.as_deref()).unwrap_or_default();
    let main = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    init.iter().chain(main)
}

/// Whether all containers wait to be made, or the status does not mention them yet.
pub(crate) fn all_wait_to_be_made(pod: &Pod) -> bool {
    containers(pod).all(|container| {
        let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
        let reason = waiting.and_then(|waiting| waiting.reason.as_deref());
        matches!(reason, Some("ContainerCreating" | "PodInitializing"))
    })
}

/// Why a container waits, if it is not merely being made.
fn trouble(pod: &Pod) -> Option<String> {
    containers(pod)
        .filter_map(|container| container.state.as_ref()?.waiting.as_ref()?.reason.clone())
        .find(|reason| TROUBLES.contains(&reason.as_str()))
}

fn failure(pod: &Pod) -> String {
    let status = pod.status.as_ref();
    let own = status.and_then(|status| status.reason.clone());
    let of_container =
        || containers(pod).find_map(|container| container.state.as_ref()?.terminated.as_ref()?.reason.clone());
    own.or_else(of_container).unwrap_or_else(|| "Error".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn state(extra: Value) -> PodState {
        let mut pod = json!({"metadata": {"name": "a"}, "spec": {"containers": []}});
        json_patch::merge(&mut pod, &extra);
        PodState::of(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn states() {
        let scheduled =
            |reason: &str| json!([{"type": "PodScheduled", "status": "False", "reason": reason, "message": "0/1"}]);
        let waiting = |reason: &str| json!([{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": {"waiting": {"reason": reason}}}]);
        for (extra, expected) in [
            (json!({}), PodState::Unscheduled),
            (
                json!({"status": {"phase": "Pending", "conditions": scheduled("Unschedulable")}}),
                PodState::Unschedulable { message: "0/1".into(), nominated: None },
            ),
            (
                json!({"status": {"nominatedNodeName": "n", "conditions": scheduled("Unschedulable")}}),
                PodState::Unschedulable { message: "0/1".into(), nominated: Some("n".into()) },
            ),
            (
                json!({"status": {"conditions": scheduled("SchedulingGated")}}),
                PodState::Gated { message: "0/1".into() },
            ),
            (json!({"spec": {"nodeName": "n"}}), PodState::Starting { trouble: None }),
            (
                json!({"spec": {"nodeName": "n"}, "status": {"containerStatuses": waiting("ContainerCreating")}}),
                PodState::Starting { trouble: None },
            ),
            (
                json!({"spec": {"nodeName": "n"}, "status": {"containerStatuses": waiting("ErrImagePull")}}),
                PodState::Starting { trouble: Some("ErrImagePull".into()) },
            ),
            (
                json!({"spec": {"nodeName": "n"}, "status": {"phase": "Running"}}),
                PodState::Running { ready: false, trouble: None },
            ),
            (
                json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}),
                PodState::Running { ready: true, trouble: None },
            ),
            (
                json!({"status": {"phase": "Failed", "reason": "Evicted"}}),
                PodState::Failed { reason: "Evicted".into() },
            ),
            (json!({"status": {"phase": "Failed"}}), PodState::Failed { reason: "Error".into() }),
            (json!({"status": {"phase": "Succeeded"}}), PodState::Succeeded),
            (
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Running"}}),
                PodState::Terminating,
            ),
        ] {
            assert_eq!(state(extra.clone()), expected, "{extra}");
        }
    }
}
