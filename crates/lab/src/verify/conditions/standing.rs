//! What conditions on pods share: how numbers stand to those wanted, and pods in words.

use std::collections::BTreeMap;

use crate::spec::Count;
use crate::verify::pod::PodState;
use crate::verify::verdict::Standing;
use crate::verify::view::{PodView, View};
use crate::words::counted;

pub(super) fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Why pods are not where they could be judged: the standing of pods without a place.
pub(super) fn standing_of(pods: &[&PodView<'_>]) -> Standing {
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
pub(super) fn judge(count: Count, now: u32, may_come: u32, may_go: u32, what: &str) -> Standing {
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
pub(crate) fn placed(pod: &PodView<'_>) -> bool {
    pod.node.is_some() && matches!(pod.state, PodState::Running { .. } | PodState::Succeeded)
}

/// `2 on extra, 1 Pending`: pods by the pool (or node) they run on and by what else they are doing.
pub(super) fn tally<'p>(view: &View<'_>, pods: impl IntoIterator<Item = &'p PodView<'p>>) -> String {
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

pub(super) fn reason_word(pod: &PodView<'_>) -> String {
    match &pod.state {
        PodState::Starting { trouble: Some(trouble) } | PodState::Running { trouble: Some(trouble), .. } => {
            trouble.clone()
        }
        PodState::Failed { reason } => format!("failed ({reason})"),
        state => state.word().to_owned(),
    }
}

pub(super) fn worse(one: Standing, two: Standing) -> Standing {
    if two.rank() > one.rank() { two } else { one }
}

/// `2 running, wanted 4 (2 Pending)`.
pub(super) fn counts_now(now: usize, what: &str, count: Count, standing: &Standing, others: &[&PodView<'_>]) -> String {
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
