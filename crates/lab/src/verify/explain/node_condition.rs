//! Nodes that are silent, under pressure or not set up yet: what that means for pods, and what mends it.

use k8s_openapi::api::core::v1::Node;
use kube_core::ResourceExt;
use serde_json::json;

use super::kubectl::{object, patched, template};
use super::reasons::Refusal;
use crate::code::Code;
use crate::verify::cause::{Cause, Hindrance, Suggestion};
use crate::verify::node::is_ready;
use crate::verify::pod::PodState;
use crate::verify::view::{Owner, PodView, View};
use crate::words::duration;
use klab_scheduler::Reason;
use klab_scheduler::taint::{NO_EXECUTE, Taint, Toleration};

/// The annotation by which the embedded cluster's nodes are stopped.
const HEARTBEAT: &str = "klab.dev/heartbeat";

/// Has a silent node run again.
pub(super) fn start(node: &Node) -> Suggestion {
    let name = node.name_any();
    if node.annotations().get(HEARTBEAT).is_some_and(|value| value == "stopped") {
        let command = format!("kubectl annotate node {name} {HEARTBEAT}-");
        return Suggestion::of("start-node", format!("start the node {name} again"), Some(command));
    }
    Suggestion::of("start-node", format!("start the node {name} again, if it can be"), None)
}

/// A pod whose owner names its node past the scheduler may go elsewhere.
pub(super) fn unpinned(pod: &PodView<'_>) -> Option<Suggestion> {
    template(pod.owner)?.node_name.as_ref()?;
    let command = patched(pod.owner, pod.namespace, &json!({ "nodeName": null }))?;
    let text = format!("let the scheduler choose the node: take `nodeName` out of {}", object(pod));
    Some(Suggestion::of("remove-node-name", text, Some(command)))
}

/// A pod on a node whose kubelet is silent: nothing there starts it, and it is evicted when it does not tolerate that any longer.
// upstream: pkg/controller/tainteviction/taint_eviction.go processPodOnNode (v1.36)
pub(super) fn silent(view: &View<'_>, pods: &[&PodView<'_>], first: &PodView<'_>, node: &Node) -> Hindrance {
    let name = node.name_any();
    let does = match first.state {
        PodState::Starting { .. } => "nothing there starts it",
        _ => "nothing there says whether it runs",
    };
    let tolerations = first.pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let ends = taints.filter(|taint| taint.effect == NO_EXECUTE).map(|taint| {
        let tolerant =
            tolerations.clone().filter(|toleration| Toleration::from(*toleration).tolerates(&Taint::from(taint)));
        let least =
            tolerant.map(|toleration| toleration.toleration_seconds).min_by_key(|seconds| seconds.unwrap_or(i64::MAX));
        let added = taint.time_added.as_ref().map(|time| time.0);
        let passed = added.zip(view.snapshot.taken_at).map_or(0, |(added, now)| now.as_second() - added.as_second());
        // None: for ever.
        least.unwrap_or(Some(0)).map(|seconds| (seconds - passed).max(0))
    });
    let then = match ends.min_by_key(|left| left.unwrap_or(i64::MAX)) {
        Some(None) if matches!(first.owner, Owner::DaemonSet(_)) => {
            ", and pods of a DaemonSet are never evicted for that".to_owned()
        }
        Some(None) => ", and it tolerates that for ever, so it is never evicted".to_owned(),
        Some(Some(0)) => ", so it is evicted now".to_owned(),
        Some(Some(left)) => {
            format!(", and it is evicted in {}", duration(std::time::Duration::from_secs(left.unsigned_abs())))
        }
        None => String::new(),
    };
    let what = format!("its node {name} is NotReady: {does}{then}");
    let gone = Suggestion::of(
        "delete-node",
        format!("if {name} does not come back, delete it"),
        Some(format!("kubectl delete node {name}")),
    );
    let subjects = pods.iter().map(|pod| pod.id()).collect();
    let unpinned = unpinned(first);
    // Where its node is fixed, it goes nowhere else.
    let gone = Some(gone).filter(|_| unpinned.is_none() && !matches!(first.owner, Owner::DaemonSet(_) | Owner::None));
    let suggestions = [start(node)].into_iter().chain(unpinned).chain(gone).collect();
    Hindrance { cause: Cause { code: Code::SilentNode, subjects, what, nodes: Vec::new() }, suggestions }
}

/// What mends a node that would take pods but for taints which the cluster puts on it for its condition.
pub(super) fn mended(view: &View<'_>, refusals: &[Refusal<'_>]) -> Option<Suggestion> {
    let found = refusals.iter().find_map(|refusal| match refusal.first() {
        [Reason::UntoleratedTaints { taints }] => {
            let keys: Option<Vec<&str>> = taints.iter().map(|taint| condition(&taint.key)).collect();
            Some((*keys?.first()?, *view.nodes.get(refusal.nodes.first()?.0)?))
        }
        _ => None,
    });
    let (condition, node) = found?;
    let name = node.name_any();
    let look = |text: String| Suggestion::of("mend-node", text, Some(format!("kubectl describe node {name}")));
    Some(match condition {
        "unreachable" | "not-ready" if !is_ready(node) => start(node),
        "memory-pressure" => look(format!("free memory on {name}: the taint goes with the condition")),
        "disk-pressure" => look(format!("free disk space on {name}: the taint goes with the condition")),
        "pid-pressure" => look(format!("end processes on {name}: the taint goes with the condition")),
        "network-unavailable" => {
            look(format!("let the network plugin set up {name}: the taint goes with the condition"))
        }
        "uninitialized" => look(format!("let the cloud controller manager set up {name}: it takes the taint off")),
        "out-of-service" => {
            let command = format!("kubectl taint nodes {name} node.kubernetes.io/out-of-service-");
            Suggestion::of("mend-node", format!("once {name} runs again, say so"), Some(command))
        }
        _ => look(format!("see why {name} is tainted: the taint goes with the condition")),
    })
}

/// The condition for which the cluster puts a taint on nodes.
pub(super) fn condition(key: &str) -> Option<&str> {
    key.strip_prefix("node.kubernetes.io/").or_else(|| key.strip_prefix("node.cloudprovider.kubernetes.io/"))
}
