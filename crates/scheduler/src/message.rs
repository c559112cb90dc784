//! The texts of FailedScheduling events and PodScheduled conditions.

// upstream: pkg/scheduler/framework/types.go FitError.Error (v1.36)

use std::collections::BTreeMap;
use std::fmt;

/// What a gated pod's condition says.
pub const GATED: &str = "Scheduling is blocked due to non-empty scheduling gates";
/// The pod's message when there is no node at all.
pub const NO_NODES: &str = "no nodes available to schedule pods";
/// Events are cut to this many bytes.
const EVENT_LIMIT: usize = 1024;

/// `0/N nodes are available: 2 reason, 3 other reason.`; entries are sorted as texts, counts included.
pub(crate) fn nodes_available<T: fmt::Display>(nodes: usize, reasons: &BTreeMap<T, usize>) -> String {
    let mut entries: Vec<_> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    entries.sort_unstable();
    if entries.is_empty() {
        return format!("0/{nodes} nodes are available:");
    }
    format!("0/{nodes} nodes are available: {}.", entries.join(", "))
}

/// `0/N nodes are available: reason. not found`, when the pod was refused for every node at once.
///
/// The odd end is kube-scheduler's: the first plugin after the refusal looks for what it would have prepared.
pub(crate) fn refused_for_all(nodes: usize, reasons: &[String]) -> String {
    format!("0/{nodes} nodes are available: {}. not found", reasons.join(", "))
}

/// The message with what preemption came to.
pub(crate) fn with_preemption(message: &str, claims: &str, preemption: &str) -> String {
    format!("{message} {claims}, preemption: {preemption}")
}

/// What came of looking for claims whose devices can be taken back.
pub(crate) mod claims {
    /// The pod has no claims.
    pub(crate) const NONE: &str = "no new claims to deallocate";
    /// There is none.
    pub(crate) const UNCHANGED: &str = "still not schedulable";
    /// One was found.
    pub(crate) const DEALLOCATED: &str = "deallocation of ResourceClaim completed";
}

/// What keeps a pod from the nodes: a message without what preemption came to.
pub fn without_preemption(message: &str) -> &str {
    let of_claims = [claims::NONE, claims::UNCHANGED, claims::DEALLOCATED].map(|tail| format!(" {tail}, preemption: "));
    let tails = of_claims.iter().map(String::as_str).chain([" preemption: "]);
    // A profile that does not preempt says what it found out about claims alone.
    let alone = [claims::NONE, claims::UNCHANGED, claims::DEALLOCATED];
    let at_end = alone.iter().filter_map(|tail| Some(message.strip_suffix(tail)?.len()));
    let end = tails.filter_map(|tail| message.find(tail)).chain(at_end).min();
    end.map_or(message, |end| message[..end].trim_end())
}

/// A message as the FailedScheduling event shows it: at most 1024 bytes.
pub fn event_text(message: &str) -> String {
    const CUT: &str = " ...";
    if message.len() <= EVENT_LIMIT {
        return message.to_owned();
    }
    let mut end = EVENT_LIMIT - CUT.len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{CUT}", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_as_texts() {
        let reasons = [("b".to_owned(), 2), ("a".to_owned(), 10), ("c".to_owned(), 2)];
        assert_eq!(nodes_available(14, &BTreeMap::from(reasons)), "0/14 nodes are available: 10 a, 2 b, 2 c.");
    }

    #[test]
    fn what_preemption_came_to_can_be_left_out() {
        let alone = "0/3 nodes are available: 3 Insufficient cpu.";
        let older = format!("{alone} preemption: 0/3 nodes are available.");
        let unpreempted = format!("{alone} {}", claims::NONE);
        for message in
            [alone.to_owned(), unpreempted, with_preemption(alone, claims::NONE, "0/3 nodes are available."), older]
        {
            assert_eq!(without_preemption(&message), alone);
        }
        assert_eq!(without_preemption(""), "");
    }

    #[test]
    fn events_are_cut_between_characters() {
        let short = "x".repeat(1024);
        assert_eq!(event_text(&short), short);
        assert_eq!(event_text(&"x".repeat(1025)), format!("{} ...", "x".repeat(1020)));
        let cut = event_text(&"é".repeat(600));
        assert_eq!((cut.len(), cut.ends_with("é ...")), (1024, true));
    }
}
