//! A board as SVG, for slides and pages: 1,000 wide, on white, without scripts, styles or references.

mod cell;
mod drawing;
mod node;
mod parts;
mod pieces;
mod text;

use std::collections::HashMap;
use std::fmt::Write as _;

use self::cell::Scale;
use self::drawing::{CALM, Drawing, Face, WRONG, flow, frame, stack};
pub use self::parts::parts;
use self::pieces::Pieces;
pub use self::text::escaped;
use self::text::{cut, lines};
use super::model::{Board, Node, Pool, Spot, Usage, Workload};
use crate::words::plural;

const WIDTH: i64 = 1000;
const MARGIN: i64 = 20;
const INNER: i64 = WIDTH - 2 * MARGIN;
/// The width of the bar of the lesson's progress.
const PROGRESS: i64 = 240;
/// Characters of prose in a line of the whole width.
const COLUMNS: usize = 128;

/// The whole picture.
pub fn svg(board: &Board) -> String {
    let pieces = Pieces::of(board);
    let parts = [head(board), legend(board, &pieces), pools(board, &pieces), tray(board, &pieces), checks(board)];
    let parts: Vec<Drawing> = parts.into_iter().filter(|part| part.height > 0).collect();
    let all = stack(&parts, 14);
    let height = all.height + 2 * MARGIN;
    let mut page = Drawing::new(WIDTH, height);
    page.rect((0, 0, WIDTH, height), "fill=\"#FFFFFF\"");
    page.place(MARGIN, MARGIN, &all);
    let title = board.title.as_ref().or(board.lab.as_ref()).map_or("cluster", String::as_str);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" font-family=\"system-ui,'Segoe UI','DejaVu Sans',sans-serif\">\n<title>{}</title>\n<desc>{}</desc>\n{}</svg>\n",
        escaped(title),
        escaped(&summary(board)),
        page.body
    )
}

/// What the picture shows, in a line.
fn summary(board: &Board) -> String {
    let waiting: usize = board.pending.iter().map(|group| group.pods.len()).sum();
    let mut parts = vec![plural(board.nodes.len(), "node"), plural(board.pods.len(), "pod")];
    if waiting > 0 {
        parts.push(format!("{waiting} without a node"));
    }
    if !board.checks.is_empty() {
        let held = board.checks.iter().filter(|check| check.standing == "held").count();
        parts.push(format!("{held} of {} hold", plural(board.checks.len(), "check")));
    }
    parts.join(", ")
}

/// Title, where the lesson is, and the sum of it all.
fn head(board: &Board) -> Drawing {
    let mut head = Drawing::new(INNER, 44);
    let title = board.title.as_ref().or(board.lab.as_ref()).map_or("Cluster", String::as_str);
    head.text(0, 18, Face::Title, &cut(title, 80));
    let lab =
        board.lab.as_ref().filter(|_| board.title.is_some()).map(|lab| format!("lab {lab}: ")).unwrap_or_default();
    head.text(0, 38, Face::Prose, &cut(&format!("{lab}{}", summary(board)), COLUMNS));
    if let Some(words) = board.position() {
        head.text(0, 58, Face::Prose, &cut(&words, COLUMNS));
        head.rect((0, 66, PROGRESS, 6), "rx=\"3\" fill=\"#E3E7EC\"");
        let done = PROGRESS * board.steps_done() as i64 / board.steps.len().max(1) as i64;
        head.rect((0, 66, done, 6), &format!("rx=\"3\" fill=\"{CALM}\""));
        head.height = 76;
    }
    head
}

/// The workloads that are on the picture, each with the number of its pods.
fn shown(board: &Board) -> Vec<(&Workload, usize)> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for pod in &board.pods {
        *counts.entry(&pod.workload).or_default() += 1;
    }
    let expected =
        |id: &str| board.checks.iter().any(|check| check.workload.as_deref() == Some(id) && !check.ghosts.is_empty());
    let lettered = board.workloads.iter().filter(|workload| workload.letter.is_some());
    lettered
        .map(|workload| (workload, counts.get(workload.id.as_str()).copied().unwrap_or_default()))
        .filter(|(workload, pods)| *pods > 0 || expected(&workload.id))
        .collect()
}

