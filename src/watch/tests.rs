//! Labs on a made-up screen, and what keys and the mouse do to it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use serde_json::{Value, json};

use super::block::Item;
use super::details::Panel;
use super::grid::{Grid, Seat, SeatResult};
use super::palette::Palette;
use super::{Outcome, Setting, View};
use klab_lab::board::{Board, Lesson};
use klab_lab::spec::{Lab, LoadOptions, parse};
use klab_lab::verify::{self, Snapshot};
use klab_operations::board::Frame;
use klab_operations::invocation::Invocation;
use klab_operations::lesson::staged;
use klab_operations::state::Progress;

const LAB: &str = r#"
lab = "demo"
title = "Where pods go"
[pool.main]
mode = "system"
nodes = 2
[pool.extra]
nodes = 1
labels = { disk = "ssd" }
[workload.web]
replicas = 4
image = "nginx"
node_selector = { disk = "ssd" }
[workload.plain]
replicas = 2
image = "nginx"
[[check]]
workload = "web"
on = "pool:extra"
[[check]]
workload = "plain"
running = 2
[[step]]
name = "taint"
title = "Repel pods with a taint"
do = [{ taint = "dedicated=special:NoSchedule", nodes = "pool:extra" }]
[[step.check]]
workload = "web"
running = 4
[[step]]
name = "more"
do = [{ scale = "web", replicas = 5 }]
"#;

