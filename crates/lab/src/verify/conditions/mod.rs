//! The conditions of checks: a file each, which says everything that verification asks of it, and an arm of [`rule`].

mod apart_from;
mod cel;
mod colocation;
mod event;
mod every_node;
mod evicted;
mod exist;
mod nominated;
mod not_on;
mod on;
mod one_per_node;
mod pending;
mod placement;
mod ready;
mod rule;
mod running;
mod same_pods;
mod schedulable;
mod spread;
mod standing;
mod succeeded;
mod tainted;
mod version;
mod with;

pub(crate) use self::rule::Subject;
use self::rule::{Rollout, Rule};
pub(crate) use self::standing::placed;
use super::observation::Fact;
use super::rollout::Group;
use super::verdict::{Finding, Standing};
use super::view::View;
use crate::spec::{Condition, Located};
use crate::words::counted;

/// The rule of a condition.
pub(crate) fn rule(condition: &Condition) -> Box<dyn Rule + '_> {
    match condition {
        Condition::On(set) => Box::new(on::On(set)),
        Condition::NotOn(set) => Box::new(not_on::NotOn(set)),
        Condition::Placement(pools) => Box::new(placement::Placement(pools)),
        Condition::Running(count) => Box::new(running::Running(*count)),
        Condition::Pending { count, reason } => Box::new(pending::Pending { count: *count, reason: reason.as_deref() }),
        Condition::Succeeded(count) => Box::new(succeeded::Succeeded(*count)),
        Condition::Spread { over, max_skew } => Box::new(spread::Spread { over, max_skew: *max_skew }),
        Condition::OnePerNode(set) => Box::new(one_per_node::OnePerNode(set)),
        Condition::With(selector) => Box::new(with::With(selector)),
        Condition::ApartFrom(selector) => Box::new(apart_from::ApartFrom(selector)),
        Condition::SamePods { wanted, before } => {
            Box::new(same_pods::SamePods { wanted: *wanted, before: before.as_deref() })
        }
        Condition::Event { reason, by, times } => {
            Box::new(event::Events { reason, by: by.as_ref().map(|by| &*by.value), times: *times })
        }
        Condition::Nominated(set) => Box::new(nominated::Nominated(set)),
        Condition::Evicted(count) => Box::new(evicted::Evicted(*count)),
        Condition::Exist(count) => Box::new(exist::Exist(*count)),
        Condition::Ready(wanted) => Box::new(ready::Ready(*wanted)),
        Condition::Schedulable(wanted) => Box::new(schedulable::Schedulable(*wanted)),
        Condition::Tainted(taint) => Box::new(tainted::Tainted(taint)),
        Condition::Version(version) => Box::new(version::Version(version)),
        Condition::Cel(expression) => Box::new(cel::Cel(expression)),
    }
}

/// A condition on a subject.
pub(crate) fn evaluate(view: &View<'_>, subject: &Subject<'_>, condition: &Located<Condition>) -> Finding {
    let rule = rule(&condition.value);
    let mut fact = rule.judge(view, subject).unwrap_or_else(|| {
        let text = "this condition says nothing about such a subject";
        Fact::new(Standing::blocked(text), text)
    });
    if let Subject::Pods(group) = subject {
        fact = with_rollout(group, fact, rule.rollout() == Rollout::EveryPod);
    }
    Finding {
        code: fact.code.unwrap_or(rule.code()),
        holds: fact.standing == Standing::Holds,
        now: fact.now,
        offenders: fact.offenders,
        at: condition.at.clone(),
        standing: fact.standing,
    }
}

