//! TaintToleration: `NoSchedule` and `NoExecute` taints keep pods away, `PreferNoSchedule` taints score against a node.

// upstream: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go Filter, Score, NormalizeScore (v1.36)

use super::filter::View;
use crate::cycle::Cycle;
use crate::node_info::NodeInfo;
use crate::reason::Reason;
use crate::taint::{PREFER_NO_SCHEDULE, untolerated};

pub(super) fn filter(cycle: &Cycle<'_>, view: &View<'_>, reasons: &mut Vec<Reason>) {
    let taints: Vec<_> = untolerated(&view.node.spec.taints, &cycle.info.tolerations).cloned().collect();
    if !taints.is_empty() {
        reasons.push(Reason::UntoleratedTaints { taints });
    }
}

/// The number of `PreferNoSchedule` taints the pod does not tolerate.
pub(super) fn score(cycle: &Cycle<'_>, node: &NodeInfo) -> i64 {
    let preferences =
        || cycle.info.tolerations.iter().filter(|t| t.effect.is_empty() || t.effect == PREFER_NO_SCHEDULE);
    let taints = node.spec.taints.iter().filter(|taint| taint.effect == PREFER_NO_SCHEDULE);
    taints.filter(|taint| !preferences().any(|toleration| toleration.tolerates(taint))).count() as i64
}
