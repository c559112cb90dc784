//! What is drawn of nodes and pods: names, words, taints, bars, cells.

use ratatui::text::Span;

use super::block::{Area, Block, Cell, Item};
use super::palette::{FAINT, Palette, STRONG};
use super::text::{columns, cut, lines, shown};
use klab_lab::board::{self, Node, Pod, Workload};
use klab_lab::membership::POOL_LABELS;
use klab_lab::names::ZONE_LABEL;

/// Columns that the box of a node takes at least.
pub(super) const NARROWEST: usize = 36;
/// Columns of a bar at most.
const BAR: usize = 12;

/// A letter with its sign, in the colour of its workload; brackets where there are no colours.
pub(super) fn cell(palette: Palette, workload: Option<&Workload>, signs: &str) -> Span<'static> {
    let letter = workload.and_then(|workload| workload.letter.as_deref()).unwrap_or("·");
    let text = match palette {
        Palette::Plain => format!("[{letter}{signs}]"),
        _ => format!(" {letter}{signs} "),
    };
    Span::styled(text, palette.cell(workload.and_then(|workload| workload.colour)))
}

/// A pod; `wrong` where a check says that it should not be where it is.
pub(super) fn pod(palette: Palette, pod: &Pod, workload: Option<&Workload>, wrong: bool) -> Cell {
    let signs = format!("{}{}", board::sign(pod.state), if wrong { "◥" } else { "" });
    Cell { spans: vec![cell(palette, workload, &signs)], item: Some(Item::Pod(pod.id.clone())) }
}

/// Pods that should be here.
pub(super) fn ghost(workload: Option<&Workload>, pods: usize) -> Cell {
    let letter = workload.and_then(|workload| workload.letter.as_deref()).unwrap_or("·");
    let many = if pods > 1 { format!(" ×{pods}") } else { String::new() };
    Cell::plain(Span::styled(format!("({letter}?{many})"), STRONG))
}

/// The labels that the frames around the node do not say.
pub(super) fn labels(node: &Node) -> impl Iterator<Item = &String> {
    node.labels.iter().filter(|label| match label.split_once('=') {
        Some((ZONE_LABEL, zone)) => node.zone.as_deref() != Some(zone),
        Some((key, pool)) => !POOL_LABELS.contains(&key) || node.pool.as_deref() != Some(pool),
        None => true,
    })
}

/// The box of a node with the cells of what is on it.
pub(super) fn node(palette: Palette, node: &Node, zone: Option<&str>, cells: Vec<Cell>, width: usize) -> Block {
    let mut block = Block::new(width);
    let words: Vec<Span<'static>> = node
        .states()
        .map(|word| match word {
            "spot" => Span::styled(word, STRONG),
            "cordoned" => Span::styled(word, palette.care()),
            _ => Span::styled(word, palette.bad()),
        })
        .chain(zone.map(|zone| Span::styled(format!("zone {}", cut(zone, 20)), FAINT)))
        .collect();
    let said: usize = words.iter().map(|word| word.width() + 1).sum();
    let names = lines(&node.name, width.saturating_sub(2));
    let last = names.last().map_or(0, |name| columns(name));
    for name in names {
        block.line(vec![Span::raw(" "), Span::styled(name, STRONG)]);
    }
    if 1 + last + said > width {
        block.line(vec![Span::raw("  ")]);
    }
    if let Some(line) = block.lines.last_mut() {
        line.extend(words.into_iter().flat_map(|word| [Span::raw(" "), word]));
    }
    for (word, text) in node.taints.iter().map(|taint| ("taint", taint)).chain(labels(node).map(|it| ("label", it))) {
        for (number, line) in lines(text, width.saturating_sub(8)).into_iter().enumerate() {
            let word = if number == 0 { word } else { "" };
            block.line(vec![Span::styled(format!(" {word:5} "), FAINT), Span::raw(line)]);
        }
    }
    block.line(bars(palette, node, width.saturating_sub(1)));
    block.flow(cells, 1, Area::Nodes);
    block.spot(Item::Node(node.name.clone()), Area::Nodes, 0);
    // The node comes before what is on it.
    block.spots.rotate_right(1);
    block
}

/// How much of what there is its pods request: CPU and memory in hundredths, pods as they are.
fn bars(palette: Palette, node: &Node, width: usize) -> Vec<Span<'static>> {
    let (taken, all) = (node.requested, node.allocatable);
    let percent = |taken: i64, all: i64| if all > 0 { taken.saturating_mul(100) / all } else { 0 };
    let rows = [
        ("cpu", taken.cpu_milli, all.cpu_milli, format!("{}%", percent(taken.cpu_milli, all.cpu_milli))),
        ("mem", taken.memory_bytes, all.memory_bytes, format!("{}%", percent(taken.memory_bytes, all.memory_bytes))),
        ("pods", taken.pods, all.pods, format!("{}/{}", taken.pods, all.pods)),
    ];
    // A blank before and two within each.
    let words: usize = rows.iter().map(|(word, .., text)| word.len() + text.len() + 3).sum();
    let length = (width.saturating_sub(words) / rows.len()).min(BAR);
    let mut line = Vec::new();
    for (word, taken, all, text) in rows {
        line.push(Span::styled(format!(" {word} "), FAINT));
        let full = if taken >= all && all > 0 { palette.care() } else { palette.lead() };
        let (filled, rest) = bar(taken, all, length);
        line.push(Span::styled(filled, full));
        line.push(Span::styled(rest, FAINT));
        line.push(Span::raw(if length > 0 { format!(" {text}") } else { text }));
    }
    line
}

/// A bar of a number of cells: its full part, in eighths, and its empty part.
fn bar(taken: i64, all: i64, length: usize) -> (String, String) {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let share = if all > 0 { (taken as f64 / all as f64).clamp(0.0, 1.0) } else { 0.0 };
    let mut eighths = (share * (length * 8) as f64).round() as usize;
    if taken > 0 && length > 0 {
        // Little is not nothing.
        eighths = eighths.max(1);
    }
    let filled = format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8]);
    let rest = "░".repeat(length.saturating_sub(eighths.div_ceil(8)));
    (filled, rest)
}

/// How a pod is named: without the namespace where that is `default`.
pub(super) fn short(id: &str) -> String {
    shown(id.strip_prefix("default/").unwrap_or(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_eighths_and_little_is_not_nothing() {
        for (taken, all, length, drawn) in [
            (0, 100, 4, "░░░░"),
            (1, 1000, 4, "▏░░░"),
            (50, 100, 4, "██░░"),
            (40, 100, 4, "█▋░░"),
            (100, 100, 4, "████"),
            (300, 100, 4, "████"),
            (1, 0, 4, "▏░░░"),
            (1, 2, 0, ""),
        ] {
            let (filled, rest) = bar(taken, all, length);
            assert_eq!(format!("{filled}{rest}"), drawn, "{taken} of {all}");
        }
    }
}
