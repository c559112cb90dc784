//! Answers as text for people: for a terminal, and as Markdown for a pull request.

use klab_lab::board::in_plain_words;
use klab_lab::words::{first_of, plural, table};
use klab_scheduler::message::without_preemption;

use crate::answer::{Answer, COPIES, PoolState, WorkloadChange};
use crate::model::{NOTHING, UNKNOWN};
use crate::sanitise::is_remade;

/// How many workloads a heading lists; the others are counted.
const MAX_LISTED: usize = 20;
/// The width of a bar.
const BAR: usize = 10;

/// A heading and the lines below it.
struct Section {
    heading: String,
    lines: Vec<String>,
}

/// An answer for a terminal.
pub fn human(answer: &Answer) -> String {
    let mut text = format!("What if {}\n\n{}", answer.changes.join(", and "), table(&pools(answer)));
    if let Some(price) = price(answer) {
        text.push_str(&format!("{price}\n"));
    }
    for section in sections(answer) {
        text.push_str(&format!("\n{}\n", section.heading));
        for line in section.lines {
            text.push_str(&format!("  {line}\n"));
        }
    }
    text
}

/// An answer as Markdown.
pub fn markdown(answer: &Answer) -> String {
    let mut rows = pools(answer).into_iter();
    let row =
        |cells: &[String]| format!("| {} |\n", cells.iter().map(|cell| escaped(cell)).collect::<Vec<_>>().join(" | "));
    let mut text = format!("### What if {}\n\n", escaped(&answer.changes.join(", and ")));
    if let Some(heading) = rows.next() {
        text.push_str(&row(&heading));
        text.push_str(&row(&vec!["---".to_owned(); heading.len()]));
    }
    rows.for_each(|cells| text.push_str(&row(&cells)));
    if let Some(price) = price(answer) {
        text.push_str(&format!("\n{}\n", escaped(&price)));
    }
    for section in sections(answer) {
        text.push_str(&format!("\n**{}**\n", escaped(&section.heading)));
        for (number, line) in section.lines.iter().enumerate() {
            let apart = if number == 0 { "\n" } else { "" };
            text.push_str(&format!("{apart}- {}\n", escaped(line)));
        }
    }
    text
}

/// A text in which no name of a cluster is read as Markdown or HTML.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for each in text.chars() {
        match each {
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '@' => escaped.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' => escaped.extend(['\\', each]),
            '\n' | '\r' => escaped.push(' '),
            each => escaped.push(each),
        }
    }
    escaped
}

/// One row a pool, below the headings.
fn pools(answer: &Answer) -> Vec<Vec<String>> {
    let mut rows = vec![["POOL", "NODES", "PODS", "CPU REQUESTED", "MEMORY REQUESTED"].map(str::to_owned).to_vec()];
    for (name, pool) in &answer.pools {
        let (before, after) = (&pool.before, &pool.after);
        let number = |count: fn(&PoolState) -> usize| {
            let (before, after) = (count(before), count(after));
            if before == after { after.to_string() } else { format!("{before} → {after}") }
        };
        let bars = |resource: &str| {
            let (was, is) = (before.percent(resource), after.percent(resource));
            if was == is { bar(is) } else { format!("{} → {}", bar(was), bar(is)) }
        };
        rows.push(vec![name.clone(), number(|pool| pool.nodes), number(|pool| pool.pods), bars("cpu"), bars("memory")]);
    }
    rows
}

/// `██████░░░░ 61%`.
fn bar(percent: i64) -> String {
    let full = usize::try_from(percent.clamp(0, 100)).unwrap_or_default() * BAR / 100;
    format!("{}{} {percent:>3}%", "█".repeat(full), "░".repeat(BAR - full))
}

fn price(answer: &Answer) -> Option<String> {
    let (before, after) = answer.price();
    let (before, after) = (before?, after?);
    // Nodes of no known price cost nothing in the sum.
    if before <= 0.0 && after <= 0.0 {
        return None;
    }
    let month = |hour: f64| hour * 730.0;
    Some(if (before - after).abs() < 0.0005 {
        format!("The nodes cost ${before:.2} an hour, as before.")
    } else {
        let (less, more) = (month(before - after), month(after - before));
        let difference =
            if less > 0.0 { format!("${less:.0} a month less") } else { format!("${more:.0} a month more") };
        format!("The nodes cost ${before:.2} → ${after:.2} an hour: {difference}.")
    })
}

/// `2 pods that run today would not run`.
pub fn lost_words(pods: usize) -> String {
    format!("{} that {} today would not run", plural(pods, "pod"), if pods == 1 { "runs" } else { "run" })
}

