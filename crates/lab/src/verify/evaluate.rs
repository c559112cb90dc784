//! Checks against a snapshot: the verdict of this moment.

use std::cell::LazyCell;

use super::conditions::{self, Subject as Judged};
use super::context::Context;
use super::movement;
use super::name;
use super::node::nearest;
use super::rollout::Group;
use super::snapshot::Snapshot;
use super::verdict::{CheckResult, Finding, Report, Standing, Verdict};
use super::view::View;
use crate::code::Code;
use crate::spec::{Check, Count, NodeSet, Selector, Subject};
use crate::words::listed;

/// What the checks come to at this moment. Windows (how long a check must hold, how long a cluster must be quiet before
/// something counts as impossible) are left aside: they need more than one look, see [`super::Stability`].
///
/// A check that does not hold is [`Verdict::NotYet`] while anything is under way that may make it hold, else
/// [`Verdict::Impossible`].
pub fn evaluate(checks: &[Check], snapshot: &Snapshot, context: &Context<'_>) -> Report {
    let view = View::new(snapshot, context);
    let results = results(checks, &view);
    Report { lab: context.name().to_owned(), elapsed: std::time::Duration::ZERO, checks: results, ..Report::default() }
}

pub(crate) fn results(checks: &[Check], view: &View<'_>) -> Vec<CheckResult> {
    // Only checks that are broken ask for it, and it asks the scheduler.
    let movement = LazyCell::new(|| movement::of(view));
    let of_nodes = LazyCell::new(|| movement::for_nodes(view));
    let under_way = |check: &Check| match &check.subject.value {
        Subject::Nodes(_) => of_nodes.as_deref(),
        Subject::Workload(_) | Subject::Pods { .. } | Subject::Object(_) => movement.as_deref(),
    };
    checks.iter().map(|check| result(check, view, &|| under_way(check))).collect()
}

fn result<'m>(check: &Check, view: &View<'_>, movement: &dyn Fn() -> Option<&'m str>) -> CheckResult {
    let findings = findings(check, view);
    let worst = findings.iter().max_by_key(|finding| finding.standing.rank());
    let verdict = match worst.map(|finding| &finding.standing) {
        None | Some(Standing::Holds) => Verdict::Held,
        Some(Standing::Moving(what)) => Verdict::NotYet { waiting_for: what.clone() },
        Some(Standing::Blocked(why)) => match movement().map(str::to_owned).or_else(|| own_movement(check, view)) {
            Some(waiting_for) => Verdict::NotYet { waiting_for },
            None => Verdict::Impossible { because: why.clone() },
        },
    };
    CheckResult {
        name: name::check(check),
        subject: name::subject(&check.subject),
        at: check.at.clone(),
        verdict,
        findings,
        hint: check.hint.clone(),
        causes: Vec::new(),
        suggestions: Vec::new(),
    }
}

fn own_movement(check: &Check, view: &View<'_>) -> Option<String> {
    let group = Group::of(view, &check.subject)?;
    movement::of_own(&[group.counted, group.old].concat(), view)
}

fn findings(check: &Check, view: &View<'_>) -> Vec<Finding> {
    if check.conditions.is_empty() {
        return vec![subject_finding(
            check,
            Code::NoConditions,
            Standing::blocked("the check says nothing"),
            "the check says nothing",
        )];
    }
    match &check.subject.value {
        Subject::Workload(_) | Subject::Pods { .. } => match Group::of(view, &check.subject) {
            Some(group) => pod_findings(check, view, &group),
            None => Vec::new(),
        },
        Subject::Nodes(set) => node_findings(check, view, set),
        Subject::Object(reference) => {
            let object = view.snapshot.object(reference);
            each(check, view, &Judged::Object(reference, object.as_deref()))
        }
    }
}

/// A finding about the subject as a whole.
fn subject_finding(check: &Check, code: Code, standing: Standing, now: &str) -> Finding {
    Finding { code, holds: false, now: now.to_owned(), offenders: Vec::new(), at: check.subject.at.clone(), standing }
}

/// Every condition of a check on its subject.
fn each(check: &Check, view: &View<'_>, subject: &Judged<'_>) -> Vec<Finding> {
    check.conditions.iter().map(|condition| conditions::evaluate(view, subject, condition)).collect()
}

fn node_findings(check: &Check, view: &View<'_>, set: &NodeSet) -> Vec<Finding> {
    let nodes: Vec<_> = view.nodes_in(set).collect();
    let about_none = |condition: &crate::spec::Located<crate::spec::Condition>| {
        let text = no_nodes(view, set);
        Finding {
            at: condition.at.clone(),
            ..subject_finding(check, Code::NoNodes, Standing::Blocked(text.clone()), &text)
        }
    };
    let finding = |condition| conditions::evaluate(view, &Judged::Nodes(&nodes), condition);
    let conditions = check.conditions.iter();
    conditions
        .map(|it| if nodes.is_empty() && !it.value.may_be_about_none() { about_none(it) } else { finding(it) })
        .collect()
}

