//! Nodes that a pod may use at all: its selector, affinity and tolerations against labels, taints and cordons.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube_core::ResourceExt;

use super::view::View;
use klab_scheduler::node_selector::RequiredNodeAffinity;
use klab_scheduler::taint::{NO_EXECUTE, NO_SCHEDULE, Taint, Toleration, tolerated};

/// Names of the nodes that a pod may use, whatever is on them now.
pub(crate) fn nodes<'a>(view: &View<'a>, pod: &Pod) -> BTreeSet<&'a str> {
    let Some(spec) = pod.spec.as_ref() else { return BTreeSet::new() };
    let Ok(required) = RequiredNodeAffinity::from_api(spec) else { return BTreeSet::new() };
    let tolerations: Vec<Toleration> = spec.tolerations.iter().flatten().map(Toleration::from).collect();
    let usable = |name: &str, node: &Node| {
        let node_spec = node.spec.as_ref();
        let cordoned = node_spec.and_then(|spec| spec.unschedulable).unwrap_or(false);
        let mut taints = node_spec.and_then(|spec| spec.taints.as_ref()).into_iter().flatten().map(Taint::from);
        !cordoned
            && required.matches(node.labels(), name)
            && taints.all(|taint| {
                !matches!(taint.effect.as_str(), NO_SCHEDULE | NO_EXECUTE) || tolerated(&tolerations, &taint)
            })
    };
    view.nodes.iter().filter(|(name, node)| usable(name, node)).map(|(name, _)| *name).collect()
}
