//! A board as the parts of a page that lives: each is HTML that is redrawn only where it changed.
//!
//! A part may hold places for others: elements with `data-part`, filled with the part of that name.

use std::fmt::Write as _;

use super::cell;
use super::node;
use super::pieces::Pieces;
use super::text::escaped;
use super::{facts, shown, signs, summary, tray_scale};
use crate::board::model::{Board, Node, Pod, Spot};
use crate::board::plain_words::in_plain_words;
use crate::words::plural;

/// Most cells of a reason in the tray: more cannot be counted by looking.
const CELLS: usize = 200;
/// Most names in a cell of the table.
const NAMES: usize = 30;

/// The parts of the page by name, those that hold others before them. All texts of the cluster are escaped.
pub fn parts(board: &Board) -> Vec<(String, String)> {
    let pieces = Pieces::of(board);
    let mut parts = vec![
        ("head".to_owned(), head(board)),
        ("summary".to_owned(), escaped(&summary(board))),
        ("legend".to_owned(), legend(board, &pieces)),
        ("pools".to_owned(), pools(board, &pieces)),
        ("tray".to_owned(), tray(board, &pieces)),
        ("table".to_owned(), table(board)),
    ];
    for node in &board.nodes {
        parts.push((format!("node/{}", node.name), node::node(node, &pieces).picture("node-box")));
        parts.push((format!("row/{}", node.name), row(node, &pieces)));
    }
    parts
}

/// A place for another part.
fn place(element: &str, class: &str, part: &str) -> String {
    format!("<{element} class=\"{class}\" data-part=\"{}\"></{element}>", escaped(part))
}

/// Where the lesson is.
fn head(board: &Board) -> String {
    let title = board.title.as_ref().or(board.lab.as_ref()).map_or("Cluster", String::as_str);
    let mut html = format!("<h1>{}</h1>", escaped(title));
    if let Some(words) = board.position() {
        let (done, total) = (board.steps_done(), board.steps.len());
        let _ = write!(
            html,
            "<p class=\"position\"><span>{}</span> <progress aria-label=\"Steps done\" value=\"{done}\" max=\"{total}\"></progress></p>",
            escaped(&words)
        );
    }
    html
}

/// The letters of the workloads, and what signs mean.
fn legend(board: &Board, pieces: &Pieces<'_>) -> String {
    let mut html = String::from("<ul>");
    for (workload, pods) in shown(board) {
        let sample = cell::sample(workload).lettered().picture("sample");
        let _ = write!(html, "<li>{sample}<span>{} ×{pods}</span></li>", escaped(&workload.name));
    }
    for sign in signs(board, pieces) {
        let _ = write!(html, "<li class=\"sign\">{}</li>", escaped(&sign));
    }
    html.push_str("</ul>");
    html
}

/// Pools as frames with places for their nodes, by zone where there are several.
fn pools(board: &Board, pieces: &Pieces<'_>) -> String {
    let of =
        |pool: Option<&str>| -> Vec<&Node> { board.nodes.iter().filter(|node| node.pool.as_deref() == pool).collect() };
    let mut html = String::new();
    for pool in &board.pools {
        let ghosts = pieces.ghosts(&Spot::Pool(pool.name.clone()));
        let ghosts: String = ghosts.into_iter().map(|ghost| ghost.lettered().picture("cell")).collect();
        let ghosts = if ghosts.is_empty() { ghosts } else { format!("<div class=\"cells\">{ghosts}</div>") };
        let _ = write!(
            html,
            "<section class=\"pool\"><h3>pool {}</h3><ul class=\"chips\">{}</ul>{}{ghosts}</section>",
            escaped(&pool.name),
            facts(pool, &board.nodes).iter().map(|fact| format!("<li>{}</li>", escaped(fact))).collect::<String>(),
            zones(&of(Some(&pool.name)))
        );
    }
    let rest = of(None);
    if !rest.is_empty() {
        let count = plural(rest.len(), "node");
        let _ = write!(
            html,
            "<section class=\"pool\"><h3>no pool</h3><ul class=\"chips\"><li>{count}</li></ul>{}</section>",
            zones(&rest)
        );
    }
    html
}

