//! The condition `event`: there are events of this reason about the subject, such as that its pods were preempted, and by whose.

use k8s_openapi::api::core::v1::{Event, ObjectReference};

use super::rule::{Rollout, Rule, Subject};
use super::standing::judge;
use crate::code::Code;
use crate::spec::{Count, ObjectRef, singular};
use crate::verify::observation::Fact;
use crate::verify::view::{Owner, View};

pub(super) struct Events<'c> {
    pub(super) reason: &'c str,
    pub(super) by: Option<&'c str>,
    pub(super) times: Count,
}

impl Rule for Events<'_> {
    fn code(&self) -> Code {
        Code::Event
    }

    fn title(&self) -> String {
        let by = self.by.map(|by| format!(" by {by}")).unwrap_or_default();
        if self.times == Count::some() {
            format!("event {}{by}", self.reason)
        } else {
            format!("{} events {}{by}", self.times, self.reason)
        }
    }

    fn judge(&self, view: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        let own = match subject {
            Subject::Pods(group) => Some(Pods::of(view, group.workload?)),
            Subject::Nodes(_) | Subject::Object(..) => None,
        };
        let is_about = |about: &ObjectReference| match subject {
            Subject::Pods(_) => own.as_ref().is_some_and(|own| own.include(about)),
            Subject::Nodes(nodes) => {
                let is_one = |name: &str| nodes.iter().any(|(node, _)| *node == name);
                about.kind.as_deref() == Some("Node") && about.name.as_deref().is_some_and(is_one)
            }
            Subject::Object(reference, _) => is_named(reference, about),
        };
        let all = view.snapshot.events.iter().filter(|event| event.reason.as_deref() == Some(self.reason));
        let about: Vec<&Event> = all.filter(|event| is_about(&event.involved_object)).map(|event| &**event).collect();
        Some(self.fact(view, &about))
    }

    fn rollout(&self) -> Rollout {
        Rollout::Counts
    }
}

impl Events<'_> {
    fn fact(&self, view: &View<'_>, about: &[&Event]) -> Fact {
        let causes = self.by.map(|by| Pods::of(view, by));
        let is_meant = |event: &&&Event| {
            causes.as_ref().is_none_or(|causes| event.related.as_ref().is_some_and(|related| causes.include(related)))
        };
        let all = about.iter().map(|event| times(event)).fold(0, u32::saturating_add);
        let here = about.iter().filter(is_meant).map(|event| times(event)).fold(0, u32::saturating_add);
        let noun = if here == 1 { "event" } else { "events" };
        let by = self.by.map(|by| format!(" by {by}")).unwrap_or_default();
        // What has been removed may have been behind any of them.
        let is_there = self.by.is_some_and(|by| view.pods_of_workload(by).next().is_some());
        let others = all.saturating_sub(here);
        let others = if others > 0 && is_there { format!(", {others} by others") } else { String::new() };
        let standing = judge(self.times, here, 0, 0, &format!("events {}", self.reason));
        Fact::new(standing, format!("{here} {noun} {}{by}{others}", self.reason))
    }
}

/// How often an event has happened.
fn times(event: &Event) -> u32 {
    let series = event.series.as_ref().and_then(|series| series.count);
    series.or(event.count).and_then(|count| u32::try_from(count).ok()).unwrap_or(1).max(1)
}

fn is_named(reference: &ObjectRef, about: &ObjectReference) -> bool {
    let is_kind = about.kind.as_deref().is_some_and(|kind| kind.to_lowercase() == singular(&reference.kind));
    let is_here = about.namespace.as_deref().is_none_or(|namespace| namespace == reference.namespace);
    is_kind && is_here && about.name.as_deref() == Some(&*reference.name)
}

/// The pods of a workload, those that are gone as well: events are kept for longer than pods.
pub(super) struct Pods<'a> {
    namespace: Option<&'a str>,
    /// Names before the last part of a pod's, or whole ones.
    makers: Vec<&'a str>,
    suffix: Suffix,
}

/// How pods are called after what made them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Suffix {
    None,
    Random,
    Ordinal,
}

impl<'a> Pods<'a> {
    pub(super) fn of(view: &View<'a>, workload: &'a str) -> Self {
        let owner = view.owner_of_workload(workload);
        let of_lab = view.context.workload(workload).map(|workload| workload.namespace.as_str());
        let namespace = owner.and_then(|owner| owner.meta()?.namespace.as_deref()).or(of_lab);
        let suffix = match owner {
            None => Suffix::None,
            Some(Owner::StatefulSet(_)) => Suffix::Ordinal,
            Some(_) => Suffix::Random,
        };
        let makers = match owner {
            Some(owner @ Owner::Deployment(_)) => view.makers(&owner),
            _ => vec![workload],
        };
        Self { namespace, makers, suffix }
    }

