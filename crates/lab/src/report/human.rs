//! A report for people: one line per check, then for one that failed its causes and what would mend them.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use crate::code::Code;
use crate::verify::{Aside, Cause, CheckResult, Hindrance, NodeGroup, Report, SELECTED, Suggestion, Verdict};

/// Most pods or nodes named in one place.
const NAMES: usize = 4;
/// Most causes of one check, and most groups of nodes of one cause.
const GROUPS: usize = 8;
/// Most changes offered.
const SUGGESTIONS: usize = 4;
/// Most things shown that are otherwise than in the lab.
const ASIDES: usize = 8;
/// Widest column of node names; longer ones stand on their own line.
const NODES_WIDTH: usize = 40;

/// Colours of a report. Every mark has a word beside it, so nothing is lost without them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Styles {
    good: Style,
    bad: Style,
    care: Style,
    lead: Style,
    strong: Style,
}

impl Styles {
    /// No colours.
    pub fn plain() -> Self {
        Self::default()
    }

    /// The colours of a terminal. Who writes the text strips them where they are not wanted.
    pub fn coloured() -> Self {
        Self {
            good: AnsiColor::Green.on_default().bold(),
            bad: AnsiColor::Red.on_default().bold(),
            care: AnsiColor::Yellow.on_default().bold(),
            lead: AnsiColor::Cyan.on_default().bold(),
            strong: Style::new().bold(),
        }
    }

    /// A text that stands out.
    pub(super) fn strong(self, text: &str) -> String {
        let strong = self.strong;
        format!("{strong}{text}{strong:#}")
    }
}

/// A whole report, a line or a block per check; ends with a line end.
pub fn human(report: &Report, styles: Styles) -> String {
    let care = styles.care;
    let otherwise = report.differences.iter().map(|difference| format!("  {care}≠ other   {care:#} {difference}\n"));
    let checks = report.checks.iter().map(|check| check_lines(check, styles)).chain(otherwise);
    let unasked = aside_lines("also changed, not asked for:", "to undo", &report.unasked, styles);
    checks.chain([unasked, aside_lines("not done yet:", "to do", &report.open, styles)]).collect()
}

/// What is otherwise than in the lab, each with its command.
fn aside_lines(title: &str, verb: &str, asides: &[Aside], styles: Styles) -> String {
    if asides.is_empty() {
        return String::new();
    }
    let (care, lead) = (styles.care, styles.lead);
    let mut text = format!("  {care}{title}{care:#}\n");
    for aside in asides.iter().take(ASIDES) {
        let _ = writeln!(text, "      {}", aside.what);
        if let Some(command) = &aside.command {
            let _ = writeln!(text, "        {lead}{verb}:{lead:#}\n            {command}");
        }
    }
    if asides.len() > ASIDES {
        let _ = writeln!(text, "      and {} more; `klab diff` shows all", asides.len() - ASIDES);
    }
    text
}

/// `2 of 3 checks hold`, or `all 3 checks hold`.
pub fn summary(report: &Report) -> String {
    let (held, total) = (report.held(), report.checks.len());
    match total {
        0 => "there are no checks".to_owned(),
        1 if held == 1 => "the check holds".to_owned(),
        1 => "the check does not hold".to_owned(),
        _ if held == total => format!("all {total} checks hold"),
        _ => format!("{held} of {total} checks hold"),
    }
}

/// One check: its line, and its causes and fixes where it does not hold.
pub fn check_lines(check: &CheckResult, styles: Styles) -> String {
    let (style, mark, word) = match check.verdict {
        Verdict::Held => (styles.good, "✓", "held"),
        Verdict::NotYet { .. } => (styles.care, "✗", "not yet"),
        Verdict::Impossible { .. } => (styles.bad, "✗", "failed"),
    };
    let mut text = format!("  {style}{mark} {word:<8}{style:#} {}{}\n", check.name, outcome(check));
    if check.verdict.is_held() {
        return text;
    }
    if let Verdict::NotYet { waiting_for } = &check.verdict {
        let _ = writeln!(text, "      waiting: {waiting_for}");
    }
    // What the author says comes first: it is about the lesson, the causes are about the cluster.
    if let Some(hint) = &check.hint {
        let lead = styles.lead;
        let _ = writeln!(text, "      {lead}hint:{lead:#} {}", hint.trim_end().replace('\n', "\n        "));
    }
    for cause in check.causes.iter().take(GROUPS) {
        text.push_str(&cause_lines(cause, None, "      "));
    }
    if check.causes.len() > GROUPS {
        let _ = writeln!(text, "      and {} more causes", check.causes.len() - GROUPS);
    }
    text.push_str(&suggestion_lines(&check.suggestions, "      ", styles));
    let code = only(check.causes.iter().map(|cause| code(cause.code, &cause.nodes))).unwrap_or(check.code());
    let _ = writeln!(text, "      at {}{}", check.at, behind(Some(code)));
    text
}

/// The code to look up: that of the rule that keeps pods from all nodes that they do not leave out themselves, or else `own`, which is
/// about all of the rules.
pub(super) fn code(own: Code, nodes: &[NodeGroup]) -> Code {
    let selects = |group: &&NodeGroup| !group.reasons.iter().any(|reason| SELECTED.contains(&reason.code));
    let of = |group: &NodeGroup| group.reasons.iter().map(|reason| reason.code).collect::<Vec<_>>();
    let selected = only(nodes.iter().filter(selects).flat_map(of));
    selected.or_else(|| only(nodes.iter().flat_map(of))).unwrap_or(own)
}