fn zones(nodes: &[&Node]) -> String {
    let boxes = |nodes: &[&Node]| {
        let places: String =
            nodes.iter().map(|node| place("div", "node-place", &format!("node/{}", node.name))).collect();
        format!("<div class=\"nodes\">{places}</div>")
    };
    let mut names: Vec<Option<&str>> = nodes.iter().map(|node| node.zone.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() < 2 {
        return boxes(nodes);
    }
    let zone = |zone: Option<&str>| {
        let own: Vec<&Node> = nodes.iter().copied().filter(|node| node.zone.as_deref() == zone).collect();
        let name = zone.map_or_else(|| "no zone".to_owned(), |zone| format!("zone {}", escaped(zone)));
        format!("<section class=\"zone\"><h4>{name}</h4>{}</section>", boxes(&own))
    };
    names.into_iter().map(zone).collect()
}

/// Pods without a node, by the scheduler's reason.
fn tray(board: &Board, pieces: &Pieces<'_>) -> String {
    let ghosts = pieces.ghosts(&Spot::Pending);
    if board.pending.is_empty() && ghosts.is_empty() {
        return String::new();
    }
    let waiting: usize = board.pending.iter().map(|group| group.pods.len()).sum();
    let scale = tray_scale(board);
    let mut html = format!("<section class=\"tray\"><h3>Pending <small>{}</small></h3>", plural(waiting, "pod"));
    for group in &board.pending {
        let pods = group.pods.iter().take(CELLS).filter_map(|id| pieces.pod(id));
        let cells: String = pods.map(|pod| pieces.cell(pod, scale).lettered().picture("cell")).collect();
        let more = group.pods.len().saturating_sub(CELLS);
        let more = if more > 0 { format!("<span>and {more} more</span>") } else { String::new() };
        let reason = escaped(&group.reason);
        let words = match in_plain_words(&group.reason) {
            Some(plain) => {
                format!("<p>{}</p><p class=\"verbatim\">The scheduler: <q>{reason}</q></p>", escaped(&plain))
            }
            None => format!("<p>{reason}</p>"),
        };
        let _ = write!(html, "<div class=\"lane\">{words}<div class=\"cells\">{cells}{more}</div></div>");
    }
    let ghosts: String = ghosts.into_iter().map(|ghost| ghost.lettered().picture("cell")).collect();
    if !ghosts.is_empty() {
        let _ = write!(html, "<div class=\"cells\">{ghosts}</div>");
    }
    html.push_str("</section>");
    html
}

/// The picture as a table, for who does not see it.
fn table(board: &Board) -> String {
    let mut html = String::from(
        "<table><caption>Nodes and their pods</caption><thead><tr><th scope=\"col\">Node</th><th scope=\"col\">Pool</th>\
         <th scope=\"col\">State</th><th scope=\"col\">Taints</th><th scope=\"col\">Pods</th></tr></thead><tbody>",
    );
    for node in &board.nodes {
        html.push_str(&place("tr", "row", &format!("row/{}", node.name)));
    }
    html.push_str("</tbody></table>");
    if !board.pending.is_empty() {
        html.push_str(
            "<table><caption>Pods without a node</caption><thead><tr><th scope=\"col\">Reason</th>\
             <th scope=\"col\">Pods</th></tr></thead><tbody>",
        );
        for group in &board.pending {
            let pods = names(group.pods.iter().map(String::as_str));
            let _ = write!(html, "<tr><th scope=\"row\">{}</th><td>{pods}</td></tr>", escaped(&group.reason));
        }
        html.push_str("</tbody></table>");
    }
    html
}

fn row(node: &Node, pieces: &Pieces<'_>) -> String {
    let states: Vec<&str> = node.states().collect();
    let states = if states.is_empty() { "Ready".to_owned() } else { states.join(", ") };
    let (system, own) = pieces.on(&node.name);
    let pod = |pod: &&Pod| if pod.state == "running" { pod.id.clone() } else { format!("{} ({})", pod.id, pod.state) };
    let of_lab: Vec<String> = own.iter().map(pod).collect();
    let mut pods = names(of_lab.iter().map(String::as_str));
    if !system.is_empty() {
        let and = if pods.is_empty() { "" } else { ", " };
        let _ = write!(pods, "{and}{} of the cluster itself", plural(system.len(), "pod"));
    }
    format!(
        "<th scope=\"row\">{}</th><td>{}</td><td>{states}</td><td>{}</td><td>{pods}</td>",
        escaped(&node.name),
        escaped(node.pool.as_deref().unwrap_or_default()),
        escaped(&node.taints.join(", ")),
    )
}

fn names<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let more = names.len().saturating_sub(NAMES);
    let shown: Vec<String> = names.take(NAMES).map(escaped).collect();
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}