/// What a rollout that is under way does to a fact: nothing holds before the owner has seen its latest change, and,
/// where the condition counts all pods, before the pods of the previous template are gone.
fn with_rollout(group: &Group<'_, '_>, mut fact: Fact, bound_to_generation: bool) -> Fact {
    if let Some(owner) = &group.stale {
        let waiting = format!("the latest change of {owner} has not been seen by its controller");
        if fact.standing == Standing::Holds {
            fact.now = format!("{}, but {waiting}", fact.now);
        }
        fact.standing = Standing::Moving(waiting);
    } else if bound_to_generation && fact.standing == Standing::Holds && !group.old.is_empty() {
        let does_run = group.old.iter().any(|pod| pod.state.is_running());
        let (one, several) = if does_run { ("runs", "run") } else { ("waits", "wait") };
        let phrase = |verb: &str| format!("of the previous template still {verb}");
        let old = counted(group.old.len(), "pod", &phrase(one), &phrase(several));
        fact.standing = old_standing(group, &old);
        fact.now = format!("{}, and {old}", fact.now);
        fact = fact.offenders(group.old.iter().map(|pod| pod.id()));
    }
    fact
}

/// Whether the pods of the previous template will go: not while the rollout is stuck on pods of the present one.
fn old_standing(group: &Group<'_, '_>, old: &str) -> Standing {
    let moving = group.counted.iter().any(|pod| pod.state.is_moving());
    let stuck = group.counted.iter().find(|pod| !pod.state.is_ready() && !pod.state.is_moving());
    match (stuck, &group.hindered) {
        (Some(pod), _) if !moving => Standing::blocked(format!("{old}: the rollout waits for {}", pod.name)),
        (_, Some(why)) => Standing::blocked(format!("{old}: {why}")),
        _ => Standing::moving(old),
    }
}

#[cfg(test)]
mod tests {
    use crate::spec::condition_keys;
    use crate::verify::tests::fixture::{Cluster, lab};
    use crate::verify::{Context, evaluate};

    /// What may stand behind a key.
    fn example(key: &str) -> &'static str {
        match key {
            "on" | "not_on" | "one_per_node" | "nominated" => "'pool:extra'",
            "node" => "'extra-0'",
            "placement" => "{ extra = 1 }",
            "running" | "pending" | "succeeded" | "exist" | "evicted" => "1",
            "spread" => "{ over = 'kubernetes.io/hostname' }",
            "with" | "apart_from" => "'app=web'",
            "ready" | "schedulable" | "same_pods" => "true",
            "tainted" => "'a=b:NoSchedule'",
            "version" => "'1.36'",
            "event" => "'Preempted'",
            "cel" => "'object.spec.replicas == 1'",
            key => panic!("the condition `{key}` has no example"),
        }
    }

    #[test]
    fn every_condition_has_an_example_in_the_reference() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/look-up/checks.md");
        let reference = std::fs::read_to_string(path).unwrap();
        // The example of `on` is that of `node`, too.
        for (key, _) in condition_keys().filter(|(key, _)| *key != "node") {
            let block = format!("\n```console {key}\n");
            assert!(reference.contains(&block), "docs/look-up/checks.md has no block `console {key}`");
        }
    }

    #[test]
    fn every_condition_judges_the_subjects_that_it_may_be_written_for() {
        let cluster = Cluster::default().pool("extra", 2).deployment("web", 1).running("web", "extra-0", 1);
        for (key, subject) in condition_keys() {
            let about = match subject {
                "workload" => "'web'",
                "nodes" => "'pool:extra'",
                _ => "'deployment/web'",
            };
            let text = format!(
                "lab = 'x'\n[pool.extra]\nnodes = 2\n[workload.web]\n[[step]]\nname = 'a'\n[[step.check]]\n{subject} = {about}\n{key} = {}\n",
                example(key)
            );
            let lab = lab(&text);
            let report = evaluate(&lab.steps[0].checks, &cluster.snapshot, &Context::default());
            let [finding] = report.checks[0].findings.as_slice() else { panic!("{text}") };
            assert!(!finding.now.contains("says nothing"), "{key} of {subject}: {}", finding.now);
            let name = &report.checks[0].name;
            assert!(name.contains(": ") && !name.ends_with(": "), "{key} has no title: {name}");
        }
    }
}
