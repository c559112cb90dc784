//! Rules about checks: subjects that are not there, checks that cannot fail, checks that cannot hold.

use std::collections::BTreeMap;

use super::context::Context;
use super::workloads::node_requirements;
use crate::code::Code;
use crate::spec::check::{Check, Condition, Count, NodeSet, Subject};
use crate::spec::diagnostic::{Diagnostic, did_you_mean};
use crate::spec::lab::Lab;
use crate::spec::source::{Located, Location};
use crate::spec::step::Action;
use crate::spec::workload::{Workload, WorkloadKind};
use crate::words::quoted;
use klab_scheduler::selector::Operator;
use klab_scheduler::taint::{NO_EXECUTE, NO_SCHEDULE, Taint, Toleration, tolerated};

/// Everything that names a node set, with its place.
pub(super) fn node_sets<'a>(context: &Context<'a>) -> Vec<(&'a NodeSet, &'a Location)> {
    let mut sets = Vec::new();
    for check in context.checks() {
        if let Subject::Nodes(nodes) = &check.subject.value {
            sets.push((nodes, &check.subject.at));
        }
        for condition in &check.conditions {
            sets.extend(condition.value.nodes().map(|nodes| (nodes, &condition.at)));
        }
    }
    for action in context.lab.steps.iter().flat_map(|step| &step.actions) {
        if let Some(nodes) = action.value.nodes() {
            sets.push((nodes, &action.at));
        }
    }
    sets
}

pub(super) fn unknown_workload(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let checks = context.checks().filter_map(|check| match &check.subject.value {
        Subject::Workload(name) => Some((name, &check.subject.at)),
        _ => None,
    });
    let actions = context.lab.steps.iter().flat_map(|step| &step.actions).filter_map(|action| match &action.value {
        Action::Scale { workload, .. } | Action::Set { workload, .. } | Action::Deploy { workload } => {
            Some((workload, &action.at))
        }
        _ => None,
    });
    let causes = context.checks().flat_map(|check| &check.conditions).filter_map(|condition| match &condition.value {
        Condition::Event { by: Some(by), .. } => Some((&by.value, &by.at)),
        _ => None,
    });
    for (name, at) in checks.chain(causes).chain(actions) {
        if context.lab.workload(name).is_some() {
            continue;
        }
        let names: Vec<_> = context.lab.workloads.iter().map(|workload| workload.name.as_str()).collect();
        let diagnostic = Diagnostic::error(Code::UnknownWorkload, format!("the lab has no workload `{name}`"))
            .at(at, format!("there is no `[workload.{name}]`"));
        found.push(suggest(
            diagnostic,
            context.lab,
            name,
            names,
            at,
            "pods of manifests are checked by label: `pods = \"app=…\"`",
        ));
    }
}

pub(super) fn nothing_before(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let before = context.lab.steps.iter().flat_map(|step| &step.before);
    for condition in context.lab.checks.iter().chain(before).flat_map(|check| &check.conditions) {
        if let Condition::SamePods { .. } = condition.value {
            let diagnostic =
                Diagnostic::error(Code::NothingBefore, "`same_pods` compares with the pods of before a step")
                    .at(&condition.at, "nothing is done before this check")
                    .help("it goes into a `[[step.check]]`, which is checked after the actions of its step");
            found.push(diagnostic);
        }
    }
}

/// Adds the name that may have been meant: as an edit where the name stands alone in quotes, else in words.
fn suggest(
    mut diagnostic: Diagnostic,
    lab: &Lab,
    name: &str,
    names: Vec<&str>,
    at: &Location,
    none: &str,
) -> Diagnostic {
    let near = did_you_mean(name, names.iter().copied());
    let written = &lab.source.text()[at.span()];
    if let Some(near) = near {
        if written.trim_matches(['"', '\'']) == name {
            return diagnostic.patch("did you mean", at, format!("\"{near}\""));
        }
        return diagnostic.help(format!("did you mean `{near}`?"));
    }
    if names.is_empty() {
        diagnostic = diagnostic.help("there are none");
    } else if names.len() <= 12 {
        diagnostic = diagnostic.help(format!("there are {}", quoted(&names)));
    }
    if none.is_empty() { diagnostic } else { diagnostic.help(none) }
}

