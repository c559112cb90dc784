//! A node: name, what is the matter with it, taints, labels, how full it is, the pods on it.

use super::cell::{self, Scale};
use super::drawing::{CALM, Drawing, EDGE, Face, INK, WRONG, flow};
use super::pieces::Pieces;
use super::text::{cut, lines};
use crate::board::model::{Node, Spot};
use crate::membership::POOL_LABELS;
use crate::names::ZONE_LABEL;
use crate::verify::amount;

pub(super) const WIDTH: i64 = 248;
const PAD: i64 = 10;
/// The width inside.
pub(super) const INNER: i64 = WIDTH - 2 * PAD;
/// Characters of a line of a chip.
const COLUMNS: usize = 32;

/// The box of a node.
pub(super) fn node(node: &Node, pieces: &Pieces<'_>) -> Drawing {
    let mut inside = Drawing::new(WIDTH, 0);
    let mut y = 20;
    let mut name = Drawing::new(INNER, 14);
    name.text(0, 12, Face::Name, &cut(node.short_name(), 30));
    let words: Vec<&str> = node.states().collect();
    let words = if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) };
    let title = format!("node {}{words}", node.name);
    inside.place(PAD, y - 12, &name.named("node", &node.name, &title));
    let mut chips = badges(node);
    chips.extend(node.shown_taints().map(|taint| chip(taint, true)));
    chips.extend(labels(node).into_iter().map(|label| chip(label, false)));
    if !chips.is_empty() {
        let chips = flow(&chips, INNER, 4);
        inside.place(PAD, y + 6, &chips);
        y += chips.height + 4;
    }
    y += 8;
    let (taken, all) = (node.requested, node.allocatable);
    for (word, resource, share) in [
        ("CPU", "cpu", (taken.cpu_milli, all.cpu_milli)),
        ("memory", "memory", (taken.memory_bytes, all.memory_bytes)),
        ("pods", "pods", (taken.pods, all.pods)),
    ] {
        bar(&mut inside, y, word, resource, share);
        y += 24;
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
    let (colour, thick) = if node.ready { (EDGE, "1") } else { (WRONG, "2.5") };
    let ground = if node.cordoned || !node.ready { "#F2F2F2" } else { "#FFFFFF" };
    let mut outline = |inset: i64, attributes: &str| {
        let (right, bottom) = (width - inset, height - inset);
        if node.spot {
            let path = format!("M{inset} {inset}H{}L{right} {}V{bottom}H{inset}Z", right - 18, inset + 18);
            drawing.path(&path, attributes);
        } else {
            drawing.rect((inset, inset, right - inset, bottom - inset), &format!("rx=\"6\" {attributes}"));
        }
    };
    outline(1, &format!("fill=\"{ground}\" stroke=\"{colour}\" stroke-width=\"{thick}\"{dashes}"));
    if node.cordoned {
        outline(5, &format!("fill=\"none\" stroke=\"{INK}\" stroke-width=\"1\""));
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

/// A taint with its effect, or a label: whole words in as many lines as they take.
fn chip(text: &str, is_taint: bool) -> Drawing {
    let (text, effect) = text.rsplit_once(':').filter(|_| is_taint).map_or((text, ""), |(text, effect)| (text, effect));
    let wide = |columns: usize| (columns * 67 / 10) as i64 + 12;
    let mut rows = lines(text, COLUMNS);
    let columns = |row: &String| row.chars().count();
    let last = rows.last().map_or(0, columns);
    // The effect stands behind the text where there is room.
    let is_beside = wide(last) + wide(effect.len()) <= INNER;
    if !is_beside {
        rows.push(String::new());
    }
    let left = if is_beside { wide(last) } else { 0 };
    let right = if effect.is_empty() { 0 } else { left + wide(effect.len()) };
    let mut chip = Drawing::new(rows.iter().map(|row| wide(columns(row))).max().unwrap_or_default().max(right), 0);
    chip.height = 15 * rows.len() as i64 + 3;
    let (height, colour) = (chip.height, if is_taint { WRONG } else { EDGE });
    let round = if is_taint { 3 } else { 9 };
    chip.rect((0, 0, chip.width, height), &format!("rx=\"{round}\" fill=\"#FFFFFF\" stroke=\"{colour}\""));
    for (y, row) in (13..).step_by(15).zip(&rows) {
        chip.text(6, y, Face::Mono, row);
    }
    if !effect.is_empty() {
        chip.rect((left, height - 18, chip.width - left, 18), &format!("rx=\"3\" fill=\"{WRONG}\""));
        chip.text(left + 6, height - 5, Face::Inverse, effect);
    }
    chip.titled(&if is_taint { format!("taint {text}:{effect}") } else { format!("label {text}") })
}

/// How much of a resource is requested. The fuller, the more it stands out: by colour, by stripes, by thickness.
fn bar(drawing: &mut Drawing, y: i64, word: &str, resource: &str, (taken, all): (i64, i64)) {
    let share = if all > 0 { (taken as f64 / all as f64).clamp(0.0, 1.0) } else { 0.0 };
    let (percent, filled) = ((share * 100.0).round() as i64, ((share * INNER as f64).round() as i64).max(2));
    let (fill, stripes) = match percent {
        ..70 => (CALM, 0),
        70..90 => ("#E69F00", 10),
        _ => ("#D55E00", 5),
    };
    let (top, thick) = if percent < 90 { (y + 14, 6) } else { (y + 13, 8) };
    drawing.text(PAD, y + 10, Face::Faint, word);
    let text = format!("{} of {} · {percent} %", amount(resource, taken), amount(resource, all));
    drawing.text_before(PAD + INNER, y + 10, if percent < 90 { Face::Mono } else { Face::Strong }, &text);
    drawing.rect((PAD, top, INNER, thick), "rx=\"3\" fill=\"#E3E7EC\"");
    drawing.rect((PAD, top, filled, thick), &format!("rx=\"3\" fill=\"{fill}\""));
    if stripes > 0 {
        let lines =
            (0..filled - thick).step_by(stripes).map(|x| format!("M{} {}l{thick} -{thick}", PAD + x, top + thick));
        drawing.path(&lines.collect::<String>(), "stroke=\"#1A1A1A\" stroke-width=\"1.5\"");
    }
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
