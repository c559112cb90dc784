//! A board as a Mermaid flowchart, for READMEs and notes: pools, zones and nodes as subgraphs, pods of a workload as one box.

use std::fmt::Write as _;

use super::legend::{COLOURS, colour, ink};
use super::model::{Board, Node, Pod, Spot, Workload};
use crate::verify::amount;
use crate::words::plural;

/// The flowchart.
pub fn mermaid(board: &Board) -> String {
    let mut chart = Chart { board, text: "flowchart LR\n".to_owned(), boxes: 0 };
    for (number, pool) in board.pools.iter().enumerate() {
        let nodes = board.nodes.iter().filter(|node| node.pool.as_deref() == Some(&pool.name)).collect();
        let label = format!("pool {}: {}", pool.name, plural(pool.nodes, "node"));
        chart.pool(&format!("p{number}"), &label, nodes, Some(&pool.name));
    }
    let rest: Vec<&Node> = board.nodes.iter().filter(|node| node.pool.is_none()).collect();
    if !rest.is_empty() {
        chart.pool("p", "no pool", rest, None);
    }
    chart.tray();
    for number in 0..COLOURS {
        let index = Some(number as u8);
        let (fill, ink) = (colour(index), ink(index));
        let _ = writeln!(chart.text, "  classDef w{number} fill:{fill},color:{ink},stroke:#1A1A1A");
    }
    let _ = writeln!(chart.text, "  classDef plain fill:{},color:{},stroke:#595959", colour(None), ink(None));
    chart.text.push_str("  classDef about fill:#FFFFFF,color:#1A1A1A,stroke:#FFFFFF\n");
    chart.text.push_str("  classDef ghost fill:#FFFFFF,color:#1A1A1A,stroke:#595959,stroke-dasharray:3 3\n");
    chart.text
}

struct Chart<'b> {
    board: &'b Board,
    text: String,
    boxes: usize,
}

