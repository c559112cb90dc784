//! NodeUnschedulable: cordoned nodes take only pods that tolerate `node.kubernetes.io/unschedulable`.

// upstream: pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go Filter (v1.36)

use super::filter::View;
use crate::cycle::Cycle;
use crate::reason::Reason;
use crate::taint::{NO_SCHEDULE, Taint, UNSCHEDULABLE_TAINT, tolerated};

pub(super) fn filter(cycle: &Cycle<'_>, view: &View<'_>, reasons: &mut Vec<Reason>) {
    if !view.node.spec.unschedulable {
        return;
    }
    let taint = Taint { key: UNSCHEDULABLE_TAINT.to_owned(), value: String::new(), effect: NO_SCHEDULE.to_owned() };
    if !tolerated(&cycle.info.tolerations, &taint) {
        reasons.push(Reason::Unschedulable);
    }
}