fn no_nodes(view: &View<'_>, set: &NodeSet) -> String {
    let near = match set {
        NodeSet::Node(name) => nearest(name, view.nodes.keys().copied()).map(|near| format!("; there is {near}")),
        NodeSet::Pool(_) | NodeSet::Selector(_) => {
            let names: Vec<&str> = view.nodes.keys().copied().collect();
            (!names.is_empty()).then(|| format!("; there are {}", listed(&names)))
        }
    };
    format!("no node is in {set}{}", near.unwrap_or_default())
}

fn pod_findings(check: &Check, view: &View<'_>, group: &Group<'_, '_>) -> Vec<Finding> {
    let may_be_none = check.conditions.iter().all(|condition| condition.value.may_be_about_none());
    if !group.counted.is_empty() || may_be_none || (group.wants_none && zero_is_meant(check)) {
        return each(check, view, &Judged::Pods(group));
    }
    let (standing, now) = if let Some(owner) = &group.stale {
        let what = format!("the latest change of {owner} has not been seen by its controller");
        (Standing::Moving(what.clone()), format!("no pod yet: {what}"))
    } else if group.to_come() > 0 {
        let pods = if group.missing == 1 { "1 pod is".to_owned() } else { format!("{} pods are", group.missing) };
        (Standing::moving(format!("{pods} still to be made")), format!("no pod yet: {pods} still to be made"))
    } else if let Some(why) = &group.hindered {
        (Standing::Blocked(why.clone()), format!("no pod: {why}"))
    } else if !group.old.is_empty() {
        let text = format!("no pod of the present template; {} of the previous one", group.old.len());
        (Standing::Blocked(text.clone()), text)
    } else {
        let text = absent(view, &check.subject, group);
        (Standing::Blocked(text.clone()), text)
    };
    vec![subject_finding(check, Code::NoPods, standing, &now)]
}

/// Whether every condition of a check is a number that may be zero.
fn zero_is_meant(check: &Check) -> bool {
    let zero = |count: &Count| count.max == Some(0);
    check.conditions.iter().all(|condition| condition.value.counts().is_some_and(|counts| counts.iter().all(zero)))
}

fn absent(view: &View<'_>, subject: &Subject, group: &Group<'_, '_>) -> String {
    let gone = if group.terminating.is_empty() {
        String::new()
    } else {
        format!(" but {} terminating", group.terminating.len())
    };
    match subject {
        Subject::Workload(name) => match view.owner_of_workload(name) {
            Some(owner) if group.wants_none => {
                format!("no pod{gone}: {}/{} wants none", owner.kind().to_lowercase(), owner.name())
            }
            Some(owner) => format!("no pod{gone}: {}/{} has none", owner.kind().to_lowercase(), owner.name()),
            None => {
                let owners = view.pods.iter().map(|pod| pod.owner.name()).filter(|name| !name.is_empty());
                let near = match view.pods.iter().find(|pod| pod.owner.name() == name) {
                    Some(pod) => Some(format!("; there is one in namespace {}", pod.namespace)),
                    None => nearest(name, owners).map(|near| format!("; there is {near}")),
                };
                format!("no workload {name} in the cluster{gone}{}", near.unwrap_or_default())
            }
        },
        Subject::Pods { selector, namespace } => {
            let similar = similar(view, selector, namespace);
            format!("no pod matches {selector} in namespace {namespace}{gone}{similar}")
        }
        Subject::Nodes(_) | Subject::Object(_) => "nothing matches".to_owned(),
    }
}

/// Pods that a selector nearly matches: the same labels in another namespace, or the same keys with other values.
fn similar(view: &View<'_>, selector: &Selector, namespace: &str) -> String {
    use kube_core::ResourceExt;
    use std::collections::BTreeSet;
    let elsewhere: BTreeSet<&str> =
        view.pods.iter().filter(|pod| selector.matches(pod.pod.labels())).map(|pod| pod.namespace).collect();
    if !elsewhere.is_empty() {
        let names: Vec<&str> = elsewhere.into_iter().collect();
        return format!("; such pods are in namespace {}", listed(&names));
    }
    let keys: Vec<&str> = selector.requirements().iter().map(|requirement| requirement.key.as_str()).collect();
    let labels: BTreeSet<String> = view
        .pods
        .iter()
        .filter(|pod| pod.namespace == namespace)
        .flat_map(|pod| keys.iter().filter_map(|key| Some(format!("{key}={}", pod.pod.labels().get(*key)?))))
        .collect();
    if labels.is_empty() {
        return String::new();
    }
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    format!("; pods with similar labels: {}", listed(&labels))
}
