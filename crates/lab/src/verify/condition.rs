//! Conditions on pods: one function each, from the pods of a subject to what is true of them.

use std::collections::{BTreeMap, BTreeSet};

use kube_core::ResourceExt;

use super::fact::Fact;
use super::pod::PodState;
use super::rollout::Group;
use super::spread;
use super::verdict::{Finding, Standing};
use super::view::{PodView, View};
use crate::spec::{Condition, Count, Located, NodeSet, Selector};
use crate::words::listed;

/// The stable code of a condition.
pub(crate) fn code(condition: &Condition) -> &'static str {
    match condition {
        Condition::On(_) => "on",
        Condition::NotOn(_) => "not-on",
        Condition::Placement(_) => "placement",
        Condition::Running(_) => "running",
        Condition::Pending { .. } => "pending",
        Condition::Succeeded(_) => "succeeded",
        Condition::Spread { .. } => "spread",
        Condition::OnePerNode(_) => "one-per-node",
        Condition::With(_) => "with",
        Condition::ApartFrom(_) => "apart-from",
        Condition::Exist(_) => "exist",
        Condition::Ready(_) => "ready",
        Condition::Schedulable(_) => "schedulable",
        Condition::Tainted(_) => "tainted",
        Condition::Cel(_) => "cel",
    }
}

/// One condition on the pods of a subject.
pub(crate) fn evaluate(view: &View<'_>, group: &Group<'_, '_>, condition: &Located<Condition>) -> Finding {
    let fact = match &condition.value {
        Condition::On(set) => on(view, group, set),
        Condition::NotOn(set) => not_on(view, group, set),
        Condition::Placement(wanted) => placement(view, group, wanted),
        Condition::Running(count) => running(group, *count),
        Condition::Pending { count, reason } => pending(group, *count, reason.as_deref()),
        Condition::Succeeded(count) => succeeded(group, *count),
        Condition::Spread { over, max_skew } => spread::evaluate(view, group, over, *max_skew),
        Condition::OnePerNode(set) => one_per_node(view, group, set),
        Condition::With(selector) => with(view, group, selector),
        Condition::ApartFrom(selector) => apart_from(view, group, selector),
        Condition::Exist(count) => exist(group, *count),
        Condition::Ready(_) | Condition::Schedulable(_) | Condition::Tainted(_) => mismatch("nodes"),
        Condition::Cel(_) => mismatch("objects"),
    };
    let bound_to_generation =
        !matches!(condition.value, Condition::Pending { .. } | Condition::Exist(_) | Condition::Succeeded(_));
    finding(condition, with_rollout(group, fact, bound_to_generation))
}

/// A fact as a finding about a condition.
pub(crate) fn finding(condition: &Located<Condition>, fact: Fact) -> Finding {
    Finding {
        code: code(&condition.value),
        holds: fact.standing == Standing::Holds,
        now: fact.now,
        offenders: fact.offenders,
        at: condition.at.clone(),
        standing: fact.standing,
    }
}

