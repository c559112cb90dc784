//! The condition `evicted`: this many pods were evicted or preempted, as their conditions and the events about them say.

use std::collections::BTreeSet;

use super::event::Pods;
use super::rule::{Rollout, Rule, Subject};
use super::standing::{judge, number};
use crate::code::Code;
use crate::spec::{Count, EVICTIONS};
use crate::verify::observation::Fact;
use crate::verify::view::{PodView, View};
use crate::words::plural;

pub(super) struct Evicted(pub(super) Count);

/// The taint eviction controller gives its events one reason; this is how those about pods that stay begin.
// upstream: pkg/controller/tainteviction (v1.36)
const STAYS: &str = "Cancelling deletion";

impl Rule for Evicted {
    fn code(&self) -> Code {
        Code::Evicted
    }

    fn title(&self) -> String {
        format!("{} evicted", self.0)
    }

    fn judge(&self, view: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        let Subject::Pods(group) = subject else { return None };
        let there = group.pods.iter().filter(|pod| is_disrupted(pod)).map(|pod| pod.id());
        let own = group.workload.map(|workload| Pods::of(view, workload));
        let events = view.snapshot.events.iter().filter(|event| {
            event.reason.as_deref().is_some_and(|reason| EVICTIONS.contains(&reason))
                && !event.message.as_deref().is_some_and(|message| message.starts_with(STAYS))
                && own.as_ref().is_some_and(|own| own.include(&event.involved_object))
        });
        let named = events.filter_map(|event| {
            let about = &event.involved_object;
            Some(format!("{}/{}", about.namespace.as_deref().unwrap_or("default"), about.name.as_deref()?))
        });
        let evicted: BTreeSet<String> = there.chain(named).collect();
        let standing = judge(self.0, number(evicted.len()), 0, 0, "evicted");
        Some(Fact::new(standing, format!("{} evicted", plural(evicted.len(), "pod"))))
    }

    fn rollout(&self) -> Rollout {
        Rollout::Counts
    }
}

/// What evicts a pod says so on the pod before it deletes it or makes it fail.
fn is_disrupted(pod: &PodView<'_>) -> bool {
    let conditions = pod.pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use crate::verify::tests::fixture::{Cluster, lab};
    use crate::verify::{Context, evaluate};

    #[test]
    fn pods_count_once_by_condition_or_event_and_not_where_their_deletion_was_cancelled() {
        let mut cluster = Cluster::default().pool("main", 1).deployment("web", 3);
        cluster = cluster.running("web", "main-0", 3);
        let set = cluster.snapshot.replica_sets[0].metadata.name.clone().unwrap();
        let here = cluster.snapshot.pods[0].metadata.name.clone().unwrap();
        let disrupted = json!([{ "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI" }]);
        let mut pods: Vec<_> = cluster.snapshot.pods.iter().map(|pod| (**pod).clone()).collect();
        for pod in &mut pods[..2] {
            pod.status.as_mut().unwrap().conditions = serde_json::from_value(disrupted.clone()).unwrap();
        }
        cluster.snapshot.pods = pods.into_iter().map(Arc::new).collect();
        let event = |about: &str, reason: &str, message: &str| {
            let pod = json!({ "kind": "Pod", "namespace": "default", "name": about });
            let event = json!({ "metadata": {}, "reason": reason, "message": message, "involvedObject": pod });
            Arc::new(serde_json::from_value(event).unwrap())
        };
        cluster.snapshot.events = vec![
            event(&here, "Preempted", "Preempted by pod urgent"),
            event(&format!("{set}-bcdfg"), "TaintManagerEviction", "Marking for deletion Pod default/web"),
            event(&format!("{set}-bcdfh"), "TaintManagerEviction", "Cancelling deletion of Pod default/web"),
            event(&format!("{set}-bcdfj"), "Killing", "Stopping container main"),
            event("other-bcdfg", "Evicted", "The node was low on resource: memory."),
        ];
        let judged = |check: &str| {
            let lab = lab(&format!("lab = 'x'\n[pool.main]\nnodes = 1\n[workload.web]\n[[check]]\n{check}\n"));
            let report = evaluate(&lab.checks, &cluster.snapshot, &Context::of(&lab));
            let finding = &report.checks[0].findings[0];
            format!("{} {}", if finding.holds { "✓" } else { "✗" }, finding.now)
        };
        assert_eq!(judged("workload = 'web'\nevicted = 3"), "✓ 3 pods evicted");
        assert_eq!(judged("workload = 'web'\nevicted = '..2'"), "✗ 3 pods evicted");
        assert_eq!(judged("pods = 'app=web'\nevicted = 2"), "✓ 2 pods evicted");
    }
}