fn sections(answer: &Answer) -> Vec<Section> {
    let mut sections = Vec::new();
    let failing: Vec<&WorkloadChange> = answer.workloads.iter().filter(|change| change.fails).collect();
    if failing.is_empty() {
        let all = if answer.blocked.is_empty() {
            "Everything that runs today still runs."
        } else {
            "Everything runs, but the change does not come to its end."
        };
        sections.push(Section { heading: all.to_owned(), lines: Vec::new() });
    } else {
        sections.push(listed(format!("{}:", lost_words(answer.lost())), &failing, failing_lines));
    }
    if !answer.blocked.is_empty() {
        let line = |blocked: &crate::drain::Blocked| format!("{} on {}: {}", blocked.pod, blocked.node, blocked.why);
        let mut lines: Vec<String> = answer.blocked.iter().take(MAX_LISTED).map(line).collect();
        rest(&mut lines, answer.blocked.len());
        sections
            .push(Section { heading: format!("{} cannot be evicted:", plural(answer.blocked.len(), "pod")), lines });
    }
    let waiting: Vec<&WorkloadChange> = answer
        .workloads
        .iter()
        .filter(|change| !change.fails && (!change.waiting.is_empty() || change.refused.is_some()))
        .collect();
    if !waiting.is_empty() {
        let pods: usize = waiting.iter().flat_map(|change| change.waiting.values()).sum();
        let heading = if pods == 0 {
            "Pods that are new are refused:".to_owned()
        } else {
            format!("{} more {}:", plural(pods, "pod"), if pods == 1 { "waits" } else { "wait" })
        };
        sections.push(listed(heading, &waiting, failing_lines));
    }
    let moving: Vec<&WorkloadChange> = answer.workloads.iter().filter(|change| change.moving() > 0).collect();
    if !moving.is_empty() {
        let pods: usize = moving.iter().map(|change| change.moving()).sum();
        let heading = format!("{} {}:", plural(pods, "pod"), if pods == 1 { "moves" } else { "move" });
        sections.push(listed(heading, &moving, |change| vec![format!("{}: {}", change.workload, moves(change))]));
    }
    let other: Vec<&WorkloadChange> =
        answer.workloads.iter().filter(|change| !change.fails && change.comes_or_goes()).collect();
    if !other.is_empty() {
        sections.push(listed("Pods that come or go:".to_owned(), &other, |change| {
            vec![format!("{}: {}", change.workload, changes(change))]
        }));
    }
    let mut open = Vec::new();
    if answer.agreeing < COPIES {
        open.push(format!(
            "among equal nodes the scheduler may choose others: {} of {COPIES} copies end with these pods of each workload",
            answer.agreeing
        ));
    }
    if !answer.ignored.is_empty() {
        let names: Vec<&String> = answer.ignored.iter().collect();
        open.push(format!("no place depends on these, and klab leaves them out: {}", first_of(&names, 5)));
    }
    open.extend(answer.open.iter().cloned());
    if !open.is_empty() {
        sections.push(Section { heading: "What is open:".to_owned(), lines: open });
    }
    sections
}

fn listed(heading: String, changes: &[&WorkloadChange], lines_of: impl Fn(&WorkloadChange) -> Vec<String>) -> Section {
    let mut lines: Vec<String> = changes.iter().take(MAX_LISTED).flat_map(|change| lines_of(change)).collect();
    rest(&mut lines, changes.len());
    Section { heading, lines }
}

fn rest(lines: &mut Vec<String>, all: usize) {
    if all > MAX_LISTED {
        lines.push(format!("and {} more", all - MAX_LISTED));
    }
}

fn failing_lines(change: &WorkloadChange) -> Vec<String> {
    let mut lines = vec![format!("{}: {} of {} run", change.workload, change.placed.1, change.desired)];
    for (message, pods) in &change.waiting {
        let message = without_preemption(message);
        let words = in_plain_words(message).unwrap_or_else(|| message.to_owned());
        lines.push(format!("  {} {}: {words}", plural(*pods, "pod"), if *pods == 1 { "waits" } else { "wait" }));
    }
    if let Some(refused) = &change.refused {
        lines.push(format!("  the API server refuses more: {refused}"));
    }
    if !is_remade(&change.workload.kind) {
        lines.push(format!("  {}", if change.workload.kind == "Pod" { NOTHING } else { UNKNOWN }));
    }
    lines
}

fn moves(change: &WorkloadChange) -> String {
    let one = |((from, to), pods): (&(String, String), &usize)| {
        if from == to { format!("{pods} within {from}") } else { format!("{pods} from {from} to {to}") }
    };
    change.moves.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn changes(change: &WorkloadChange) -> String {
    let added = change.added.iter().map(|(pool, pods)| format!("{pods} more on {pool}"));
    let removed = change.removed.iter().map(|(pool, pods)| format!("{pods} fewer on {pool}"));
    added.chain(removed).collect::<Vec<_>>().join(", ")
}
