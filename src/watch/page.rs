//! A board as a page of lines: letters, pools with their nodes, pods without a node, checks; as much of it as a filter leaves.

use std::collections::{HashMap, HashSet};

use ratatui::text::{Line, Span};

use super::block::{Area, Block, Cell, Item, Spot};
use super::node::{self, NARROWEST};
use super::palette::{FAINT, Palette, STRONG};
use super::text::{columns, cut, lines};
use klab_lab::board::{Board, Check, Node, Pod, Spot as Place, Workload};
use klab_lab::words::plural;

/// Most letters shown; Enter shows of each pod what it is.
const LETTERS: usize = 24;

/// What is drawn, and where in it is what can be selected.
#[derive(Debug, Clone, Default)]
pub(super) struct Page {
    pub(super) lines: Vec<Line<'static>>,
    pub(super) spots: Vec<Spot>,
}

impl Page {
    /// The page of a board, in a number of columns. With a filter, only what has its text.
    pub(super) fn of(board: &Board, palette: Palette, width: usize, filter: &str) -> Self {
        let pieces = Pieces::of(board, palette, filter);
        let mut all = legend(&pieces, width);
        all.below(pools(&pieces, width));
        all.below(tray(&pieces, width));
        all.below(checks(&pieces, width));
        if all.lines.is_empty() {
            let words = if filter.is_empty() { "There is nothing in this cluster." } else { "Nothing has this text." };
            all.line(vec![Span::styled(format!(" {words}"), FAINT)]);
        }
        let (lines, spots) = all.drawn();
        Self { lines, spots }
    }
}

/// A board, looked up by what is drawn together.
struct Pieces<'b> {
    board: &'b Board,
    palette: Palette,
    /// In small letters.
    filter: String,
    workloads: HashMap<&'b str, (usize, &'b Workload)>,
    pods: HashMap<&'b str, &'b Pod>,
    on: HashMap<&'b str, Vec<&'b Pod>>,
    misplaced: HashSet<&'b str>,
}

impl<'b> Pieces<'b> {
    fn of(board: &'b Board, palette: Palette, filter: &str) -> Self {
        let workloads = board.workloads.iter().enumerate().map(|(at, workload)| (workload.id.as_str(), (at, workload)));
        let workloads: HashMap<_, _> = workloads.collect();
        let mut on: HashMap<&str, Vec<&Pod>> = HashMap::new();
        for pod in &board.pods {
            if let Some(node) = pod.node.as_deref() {
                on.entry(node).or_default().push(pod);
            }
        }
        for pods in on.values_mut() {
            pods.sort_by_key(|pod| workloads.get(pod.workload.as_str()).map_or(usize::MAX, |(at, _)| *at));
        }
        Self {
            board,
            palette,
            filter: filter.to_lowercase(),
            workloads,
            pods: board.pods.iter().map(|pod| (pod.id.as_str(), pod)).collect(),
            on,
            misplaced: board.checks.iter().flat_map(|check| &check.misplaced).map(String::as_str).collect(),
        }
    }

    fn workload(&self, id: &str) -> Option<&'b Workload> {
        self.workloads.get(id).map(|(_, workload)| *workload)
    }

    /// Whether one of the texts has the filter's.
    fn has<'t>(&self, texts: impl IntoIterator<Item = &'t str>) -> bool {
        self.filter.is_empty() || texts.into_iter().any(|text| text.to_lowercase().contains(&self.filter))
    }

    fn shows_pod(&self, pod: &Pod) -> bool {
        self.has([pod.id.as_str(), pod.state].into_iter().chain(pod.trouble.as_deref()))
    }

    fn shows_node(&self, node: &Node) -> bool {
        let texts = [Some(node.name.as_str()), node.pool.as_deref(), node.zone.as_deref()].into_iter().flatten();
        let texts = texts.chain(node.taints.iter().chain(&node.labels).map(String::as_str));
        self.has(texts.chain(node.states().collect::<Vec<_>>()))
    }

    fn is_system(&self, pod: &Pod) -> bool {
        self.workload(&pod.workload).is_some_and(|workload| workload.letter.is_none())
    }

    fn cell(&self, pod: &Pod) -> Cell {
        let wrong = self.misplaced.contains(pod.id.as_str());
        node::pod(self.palette, pod, self.workload(&pod.workload), wrong)
    }

    /// The pods that checks want in a place and that are not there.
    fn ghosts(&self, place: &Place) -> Vec<Cell> {
        let mut cells = Vec::new();
        // A ghost has no name to be found by.
        for check in self.board.checks.iter().filter(|_| self.filter.is_empty()) {
            let workload = check.workload.as_deref().and_then(|id| self.workload(id));
            let wanted = check.ghosts.iter().filter(|ghost| ghost.on == *place);
            cells.extend(wanted.map(|ghost| node::ghost(workload, ghost.pods)));
        }
        cells
    }
}

