//! Pure: what the text of a step has its reader look at once the step is typed.

/// Verbs of kubectl and of klab that change nothing.
const LOOKS: [(&str, &[&str]); 2] = [
    (
        "kubectl",
        &["get", "describe", "explain", "top", "logs", "events", "auth", "api-resources", "api-versions", "version"],
    ),
    ("klab", &["explain", "status", "diff", "verify", "board", "watch"]),
];

/// A step's text (Markdown) apart: what is read before the step is typed, and what is looked at afterwards, which begins with the
/// first block of commands that only look.
pub fn apart(text: &str) -> (&str, Option<&str>) {
    let mut at = 0;
    let mut is_code = false;
    let mut begins = true;
    for line in text.split_inclusive('\n') {
        let is_indented = line.starts_with("    ") && !line.trim().is_empty();
        // Code begins after an empty line; else the line goes on a paragraph.
        is_code = is_indented && (is_code || begins);
        if is_code && begins && only_looks(&text[at..]) {
            return (text[..at].trim_end(), Some(&text[at..]));
        }
        begins = line.trim().is_empty();
        at = at.saturating_add(line.len());
    }
    (text, None)
}

/// Whether all commands of the block of code at the beginning of a text only look.
fn only_looks(text: &str) -> bool {
    text.lines().take_while(|line| line.starts_with("    ") && !line.trim().is_empty()).all(|line| {
        let mut words = line.split_whitespace();
        let verbs = words.next().and_then(|program| LOOKS.iter().find(|(known, _)| *known == program));
        verbs.zip(words.next()).is_some_and(|((_, verbs), verb)| verbs.contains(&verb))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_at_follows_what_is_typed() {
        for (text, before, looks) in [
            ("Words.\n", "Words.\n", None),
            (
                "Do it.\n\n    kubectl get nodes\n    klab explain web\n\nOne waits.\n",
                "Do it.",
                Some("    kubectl get nodes\n    klab explain web\n\nOne waits.\n"),
            ),
            ("    kubectl get nodes\n", "", Some("    kubectl get nodes\n")),
            // What changes something, YAML, and output are read before.
            (
                "A.\n\n    kubectl delete pods -l app=four\n    kubectl get pods\n\nB.\n\n    kubectl top nodes | head -2\n",
                "A.\n\n    kubectl delete pods -l app=four\n    kubectl get pods\n\nB.",
                Some("    kubectl top nodes | head -2\n"),
            ),
            ("A.\n\n    spec:\n      kubectl get\n", "A.\n\n    spec:\n      kubectl get\n", None),
            // Not code: an indented line goes on a paragraph.
            ("Words\n    kubectl get nodes\n", "Words\n    kubectl get nodes\n", None),
        ] {
            assert_eq!(apart(text), (before, looks), "{text}");
        }
    }
}