/// The letters, and the signs that the picture uses.
fn legend(board: &Board, pieces: &Pieces<'_>) -> Drawing {
    let mut entries: Vec<Drawing> = shown(board)
        .into_iter()
        .map(|(workload, pods)| {
            entry(&cell::sample(workload).lettered(), &format!("{} ×{pods}", cut(&workload.name, 40)))
        })
        .collect();
    let signs = signs(board, pieces);
    if !signs.is_empty() {
        let text = signs.join(" · ");
        let mut line = Drawing::new(text.chars().count() as i64 * 8, 26);
        line.text(0, 18, Face::Prose, &text);
        entries.push(line);
    }
    flow(&entries, INNER, 8)
}

/// What the signs that are on the picture mean.
fn signs(board: &Board, pieces: &Pieces<'_>) -> Vec<String> {
    let any = |state: &str| {
        board.pods.iter().any(|pod| {
            pod.state == state && pieces.workload(&pod.workload).is_some_and(|workload| workload.letter.is_some())
        })
    };
    let mut signs: Vec<String> = [
        ("starting", "A… is starting"),
        ("not-ready", "A! is not ready"),
        ("terminating", "A− is terminating"),
        ("succeeded", "A✓ ended well"),
        ("failed", "A✗ failed"),
    ]
    .into_iter()
    .filter(|(state, _)| any(state))
    .map(|(_, words)| words.to_owned())
    .collect();
    if board.checks.iter().any(|check| !check.ghosts.is_empty()) {
        signs.push("A? should be there".to_owned());
    }
    if board.checks.iter().any(|check| !check.misplaced.is_empty()) {
        signs.push("◥ should not be there".to_owned());
    }
    signs
}

fn entry(sample: &Drawing, text: &str) -> Drawing {
    let mut entry = Drawing::new(sample.width + 16 + text.chars().count() as i64 * 8, sample.height);
    entry.place(0, 0, sample);
    entry.text(sample.width + 6, 18, Face::Prose, text);
    entry
}

/// The pools with their zones and nodes; nodes of no pool are last.
fn pools(board: &Board, pieces: &Pieces<'_>) -> Drawing {
    const FRAME: &str = "rx=\"8\" fill=\"#F5F7FA\" stroke=\"#8A94A6\" stroke-width=\"1.5\"";
    let of =
        |pool: Option<&str>| -> Vec<&Node> { board.nodes.iter().filter(|node| node.pool.as_deref() == pool).collect() };
    let mut frames: Vec<Drawing> = board
        .pools
        .iter()
        .map(|pool| {
            let mut parts = vec![zones(&of(Some(&pool.name)), pieces)];
            let ghosts = pieces.ghosts(&Spot::Pool(pool.name.clone()));
            parts.push(flow(&ghosts, node::INNER, 4).lettered());
            parts.retain(|part| part.height > 0);
            let inside = stack(&parts, 8);
            frame(&format!("pool {}", cut(&pool.name, 20)), &facts(pool, &board.nodes).join(" · "), &inside, FRAME)
        })
        .collect();
    let rest = of(None);
    if !rest.is_empty() {
        frames.push(frame("no pool", &plural(rest.len(), "node"), &zones(&rest, pieces), FRAME));
    }
    flow(&frames, INNER, 12)
}

/// What is to be said of a pool beside its name: how many nodes, which machines, what for, and the zone where it is only one.
fn facts(pool: &Pool, nodes: &[Node]) -> Vec<String> {
    let mut zones = nodes.iter().filter(|node| node.pool.as_ref() == Some(&pool.name)).map(|node| &node.zone);
    let zone = zones.next().cloned().flatten().filter(|one| zones.all(|zone| zone.as_ref() == Some(one)));
    let more = [pool.size.clone(), pool.mode.clone(), zone.map(|zone| format!("zone {zone}"))];
    [plural(pool.nodes, "node")].into_iter().chain(more.into_iter().flatten()).collect()
}