/// The letters, and the signs that this page uses.
fn legend(pieces: &Pieces<'_>, width: usize) -> Block {
    let board = pieces.board;
    let mut block = Block::new(width);
    let expected = |check: &Check, id: &str| check.workload.as_deref() == Some(id) && !check.ghosts.is_empty();
    let mut cells = Vec::new();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for pod in &board.pods {
        *counts.entry(&pod.workload).or_default() += 1;
    }
    for workload in board.workloads.iter().filter(|workload| workload.letter.is_some()) {
        let pods = counts.get(workload.id.as_str()).copied().unwrap_or_default();
        let is_shown = pods > 0 || board.checks.iter().any(|check| expected(check, &workload.id));
        if is_shown && pieces.has([workload.name.as_str()]) {
            let words = format!(" {} ×{pods} ", cut(&workload.name, 40));
            cells.push(Cell {
                spans: vec![node::cell(pieces.palette, Some(workload), ""), Span::raw(words)],
                item: None,
            });
        }
    }
    let more = cells.len().saturating_sub(LETTERS);
    if more > 0 {
        cells.truncate(LETTERS);
        cells.push(Cell::plain(Span::styled(format!("and {more} more "), FAINT)));
    }
    let own = |state: &str| board.pods.iter().any(|pod| pod.state == state && !pieces.is_system(pod));
    let states = [
        ("starting", "A… starting"),
        ("not-ready", "A! not ready"),
        ("terminating", "A− terminating"),
        ("succeeded", "A✓ ended well"),
        ("failed", "A✗ failed"),
    ];
    let signs = states.into_iter().filter(|(state, _)| own(state)).map(|(_, words)| words);
    let ghosts = board.checks.iter().any(|check| !check.ghosts.is_empty()).then_some("(A?) should be there");
    let wrong = (!pieces.misplaced.is_empty()).then_some("A◥ should be elsewhere");
    let signs = signs.chain(ghosts).chain(wrong).filter(|_| pieces.filter.is_empty());
    cells.extend(signs.map(|sign| Cell::plain(Span::styled(format!("{sign} "), FAINT))));
    block.flow(cells, 1, Area::Nodes);
    block
}

/// A pool that is shown, and how many columns of boxes it takes.
struct Pool<'b> {
    title: Vec<Span<'static>>,
    nodes: Vec<(&'b Node, Vec<Cell>)>,
    ghosts: Vec<Cell>,
    columns: usize,
}

/// The pools with their nodes, beside each other where there is room; nodes of no pool are last.
fn pools(pieces: &Pieces<'_>, width: usize) -> Block {
    // As many boxes with their frames as fit.
    let most = (width / (NARROWEST + 4)).max(1);
    let names = pieces.board.pools.iter().map(|pool| Some(pool.name.as_str())).chain([None]);
    let mut rows: Vec<Vec<Pool<'_>>> = Vec::new();
    let mut used = most;
    for pool in names.filter_map(|name| pool(pieces, name, most)) {
        if used + pool.columns > most {
            rows.push(Vec::new());
            used = 0;
        }
        used += pool.columns;
        if let Some(row) = rows.last_mut() {
            row.push(pool);
        }
    }
    let mut all = Block::new(width);
    for row in rows {
        all.below(beside(pieces, row, width, most));
    }
    all
}

/// A pool as far as the filter leaves it; none: the nodes of no pool.
fn pool<'b>(pieces: &Pieces<'b>, name: Option<&str>, most: usize) -> Option<Pool<'b>> {
    let all = pieces.board.nodes.iter().filter(|node| node.pool.as_deref() == name);
    let count = all.clone().count();
    let nodes: Vec<(&Node, Vec<Cell>)> = all.filter_map(|node| Some((node, on(pieces, node)?))).collect();
    let ghosts = name.map_or_else(Vec::new, |name| pieces.ghosts(&Place::Pool(name.to_owned())));
    let is_empty_pool = count == 0 && name.is_some_and(|name| pieces.has([name]));
    if nodes.is_empty() && ghosts.is_empty() && !is_empty_pool {
        return None;
    }
    let title = name.map_or_else(|| "no pool".to_owned(), |name| format!("pool {}", cut(name, 20)));
    Some(Pool {
        title: vec![Span::styled(title, STRONG), Span::styled(format!(" · {}", plural(count, "node")), FAINT)],
        columns: nodes.len().clamp(1, most),
        nodes,
        ghosts,
    })
}

/// Pools beside each other, as wide as the page.
fn beside(pieces: &Pieces<'_>, row: Vec<Pool<'_>>, width: usize, most: usize) -> Block {
    let (unit, last, mut left) = (width / most, row.len(), width);
    let blocks = row.into_iter().enumerate().map(|(number, pool)| {
        // The last takes what the others leave.
        let own = if number + 1 == last { left } else { unit * pool.columns };
        left -= own;
        let mut inside = boxes(pieces, pool.nodes, pool.columns, own - 2);
        inside.flow(pool.ghosts, 1, Area::Nodes);
        (pool.title, inside)
    });
    let blocks: Vec<_> = blocks.collect();
    let height = blocks.iter().map(|(_, inside)| inside.height()).max().unwrap_or_default();
    Block::beside(blocks.into_iter().map(|(title, inside)| inside.framed(title, height)).collect(), "")
}