/// A code behind a line.
pub(super) fn behind(code: Option<Code>) -> String {
    code.map_or(String::new(), |code| format!(" ({code})"))
}

/// The code, where all have the same number.
fn only(mut codes: impl Iterator<Item = Code>) -> Option<Code> {
    let first = codes.next()?;
    codes.all(|code| code.number() == first.number()).then_some(first)
}

/// What is true now, unless the name of a check that holds says as much.
fn outcome(check: &CheckResult) -> String {
    let now = check.now();
    // An expression that names its check is not said again.
    let said = now.strip_prefix('`').and_then(|now| now.split_once("` "));
    let rest =
        said.filter(|(expression, _)| check.name.ends_with(expression)).map(|(_, rest)| rest.trim_start_matches("is "));
    if check.verdict.is_held() && check.name.ends_with(&now) {
        return String::new();
    }
    format!(" → {}", rest.unwrap_or(&now))
}

/// The smallest change, and others: each with its place in the lab file, and the command that makes it on a line of its own.
pub(super) fn suggestion_lines(suggestions: &[Suggestion], indent: &str, styles: Styles) -> String {
    let lead = styles.lead;
    let mut text = String::new();
    for (position, suggestion) in suggestions.iter().take(SUGGESTIONS).enumerate() {
        let word = if position == 0 { "fix:" } else { " or:" };
        let _ = write!(text, "{indent}{lead}{word}{lead:#} {}", suggestion.text);
        let _ = match (&suggestion.at, &suggestion.command) {
            (Some(at), Some(command)) => writeln!(text, " ({at}), or:\n{indent}     {command}"),
            (Some(at), None) => writeln!(text, " ({at})"),
            (None, Some(command)) => writeln!(text, ":\n{indent}     {command}"),
            (None, None) => writeln!(text),
        };
    }
    text
}

/// What keeps a workload from having its pods, and what would mend it.
pub(super) fn hindrance_lines(hindrance: &Hindrance, indent: &str, styles: Styles) -> String {
    let suggestions = suggestion_lines(&hindrance.suggestions, &format!("{indent}  "), styles);
    let cause = &hindrance.cause;
    format!("{}{suggestions}", cause_lines(cause, Some(code(cause.code, &cause.nodes)), indent))
}

/// A cause: pods in the same plight, and the nodes by what keeps them away.
fn cause_lines(cause: &Cause, code: Option<Code>, indent: &str) -> String {
    let colon = if cause.nodes.is_empty() { "" } else { ":" };
    let deeper = format!("{indent}  ");
    let lines = group_lines(&cause.nodes, &deeper);
    let code = behind(code);
    format!("{indent}{}  {}{code}{colon}\n{lines}", named(&cause.subjects), cause.what)
}

/// Nodes in one column, what keeps pods from them in the other.
pub(super) fn group_lines(groups: &[NodeGroup], indent: &str) -> String {
    lines_of(groups, indent, false)
}

/// The same, and below each what its reasons say in detail.
pub(super) fn detailed_group_lines(groups: &[NodeGroup], indent: &str) -> String {
    lines_of(groups, indent, true)
}

fn lines_of(groups: &[NodeGroup], indent: &str, in_detail: bool) -> String {
    let shown = || groups.iter().take(GROUPS);
    let cells: Vec<(String, String)> = shown().map(|group| (nodes(group), reasons(group))).collect();
    let width = cells.iter().map(|(nodes, _)| nodes.chars().count()).filter(|width| *width <= NODES_WIDTH).max();
    let width = width.unwrap_or_default();
    let mut text = String::new();
    for ((nodes, reasons), group) in cells.into_iter().zip(shown()) {
        if nodes.chars().count() > width {
            let _ = writeln!(text, "{indent}{nodes}\n{indent}{:width$}  {reasons}", "");
        } else {
            let _ = writeln!(text, "{indent}{nodes:width$}  {reasons}");
        }
        for line in group.reasons.iter().filter(|_| in_detail).flat_map(|reason| &reason.details) {
            let _ = writeln!(text, "{indent}{:width$}    {line}", "");
        }
    }
    if groups.len() > GROUPS {
        let rest: usize = groups.iter().skip(GROUPS).map(|group| group.nodes.len()).sum();
        let _ = writeln!(text, "{indent}and {rest} more nodes");
    }
    text
}

/// Each reason once: several rules may refuse a node for the same one.
fn reasons(group: &NodeGroup) -> String {
    let mut texts: Vec<&str> = Vec::new();
    for reason in &group.reasons {
        if !texts.contains(&reason.text.as_str()) {
            texts.push(&reason.text);
        }
    }
    texts.join("; ")
}

/// `extra-0`, `main-0, main-1`, or `pool main (480 nodes)` where they are many.
fn nodes(group: &NodeGroup) -> String {
    match &group.pool {
        Some(pool) if group.nodes.len() > NAMES => format!("{} nodes of pool {pool}", group.nodes.len()),
        _ => named(&group.nodes),
    }
}

/// The names without the namespace `default`, shortened where they are many.
pub(super) fn named(names: &[String]) -> String {
    let short = |name: &String| name.strip_prefix("default/").unwrap_or(name).to_owned();
    if names.len() <= NAMES {
        return names.iter().map(short).collect::<Vec<_>>().join(", ");
    }
    let shown: Vec<String> = names.iter().take(NAMES - 1).map(short).collect();
    format!("{} and {} more", shown.join(", "), names.len() - shown.len())
}