impl Chart<'_> {
    fn open(&mut self, depth: usize, id: &str, label: &str) {
        let indent = "  ".repeat(depth);
        let _ = writeln!(self.text, "{indent}subgraph {id}[\"{}\"]\n{indent}  direction TB", quoted(label));
    }

    fn close(&mut self, depth: usize) {
        let _ = writeln!(self.text, "{}end", "  ".repeat(depth));
    }

    /// A box with lines of text.
    fn put(&mut self, depth: usize, lines: &[String], class: &str) {
        let id = self.boxes;
        self.boxes += 1;
        let lines: Vec<String> = lines.iter().map(|line| quoted(line)).collect();
        let _ = writeln!(self.text, "{}b{id}[\"{}\"]:::{class}", "  ".repeat(depth), lines.join("<br/>"));
    }

    fn pool(&mut self, id: &str, label: &str, nodes: Vec<&Node>, pool: Option<&str>) {
        self.open(1, id, label);
        let mut zones: Vec<Option<&str>> = nodes.iter().map(|node| node.zone.as_deref()).collect();
        zones.sort_unstable();
        zones.dedup();
        for (number, zone) in zones.iter().enumerate() {
            let is_framed = zones.len() > 1;
            let depth = if is_framed { 3 } else { 2 };
            let zone_id = format!("{id}z{number}");
            if is_framed {
                self.open(2, &zone_id, &zone.map_or_else(|| "no zone".to_owned(), |zone| format!("zone {zone}")));
            }
            for (at, node) in nodes.iter().filter(|node| node.zone.as_deref() == *zone).enumerate() {
                self.node(depth, &format!("{zone_id}n{at}"), node);
            }
            if is_framed {
                self.close(2);
            }
        }
        if let Some(pool) = pool {
            self.ghosts(2, &Spot::Pool(pool.to_owned()));
        }
        self.close(1);
    }

    fn node(&mut self, depth: usize, id: &str, node: &Node) {
        let states: Vec<&str> = node.states().collect();
        let states = if states.is_empty() { String::new() } else { format!(" ({})", states.join(", ")) };
        self.open(depth, id, &format!("{}{states}", node.name));
        let mut about: Vec<String> = node.taints.iter().map(|taint| format!("taint {taint}")).collect();
        about.extend(node.labels.iter().map(|label| format!("label {label}")));
        let (taken, all) = (node.requested, node.allocatable);
        for (word, resource, taken, all) in [
            ("CPU", "cpu", taken.cpu_milli, all.cpu_milli),
            ("memory", "memory", taken.memory_bytes, all.memory_bytes),
            ("pods", "pods", taken.pods, all.pods),
        ] {
            about.push(format!("{word} {} of {}", amount(resource, taken), amount(resource, all)));
        }
        self.put(depth + 1, &about, "about");
        let pods: Vec<&Pod> = self.board.pods.iter().filter(|pod| pod.node.as_deref() == Some(&node.name)).collect();
        self.pods(depth + 1, &pods);
        self.ghosts(depth + 1, &Spot::Node(node.name.clone()));
        self.close(depth);
    }

    /// Pods, a box for each workload and state; those of the cluster itself in one.
    fn pods(&mut self, depth: usize, pods: &[&Pod]) {
        let board = self.board;
        for workload in board.workloads.iter().filter(|workload| workload.letter.is_some()) {
            let mut states: Vec<&str> = Vec::new();
            let own: Vec<&&Pod> = pods.iter().filter(|pod| pod.workload == workload.id).collect();
            for pod in &own {
                if !states.contains(&pod.state) {
                    states.push(pod.state);
                }
            }
            for state in states {
                let count = own.iter().filter(|pod| pod.state == state).count();
                let word = if matches!(state, "running" | "unschedulable") { "" } else { state };
                let line = format!("{} ×{count} {word}", named(workload));
                self.put(depth, &[line.trim_end().to_owned()], &class(workload));
            }
        }
        let is_system = |pod: &&&Pod| board.workload(&pod.workload).is_some_and(|workload| workload.letter.is_none());
        let system = pods.iter().filter(is_system).count();
        if system > 0 {
            self.put(depth, &[format!("system ×{system}")], "plain");
        }
    }

    fn ghosts(&mut self, depth: usize, place: &Spot) {
        let board = self.board;
        for check in &board.checks {
            for ghost in check.ghosts.iter().filter(|ghost| ghost.on == *place) {
                let workload = check.workload.as_deref().and_then(|id| board.workload(id));
                let name = workload.map_or_else(|| "pods".to_owned(), named);
                self.put(depth, &[format!("{name} ×{}: should be here", ghost.pods)], "ghost");
            }
        }
    }

    fn tray(&mut self) {
        let board = self.board;
        if board.pending.is_empty() {
            return;
        }
        self.open(1, "pending", "Pending");
        for (number, group) in board.pending.iter().enumerate() {
            self.open(2, &format!("r{number}"), &group.reason);
            let pods: Vec<&Pod> = board.pods.iter().filter(|pod| group.pods.contains(&pod.id)).collect();
            self.pods(3, &pods);
            self.close(2);
        }
        self.close(1);
    }
}

fn named(workload: &Workload) -> String {
    format!("{} {}", workload.letter.as_deref().unwrap_or_default(), workload.name)
}

fn class(workload: &Workload) -> String {
    workload.colour.map_or_else(|| "plain".to_owned(), |colour| format!("w{colour}"))
}

/// A text between double quotes: everything that Mermaid, Markdown or HTML could take for more than text is a number.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in crate::printable::printable(text).chars() {
        match character {
            '\n' | '\r' | '\t' => out.push(' '),
            ' ' | '-' | '_' | '.' | '/' | ':' | '=' | ',' | '(' | ')' | '×' => out.push(character),
            character if character.is_alphanumeric() => out.push(character),
            character => {
                let _ = write!(out, "#{};", u32::from(character));
            }
        }
    }
    out
}