    pub(super) fn include(&self, about: &ObjectReference) -> bool {
        let (Some("Pod"), Some(name)) = (about.kind.as_deref(), about.name.as_deref()) else { return false };
        let is_named = |maker: &&str| match (name.strip_prefix(*maker), self.suffix) {
            (Some(rest), Suffix::None) => rest.is_empty(),
            (Some(rest), suffix) => rest.strip_prefix('-').is_some_and(|rest| suffix.fits(rest)),
            (None, _) => false,
        };
        self.namespace.is_none_or(|namespace| about.namespace.as_deref() == Some(namespace))
            && self.makers.iter().any(is_named)
    }
}

impl Suffix {
    // upstream: apimachinery pkg/util/rand String, apiserver pkg/storage/names (v1.36)
    fn fits(self, rest: &str) -> bool {
        match self {
            Self::None => false,
            Self::Random => rest.len() == 5 && rest.bytes().all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte)),
            Self::Ordinal => !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use crate::verify::tests::fixture::{Cluster, lab};
    use crate::verify::{Context, evaluate};

    #[test]
    fn events_count_for_pods_that_are_gone_and_name_who_is_behind_them() {
        let file = |check: &str| {
            lab(&format!(
                "lab = 'x'\n[pool.main]\nnodes = 1\n[workload.web]\n[workload.web-db]\n[workload.set]\nkind = 'statefulset'\n\
                 [[step]]\nname = 'a'\n[[step.check]]\n{check}\n"
            ))
        };
        let mut cluster = Cluster::default().pool("main", 1).deployment("web", 1).deployment("web-db", 1);
        cluster = cluster.running("web", "main-0", 1).running("web-db", "main-0", 1);
        let sets: Vec<String> =
            cluster.snapshot.replica_sets.iter().filter_map(|set| set.metadata.name.clone()).collect();
        let [web, db] = ["web", "web-db"].map(|name| {
            let is_its = |set: &&String| set.rsplit_once('-').is_some_and(|(of, _)| of == name);
            sets.iter().find(is_its).unwrap_or_else(|| panic!("{sets:?}")).clone()
        });
        let event = |about: &str, related: &str, count: i32| {
            let pod = |name: &str| json!({ "kind": "Pod", "namespace": "default", "name": name });
            let event = json!({
                "metadata": {}, "reason": "Preempted", "count": count, "involvedObject": pod(about), "related": pod(related),
            });
            Arc::new(serde_json::from_value(event).unwrap())
        };
        cluster.snapshot.events = vec![
            event(&format!("{web}-bcdfg"), &format!("{db}-z2456"), 2),
            event(&format!("{web}-gone9"), "debug", 1),
            event(&format!("{web}-aeiou"), "debug", 1),
            event(&format!("{db}-x7k2p"), "debug", 1),
            event("set-10", "debug", 1),
        ];
        for (check, now) in [
            ("workload = 'web'\nevent = 'Preempted'", "✓ 2 events Preempted"),
            ("workload = 'web'\nevent = 'Preempted'\nby = 'web-db'", "✓ 2 events Preempted by web-db"),
            ("workload = 'web'\nevent = 'Preempted'\ntimes = 1", "✗ 2 events Preempted"),
            ("workload = 'web-db'\nevent = 'Preempted'", "✓ 1 event Preempted"),
            ("workload = 'web-db'\nevent = 'Preempted'\nby = 'web'", "✗ 0 events Preempted by web, 1 by others"),
            ("workload = 'web'\nevent = 'Evicted'", "✗ 0 events Evicted"),
            ("workload = 'web'\nevent = 'Evicted'\ntimes = 0", "✓ 0 events Evicted"),
            ("object = 'pod/debug'\nevent = 'Preempted'", "✗ 0 events Preempted"),
            ("object = 'po/set-10'\nevent = 'Preempted'", "✓ 1 event Preempted"),
            ("nodes = 'pool:main'\nevent = 'Preempted'", "✗ 0 events Preempted"),
        ] {
            let lab = file(check);
            let report = evaluate(&lab.steps[0].checks, &cluster.snapshot, &Context::of(&lab));
            let finding = &report.checks[0].findings[0];
            assert_eq!(format!("{} {}", if finding.holds { "✓" } else { "✗" }, finding.now), now, "{check}");
        }
    }
}