fn node(name: &str, changes: &Value) -> Arc<Node> {
    let pool = name.split('-').next();
    let mut node = json!({
        "metadata": { "name": name, "labels": { "agentpool": pool, "kubernetes.io/hostname": name } },
        "spec": {},
        "status": {
            "allocatable": { "cpu": "2", "memory": "4Gi", "pods": "30" },
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    });
    for (key, value) in changes.as_object().unwrap() {
        node["spec"][key] = value.clone();
    }
    if pool == Some("extra") {
        node["metadata"]["labels"]["disk"] = json!("ssd");
    }
    Arc::new(serde_json::from_value(node).unwrap())
}

fn pod(workload: &str, number: u32, node: Option<&str>, changes: &Value) -> Arc<Pod> {
    let conditions = match node {
        Some(_) => json!([{ "type": "Ready", "status": "True" }, { "type": "PodScheduled", "status": "True" }]),
        None => json!([{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector. \
                        preemption: 0/3 nodes are available." }]),
    };
    let selector = (workload == "web").then(|| json!({ "disk": "ssd" }));
    let mut pod = json!({
        "metadata": {
            "name": format!("{workload}-{number}"), "namespace": "default", "uid": format!("{workload}-{number}"),
            "labels": { "klab.dev/workload": workload },
        },
        "spec": {
            "nodeName": node, "nodeSelector": selector,
            "containers": [{ "name": "main", "image": "nginx", "resources": { "requests": { "cpu": "500m", "memory": "64Mi" } } }],
        },
        "status": { "phase": if node.is_some() { "Running" } else { "Pending" }, "conditions": conditions },
    });
    for (key, value) in changes.as_object().unwrap() {
        pod["metadata"][key] = value.clone();
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

/// A pod of `web` where it should not be, two where they should, one nowhere; a cordoned node with a long taint.
fn snapshot() -> Snapshot {
    let taint = json!({ "key": "example.com/a-taint-whose-name-is-long", "value": "special", "effect": "NoSchedule" });
    let unschedulable = json!({ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" });
    let none = json!({});
    Snapshot {
        taken_at: Some(clock("08:30:05")),
        nodes: vec![
            node("main-0", &none),
            node("main-1", &none),
            node("extra-0", &json!({ "unschedulable": true, "taints": [taint, unschedulable] })),
        ],
        pods: vec![
            pod("web", 1, Some("extra-0"), &none),
            pod("web", 2, Some("extra-0"), &json!({ "deletionTimestamp": "2026-06-01T08:30:00Z" })),
            pod("web", 3, Some("main-0"), &none),
            pod("web", 4, None, &none),
            pod("plain", 1, Some("main-0"), &none),
            pod("plain", 2, Some("main-1"), &none),
            pod("coredns", 1, Some("main-1"), &json!({ "namespace": "kube-system", "labels": {} })),
        ],
        ..Snapshot::default()
    }
}

fn lab(text: &str) -> Lab {
    parse("lab.toml", text, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{problems}"))
}

fn frame(lab: &Lab, snapshot: Snapshot, progress: Progress) -> Frame {
    let stage = staged(lab, &progress, progress.graded(lab.steps.len()));
    let around = verify::Context::of(&stage);
    let mut report = verify::evaluate(&stage.checks, &snapshot, &around);
    verify::diagnose(&mut report, &stage.checks, &snapshot, &around);
    let at = Lesson { done: progress.done, opened: progress.is_opened() };
    let board = Board::of(&snapshot, &around, &report, at);
    Frame {
        board: Arc::new(board),
        report: Arc::new(report),
        snapshot: Arc::new(snapshot),
        stage: Some(Arc::new(stage)),
        progress,
    }
}

fn setting(palette: Palette) -> Setting {
    Setting {
        palette,
        now: Box::new(|| clock("08:30:05")),
        zone: jiff::tz::TimeZone::UTC,
        invocation: Invocation::default(),
        script: Box::new(|progress, width| {
            format!("\u{1b}[1mStep {}\u{1b}[0m in {width} columns\n", progress.done + 1)
        }),
        is_seat: false,
    }
}

/// A view and its screen.
struct Shown {
    view: View,
    terminal: Terminal<TestBackend>,
}

impl Shown {
    fn new(width: u16, height: u16) -> Self {
        Self::of(setting(Palette::Plain), width, height)
    }

    fn of(setting: Setting, width: u16, height: u16) -> Self {
        let mut view = View::new(setting);
        assert!(view.take(frame(&lab(LAB), snapshot(), Progress::default())));
        let mut shown = Self { view, terminal: Terminal::new(TestBackend::new(width, height)).unwrap() };
        shown.draw();
        shown
    }

    /// Takes a frame, at nine o'clock.
    fn takes(&mut self, frame: Frame) -> bool {
        self.view.setting.now = Box::new(|| clock("09:00:00"));
        self.view.take(frame)
    }

    fn draw(&mut self) {
        self.terminal.draw(|screen| self.view.draw(screen)).unwrap();
    }

    /// Types keys: a letter each, or a name in angle brackets.
    fn types(&mut self, keys: &str) -> Outcome {
        let mut outcome = Outcome::Nothing;
        let mut rest = keys;
        while let Some(letter) = rest.chars().next() {
            let (code, length) = match rest.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
                Some((name, _)) => (named(name), name.len() + 2),
                None => (KeyCode::Char(letter), letter.len_utf8()),
            };
            outcome = self.view.input(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
            self.draw();
            rest = &rest[length..];
        }
        outcome
    }

    fn points(&mut self, kind: MouseEventKind, column: u16, row: u16) -> Outcome {
        let mouse = MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
        let outcome = self.view.input(&Event::Mouse(mouse));
        self.draw();
        outcome
    }

    /// What is selected, in a word.
    fn selected(&self) -> String {
        match &self.view.spot().unwrap().item {
            Item::Node(name) => name.clone(),
            Item::Pod(id) => id.trim_start_matches("default/").to_owned(),
            Item::Group(_) => "group".to_owned(),
            Item::Check(number) => format!("check {number}"),
        }
    }

    fn text(&self) -> String {
        text(&self.terminal)
    }
}

fn clock(time: &str) -> jiff::Timestamp {
    format!("2026-06-01T{time}Z").parse().unwrap()
}

fn named(name: &str) -> KeyCode {
    match name {
        "down" => KeyCode::Down,
        "up" => KeyCode::Up,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "tab" => KeyCode::Tab,
        "back-tab" => KeyCode::BackTab,
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "back" => KeyCode::Backspace,
        "page-down" => KeyCode::PageDown,
        "page-up" => KeyCode::PageUp,
        other => panic!("no key {other}"),
    }
}

fn text(terminal: &Terminal<TestBackend>) -> String {
    let buffer = terminal.backend().buffer();
    let width = usize::from(buffer.area.width);
    let row = |row: &[ratatui::buffer::Cell]| {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        format!("{}\n", line.trim_end())
    };
    buffer.content().chunks(width).map(row).collect()
}

#[test]
fn a_lab_in_eighty_columns() {
    insta::assert_snapshot!(Shown::new(80, 24).text());
}

#[test]
fn a_lab_in_hundred_and_twenty_columns() {
    insta::assert_snapshot!(Shown::new(120, 40).text());
}

#[test]
fn a_narrow_terminal_is_told_so() {
    insta::assert_snapshot!(Shown::new(40, 5).text(), @"
    klab watch takes 80 columns; this
    terminal has 40. q ends it.
    ");
    for (width, height) in [(0, 0), (1, 1), (80, 1), (80, 3), (200, 2)] {
        let mut shown = Shown::new(width, height);
        shown.types("jjG<enter>G?");
    }
}

#[test]
fn keys_move_the_selection_as_it_looks() {
    for (keys, selected) in [
        ("", "main-0"),
        ("j", "web-3"),
        ("j<right>", "plain-1"),
        ("<down><down><up>", "web-3"),
        ("<right>", "main-1"),
        ("<right>j", "plain-2"),
        ("<right><right>", "plain-2"),
        ("<right><left>", "main-0"),
        ("<right>jj", "extra-0"),
        ("<tab>", "group"),
        ("<tab>j", "web-4"),
        ("<tab><tab>", "check 0"),
        ("<tab><tab>j", "check 1"),
        ("<tab><tab><tab>", "main-0"),
        ("<back-tab>", "check 0"),
        ("G", "check 1"),
        ("Gjjj", "check 1"),
        ("Gg", "main-0"),
        ("Gk<up>", "web-4"),
        ("gkkk", "main-0"),
        ("<page-down><page-down>", "check 1"),
        ("G<page-up><page-up>", "main-0"),
    ] {
        let mut shown = Shown::new(80, 24);
        shown.types(keys);
        assert_eq!(shown.selected(), selected, "{keys}\n{}", shown.text());
        assert!(shown.text().contains('▸'), "{keys}: what is selected is not seen\n{}", shown.text());
    }
}

#[test]
fn keys_open_and_close() {
    for (keys, panel, outcome) in [
        ("<enter>", Some(Panel::Node("main-0".to_owned())), Outcome::Redraw),
        ("j<enter>", Some(Panel::Pod("default/web-3".to_owned())), Outcome::Redraw),
        ("G<enter>", Some(Panel::Check(1)), Outcome::Redraw),
        ("<enter><esc>", None, Outcome::Redraw),
        ("<esc>", None, Outcome::Nothing),
        ("?", Some(Panel::Help), Outcome::Redraw),
        ("??", None, Outcome::Redraw),
        ("l", Some(Panel::Lesson), Outcome::Reads),
        ("?l", Some(Panel::Lesson), Outcome::Reads),
        ("ll", None, Outcome::Redraw),
        ("q", None, Outcome::Quit),
        ("?q", Some(Panel::Help), Outcome::Quit),
        ("/q", None, Outcome::Redraw),
        ("x", None, Outcome::Nothing),
    ] {
        let mut shown = Shown::new(80, 24);
        assert_eq!(shown.types(keys), outcome, "{keys}");
        assert_eq!(shown.view.panel, panel, "{keys}");
    }
    let mut shown = Shown::new(80, 24);
    let interrupt = Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    for keys in ["", "/", "?"] {
        shown.types(keys);
        assert_eq!(shown.view.input(&interrupt), Outcome::Interrupted, "{keys}");
    }
    let mut seat = Shown::of(Setting { is_seat: true, ..setting(Palette::Plain) }, 80, 24);
    assert!(seat.text().contains("? help  Esc class  q quit"), "{}", seat.text());
    assert_eq!(seat.types("<enter><esc>"), Outcome::Redraw);
    assert_eq!(seat.types("<esc>"), Outcome::Back);
}

#[test]
fn a_filter_leaves_what_has_its_text() {
    let mut shown = Shown::new(80, 24);
    shown.types("/PLAIN-2");
    insta::assert_snapshot!(shown.text());
    assert_eq!(shown.types("<back><back><enter>"), Outcome::Redraw);
    assert_eq!(shown.view.filter, "PLAIN");
    shown.types("<esc>");
    assert_eq!(shown.view.filter, "");
    shown.types("/nothing has this<enter>");
    assert!(shown.text().contains("Nothing has this text."), "{}", shown.text());
    assert_eq!(shown.types("j<enter>"), Outcome::Nothing);
    shown.types("<esc>");
    assert_eq!(shown.selected(), "main-0");
}

#[test]
fn a_click_selects_and_another_opens() {
    let mut shown = Shown::new(80, 24);
    let click = MouseEventKind::Down(MouseButton::Left);
    let rows: Vec<String> = shown.text().lines().map(str::to_owned).collect();
    let row = rows.iter().position(|line| line.contains("main-1")).unwrap();
    let column = rows[row].chars().position(|letter| letter == '│').unwrap() + 45;
    shown.points(click, column as u16, row as u16);
    assert_eq!((shown.selected(), shown.view.panel.clone()), ("main-1".to_owned(), None));
    shown.points(click, column as u16, row as u16);
    assert_eq!(shown.view.panel, Some(Panel::Node("main-1".to_owned())));
    shown.types("<esc>");
    // Beside everything.
    assert_eq!(shown.points(click, 0, 0), Outcome::Nothing);
    assert_eq!(shown.points(click, 79, 23), Outcome::Nothing);
    assert_eq!(shown.points(MouseEventKind::Moved, 20, 5), Outcome::Nothing);
}

#[test]
fn the_wheel_scrolls() {
    let mut shown = Shown::new(80, 14);
    let before = shown.text();
    shown.points(MouseEventKind::ScrollDown, 10, 5);
    assert_ne!(shown.text(), before);
    shown.points(MouseEventKind::ScrollUp, 10, 5);
    assert_eq!(shown.text(), before);
    for _ in 0..50 {
        shown.points(MouseEventKind::ScrollDown, 10, 5);
    }
    assert!(shown.text().contains("✗"), "{}", shown.text());
}

#[test]
fn details_of_a_pod_a_node_and_a_check() {
    let mut shown = Shown::new(100, 24);
    shown.types("j<enter>");
    insta::assert_snapshot!("a_pod", shown.text());
    shown.types("<esc>g<right><enter>");
    insta::assert_snapshot!("a_node", shown.text());
    shown.types("<esc><tab><tab><enter>");
    insta::assert_snapshot!("a_check", shown.text());
    shown.types("<esc>?");
    insta::assert_snapshot!("help", shown.text());
}

#[test]
fn the_lesson_is_followed() {
    let lab = lab(LAB);
    let mut shown = Shown::new(80, 24);
    let second = |shown: &Shown| shown.text().lines().nth(1).unwrap().trim().to_owned();
    let mut seen = vec![second(&shown)];
    let opened = |done| Progress { opened: true, ..Progress::reached(done) };
    for progress in [opened(0), Progress::reached(1), opened(1), Progress::reached(2)] {
        assert!(shown.takes(frame(&lab, snapshot(), progress)));
        shown.draw();
        seen.push(second(&shown));
    }
    insta::assert_snapshot!(seen.join("\n"));
    shown.types("l");
    assert!(shown.text().contains("Step 3 in 76 columns"), "{}", shown.text());
    shown.takes(frame(&lab, snapshot(), Progress::reached(0)));
    shown.draw();
    assert!(shown.text().contains("Step 1 in 76 columns"), "{}", shown.text());
}

#[test]
fn what_has_not_changed_is_not_drawn_again() {
    let lab = lab(LAB);
    let mut shown = Shown::new(80, 24);
    let later = Snapshot { taken_at: Some(clock("09:00:00")), ..snapshot() };
    assert!(!shown.takes(frame(&lab, later.clone(), Progress::default())));
    assert!(shown.text().contains("changed 08:30:05"), "{}", shown.text());
    let fewer = Snapshot { pods: later.pods[1..].to_vec(), ..later };
    assert!(shown.takes(frame(&lab, fewer, Progress::default())));
    shown.draw();
    assert!(shown.text().contains("changed 09:00:00"), "{}", shown.text());
}

#[test]
fn what_is_selected_and_goes_leaves_its_place_to_another() {
    let lab = lab(LAB);
    let mut shown = Shown::new(80, 24);
    shown.types("j");
    assert_eq!(shown.selected(), "web-3");
    let without = |name: &str| {
        let mut snapshot = snapshot();
        snapshot.pods.retain(|pod| pod.metadata.name.as_deref() != Some(name));
        frame(&lab, snapshot, Progress::default())
    };
    shown.takes(without("web-3"));
    assert_eq!(shown.selected(), "plain-1");
    shown.types("<enter>");
    shown.takes(without("plain-1"));
    shown.draw();
    assert!(shown.text().contains("no such pod any more"), "{}", shown.text());
}

#[test]
fn words_say_what_is_the_matter_with_nodes_and_where_they_are() {
    let mut shown = Shown::new(80, 24);
    let mut snapshot = snapshot();
    for (number, node) in snapshot.nodes.iter_mut().enumerate() {
        let node = Arc::make_mut(node);
        let labels = node.metadata.labels.as_mut().unwrap();
        labels.insert("topology.kubernetes.io/zone".to_owned(), format!("z{number}"));
        if number == 1 {
            labels.insert("kubernetes.azure.com/scalesetpriority".to_owned(), "spot".to_owned());
            node.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].status = "Unknown".to_owned();
        }
    }
    shown.takes(frame(&lab(LAB), snapshot, Progress::default()));
    shown.draw();
    let text = shown.text();
    for words in ["main-0 zone z0", "main-1 NotReady spot zone z1", "extra-0 cordoned zone z2"] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    shown.types("/notready<enter>");
    assert_eq!(shown.selected(), "main-1");
    assert!(!shown.text().contains("main-0"), "{}", shown.text());
}

#[test]
fn trouble_is_told_once_and_over_with_the_next_frame() {
    let mut shown = Shown::new(80, 24);
    assert!(shown.view.complain("the cluster does not answer; asking again"));
    assert!(!shown.view.complain("the cluster does not answer; asking again"));
    shown.draw();
    assert!(shown.text().lines().nth(2).unwrap().contains("! the cluster does not answer"), "{}", shown.text());
    assert!(shown.takes(frame(&lab(LAB), snapshot(), Progress::default())));
    shown.draw();
    assert!(!shown.text().contains("does not answer"));
}

#[test]
fn text_of_others_is_shown_and_not_obeyed() {
    let mut shown = Shown::new(80, 24);
    let mut snapshot = snapshot();
    let message = "no\u{1b}[2J\u{202e}node\nfits\u{7}";
    let mut pod = (*snapshot.pods[3]).clone();
    pod.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].message = Some(message.to_owned());
    snapshot.pods[3] = Arc::new(pod);
    shown.takes(frame(&lab(LAB), snapshot, Progress::default()));
    shown.draw();
    assert!(shown.text().contains("no␛[2J<U+202E>node fits␇"), "{}", shown.text());
    shown.types("<tab><enter>");
    assert!(shown.text().contains("no␛[2J<U+202E>node fits␇"), "{}", shown.text());
}

#[test]
fn a_class_is_a_grid_of_seats_and_steps() {
    let seat = |number, done, opened: bool, held| Seat {
        number,
        name: Some(["ann", "a name that is far too long"][number as usize % 2].to_owned()),
        step: done + usize::from(opened),
        done,
        steps: 6,
        held: (held, 2),
        failing: if held < 2 {
            "web: on pool:extra → 1 of 3 on pool:extra, 2 Pending".to_owned()
        } else {
            String::new()
        },
        since: Some(clock("08:30:05")),
    };
    let seats: Vec<SeatResult> = vec![
        Ok(seat(2, 3, true, 1)),
        Ok(seat(1, 6, false, 2)),
        Err((3, "could not reach the embedded cluster".to_owned())),
        Ok(Seat { since: None, ..seat(4, 0, false, 2) }),
    ];
    let mut grid = Grid::new("demo", Palette::Plain, jiff::tz::TimeZone::UTC);
    assert!(grid.take(seats.clone()));
    assert!(!grid.take(seats));
    let mut terminal = Terminal::new(TestBackend::new(80, 10)).unwrap();
    let press = |grid: &mut Grid, code| grid.input(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    press(&mut grid, KeyCode::Down);
    terminal.draw(|screen| grid.draw(screen)).unwrap();
    insta::assert_snapshot!(text(&terminal));
    assert_eq!(press(&mut grid, KeyCode::Enter), Outcome::Seat(2));
    press(&mut grid, KeyCode::Char('G'));
    assert_eq!(press(&mut grid, KeyCode::Enter), Outcome::Seat(4));
    assert_eq!(press(&mut grid, KeyCode::Char('q')), Outcome::Quit);
    let click = |row| {
        let kind = MouseEventKind::Down(MouseButton::Left);
        Event::Mouse(MouseEvent { kind, column: 5, row, modifiers: KeyModifiers::NONE })
    };
    assert_eq!(grid.input(&click(3)), Outcome::Redraw);
    assert_eq!(grid.input(&click(3)), Outcome::Seat(1));
    assert_eq!(grid.input(&click(9)), Outcome::Nothing);

    // Of a hosted class there are names, and its seats are looked into by the instructor's page.
    let mut hosted = Grid::hosted("demo", Palette::Plain, jiff::tz::TimeZone::UTC);
    hosted.take(vec![Ok(seat(2, 3, true, 1)), Ok(seat(1, 6, false, 2))]);
    terminal.draw(|screen| hosted.draw(screen)).unwrap();
    insta::assert_snapshot!("hosted_class", text(&terminal));
    assert_eq!(press(&mut hosted, KeyCode::Enter), Outcome::Nothing);
}
