//! What Enter opens: a pod with why it is where it is, a node with what is on it, a check with what would mend it; the lesson; help.

use ratatui::text::{Line, Span};

use super::ansi;
use super::node::{self, short};
use super::palette::{FAINT, STRONG};
use super::setting::Setting;
use super::text::{cut, lines, shown};
use klab_lab::board::{Node, Pod};
use klab_lab::report::{self, Styles};
use klab_lab::verify::{self, Snapshot, amount};
use klab_lab::words::table;
use klab_operations::board::Frame;

/// What is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Panel {
    /// The keys.
    Help,
    /// What the guide says.
    Lesson,
    /// A pod, by its id.
    Pod(String),
    /// A node, by its name.
    Node(String),
    /// Pods that wait for the same reason.
    Group(String),
    /// A check, by its place.
    Check(usize),
}

const HELP: &[(&str, &str)] = &[
    ("j k ↑ ↓ ← →", "move the selection; in a text, scroll"),
    ("Tab", "go to the next area: nodes, Pending, checks"),
    ("g G", "the first, the last"),
    ("PgUp PgDn", "a page up or down"),
    ("Enter", "a pod: why it is where it is, or nowhere; a node: what is on it; a check: what would mend it"),
    ("Esc", "close what is open; show all again"),
    ("/", "show only what has this text"),
    ("l", "the lesson: what the step is about, and what to type"),
    ("mouse", "a click selects, one on what is selected opens it, the wheel scrolls; with Shift it marks text to copy"),
    ("q", "end"),
];

/// What the signs on the board mean.
const SIGNS: &[(&str, &str)] = &[
    ("A… A! A−", "a pod of workload A that starts, is not ready, goes"),
    ("A✓ A✗", "one that ended well, that failed"),
    ("A◥", "a check wants it elsewhere"),
    ("(A? ×2)", "a check wants two pods of A here that are not here"),
    ("cpu mem pods", "what the pods of a node request of what there is"),
];

impl Panel {
    /// Its heading.
    pub(super) fn title(&self, frame: &Frame) -> String {
        match self {
            Self::Help => "Help".to_owned(),
            Self::Lesson => "Lesson".to_owned(),
            Self::Pod(id) => format!("pod {}", short(id)),
            Self::Node(name) => format!("node {}", shown(name)),
            Self::Group(_) => "Pending".to_owned(),
            Self::Check(number) => {
                format!("check {}", frame.report.checks.get(*number).map_or_else(String::new, |it| shown(&it.name)))
            }
        }
    }

    /// Its text, in a number of columns.
    pub(super) fn lines(&self, frame: &Frame, setting: &Setting, width: usize) -> Vec<Line<'static>> {
        match self {
            Self::Help => help(setting, width),
            Self::Lesson => lesson(frame, setting, width),
            Self::Pod(id) => pod(frame, setting, id, width),
            Self::Node(name) => match frame.board.nodes.iter().find(|node| node.name == *name) {
                Some(node) => self::node(frame, setting, node, width),
                None => gone("node"),
            },
            Self::Group(reason) => group(frame, reason, width),
            Self::Check(number) => match frame.report.checks.get(*number) {
                Some(check) => styled(&report::check_lines(check, Styles::coloured()), setting, width),
                None => gone("check"),
            },
        }
    }
}

fn gone(what: &str) -> Vec<Line<'static>> {
    vec![Line::from(format!("There is no such {what} any more."))]
}

/// klab's own text.
fn styled(text: &str, setting: &Setting, width: usize) -> Vec<Line<'static>> {
    ansi::lines(&report::wrapped(&setting.invocation.spelled(text), width), setting.palette)
}

fn help(setting: &Setting, width: usize) -> Vec<Line<'static>> {
    let rows = |rows: &[(&'static str, &'static str)]| -> Vec<Line<'static>> {
        let row = |(key, words): &(&'static str, &'static str)| -> Vec<Line<'static>> {
            let broken = lines(words, width.saturating_sub(15)).into_iter().enumerate();
            let line = |(number, words): (usize, String)| {
                let key = if number == 0 { key } else { "" };
                Line::from(vec![Span::styled(format!("{key:13}"), setting.palette.lead()), Span::raw(words)])
            };
            broken.map(line).collect()
        };
        rows.iter().flat_map(row).collect()
    };
    let mut all = rows(HELP);
    all.push(Line::default());
    all.extend(rows(SIGNS));
    all
}

fn lesson(frame: &Frame, setting: &Setting, width: usize) -> Vec<Line<'static>> {
    let text = (setting.script)(&frame.progress, width);
    let mut all = ansi::lines(&setting.invocation.spelled(&text), setting.palette);
    if !frame.report.checks.is_empty() {
        all.push(Line::default());
        let checks = frame.report.checks.iter().map(|check| report::check_lines(check, Styles::coloured()));
        all.extend(styled(&checks.collect::<String>(), setting, width));
    }
    all
}