/// Nodes, by zone where there are several.
fn zones(nodes: &[&Node], pieces: &Pieces<'_>) -> Drawing {
    let boxes = |nodes: &[&Node]| {
        let boxes: Vec<Drawing> = nodes.iter().map(|node| node::node(node, pieces)).collect();
        flow(&boxes, 3 * node::WIDTH + 20, 10)
    };
    let mut names: Vec<Option<&str>> = nodes.iter().map(|node| node.zone.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() < 2 {
        return boxes(nodes);
    }
    let zones: Vec<Drawing> = names
        .into_iter()
        .map(|zone| {
            let own: Vec<&Node> = nodes.iter().copied().filter(|node| node.zone.as_deref() == zone).collect();
            let name = zone.map_or_else(|| "no zone".to_owned(), |zone| format!("zone {}", cut(zone, 24)));
            let attributes = "rx=\"6\" fill=\"#FFFFFF\" stroke=\"#8A94A6\" stroke-dasharray=\"1 3\"";
            frame(&name, "", &boxes(&own), attributes)
        })
        .collect();
    flow(&zones, INNER - 20, 8)
}

/// Pods without a node are drawn as on the largest node.
fn tray_scale(board: &Board) -> Scale {
    let most = |of: fn(&Usage) -> i64| board.nodes.iter().map(|node| of(&node.allocatable)).max().unwrap_or_default();
    let all = Usage {
        cpu_milli: most(|usage| usage.cpu_milli),
        memory_bytes: most(|usage| usage.memory_bytes),
        pods: most(|usage| usage.pods),
    };
    Scale { all, width: node::INNER }
}

/// Pods without a node, by reason. They are drawn to the scale of the largest node.
fn tray(board: &Board, pieces: &Pieces<'_>) -> Drawing {
    let ghosts = pieces.ghosts(&Spot::Pending);
    if board.pending.is_empty() && ghosts.is_empty() {
        return Drawing::default();
    }
    let scale = tray_scale(board);
    let mut parts: Vec<Drawing> = Vec::new();
    let mut waiting = 0;
    for group in &board.pending {
        waiting += group.pods.len();
        let cells: Vec<Drawing> =
            group.pods.iter().filter_map(|id| pieces.pod(id)).map(|pod| pieces.cell(pod, scale)).collect();
        parts.push(prose(&group.reason, COLUMNS - 4));
        parts.push(flow(&cells, INNER - 20, 4).lettered());
    }
    parts.push(flow(&ghosts, INNER - 20, 4).lettered());
    parts.retain(|part| part.height > 0);
    let mut inside = stack(&parts, 6);
    inside.width = INNER - 20;
    let attributes =
        format!("rx=\"8\" fill=\"#FFF8EC\" stroke=\"{WRONG}\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\"");
    frame("Pending", &plural(waiting, "pod"), &inside, &attributes)
}

/// A text in as many lines as it takes.
fn prose(text: &str, columns: usize) -> Drawing {
    let mut drawing = Drawing::new(INNER - 20, 2);
    for line in lines(text, columns) {
        drawing.height += 17;
        let y = drawing.height - 4;
        drawing.text(0, y, Face::Prose, &line);
    }
    drawing
}

/// The checks: sign and word, what it is, what is true now.
fn checks(board: &Board) -> Drawing {
    let mut all = Drawing::new(INNER, 0);
    for check in &board.checks {
        let (sign, word) = match check.standing {
            "held" => ("✓", "held"),
            "not-yet" => ("…", "not yet"),
            _ => ("✗", "does not hold"),
        };
        let mut text = String::new();
        let _ = write!(text, "{}: {}", check.name, check.now);
        all.text(0, all.height + 14, Face::Name, sign);
        all.text(18, all.height + 14, Face::Prose, word);
        for line in lines(&text, COLUMNS - 16) {
            all.height += 18;
            let y = all.height - 4;
            all.text(112, y, Face::Prose, &line);
        }
    }
    all
}