/// A condition that says nothing about this kind of subject.
pub(crate) fn mismatch(about: &str) -> Fact {
    Fact::new(Standing::blocked(format!("this condition is about {about}")), format!("this condition is about {about}"))
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
        let old = counted(
            group.old.len(),
            "pod",
            "of the previous template still runs",
            "of the previous template still run",
        );
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

/// `1 pod is starting`, `2 pods are starting`.
pub(crate) fn counted(count: usize, noun: &str, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {noun} {one}") } else { format!("{count} {noun}s {many}") }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Why pods are not where they could be judged: the standing of pods without a place.
fn standing_of(pods: &[&PodView<'_>]) -> Standing {
    let stuck: Vec<_> = pods.iter().filter(|pod| !pod.state.is_moving()).collect();
    match stuck.first() {
        Some(first) => {
            let same = stuck.iter().filter(|pod| pod.state.word() == first.state.word()).count();
            Standing::blocked(counted(same, "pod", &format!("is {}", reason(first)), &format!("are {}", reason(first))))
        }
        None => Standing::moving(counted(pods.len(), "pod", "is starting", "are starting")),
    }
}

fn reason(pod: &PodView<'_>) -> String {
    match &pod.state {
        PodState::Unschedulable { .. } => "unschedulable".to_owned(),
        PodState::Starting { trouble: Some(trouble) } | PodState::Running { trouble: Some(trouble), .. } => {
            format!("in {trouble}")
        }
        state => state.word().to_owned(),
    }
}

/// How a number stands to the one wanted, given how many may still come and go by themselves.
fn judge(count: Count, now: u32, may_come: u32, may_go: u32, what: &str) -> Standing {
    if count.contains(now) {
        Standing::Holds
    } else if now < count.min && now.saturating_add(may_come) >= count.min {
        Standing::moving(format!("{now} of {} {what}, more are coming", count.min))
    } else if now > count.min && count.max.is_some_and(|max| now.saturating_sub(may_go) <= max) {
        Standing::moving(format!("{now} {what}, some are going"))
    } else {
        Standing::blocked(format!("{now} {what}, wanted {count}"))
    }
}

/// A pod that has come to its node: containers started, or over.
fn placed(pod: &PodView<'_>) -> bool {
    pod.node.is_some() && matches!(pod.state, PodState::Running { .. } | PodState::Succeeded)
}

/// `2 on extra, 1 Pending`: pods by the pool (or node) they run on and by what else they are doing.
fn tally<'p>(view: &View<'_>, pods: impl IntoIterator<Item = &'p PodView<'p>>) -> String {
    const SHOWN: usize = 4;
    let mut groups: BTreeMap<(u8, String), usize> = BTreeMap::new();
    for pod in pods {
        let key = match pod.node {
            Some(node) if placed(pod) => (0, format!("on {}", view.pool_of(node).unwrap_or(node))),
            _ => (1, reason_word(pod)),
        };
        *groups.entry(key).or_default() += 1;
    }
    let rest: usize = groups.values().skip(SHOWN).sum();
    let mut parts: Vec<String> =
        groups.iter().take(SHOWN).map(|((_, what), count)| format!("{count} {what}")).collect();
    if rest > 0 {
        parts.push(format!("{rest} elsewhere"));
    }
    parts.join(", ")
}

fn reason_word(pod: &PodView<'_>) -> String {
    match &pod.state {
        PodState::Starting { trouble: Some(trouble) } | PodState::Running { trouble: Some(trouble), .. } => {
            trouble.clone()
        }
        PodState::Failed { reason } => format!("failed ({reason})"),
        state => state.word().to_owned(),
    }
}

fn on(view: &View<'_>, group: &Group<'_, '_>, set: &NodeSet) -> Fact {
    let total = group.counted.len();
    let is_there = |pod: &PodView<'_>| pod.node.is_some_and(|node| view.contains(set, node));
    let (there, elsewhere): (Vec<_>, Vec<_>) =
        group.counted.iter().copied().partition(|pod| placed(pod) && is_there(pod));
    if elsewhere.is_empty() {
        return Fact::new(Standing::Holds, format!("{total} of {total} on {set}"));
    }
    let wrong = elsewhere.iter().filter(|pod| pod.node.is_some() && !is_there(pod)).count();
    let standing = if view.nodes_in(set).next().is_none() {
        Standing::blocked(format!("no node is in {set}"))
    } else if wrong > 0 {
        Standing::blocked(counted(wrong, "pod", &format!("is not on {set}"), &format!("are not on {set}")))
    } else {
        standing_of(&elsewhere)
    };
    let none = if view.nodes_in(set).next().is_none() { format!(" (no node is in {set})") } else { String::new() };
    let rest = tally(view, elsewhere.iter().copied());
    Fact::new(standing, format!("{} of {total} on {set}{none}, {rest}", there.len()))
        .offenders(elsewhere.iter().map(|pod| pod.id()))
}

fn not_on(view: &View<'_>, group: &Group<'_, '_>, set: &NodeSet) -> Fact {
    let known = matches!(set, NodeSet::Pool(name) if view.context.pool(name).is_some());
    if !known && view.nodes_in(set).next().is_none() {
        let text = format!("no node is in {set}, so this could not fail");
        return Fact::new(Standing::Blocked(text.clone()), text);
    }
    let total = group.counted.len();
    let there: Vec<_> =
        group.counted.iter().filter(|pod| pod.node.is_some_and(|node| view.contains(set, node))).collect();
    if !there.is_empty() {
        let text = format!("{} of {total} on {set}", there.len());
        return Fact::new(Standing::Blocked(text.clone()), text).offenders(there.iter().map(|pod| pod.id()));
    }
    // A pod without a node is on none of them, but may still come there.
    let coming: Vec<_> =
        group.counted.iter().copied().filter(|pod| pod.node.is_none() && pod.state.is_moving()).collect();
    let standing = if coming.is_empty() { Standing::Holds } else { standing_of(&coming) };
    let rest = tally(view, group.counted.iter().copied());
    Fact::new(standing, format!("none of {total} on {set}: {rest}")).offenders(coming.iter().map(|pod| pod.id()))
}

fn placement(view: &View<'_>, group: &Group<'_, '_>, wanted: &BTreeMap<String, Count>) -> Fact {
    let mut standing = Standing::Holds;
    let mut texts = Vec::new();
    let mut offenders: BTreeSet<String> = BTreeSet::new();
    for (pool, count) in wanted {
        let in_pool = |pod: &PodView<'_>| pod.node.and_then(|node| view.pool_of(node)) == Some(pool);
        let here = group.counted.iter().filter(|pod| placed(pod) && in_pool(pod)).count();
        let coming = group
            .counted
            .iter()
            .filter(|pod| !placed(pod) && pod.state.is_moving() && (pod.node.is_none() || in_pool(pod)));
        let may_come = number(coming.count()) + group.to_come();
        let next = judge(*count, number(here), may_come, group.surplus, &format!("on {pool}"));
        let wish = if next == Standing::Holds { String::new() } else { format!(" (wanted {count})") };
        texts.push(format!("{pool} {here}{wish}"));
        if next != Standing::Holds {
            let too_many = number(here) > count.min;
            let blamed =
                group.counted.iter().filter(|pod| if too_many { in_pool(pod) } else { !(placed(pod) && in_pool(pod)) });
            offenders.extend(blamed.map(|pod| pod.id()));
        }
        standing = worse(standing, next);
    }
    let unplaced: Vec<_> = group.counted.iter().copied().filter(|pod| !placed(pod)).collect();
    if !unplaced.is_empty() {
        texts.push(tally(view, unplaced));
    }
    Fact::new(standing, texts.join(", ")).offenders(offenders)
}

fn worse(one: Standing, two: Standing) -> Standing {
    if two.rank() > one.rank() { two } else { one }
}

fn running(group: &Group<'_, '_>, count: Count) -> Fact {
    let ready = group.counted.iter().filter(|pod| pod.state.is_ready()).count();
    let others: Vec<_> = group.counted.iter().copied().filter(|pod| !pod.state.is_ready()).collect();
    let may_come = number(others.iter().filter(|pod| pod.state.is_moving()).count()) + group.to_come();
    let mut standing = judge(count, number(ready), may_come, group.surplus, "running");
    if let Standing::Blocked(_) = standing
        && number(ready) < count.min
    {
        standing = match (others.is_empty(), &group.hindered) {
            (_, Some(why)) => Standing::Blocked(why.clone()),
            (false, None) => standing_of(&others),
            (true, None) => standing,
        };
        if let Standing::Moving(what) = standing {
            standing = Standing::blocked(format!("{what}, too few for {count}"));
        }
    }
    let now = counts_now(ready, "running", count, &standing, &others);
    let blamed = if number(ready) > count.min { &group.counted } else { &others };
    let offenders = if standing == Standing::Holds { Vec::new() } else { blamed.iter().map(|pod| pod.id()).collect() };
    Fact::new(standing, now).offenders(offenders)
}

/// `2 running, wanted 4 (2 Pending)`.
fn counts_now(now: usize, what: &str, count: Count, standing: &Standing, others: &[&PodView<'_>]) -> String {
    let mut text = format!("{now} {what}");
    if *standing != Standing::Holds {
        text = format!("{text}, wanted {count}");
    }
    let mut words: BTreeMap<String, usize> = BTreeMap::new();
    for pod in others {
        *words.entry(reason_word(pod)).or_default() += 1;
    }
    let rest: Vec<String> = words.iter().map(|(word, count)| format!("{count} {word}")).collect();
    if rest.is_empty() { text } else { format!("{text} ({})", rest.join(", ")) }
}

fn pending(group: &Group<'_, '_>, count: Count, reason: Option<&str>) -> Fact {
    let says = |message: &str| reason.is_none_or(|reason| message.to_lowercase().contains(&reason.to_lowercase()));
    let is_pending = |pod: &&PodView<'_>| matches!(pod.state, PodState::Unschedulable { .. } | PodState::Gated { .. });
    let matches = |pod: &PodView<'_>| match &pod.state {
        PodState::Unschedulable { message, .. } => says(message),
        // Gated pods have not been judged by the scheduler; they count only where the author names the gates.
        PodState::Gated { message } => reason.is_some() && (says(message) || says("SchedulingGated")),
        _ => false,
    };
    let pending: Vec<_> = group.counted.iter().copied().filter(is_pending).collect();
    let (here, otherwise): (Vec<_>, Vec<_>) = pending.iter().copied().partition(|pod| matches(pod));
    let may_come = group.counted.iter().filter(|pod| pod.state == PodState::Unscheduled).count();
    let may_go = here.iter().filter(|pod| pod.state.is_moving()).count();
    let standing =
        judge(count, number(here.len()), number(may_come) + group.to_come(), number(may_go) + group.surplus, "Pending");
    let others: Vec<_> = group.counted.iter().copied().filter(|pod| !is_pending(pod)).collect();
    let now = match reason {
        Some(reason) if !otherwise.is_empty() => {
            format!("{} Pending, {} of them with `{reason}`, wanted {count}", pending.len(), here.len())
        }
        _ => counts_now(here.len(), "Pending", count, &standing, &others),
    };
    let blamed = if number(here.len()) > count.min { here } else { [otherwise, others].concat() };
    let offenders = if standing == Standing::Holds { Vec::new() } else { blamed.iter().map(|pod| pod.id()).collect() };
    Fact::new(standing, now).offenders(offenders)
}

fn succeeded(group: &Group<'_, '_>, count: Count) -> Fact {
    let (done, others): (Vec<_>, Vec<_>) =
        group.counted.iter().copied().partition(|pod| pod.state == PodState::Succeeded);
    let under_way = |pod: &&&PodView<'_>| pod.state.is_moving() || pod.state.is_ready();
    let may_come = number(others.iter().filter(under_way).count()) + group.to_come();
    let standing = judge(count, number(done.len()), may_come, 0, "succeeded");
    let now = counts_now(done.len(), "succeeded", count, &standing, &others);
    let offenders = if standing == Standing::Holds { Vec::new() } else { others.iter().map(|pod| pod.id()).collect() };
    Fact::new(standing, now).offenders(offenders)
}

fn one_per_node(view: &View<'_>, group: &Group<'_, '_>, set: &NodeSet) -> Fact {
    let mut pods_by_node: BTreeMap<&str, Vec<&PodView<'_>>> =
        view.nodes_in(set).map(|(name, _)| (name, Vec::new())).collect();
    if pods_by_node.is_empty() {
        let text = format!("no node is in {set}");
        return Fact::new(Standing::Blocked(text.clone()), text);
    }
    let mut elsewhere = Vec::new();
    let mut unplaced = Vec::new();
    for pod in group.counted.iter().copied() {
        match pod.node {
            Some(node) if placed(pod) => match pods_by_node.get_mut(node) {
                Some(pods) => pods.push(pod),
                None => elsewhere.push(pod),
            },
            _ => unplaced.push(pod),
        }
    }
    let total = pods_by_node.len();
    let good = pods_by_node.values().filter(|pods| pods.len() == 1).count();
    let empty: Vec<&str> = pods_by_node.iter().filter(|(_, pods)| pods.is_empty()).map(|(name, _)| *name).collect();
    let crowded: Vec<(&str, usize)> =
        pods_by_node.iter().filter(|(_, pods)| pods.len() > 1).map(|(name, pods)| (*name, pods.len())).collect();
    let mut texts = vec![format!("{good} of {total} nodes have exactly one")];
    if !empty.is_empty() {
        texts.push(format!("none on {}", listed(&empty)));
    }
    texts.extend(crowded.iter().take(3).map(|(name, pods)| format!("{pods} on {name}")));
    if !elsewhere.is_empty() {
        texts.push(format!("{} elsewhere", elsewhere.len()));
    }
    if !unplaced.is_empty() {
        texts.push(tally(view, unplaced.iter().copied()));
    }
    let coming = unplaced.iter().filter(|pod| pod.state.is_moving()).count() + group.to_come() as usize;
    let standing = if good == total && elsewhere.is_empty() && unplaced.is_empty() {
        Standing::Holds
    } else if !crowded.is_empty() && group.surplus == 0 {
        Standing::blocked(format!("{} has {} pods", crowded[0].0, crowded[0].1))
    } else if !elsewhere.is_empty() && group.surplus == 0 {
        Standing::blocked(counted(elsewhere.len(), "pod", "is on another node", "are on other nodes"))
    } else if unplaced.iter().any(|pod| !pod.state.is_moving()) {
        standing_of(&unplaced)
    } else if empty.len() <= coming || !crowded.is_empty() || !elsewhere.is_empty() {
        Standing::moving(counted(empty.len(), "node", "is still without a pod", "are still without a pod"))
    } else {
        Standing::blocked(format!("no pod is coming to {}", listed(&empty)))
    };
    let crowd = pods_by_node.values().filter(|pods| pods.len() > 1).flatten();
    let blamed: Vec<String> = elsewhere.iter().chain(&unplaced).chain(crowd).map(|pod| pod.id()).collect();
    Fact::new(standing, texts.join(", ")).offenders(blamed)
}

/// Pods that others can share a node with, by node, among those of these labels in all namespaces.
fn companions<'v, 'a>(view: &'v View<'a>, selector: &Selector) -> BTreeMap<&'a str, Vec<&'v PodView<'a>>> {
    let mut by_node: BTreeMap<&str, Vec<&PodView<'_>>> = BTreeMap::new();
    for pod in view.pods.iter().filter(|pod| pod.state.is_present() && selector.matches(pod.pod.labels())) {
        if let Some(node) = pod.node {
            by_node.entry(node).or_default().push(pod);
        }
    }
    by_node
}

fn with(view: &View<'_>, group: &Group<'_, '_>, selector: &Selector) -> Fact {
    let by_node = companions(view, selector);
    if by_node.is_empty() {
        let text = format!("no pod {selector} runs");
        return Fact::new(Standing::Blocked(text.clone()), text);
    }
    let total = group.counted.len();
    let accompanied = |pod: &PodView<'_>| {
        let beside = pod.node.and_then(|node| by_node.get(node)).into_iter().flatten();
        beside.into_iter().any(|other| other.index != pod.index && other.state.is_running())
    };
    let (beside, alone): (Vec<_>, Vec<_>) =
        group.counted.iter().copied().partition(|pod| placed(pod) && accompanied(pod));
    if alone.is_empty() {
        return Fact::new(Standing::Holds, format!("{total} of {total} beside a pod {selector}"));
    }
    let bound: Vec<_> = alone.iter().copied().filter(|pod| placed(pod)).collect();
    let unplaced: Vec<_> = alone.iter().copied().filter(|pod| !placed(pod)).collect();
    let starting = |pod: &PodView<'_>| {
        pod.node.and_then(|node| by_node.get(node)).into_iter().flatten().any(|other| other.index != pod.index)
    };
    let standing = if bound.iter().any(|pod| !starting(pod)) {
        Standing::blocked(counted(bound.len(), "pod", "runs without one beside it", "run without one beside them"))
    } else if unplaced.is_empty() {
        Standing::moving(format!("a pod {selector} is starting"))
    } else {
        standing_of(&unplaced)
    };
    let now = format!("{} of {total} beside a pod {selector}, {}", beside.len(), tally(view, alone.iter().copied()));
    Fact::new(standing, now).offenders(alone.iter().map(|pod| pod.id()))
}

