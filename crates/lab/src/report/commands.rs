//! Commands in sentences: each is put on a line of its own, without back quotes, so that it can be pasted.

/// Programs whose commands people paste.
const PROGRAMS: [&str; 14] = [
    "klab",
    "kubectl",
    "az",
    "docker",
    "podman",
    "kind",
    "eval",
    "export",
    "sudo",
    "apt-get",
    "curl",
    "systemctl",
    "kill",
    "rm",
];

/// Whether a text is a command to paste: one of a known program with arguments, and without a word in capitals or `…` that
/// stands for something else.
pub(super) fn is_command(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let is_placeholder = |word: &str| {
        let word = word.rsplit('=').next().unwrap_or(word).trim_matches(['[', ']', ':', ',']);
        word.len() > 1 && word.chars().all(|letter| letter.is_ascii_uppercase()) || word == "N"
    };
    let begins = words.next().is_some_and(|word| PROGRAMS.contains(&word));
    let rest: Vec<&str> = words.collect();
    begins && !rest.is_empty() && !text.contains('…') && !rest.into_iter().any(is_placeholder)
}

/// A command and what is said of it.
struct Piece<'t> {
    before: &'t str,
    command: &'t str,
    after: &'t str,
}

/// The sentence with each command on a line of its own, indented by four, below its words; unchanged without commands.
pub fn with_commands_apart(text: &str) -> String {
    text.split('\n').map(apart).collect::<Vec<_>>().join("\n")
}

fn apart(line: &str) -> String {
    let pieces = pieces(line);
    // A line that ends in a colon leads to the lines below it.
    if pieces.is_empty() || line.ends_with(':') {
        return line.to_owned();
    }
    let mut lines = Vec::new();
    for Piece { before, command, after } in pieces {
        // What goes on after a comma goes on below the command.
        let below = after.trim_start_matches([',', ';', ' ']);
        let below = Some(below).filter(|below| below.len() < after.len());
        // In its sentence a command is a noun: where it is taken out of the middle, `this` takes its place.
        let words = match (before, if below.is_some() { "" } else { after }) {
            ("", "") => String::new(),
            (before, "") => before.trim_end_matches([':', ';', ',']).to_owned(),
            ("", after) => format!("this {after}"),
            (before, after) => format!("{before} this {after}"),
        };
        if !words.is_empty() {
            lines.push(format!("{words}:"));
        }
        lines.push(format!("    {command}"));
        lines.extend(below.map(str::to_owned));
    }
    lines.join("\n")
}

/// The commands of a line, each with the words before and after that belong to it.
fn pieces(line: &str) -> Vec<Piece<'_>> {
    let mut spans = Vec::new();
    let mut from = 0;
    while let Some(open) = line[from..].find('`').map(|at| from + at) {
        let Some(close) = line[open + 1..].find('`').map(|at| open + 1 + at) else { break };
        if is_command(&line[open + 1..close]) {
            spans.push((open, close + 1));
        }
        from = close + 1;
    }
    let mut begins = 0;
    let mut pieces = Vec::new();
    for (number, (open, close)) in spans.iter().copied().enumerate() {
        let next = spans.get(number + 1).map_or(line.len(), |(next, _)| *next);
        let between = &line[close..next];
        let end = if number + 1 == spans.len() { between.len() } else { cut(between) };
        let trimmed = |text: &'_ str| -> usize { text.len() - text.trim_start_matches([' ', ')']).len() };
        let before = line[begins..open].trim_start_matches([' ', ',', ';', '.', ')']).trim_end_matches([' ', '(']);
        let after = &between[..end];
        let after = after[trimmed(after)..].trim_end_matches([' ', '(', '.', ',', ';', ')']);
        pieces.push(Piece { before, command: &line[open + 1..close - 1], after });
        begins = close + end;
    }
    pieces
}

/// Where the words between two commands part: at the last sign or conjunction, else before all of them.
fn cut(between: &str) -> usize {
    let signs = ["; ", ", ", ". ", " and ", " or "].map(|sign| between.rfind(sign));
    signs.into_iter().flatten().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_stand_on_lines_of_their_own() {
        for (text, shown) in [
            ("`klab resume x` starts its machines", "this starts its machines:\n    klab resume x"),
            ("read it, then `klab step --allow-run`", "read it, then:\n    klab step --allow-run"),
            (
                "lab `x` is partly made; `klab up x.toml` continues, `klab down x` removes it",
                "lab `x` is partly made; this continues:\n    klab up x.toml\nthis removes it:\n    klab down x",
            ),
            (
                "go on with `klab step --all`; or type the step yourself (`klab guide x`).",
                "go on with:\n    klab step --all\nor type the step yourself:\n    klab guide x",
            ),
            ("it stays; `klab down x`, then `up`, takes aks", "it stays:\n    klab down x\nthen `up`, takes aks"),
            ("`klab down x` and `klab up y`", "    klab down x\nand:\n    klab up y"),
            ("`eval \"$(klab env x)\"` means x", "this means x:\n    eval \"$(klab env x)\""),
        ] {
            assert_eq!(with_commands_apart(text), shown);
        }
        for text in [
            "`--timeout 10m` waits longer",
            "`klab up LAB --seats N`",
            "`klab` knows `taint`",
            "`klab az …` and `a",
            "`",
        ] {
            assert_eq!(with_commands_apart(text), text);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_command_is_left_in_back_quotes_and_none_is_changed(
            words in proptest::collection::vec("[a-z]{1,6}[,;.)]?|`klab [a-z]{1,4} [a-z]{1,4}`|`[a-z]{1,4}`|\\(", 0..12),
        ) {
            let text = words.join(" ");
            let shown = with_commands_apart(&text);
            let mut wanted = quoted_commands(&text);
            let mut found: Vec<String> = shown.lines().filter_map(|line| line.strip_prefix("    ")).map(str::to_owned).collect();
            wanted.sort();
            found.sort();
            proptest::prop_assert_eq!(wanted, found);
            proptest::prop_assert!(!shown.contains("`klab "));
        }
    }

    /// The commands in back quotes of a text.
    fn quoted_commands(text: &str) -> Vec<String> {
        text.split('`').skip(1).step_by(2).filter(|inner| is_command(inner)).map(str::to_owned).collect()
    }
}
