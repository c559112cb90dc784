//! A node: name, what is the matter with it, taints, labels, how full it is, the pods on it.

use super::cell::{self, Scale};
use super::drawing::{Drawing, FAINT, Face, INK, WRONG, flow};
use super::pieces::Pieces;
use super::text::{cut, lines};
use crate::board::model::{Node, Spot};
use crate::membership::POOL_LABELS;
use crate::names::ZONE_LABEL;
use crate::verify::amount;

pub(super) const WIDTH: i64 = 296;
const PAD: i64 = 10;
/// The width inside.
pub(super) const INNER: i64 = WIDTH - 2 * PAD;
/// Characters of a line beside `taint` or `label`.
const COLUMNS: usize = 36;

/// The box of a node.
pub(super) fn node(node: &Node, pieces: &Pieces<'_>) -> Drawing {
    let mut inside = Drawing::new(WIDTH, 0);
    let mut y = 20;
    let mut name = Drawing::new(INNER, 14);
    name.text(0, 12, Face::Name, &cut(&node.name, 37));
    let words: Vec<&str> = node.states().collect();
    let words = if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) };
    let title = format!("node {}{words}", node.name);
    inside.place(PAD, y - 12, &name.named("node", &node.name, &title));
    let badges = badges(node);
    if !badges.is_empty() {
        let line = flow(&badges, INNER, 6);
        inside.place(PAD, y + 6, &line);
        y += line.height + 6;
    }
    for (word, texts) in [("taint", node.taints.iter().collect()), ("label", labels(node))] {
        for text in texts {
            inside.text(PAD, y + 16, Face::Faint, word);
            for line in lines(text, COLUMNS) {
                y += 15;
                inside.text(PAD + 36, y + 1, Face::Mono, &line);
            }
        }
    }
    y += 8;
    let (taken, all) = (node.requested, node.allocatable);
    let of = |resource: &str, taken: i64, all: i64| format!("{} of {}", amount(resource, taken), amount(resource, all));
    for (word, share, text) in [
        ("CPU", (taken.cpu_milli, all.cpu_milli), of("cpu", taken.cpu_milli, all.cpu_milli)),
        ("memory", (taken.memory_bytes, all.memory_bytes), of("memory", taken.memory_bytes, all.memory_bytes)),
        ("pods", (taken.pods, all.pods), of("pods", taken.pods, all.pods)),
    ] {
        bar(&mut inside, y, word, share, &text);
        y += 17;
    }
    let cells = flow(&cells(node, pieces), INNER, 4).lettered();
    if cells.height > 0 {
        inside.place(PAD, y + 5, &cells);
        y += cells.height + 5;
    }
    inside.height = y + PAD;
    let mut outside = Drawing::new(WIDTH, inside.height);
    edge(&mut outside, node);
    outside.body.push_str(&inside.body);
    outside.titled(&title)
}

/// The edge: dashed for a node that is not ready, double for one that takes no pods, with a corner cut off for a spot machine.
fn edge(drawing: &mut Drawing, node: &Node) {
    let (width, height) = (drawing.width, drawing.height);
    let dashes = if node.ready { "" } else { " stroke-dasharray=\"8 5\"" };
    let (colour, thick) = if node.ready { (FAINT, "1.2") } else { (WRONG, "2.5") };
    let ground = if node.cordoned || !node.ready { "#F2F2F2" } else { "#FFFFFF" };
    let attributes = format!("fill=\"{ground}\" stroke=\"{colour}\" stroke-width=\"{thick}\"{dashes}");
    let corner = if node.spot { 18 } else { 0 };
    let outline = |inset: i64| {
        let (right, bottom) = (width - inset, height - inset);
        format!("M{inset} {inset}H{}L{right} {}V{bottom}H{inset}Z", right - corner, inset + corner)
    };
    drawing.path(&outline(1), &attributes);
    if node.cordoned {
        drawing.path(&outline(5), &format!("fill=\"none\" stroke=\"{INK}\" stroke-width=\"1\""));
    }
}

/// The sign of a state, as a path in a square of 12.
fn sign(state: &str) -> &'static str {
    match state {
        "NotReady" => "M6 1L11.5 11H.5ZM6 4.5V7.5M6 8.8V10",
        "cordoned" => "M6 .8A5.2 5.2 0 1 0 6 11.2A5.2 5.2 0 1 0 6 .8M2.5 2.5L9.5 9.5",
        _ => "M6 .5L11.5 6L6 11.5L.5 6Z",
    }
}

fn badges(node: &Node) -> Vec<Drawing> {
    let badge = |word: &str| {
        let mut badge = Drawing::new(word.len() as i64 * 7 + 26, 18);
        let colour = if word == "NotReady" { WRONG } else { INK };
        badge.rect((0, 0, badge.width, 18), &format!("rx=\"3\" fill=\"#FFFFFF\" stroke=\"{colour}\""));
        let mut drawn = Drawing::new(12, 12);
        drawn.path(sign(word), &format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.4\""));
        badge.place(4, 3, &drawn);
        badge.text(20, 13, Face::Mono, word);
        badge
    };
    node.states().map(badge).collect()
}

/// The labels that the frames around the node do not say.
fn labels(node: &Node) -> Vec<&String> {
    let said = |label: &String| match label.split_once('=') {
        Some((ZONE_LABEL, zone)) => node.zone.as_deref().is_none_or(|own| own == zone),
        Some((key, pool)) => POOL_LABELS.contains(&key) && node.pool.as_deref() == Some(pool),
        None => false,
    };
    node.labels.iter().filter(|label| !said(label)).collect()
}

fn bar(drawing: &mut Drawing, y: i64, word: &str, (taken, all): (i64, i64), text: &str) {
    const LENGTH: i64 = 88;
    let share = if all > 0 { (taken as f64 / all as f64).clamp(0.0, 1.0) } else { 0.0 };
    let filled = (share * LENGTH as f64).round() as i64;
    drawing.text(PAD, y + 11, Face::Faint, word);
    drawing.rect((PAD + 52, y + 2, LENGTH, 10), &format!("fill=\"#FFFFFF\" stroke=\"{FAINT}\" stroke-width=\"0.8\""));
    drawing.rect((PAD + 52, y + 2, filled, 10), &format!("fill=\"{FAINT}\""));
    drawing.text(PAD + 52 + LENGTH + 8, y + 11, Face::Mono, text);
}

/// Pods in the order of the workloads, the cluster's own as one cell at the end, and those that should be here.
fn cells(node: &Node, pieces: &Pieces<'_>) -> Vec<Drawing> {
    let scale = Scale { all: node.allocatable, width: INNER };
    let (system, own) = pieces.on(&node.name);
    let mut cells: Vec<Drawing> = own.iter().map(|pod| pieces.cell(pod, scale)).collect();
    cells.extend(pieces.ghosts(&Spot::Node(node.name.clone())));
    if !system.is_empty() {
        cells.push(cell::system(system, scale));
    }
    cells
}
