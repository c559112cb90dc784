//! Containers that another program than the kubelet kills on a node, such as `crictl`.

use klab_api_machinery::views::{ContainerStatus, PodCondition};
use serde_json::{Value, json};

/// The reason and the message of a container that is gone from its node without the kubelet.
// upstream: pkg/kubelet/container/runtime.go ContainerReasonStatusUnknown (v1.36)
pub(super) const LOST: &str = "ContainerStatusUnknown";
pub(super) const LOST_MESSAGE: &str =
    "The container could not be located when the pod was deleted.  The container used to be Running";

/// What another program than the kubelet does to a running container, such as `crictl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Killing {
    /// It is killed.
    Stopped,
    /// It is killed, and removed with its log.
    Removed,
}

/// Notes in a pod, to be written into its status, that a container of it is killed: its kubelet does what follows. Whether the
/// container runs, in a pod that is ready; the kubelet does not look at others.
pub fn kill(pod: &mut Value, container: &str, killing: Killing) -> bool {
    let status = &mut pod["status"];
    let mut was_ready = false;
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        if ["Ready", "ContainersReady"].contains(&PodCondition(condition).type_()) {
            was_ready |= PodCondition(condition).status() == "True";
            condition["status"] = json!("False");
        }
    }
    let mut statuses = status["containerStatuses"].as_array_mut().into_iter().flatten();
    let runs = |one: ContainerStatus<'_>| one.name() == container && one.state().running().is_set();
    let running = statuses.find(|one| runs(ContainerStatus(one)));
    let Some(running) = running.filter(|_| was_ready) else { return false };
    running["state"]["terminated"] = json!({
        "exitCode": 137, "reason": if killing == Killing::Removed { LOST } else { "Error" },
    });
    true
}