/// The cells of what is on a node; none where the filter leaves neither the node nor anything on it.
fn on(pieces: &Pieces<'_>, node: &Node) -> Option<Vec<Cell>> {
    let is_shown = pieces.shows_node(node);
    let all = pieces.on.get(node.name.as_str()).map_or(&[][..], Vec::as_slice);
    let (system, own): (Vec<&Pod>, Vec<&Pod>) = all.iter().partition(|pod| pieces.is_system(pod));
    let own = own.into_iter().filter(|pod| is_shown || pieces.shows_pod(pod));
    let mut cells: Vec<Cell> = own.map(|pod| pieces.cell(pod)).collect();
    if !is_shown && cells.is_empty() && !system.iter().any(|pod| pieces.shows_pod(pod)) {
        return None;
    }
    cells.extend(pieces.ghosts(&Place::Node(node.name.clone())));
    if !system.is_empty() {
        cells.push(Cell::plain(Span::styled(format!("system ×{}", system.len()), FAINT)));
    }
    Some(cells)
}

/// The boxes of nodes in a number of columns.
fn boxes(pieces: &Pieces<'_>, nodes: Vec<(&Node, Vec<Cell>)>, columns: usize, width: usize) -> Block {
    let mut all = Block::new(width);
    let has_zones = pieces.board.zones.len() > 1;
    let mut nodes = nodes.into_iter().peekable();
    while nodes.peek().is_some() {
        let room = width - (columns - 1);
        let row = nodes.by_ref().take(columns).enumerate().map(|(number, (node, cells))| {
            // The last takes what the division leaves.
            let width = if number + 1 == columns { room - room / columns * (columns - 1) } else { room / columns };
            let zone = node.zone.as_deref().filter(|_| has_zones);
            node::node(pieces.palette, node, zone, cells, width)
        });
        let row = row.collect();
        all.below(Block::beside(row, "│"));
    }
    all.width = width;
    all
}

/// Pods without a node, by reason.
fn tray(pieces: &Pieces<'_>, width: usize) -> Block {
    let mut inside = Block::new(width - 2);
    let mut waiting = 0;
    for group in &pieces.board.pending {
        let is_shown = pieces.has([group.reason.as_str()]);
        let pods = group.pods.iter().filter_map(|id| pieces.pods.get(id.as_str()).copied());
        let pods: Vec<&Pod> = pods.filter(|pod| is_shown || pieces.shows_pod(pod)).collect();
        if pods.is_empty() && !group.pods.is_empty() {
            continue;
        }
        waiting += pods.len();
        let top = inside.height();
        for line in lines(&group.reason, width - 4) {
            inside.line(vec![Span::raw(format!(" {line}"))]);
        }
        inside.spot(Item::Group(group.reason.clone()), Area::Pending, top);
        inside.flow(pods.into_iter().map(|pod| pieces.cell(pod)).collect(), 3, Area::Pending);
    }
    inside.flow(pieces.ghosts(&Place::Pending), 3, Area::Pending);
    if inside.lines.is_empty() {
        return Block::new(width);
    }
    let count = Span::styled(format!(" · {}", plural(waiting, "pod")), FAINT);
    inside.framed(vec![Span::styled("Pending", pieces.palette.care()), count], 0)
}

/// The checks: sign and word, what it is, what is true now.
fn checks(pieces: &Pieces<'_>, width: usize) -> Block {
    let mut inside = Block::new(width - 2);
    let checks = &pieces.board.checks;
    for (number, check) in checks.iter().enumerate().filter(|(_, check)| pieces.has([&*check.name, &*check.now])) {
        let (mark, style) = match check.standing {
            "held" => ("✓ held", pieces.palette.good()),
            "not-yet" => ("✗ not yet", pieces.palette.care()),
            _ => ("✗ failed", pieces.palette.bad()),
        };
        let says_more = check.standing != "held" || !check.name.ends_with(&check.now);
        let text = if says_more { format!("{} → {}", check.name, check.now) } else { check.name.clone() };
        let top = inside.height();
        for (line, text) in lines(&text, width.saturating_sub(15)).into_iter().enumerate() {
            let mark = if line == 0 { mark } else { "" };
            let blanks = " ".repeat(10usize.saturating_sub(columns(mark)));
            inside.line(vec![Span::raw(" "), Span::styled(format!("{mark}{blanks}"), style), Span::raw(text)]);
        }
        inside.spot(Item::Check(number), Area::Checks, top);
    }
    if inside.lines.is_empty() {
        return Block::new(width);
    }
    let held = checks.iter().filter(|check| check.standing == "held").count();
    let count = Span::styled(format!(" · {held} of {} hold", checks.len()), FAINT);
    inside.framed(vec![Span::styled("Checks", STRONG), count], 0)
}
