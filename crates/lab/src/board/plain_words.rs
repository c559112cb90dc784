//! Pure: the scheduler's message about a pod without a node, in words that need no knowledge of its plugins.

use crate::words::plural;

/// What the scheduler says of nodes, and what is meant: of one node, and of several.
const MEANINGS: [(&str, &str, &str); 14] = [
    ("node(s) had untolerated taint", "has a taint that they do not tolerate", "have taints that they do not tolerate"),
    ("node(s) didn't match Pod's node affinity", "lacks a label that they ask for", "lack a label that they ask for"),
    ("node(s) were unschedulable", "is cordoned", "are cordoned"),
    ("node(s) didn't match the requested node name", "is not the one they name", "are not the one they name"),
    ("node(s) didn't have free ports", "has no free host port for them", "have no free host port for them"),
    ("Too many pods", "has as many pods as it may", "have as many pods as they may"),
    ("node(s) didn't match pod topology spread", "would make their spread uneven", "would make their spread uneven"),
    (
        "node(s) didn't match pod affinity",
        "is far from the pods they must be near",
        "are far from the pods they must be near",
    ),
    ("node(s) didn't match pod anti-affinity", "has pods they must be apart from", "have pods they must be apart from"),
    ("node(s) didn't satisfy existing pods anti", "has pods that keep them away", "have pods that keep them away"),
    ("node(s) didn't find available persistent", "has no volume for their claim", "have no volume for their claim"),
    ("node(s) didn't match PersistentVolume", "cannot reach their volume", "cannot reach their volume"),
    (
        "node(s) had no available volume zone",
        "is not in the zone of their volume",
        "are not in the zone of their volume",
    ),
    ("cannot allocate all claims", "lacks devices that they claim", "lack devices that they claim"),
];

/// The message in plain words, where it counts nodes and all that it says of them is known.
pub fn in_plain_words(message: &str) -> Option<String> {
    let (of, reasons) = message.strip_prefix("0/")?.split_once(" nodes are available: ")?;
    let nodes: usize = of.parse().ok()?;
    let meanings: Option<Vec<String>> = reasons.trim_end_matches('.').split(", ").map(meaning).collect();
    Some(format!("None of {} takes them: {}.", plural(nodes, "node"), meanings?.join(", ")))
}

/// `2 Insufficient cpu` as `2 have too little cpu left`.
fn meaning(reason: &str) -> Option<String> {
    let (count, words) = reason.split_once(' ')?;
    let is_one = count.parse::<usize>().ok()? == 1;
    if let Some(resource) = words.strip_prefix("Insufficient ") {
        return Some(format!("{count} {} too little {resource} left", if is_one { "has" } else { "have" }));
    }
    let (_, one, several) = MEANINGS.iter().find(|(begin, ..)| words.starts_with(begin))?;
    Some(format!("{count} {}", if is_one { one } else { several }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_meaning_is_of_a_message_that_the_scheduler_has() {
        let messages = include_str!("../../../scheduler/src/reason.rs");
        for (begin, ..) in MEANINGS {
            assert!(messages.contains(&format!("\"{begin}")), "{begin}");
        }
    }

    #[test]
    fn messages_are_said_in_plain_words_where_all_of_them_is_known() {
        for (message, wanted) in [
            (
                "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't match Pod's node affinity/selector.",
                Some(
                    "None of 3 nodes takes them: 1 has a taint that they do not tolerate, 2 lack a label that they ask for.",
                ),
            ),
            (
                "0/2 nodes are available: 1 Insufficient cpu, 2 Insufficient memory.",
                Some("None of 2 nodes takes them: 1 has too little cpu left, 2 have too little memory left."),
            ),
            (
                "0/1 nodes are available: 1 Too many pods.",
                Some("None of 1 node takes them: 1 has as many pods as it may."),
            ),
            ("0/1 nodes are available: 1 something new.", None),
            ("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found", None),
            ("Scheduling is blocked due to non-empty scheduling gates", None),
        ] {
            assert_eq!(in_plain_words(message).as_deref(), wanted, "{message}");
        }
    }
}