pub(super) fn unknown_pool(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let mut named: Vec<(&str, &Location)> = node_sets(context)
        .into_iter()
        .filter_map(|(nodes, at)| match nodes {
            NodeSet::Pool(name) => Some((name.as_str(), at)),
            _ => None,
        })
        .collect();
    for check in context.checks() {
        for condition in &check.conditions {
            if let Condition::Placement(pools) = &condition.value {
                named.extend(pools.keys().map(|name| (name.as_str(), &condition.at)));
            }
        }
    }
    for action in context.lab.steps.iter().flat_map(|step| &step.actions) {
        if let Action::AddPool { pool }
        | Action::RemovePool { pool }
        | Action::ScalePool { pool, .. }
        | Action::UpgradePool { pool, .. }
        | Action::ReclaimPool { pool, .. } = &action.value
        {
            named.push((pool, &action.at));
        }
    }
    for node in context.lab.workloads.iter().filter_map(|workload| workload.node_name.as_ref()) {
        if let NodeSet::Pool(name) = &node.value {
            named.push((name, &node.at));
        }
    }
    for (name, at) in named {
        if context.lab.pool(name).is_some() {
            continue;
        }
        let names: Vec<_> = context.lab.pools.iter().map(|pool| pool.name.as_str()).collect();
        let mut diagnostic = Diagnostic::error(Code::UnknownPool, format!("the lab has no pool `{name}`"))
            .at(at, format!("there is no `[pool.{name}]`"));
        let written = &context.lab.source.text()[at.span()];
        diagnostic = match did_you_mean(name, names.iter().copied()) {
            Some(near) if written.contains(&format!("pool:{name}")) => {
                let edit = written.replace(&format!("pool:{name}"), &format!("pool:{near}"));
                diagnostic.patch("did you mean", at, edit)
            }
            _ => suggest(diagnostic, context.lab, name, names, at, ""),
        };
        found.push(diagnostic);
    }
}

pub(super) fn unmatched_nodes(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for (nodes, at) in node_sets(context) {
        let NodeSet::Selector(selector) = nodes else { continue };
        if context.satisfies(selector.requirements()) {
            continue;
        }
        let mut diagnostic = Diagnostic::error(Code::UnmatchedNodes, format!("no pool has nodes with `{selector}`"))
            .at(at, "these nodes do not exist");
        for requirement in selector.requirements() {
            if context.satisfies(std::slice::from_ref(requirement)) {
                continue;
            }
            let values = context.label_values(&requirement.key);
            if values.is_empty() {
                if let Some(near) = did_you_mean(&requirement.key, context.label_keys()) {
                    diagnostic = diagnostic.help(format!("did you mean the label `{near}`?"));
                }
            } else {
                let near = requirement.values.iter().find_map(|value| did_you_mean(value, values.iter().copied()));
                diagnostic = match near {
                    Some(near) => diagnostic.help(format!("did you mean `{}={near}`?", requirement.key)),
                    None => diagnostic.help(format!("the values of `{}` are {}", requirement.key, quoted(&values))),
                };
            }
        }
        found.push(diagnostic);
    }
}

pub(super) fn unmatched_pods(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let lab = context.lab;
    let applied = context.actions().any(|action| matches!(action.tried(), Action::Apply { .. } | Action::Run { .. }));
    if !lab.manifests.is_empty() || applied {
        return;
    }
    let labels: Vec<_> =
        lab.workloads.iter().map(|workload| (workload.namespace.as_str(), lab.pod_labels(workload))).collect();
    for check in context.checks() {
        let mut selectors: Vec<(&crate::spec::Selector, &Location)> = Vec::new();
        let mut everywhere = None;
        if let Subject::Pods { selector, namespace } = &check.subject.value {
            everywhere = Some(namespace.as_str());
            selectors.push((selector, &check.subject.at));
        }
        for condition in &check.conditions {
            if let Condition::With(selector) | Condition::ApartFrom(selector) = &condition.value {
                selectors.push((selector, &condition.at));
            }
        }
        // The cluster's own pods are not in the lab file.
        if everywhere.is_some_and(|namespace| namespace.starts_with("kube-")) {
            continue;
        }
        for (selector, at) in selectors {
            if labels.iter().any(|(_, labels)| selector.matches(labels)) {
                continue;
            }
            let mut values: Vec<String> = Vec::new();
            for requirement in selector.requirements() {
                values.extend(labels.iter().filter_map(|(_, labels)| {
                    labels.get(&requirement.key).map(|value| format!("{}={value}", requirement.key))
                }));
            }
            values.sort_unstable();
            values.dedup();
            let mut diagnostic =
                Diagnostic::error(Code::UnmatchedPods, format!("no workload has pods with `{selector}`"))
                    .at(at, "these pods do not exist");
            if !values.is_empty() {
                let values: Vec<_> = values.iter().map(String::as_str).collect();
                diagnostic = diagnostic.help(format!("there are {}", quoted(&values)));
            }
            found.push(diagnostic);
        }
    }
}

