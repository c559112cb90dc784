//! NodeName: a pod with `spec.nodeName` fits that node only.

// upstream: pkg/scheduler/framework/plugins/nodename/node_name.go Filter (v1.36)

use super::filter::View;
use crate::cycle::Cycle;
use crate::reason::Reason;

pub(super) fn filter(cycle: &Cycle<'_>, view: &View<'_>, reasons: &mut Vec<Reason>) {
    if let Some(requested) = cycle.requested_node.filter(|name| *name != view.node.spec.name.as_ref()) {
        reasons.push(Reason::NodeName { requested: requested.to_owned() });
    }
}