/// A pod as the board knows it, then its explanation.
fn pod(frame: &Frame, setting: &Setting, id: &str, width: usize) -> Vec<Line<'static>> {
    let Some(pod) = frame.board.pods.iter().find(|pod| pod.id == id) else { return gone("pod") };
    let mut all = vec![Line::from(vec![
        letter(frame, setting, pod),
        Span::raw(format!(
            " {}, requests {} CPU, {} memory",
            state(pod),
            amount("cpu", pod.requests.cpu_milli),
            amount("memory", pod.requests.memory_bytes)
        )),
    ])];
    for check in frame.board.checks.iter().filter(|check| check.misplaced.iter().any(|wrong| wrong == id)) {
        all.push(Line::styled(format!("◥ should be elsewhere: {}", shown(&check.name)), setting.palette.bad()));
    }
    all.push(Line::default());
    let (namespace, name) = id.split_once('/').unwrap_or(("default", id));
    let around = frame.around();
    // It has waited on since something last changed.
    let snapshot = Snapshot { taken_at: Some((setting.now)()), ..Snapshot::clone(&frame.snapshot) };
    match verify::explain(&snapshot, &around, name, Some(namespace)) {
        Ok(explained) => {
            let text = report::explanation_text(&explained, Styles::coloured());
            all.extend(styled(&text, setting, width));
        }
        Err(nothing) => all.push(Line::from(shown(&nothing.to_string()))),
    }
    all
}

fn letter(frame: &Frame, setting: &Setting, pod: &Pod) -> Span<'static> {
    node::cell(setting.palette, frame.board.workload(&pod.workload), "")
}

fn state(pod: &Pod) -> String {
    let trouble = pod.trouble.as_ref().map(|trouble| format!(" ({})", shown(trouble))).unwrap_or_default();
    format!("{}{trouble}", pod.state)
}

fn node(frame: &Frame, setting: &Setting, node: &Node, width: usize) -> Vec<Line<'static>> {
    let mut words: Vec<String> = node.pool.iter().map(|pool| format!("pool {}", shown(pool))).collect();
    words.extend(node.zone.iter().map(|zone| format!("zone {}", shown(zone))));
    words.extend(node.states().map(str::to_owned));
    let mut all = vec![Line::from(words.join(", "))];
    for (word, text) in node.taints.iter().map(|it| ("taint", it)).chain(node::labels(node).map(|it| ("label", it))) {
        for (number, line) in lines(text, width.saturating_sub(8)).into_iter().enumerate() {
            let word = if number == 0 { word } else { "" };
            all.push(Line::from(vec![Span::styled(format!("{word:5}  "), FAINT), Span::raw(line)]));
        }
    }
    let (taken, there) = (node.requested, node.allocatable);
    let row = |word: &str, taken: String, all: String| vec![word.to_owned(), taken, format!("of {all}")];
    let amounts = [
        row("CPU", amount("cpu", taken.cpu_milli), amount("cpu", there.cpu_milli)),
        row("memory", amount("memory", taken.memory_bytes), amount("memory", there.memory_bytes)),
        row("pods", taken.pods.to_string(), there.pods.to_string()),
    ];
    all.push(Line::default());
    all.push(Line::styled("requested", STRONG));
    all.extend(table(&amounts).lines().map(|line| Line::from(line.to_owned())));
    let pods: Vec<&Pod> = frame.board.pods.iter().filter(|pod| pod.node.as_ref() == Some(&node.name)).collect();
    all.push(Line::default());
    if pods.is_empty() {
        all.push(Line::from("nothing is on it"));
        return all;
    }
    let mut rows = vec![["POD", "STATE", "CPU", "MEMORY"].map(str::to_owned).to_vec()];
    rows.extend(pods.iter().map(|pod| {
        let requests = pod.requests;
        let (cpu, memory) = (amount("cpu", requests.cpu_milli), amount("memory", requests.memory_bytes));
        vec![cut(&short(&pod.id), width.saturating_sub(40).max(20)), state(pod), cpu, memory]
    }));
    let rows = table(&rows);
    let mut rows = rows.lines();
    all.extend(rows.next().map(|heading| Line::styled(format!("    {heading}"), STRONG)));
    all.extend(pods.iter().zip(rows).map(|(pod, row)| {
        let letter = letter(frame, setting, pod);
        let gap = " ".repeat(4usize.saturating_sub(letter.width()));
        Line::from(vec![letter, Span::raw(format!("{gap}{row}"))])
    }));
    all
}

fn group(frame: &Frame, reason: &str, width: usize) -> Vec<Line<'static>> {
    let Some(group) = frame.board.pending.iter().find(|group| group.reason == reason) else {
        return vec![Line::from("Nothing waits for this reason any more.")];
    };
    let mut all: Vec<Line<'static>> = lines(reason, width).into_iter().map(Line::from).collect();
    all.push(Line::default());
    all.extend(group.pods.iter().map(|id| Line::from(format!("  {}", short(id)))));
    all.push(Line::default());
    all.push(Line::styled("Enter on a pod of it says what would place it.", FAINT));
    all
}