fn apart_from(view: &View<'_>, group: &Group<'_, '_>, selector: &Selector) -> Fact {
    let by_node = companions(view, selector);
    let total = group.counted.len();
    let others: BTreeSet<usize> = by_node.values().flatten().map(|pod| pod.index).collect();
    let alone = group.counted.len() == 1 && others.iter().all(|index| *index == group.counted[0].index);
    if others.is_empty() || alone {
        let text = format!("no other pod {selector} runs, so this could not fail");
        return Fact::new(Standing::Blocked(text.clone()), text);
    }
    let together: Vec<_> = group
        .counted
        .iter()
        .filter(|pod| {
            let beside = pod.node.filter(|_| pod.state.is_present()).and_then(|node| by_node.get(node));
            beside.is_some_and(|pods| pods.iter().any(|other| other.index != pod.index))
        })
        .collect();
    if !together.is_empty() {
        let text = format!("{} of {total} share a node with another pod {selector}", together.len());
        return Fact::new(Standing::Blocked(text.clone()), text).offenders(together.iter().map(|pod| pod.id()));
    }
    // A pod that stays Pending shares no node, but neither has it shown that it keeps away.
    let unplaced: Vec<_> = group.counted.iter().copied().filter(|pod| !placed(pod)).collect();
    let standing = if unplaced.is_empty() { Standing::Holds } else { standing_of(&unplaced) };
    let rest = if unplaced.is_empty() { String::new() } else { format!(", {}", tally(view, unplaced.iter().copied())) };
    Fact::new(standing, format!("none of {total} shares a node with another pod {selector}{rest}"))
        .offenders(unplaced.iter().map(|pod| pod.id()))
}

fn exist(group: &Group<'_, '_>, count: Count) -> Fact {
    let all = group.counted.len() + group.old.len() + group.terminating.len();
    let going = group.terminating.len() + group.surplus as usize;
    let standing = judge(count, number(all), group.to_come(), number(going), "pods");
    let wish = if standing == Standing::Holds { String::new() } else { format!(", wanted {count}") };
    let going =
        if group.terminating.is_empty() { String::new() } else { format!("; {} terminating", group.terminating.len()) };
    let noun = if all == 1 { "pod" } else { "pods" };
    Fact::new(standing, format!("{all} {noun}{wish}{going}"))
}
