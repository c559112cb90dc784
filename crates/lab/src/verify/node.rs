//! Nodes: what is true of one, and the name most like one that is not there.

use k8s_openapi::api::core::v1::{Node, Taint};

/// The name most like one that is not there.
pub(crate) fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    names
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|one, two| one.0.total_cmp(&two.0).then(two.1.cmp(one.1)))
        .map(|(_, candidate)| candidate)
}

fn ready_condition(node: &Node) -> Option<(&str, &str)> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some((ready.status.as_str(), ready.reason.as_deref().unwrap_or_default()))
}

/// Whether the node's Ready condition is true.
pub fn is_ready(node: &Node) -> bool {
    ready_condition(node).is_some_and(|(status, _)| status == "True")
}

/// Whether the node is new and about to be ready: no condition yet, a kubelet that says it is not ready, or a cloud
/// provider that has not finished. A node whose kubelet fell silent (`Unknown`) is not coming.
pub(crate) fn is_coming(node: &Node) -> bool {
    let uninitialized = taints(node).iter().any(|taint| taint.key == "node.cloudprovider.kubernetes.io/uninitialized");
    uninitialized || matches!(ready_condition(node), None | Some(("False", _)))
}

/// Whether the node's kubelet has fallen silent.
pub(crate) fn is_silent(node: &Node) -> bool {
    matches!(ready_condition(node), Some(("Unknown", _)))
}

pub(crate) fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false)
}

fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

pub(crate) fn has_taint_of(node: &Node, key: &str) -> bool {
    taints(node).iter().any(|taint| taint.key == key)
}

pub(crate) fn has_taint(node: &Node, wanted: &Taint) -> bool {
    let value = |taint: &Taint| taint.value.clone().unwrap_or_default();
    taints(node)
        .iter()
        .any(|taint| taint.key == wanted.key && value(taint) == value(wanted) && taint.effect == wanted.effect)
}
