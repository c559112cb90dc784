//! The condition `nominated`: every pod that waits has room kept for it on one of these nodes, where others are preempted for it.

use super::rule::{Rollout, Rule, Subject};
use crate::code::Code;
use crate::spec::NodeSet;
use crate::verify::observation::Fact;
use crate::verify::verdict::Standing;
use crate::verify::view::{PodView, View};
use crate::words::counted;

pub(super) struct Nominated<'c>(pub(super) &'c NodeSet);

impl Rule for Nominated<'_> {
    fn code(&self) -> Code {
        Code::Nominated
    }

    fn title(&self) -> String {
        format!("nominated to {}", self.0)
    }

    fn judge(&self, view: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        let Subject::Pods(group) = subject else { return None };
        let waiting: Vec<&PodView<'_>> = group.counted.iter().copied().filter(|pod| pod.node.is_none()).collect();
        let is_meant = |pod: &&PodView<'_>| {
            let status = pod.pod.status.as_ref();
            let node = status.and_then(|status| status.nominated_node_name.as_deref());
            node.is_some_and(|node| view.contains(self.0, node))
        };
        let (here, others): (Vec<_>, Vec<_>) = waiting.iter().copied().partition(is_meant);
        let now = format!("{} of {} waiting pods nominated to {}", here.len(), waiting.len(), self.0);
        let standing = match (waiting.is_empty(), others.is_empty()) {
            (true, _) => Standing::blocked("no pod waits"),
            (false, true) => Standing::Holds,
            (false, false) => {
                Standing::blocked(counted(others.len(), "pod", "is not nominated to it", "are not nominated to it"))
            }
        };
        Some(Fact::new(standing, now).offenders(others.iter().map(|pod| pod.id())))
    }

    fn rollout(&self) -> Rollout {
        Rollout::Counts
    }
}