/// Whether any number will do.
fn is_anything(count: Count) -> bool {
    count.min == 0 && count.max.is_none()
}

pub(super) fn cannot_fail(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for condition in context.checks().flat_map(|check| &check.conditions) {
        let Some(counts) = condition.value.counts() else { continue };
        let label = match &condition.value {
            _ if !counts.iter().all(|count| is_anything(*count)) => continue,
            Condition::Placement(_) if counts.is_empty() => "name at least one pool",
            Condition::Placement(_) => "any number will do in every pool",
            _ => "any number will do",
        };
        found.push(
            Diagnostic::error(Code::CannotFail, "this condition cannot fail")
                .at(&condition.at, label)
                .help("a number or a range with an end, such as 2, \"1..\" or \"..3\", can"),
        );
    }
}

/// Numbers that a check states about its pods.
struct Stated<'a> {
    check: &'a Check,
    running: Option<(Count, &'a Location)>,
    pending: Option<(Count, &'a Location)>,
}

impl<'a> Stated<'a> {
    fn new(check: &'a Check) -> Self {
        let mut stated = Self { check, running: None, pending: None };
        for Located { value, at } in &check.conditions {
            match value {
                Condition::Running(count) => stated.running = Some((*count, at)),
                Condition::Pending { count, .. } => stated.pending = Some((*count, at)),
                _ => {}
            }
        }
        stated
    }
}

fn contradicts(at: &Location, label: String, other: Option<(&Location, String)>) -> Diagnostic {
    let diagnostic = Diagnostic::error(Code::Contradiction, "this check can never hold").at(at, label);
    match other {
        Some((at, label)) => diagnostic.and_at(at, label),
        None => diagnostic,
    }
}

pub(super) fn contradiction(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let mut replicas: BTreeMap<&str, u32> = context
        .lab
        .workloads
        .iter()
        .filter(|workload| workload.kind != WorkloadKind::DaemonSet)
        .map(|workload| (workload.name.as_str(), workload.replicas.as_ref().map_or(1, |replicas| replicas.value)))
        .collect();
    let mut judge = |check, replicas: &BTreeMap<&str, u32>| {
        numbers(check, replicas, found);
        places(context, check, found);
    };
    context.lab.checks.iter().for_each(|check| judge(check, &replicas));
    for step in &context.lab.steps {
        step.before.iter().for_each(|check| judge(check, &replicas));
        for action in &step.actions {
            match &action.value {
                Action::Scale { workload, replicas: wanted } => {
                    if let Some(current) = replicas.get_mut(workload.as_str()) {
                        *current = *wanted;
                    }
                }
                // Whatever else may change the number of pods takes the certainty away.
                Action::Delete { .. } | Action::Apply { .. } | Action::Run { .. } => replicas.clear(),
                _ => {}
            }
        }
        step.checks.iter().for_each(|check| judge(check, &replicas));
    }
}

/// More pods than there are, or numbers that do not add up.
fn numbers(check: &Check, replicas: &BTreeMap<&str, u32>, found: &mut Vec<Diagnostic>) {
    let stated = Stated::new(check);
    let placed = check.conditions.iter().find_map(|condition| match &condition.value {
        Condition::Placement(pools) => Some((pools, &condition.at)),
        _ => None,
    });
    if let (Some((running, at)), Some((pools, placement_at))) = (stated.running, placed) {
        let least: u32 = pools.values().map(|count| count.min).sum();
        if running.max.is_some_and(|max| least > max) {
            let other = (at, format!("but {running} running"));
            found.push(contradicts(placement_at, format!("at least {least} pods in these pools"), Some(other)));
        }
    }
    let Subject::Workload(name) = &stated.check.subject.value else { return };
    let Some(&pods) = replicas.get(name.as_str()) else { return };
    let least = |stated: Option<(Count, &Location)>| stated.map_or(0, |(count, _)| count.min);
    let wanted = least(stated.running) + least(stated.pending);
    if wanted > pods
        && let Some((_, at)) = stated.running.or(stated.pending)
    {
        let label = match (stated.running, stated.pending) {
            (Some((running, _)), Some((pending, _))) => format!("{running} running and {pending} pending"),
            (Some((running, _)), None) => format!("{running} running"),
            (None, Some((pending, _))) => format!("{pending} pending"),
            (None, None) => return,
        };
        let plural = if pods == 1 { "pod" } else { "pods" };
        found.push(
            contradicts(at, format!("{label}, but the workload has {pods} {plural} then"), None)
                .help(format!("correct the number, or `replicas` of workload `{name}`")),
        );
    }
}

/// Places that exclude each other.
fn places(context: &Context<'_>, check: &Check, found: &mut Vec<Diagnostic>) {
    let mut on: Option<(&NodeSet, &Location)> = None;
    for condition in &check.conditions {
        let (Condition::On(nodes) | Condition::OnePerNode(nodes)) = &condition.value else { continue };
        if let Some((first, at)) = on
            && !overlap(context, first, nodes)
        {
            let other = (at, format!("all pods on `{first}`"));
            found.push(contradicts(
                &condition.at,
                format!("and all on `{nodes}`, which has no node of those"),
                Some(other),
            ));
        }
        on = Some((nodes, &condition.at));
    }
    let Some((nodes, on_at)) = on else { return };
    let pools = context.pools_of(nodes);
    for condition in &check.conditions {
        match &condition.value {
            Condition::NotOn(not) if not == nodes => {
                found.push(contradicts(
                    &condition.at,
                    "and nowhere on the same nodes".to_owned(),
                    Some((on_at, format!("all pods on `{nodes}`"))),
                ));
            }
            Condition::Placement(placement) => {
                for (pool, count) in placement {
                    if count.min > 0 && !pools.contains(&pool.as_str()) && context.lab.pool(pool).is_some() {
                        let label = format!("but {count} in pool `{pool}`");
                        found.push(contradicts(&condition.at, label, Some((on_at, format!("all pods on `{nodes}`")))));
                    }
                }
            }
            _ => {}
        }
    }
}

/// Whether two node sets may have a node in common.
fn overlap(context: &Context<'_>, one: &NodeSet, other: &NodeSet) -> bool {
    if let (NodeSet::Node(one), NodeSet::Node(other)) = (one, other) {
        return one == other;
    }
    let pools = context.pools_of(other);
    // Sets that match nothing are another rule's business.
    pools.is_empty()
        || context.pools_of(one).is_empty()
        || context.pools_of(one).iter().any(|pool| pools.contains(pool))
}

pub(super) fn never_pending(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    // Steps and the author's own objects can change what can run where; only a set-up without them is judged.
    if !context.lab.manifests.is_empty() {
        return;
    }
    for check in &context.lab.checks {
        let Subject::Workload(name) = &check.subject.value else { continue };
        let Some(workload) = context.lab.workload(name) else { continue };
        let Some((count, at)) = Stated::new(check).pending else { continue };
        if count.min > 0 && nothing_holds_back(context, workload) {
            found.push(
                Diagnostic::warning(
                    Code::NeverPending,
                    format!("nothing keeps the pods of workload `{name}` from running"),
                )
                .at(at, "they would not stay Pending")
                .and_at(&workload.name.at, "no selector, affinity, request or port, and a node without taints"),
            );
        }
    }
}

/// Whether a pod of the workload can run on some node for sure, however full the nodes are with the lab's other pods.
fn nothing_holds_back(context: &Context<'_>, workload: &Workload) -> bool {
    let says_nothing = workload.requests.is_empty()
        && workload.limits.is_empty()
        && workload.node_name.is_none()
        && workload.affinity.is_none()
        && workload.topology_spread.is_empty()
        && workload.scheduler_name.is_none()
        && workload.scheduling_gates.is_empty()
        && workload.template.is_none()
        && workload.ports.iter().all(|port| port.host.is_none());
    let pods: u32 = context
        .lab
        .workloads
        .iter()
        .map(|workload| workload.replicas.as_ref().map_or(1, |replicas| replicas.value))
        .sum();
    let tolerations: Vec<Toleration> =
        workload.tolerations.iter().map(|toleration| Toleration::from(&toleration.value)).collect();
    says_nothing
        && node_requirements(workload).iter().any(|requirements| {
            let plain = requirements.iter().all(|requirement| requirement.operator == Operator::In);
            plain
                && context.nodes.iter().any(|group| {
                    let taints = group.taints.iter().map(Taint::from);
                    let mut hard = taints.filter(|taint| [NO_SCHEDULE, NO_EXECUTE].contains(&taint.effect.as_str()));
                    !group.pool.deferred
                        && *group.pool.nodes > 0
                        // Room for the cluster's own pods, too.
                        && group.allocatable.pods > pods + 30
                        && context.group_satisfies(group, requirements)
                        && hard.all(|taint| tolerated(&tolerations, &taint))
                })
        })
}
