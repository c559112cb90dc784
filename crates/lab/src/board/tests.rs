//! Boards of small clusters, what makes one of another, and pictures of them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::spec::Lab;
use crate::verify::tests::fixture::{Cluster, lab, running, starting, terminating};
use crate::verify::{Context, Snapshot, clusters, evaluate};

const LAB: &str = r#"
lab = "demo"
title = "Where <pods> go"
[pool.main]
mode = "system"
nodes = 1
[pool.extra]
nodes = 1
labels = { disk = "ssd" }
[workload.web]
replicas = 2
image = "nginx"
node_selector = { disk = "ssd" }
[workload.idle]
image = "nginx"
[[check]]
workload = "web"
on = "pool:extra"
"#;

fn board(snapshot: &Snapshot, lab: Option<&Lab>) -> Board {
    let around = lab.map(Context::of).unwrap_or_default();
    let checks = lab.map_or(&[][..], |lab| &lab.checks);
    Board::of(snapshot, &around, &evaluate(checks, snapshot, &around), Lesson::default())
}

fn taint() -> Value {
    json!({ "metadata": { "labels": { "disk": "ssd" } }, "spec": { "unschedulable": true,
        "taints": [{ "key": "dedicated", "value": "special", "effect": "NoSchedule" }] } })
}

/// One pod of `web` where it should be, one where it should not, one without a node.
fn small() -> Snapshot {
    small_cluster().snapshot
}

fn small_cluster() -> Cluster {
    let cluster = Cluster::default().pool("main", 1).node("extra", 0, taint()).deployment("web", 3);
    let message = "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 x.";
    cluster.running("web", "extra-0", 1).running("web", "main-0", 1).unschedulable("web", 1, message)
}

#[test]
fn a_board_says_what_is_where_and_what_should_be() {
    let lab = lab(LAB);
    let board = board(&small(), Some(&lab));
    let node = &board.nodes[1];
    assert_eq!((node.name.as_str(), node.cordoned, node.ready, node.spot), ("extra-0", true, true, false));
    assert_eq!(node.taints, ["dedicated=special:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"]);
    assert_eq!(node.labels, ["disk=ssd"]);
    assert_eq!(node.requested, Usage { cpu_milli: 100, memory_bytes: 64 << 20, pods: 1 });
    assert_eq!(node.allocatable, Usage { cpu_milli: 2000, memory_bytes: 8 << 30, pods: 30 });
    let letters: Vec<_> = board.workloads.iter().map(|it| (it.id.as_str(), it.letter.as_deref().unwrap())).collect();
    assert_eq!(letters, [("default/web", "A"), ("default/idle", "B")]);
    let reasons: Vec<_> = board.pending.iter().map(|group| (group.reason.as_str(), group.pods.len())).collect();
    assert_eq!(reasons, [("0/2 nodes are available: 2 Insufficient cpu.", 1)]);
    let check = &board.checks[0];
    assert_eq!(check.misplaced, ["default/web-2"]);
    assert_eq!(check.ghosts, [MissingPods { on: Spot::Node("extra-0".to_owned()), pods: 2 }]);
    let document = serde_json::to_value(&board).unwrap();
    assert_eq!(document["schema"], "klab.board/1");
    assert_eq!(document["checks"][0]["ghosts"][0], json!({ "place": "node", "name": "extra-0", "pods": 2 }));
}

#[test]
fn a_pod_moves_when_another_of_its_workload_comes_elsewhere() {
    let one = |pods: &[(&str, Value)]| {
        let cluster = Cluster::default().pool("main", 2).deployment("web", 1).deployment("other", 1);
        let snapshot = pods.iter().fold(cluster, |cluster, (owner, pod)| cluster.pod(owner, pod)).snapshot;
        board(&snapshot, None)
    };
    let named = |name: &str, mut pod: Value| {
        pod["metadata"]["name"] = json!(name);
        pod
    };
    let a = || ("web", named("a", running("main-0")));
    let b = |node: &str| ("web", named("b", starting(node)));
    for (what, old, new, moves) in [
        ("nothing", vec![a()], vec![a()], vec![]),
        ("went, came elsewhere", vec![a()], vec![b("main-1")], vec!["a main-0 -> b main-1"]),
        ("went, came in its place", vec![a()], vec![b("main-0")], vec![]),
        ("went, another workload came", vec![a()], vec![("other", b("main-1").1)], vec![]),
        (
            "begins to terminate",
            vec![a()],
            vec![("web", named("a", terminating("main-0"))), b("main-1")],
            vec!["a main-0 -> b main-1"],
        ),
        ("was terminating", vec![("web", named("a", terminating("main-0"))), b("main-1")], vec![b("main-1")], vec![]),
        ("got a node", vec![("web", named("a", json!({})))], vec![a()], vec!["a - -> a main-0"]),
        ("made again elsewhere", vec![a()], vec![("web", named("a", running("main-1")))], vec!["a main-0 -> a main-1"]),
        ("only came", vec![], vec![a()], vec![]),
    ] {
        let delta = Delta::between(&one(&old), &one(&new));
        let name = |id: &str| id.trim_start_matches("default/").to_owned();
        let node = |node: &Option<String>| node.clone().unwrap_or_else(|| "-".to_owned());
        let found: Vec<String> = delta
            .moves
            .iter()
            .map(|it| format!("{} {} -> {} {}", name(&it.left), node(&it.from), name(&it.came), node(&it.to)))
            .collect();
        assert_eq!(found, moves, "{what}");
    }
}

#[test]
fn nodes_come_go_and_change() {
    let of = |cluster: Cluster| board(&cluster.snapshot, None);
    let delta = Delta::between(
        &of(Cluster::default().pool("main", 2)),
        &of(Cluster::default().node("main", 0, taint()).pool("extra", 1)),
    );
    let names = |nodes: &[Node]| nodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>();
    assert_eq!(
        (names(&delta.nodes_came), delta.nodes_went.clone()),
        (vec!["extra-0".to_owned()], vec!["main-1".to_owned()])
    );
    assert_eq!(names(&delta.nodes_changed), ["main-0"]);
}

fn apply<T: Clone>(
    old: &[T],
    came: &[T],
    went: &[String],
    changed: &[T],
    name: impl Fn(&T) -> &str,
) -> BTreeMap<String, T> {
    let mut all: BTreeMap<String, T> = old.iter().map(|one| (name(one).to_owned(), one.clone())).collect();
    for name in went {
        all.remove(name);
    }
    all.extend(came.iter().chain(changed).map(|one| (name(one).to_owned(), one.clone())));
    all
}

fn or<T: Clone>(new: Option<&Vec<T>>, old: &[T]) -> Vec<T> {
    new.map_or_else(|| old.to_vec(), Clone::clone)
}

/// The new board, of the old one: with what moved.
fn applied(delta: &Delta, old: &Board) -> Board {
    let mut nodes = apply(&old.nodes, &delta.nodes_came, &delta.nodes_went, &delta.nodes_changed, |node| &node.name);
    let before: Vec<String> = old.nodes.iter().map(|node| node.name.clone()).collect();
    let order = delta.node_order.as_ref().unwrap_or(&before);
    let pods = apply(&old.pods, &delta.pods_came, &delta.pods_went, &delta.pods_changed, |pod| &pod.id);
    let mut pods: Vec<Pod> = pods.into_values().collect();
    pods.sort_by(|one, two| one.id.split_once('/').cmp(&two.id.split_once('/')));
    Board {
        schema: old.schema,
        lab: old.lab.clone(),
        title: old.title.clone(),
        taken_at: delta.taken_at.clone(),
        pools: or(delta.pools.as_ref(), &old.pools),
        zones: or(delta.zones.as_ref(), &old.zones),
        workloads: or(delta.workloads.as_ref(), &old.workloads),
        nodes: order.iter().filter_map(|name| nodes.remove(name)).collect(),
        pods,
        pending: or(delta.pending.as_ref(), &old.pending),
        checks: or(delta.checks.as_ref(), &old.checks),
        steps: or(delta.steps.as_ref(), &old.steps),
        moves: delta.moves.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_delta_makes_the_new_board_of_the_old_one(old in clusters(), new in clusters()) {
        let lab = lab(LAB);
        for lab in [None, Some(&lab)] {
            let (old, new) = (board(&old.snapshot, lab), board(&new.snapshot, lab));
            let delta = Delta::between(&old, &new);
            prop_assert_eq!(applied(&delta, &old), new.clone().after(&old));
            prop_assert!(Delta::between(&new, &new).is_empty());
        }
    }
}

/// Names as no API server stores them, but a snapshot may hold.
#[test]
fn hostile_names_are_only_text() {
    let hostile = "</text><script>alert(1)</script><image href=\"http://x\"/>\"]\nclick a href \"http://x\" %%{init: {}}%% `**b**`";
    let named = json!({ "metadata": { "name": hostile } });
    let mut pod = running("main-0");
    json_patch::merge(&mut pod, &named);
    let evil = json!({ "metadata": { "name": hostile, "labels": { "agentpool": hostile, "topology.kubernetes.io/zone": hostile } },
        "spec": { "taints": [{ "key": hostile, "value": hostile, "effect": hostile }] } });
    let cluster = Cluster::default().pool("main", 1).node("evil", 0, evil).pod("web", &pod).pod("web", &json!({
        "metadata": { "name": hostile, "namespace": "x" },
        "status": { "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": hostile }] } }));
    let board = board(&cluster.snapshot, None);
    let drawn = svg(&board);
    assert!(drawn.contains("&lt;script&gt;"));
    for forbidden in ["<script", "<image", "href=\"", "<foreignObject", "<style"] {
        assert!(!drawn.contains(forbidden), "{forbidden}");
    }
    // Every tag is one of the drawing's own.
    for tag in drawn.split('<').skip(1) {
        let name: String = tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
        assert!(["svg", "title", "desc", "g", "rect", "path", "text"].contains(&name.as_str()), "<{tag}");
    }
    for (name, html) in parts(&board) {
        assert!(
            !html.contains("<script") && !html.contains("<image") && !html.contains("href=\"http"),
            "{name}: {html}"
        );
    }
    let chart = mermaid(&board);
    for forbidden in ["<script", "%%", "`", "{", "\"]\n  click", "**"] {
        assert!(!chart.contains(forbidden), "{forbidden}\n{chart}");
    }
    assert!(chart.lines().all(|line| !line.trim_start().starts_with("click")));
}

#[test]
fn parts_of_a_page_hold_places_for_their_nodes_and_change_alone() {
    let lab = lab(LAB);
    let before = parts(&board(&small(), Some(&lab)));
    let names: Vec<&str> = before.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "head",
            "summary",
            "legend",
            "pools",
            "tray",
            "table",
            "node/main-0",
            "row/main-0",
            "node/extra-0",
            "row/extra-0"
        ]
    );
    let of = |parts: &[(String, String)], name: &str| parts.iter().find(|(one, _)| one == name).unwrap().1.clone();
    for (container, kind) in [("pools", "node"), ("table", "row")] {
        for node in ["main-0", "extra-0"] {
            assert!(of(&before, container).contains(&format!("data-part=\"{kind}/{node}\"></")), "{container}");
        }
    }
    assert_eq!(of(&before, "summary"), "2 nodes, 3 pods, 1 without a node, 0 of 1 check hold");
    assert!(of(&before, "tray").contains("<p>None of 2 nodes takes them: 2 have too little cpu left.</p>"));
    assert!(of(&before, "tray").contains("<q>0/2 nodes are available: 2 Insufficient cpu.</q>"));
    assert_eq!(
        of(&before, "row/extra-0"),
        "<th scope=\"row\">extra-0</th><td>extra</td><td>cordoned</td><td>dedicated=special:NoSchedule, node.kubernetes.io/unschedulable:NoSchedule</td><td>default/web-1</td>"
    );
    // A pod that comes to one node changes that node, and the one where it is wanted; nothing that holds nodes.
    let cluster = small_cluster().running("web", "main-0", 1);
    let after = parts(&board(&cluster.snapshot, Some(&lab)));
    let changed: Vec<&str> =
        after.iter().filter(|part| !before.contains(part)).map(|(name, _)| name.as_str()).collect();
    assert_eq!(changed, ["summary", "legend", "node/main-0", "row/main-0", "node/extra-0"]);
}

#[test]
fn mermaid_of_a_small_lab() {
    let lab = lab(LAB);
    insta::assert_snapshot!(mermaid(&board(&small(), Some(&lab))), @r##"
    flowchart LR
      subgraph p0["pool main: 1 node"]
        direction TB
        subgraph p0z0n0["main-0"]
          direction TB
          b0["CPU 0.1 of 2<br/>memory 64Mi of 8Gi<br/>pods 1 of 30"]:::about
          b1["A web ×1"]:::w0
        end
      end
      subgraph p1["pool extra: 1 node"]
        direction TB
        subgraph p1z0n0["extra-0 (cordoned)"]
          direction TB
          b2["taint dedicated=special:NoSchedule<br/>taint node.kubernetes.io/unschedulable:NoSchedule<br/>label disk=ssd<br/>CPU 0.1 of 2<br/>memory 64Mi of 8Gi<br/>pods 1 of 30"]:::about
          b3["A web ×1"]:::w0
          b4["A web ×2: should be here"]:::ghost
        end
      end
      subgraph pending["Pending"]
        direction TB
        subgraph r0["0/2 nodes are available: 2 Insufficient cpu."]
          direction TB
          b5["A web ×1"]:::w0
        end
      end
      classDef w0 fill:#E69F00,color:#000000,stroke:#1A1A1A
      classDef w1 fill:#56B4E9,color:#000000,stroke:#1A1A1A
      classDef w2 fill:#009E73,color:#000000,stroke:#1A1A1A
      classDef w3 fill:#F0E442,color:#000000,stroke:#1A1A1A
      classDef w4 fill:#0072B2,color:#FFFFFF,stroke:#1A1A1A
      classDef w5 fill:#D55E00,color:#000000,stroke:#1A1A1A
      classDef w6 fill:#CC79A7,color:#000000,stroke:#1A1A1A
      classDef w7 fill:#000000,color:#FFFFFF,stroke:#1A1A1A
      classDef plain fill:#E0E0E0,color:#333333,stroke:#595959
      classDef about fill:#FFFFFF,color:#1A1A1A,stroke:#FFFFFF
      classDef ghost fill:#FFFFFF,color:#1A1A1A,stroke:#595959,stroke-dasharray:3 3
    "##);
}

#[test]
#[expect(clippy::too_many_lines, reason = "the drawing, line by line")]
fn svg_of_a_small_lab() {
    let lab = lab(LAB);
    insta::assert_snapshot!(svg(&board(&small(), Some(&lab))), @r##"
    <svg xmlns="http://www.w3.org/2000/svg" width="1000" height="526" viewBox="0 0 1000 526" role="img" font-family="system-ui,'Segoe UI','DejaVu Sans',sans-serif">
    <title>Where &lt;pods&gt; go</title>
    <desc>2 nodes, 3 pods, 1 without a node, 0 of 1 check hold</desc>
    <rect x="0" y="0" width="1000" height="526" fill="#FFFFFF"/>
    <g transform="translate(20 20)">
    <g transform="translate(0 0)">
    <text x="0" y="18" font-size="20" font-weight="700" fill="#1A1A1A">Where &lt;pods&gt; go</text>
    <text x="0" y="38" font-size="13" fill="#1A1A1A">lab demo: 2 nodes, 3 pods, 1 without a node, 0 of 1 check hold</text>
    </g>
    <g transform="translate(0 58)">
    <g transform="translate(0 0)">
    <g transform="translate(0 0)">
    <g font-size="13" font-weight="700" text-anchor="middle">
    <rect x="1" y="1" width="24" height="24" rx="4" fill="#E69F00" stroke="#1A1A1A" stroke-width="0.8"/>
    <text x="13" y="18" fill="#000000">A</text>
    </g>
    </g>
    <text x="32" y="18" font-size="13" fill="#1A1A1A">web ×3</text>
    </g>
    <g transform="translate(98 0)">
    <text x="0" y="18" font-size="13" fill="#1A1A1A">A? should be there · ◥ should not be there</text>
    </g>
    </g>
    <g transform="translate(0 98)">
    <g transform="translate(0 0)">
    <rect x="0" y="0" width="268" height="183" rx="8" fill="#F5F7FA" stroke="#8A94A6" stroke-width="1.5"/>
    <text x="10" y="21" font-size="14" font-weight="700" fill="#1A1A1A">pool main</text>
    <text x="99" y="21" font-size="11" fill="#595959">1 node · zone z0</text>
    <g transform="translate(10 32)">
    <g transform="translate(0 0)">
    <g transform="translate(0 0)">
    <g>
    <title>node main-0</title>
    <rect x="1" y="1" width="246" height="139" rx="6" fill="#FFFFFF" stroke="#8A94A6" stroke-width="1"/>
    <g transform="translate(10 8)">
    <g class="node" data-name="main-0">
    <title>node main-0</title>
    <text x="0" y="12" font-size="12" font-weight="700" fill="#1A1A1A" font-family="ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace">main-0</text>
    </g>
    </g>
    <text x="10" y="38" font-size="11" fill="#595959">CPU</text>
    <text x="238" y="38" font-size="11" fill="#1A1A1A" font-family="ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace" text-anchor="end">0.1 of 2 · 5 %</text>
    <rect x="10" y="42" width="228" height="6" rx="3" fill="#E3E7EC"/>
    <rect x="10" y="42" width="11" height="6" rx="3" fill="#0A58CA"/>
    <text x="10" y="62" font-size="11" fill="#595959">memory</text>
    <text x="238" y="62" font-size="11" fill="#1A1A1A" font-family="ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace" text-anchor="end">64Mi of 8Gi · 1 %</text>
    <rect x="10" y="66" width="228" height="6" rx="3" fill="#E3E7EC"/>
    <rect x="10" y="66" width="2" height="6" rx="3" fill="#0A58CA"/>
    <text x="10" y="86" font-size="11" fill="#595959">pods</text>
    <text x="238" y="86" font-size="11" fill="#1A1A1A" font-family="ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace" text-anchor="end">1 of 30 · 3 %</text>
    <rect x="10" y="90" width="228" height="6" rx="3" fill="#E3E7EC"/>
    <rect x="10" y="90" width="8" height="6" rx="3" fill="#0A58CA"/>
    <g transform="translate(10 105)">
    <g font-size="13" font-weight="700" text-anchor="middle">
    <g transform="translate(0 0)">
    <g class="pod" data-name="default/web-2">
    <title>default/web-2: running, requests 0.1 CPU, 64Mi memory; should not be here: web: on pool:extra</title>
    <rect x="1" y="1" width="24" height="24" rx="4" fill="#E69F00" stroke="#A03B00" stroke-width="3"/>
    <text x="13" y="18" fill="#000000">A</text>
    <path d="M15 0H26V11Z" fill="#A03B00"/>
    </g>
    </g>
    </g>
    </g>
    </g>
    </g>
    </g>
    </g>
    </g>
    <g transform="translate(280 0)">
    <rect x="0" y="0" width="268" height="249" rx="8" fill="#F5F7FA" stroke="#8A94A6" stroke-width="1.5"/>
    <text x="10" y="21" font-size="14" font-weight="700" fill="#1A1A1A">pool extra</text>
    <text x="108" y="21" font-size="11" fill="#595959">1 node · zone z0</text>
    <g transform="translate(10 32)">
    <g transform="translate(0 0)">
    <g transform="translate(0 0)">
    <g>
    <title>node extra-0 (cordoned)</title>
    <rect x="1" y="1" width="246" height="205" rx="6" fill="#F2F2F2" stroke="#8A94A6" stroke-width="1"/>
    <rect x="5" y="5" width="238" height="197" rx="6" fill="none" stroke="#1A1A1A" stroke-width="1"/>
    <g transform="translate(10 8)">
    <g class="node" data-name="extra-0">
    <title>node extra-0 (cordoned)</title>
    <text x="0" y="12" font-size="12" font-weight="700" fill="#1A1A1A" font-family="ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace">extra-0</text>
    </g>
    </g>
    <g transform="translate(10 26)">
    <g transform="translate(0 0)">
    <rect x="0" y="0" width="82" height="18" rx="3" fill="#FFFFFF" stroke="#1A1A1A"/>
    <g transform="translate(4 3)">
    <path d="M6 .8A5.2 5.2 0 1 0 6 11.2A5.2 5.2 0 1 0 6 .8M2.5 2.5L9.5 9.5" fill="none" stroke="#1A1A1A" stroke-width="1.4"/>
    </g>
    <text x="20" y="13" font-size="11" fill="#1A1A1A" font-family="ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace">cordoned</text>
    </g>
    <g transform="translate(0 22)">
    <g>
    <title>taint dedicated=special:NoSchedule</title>
    <rect x="0" y="0" width="204" height="18" rx="3" fill="#FFFFFF" stroke="#A03B00"/>
    <text x="6" y="13" font-size="11" fill="#1A1A1A" font-family="ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace">dedicated=special</text>
    <rect x="125" y="0" width="79" height="18" rx="3" fill="#A03B00"/>
    <text x="131" y="13" font-size="11" font-weight="700" fill="#FFFFFF" font-family="ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace">NoSchedule</text>
    </g>
    </g>
    <g transform="translate(0 44)">
    <g>
    <title>label disk=ssd</title>
    <rect x="0" y="0" width="65" height="18" rx="9" fill="#FFFFFF" stroke="#8A94A6"/>
    <text x="6" y="13" font-size="11" fill="#1A1A1A" font-family="ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace">disk=ssd</text>
    </g>
    </g>
    </g>
    <text x="10" y="104" font-size="11" fill="#595959">CPU</text>
    <text x="238" y="104" font-size="11" fill="#1A1A1A" font-family="ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace" text-anchor="end">0.1 of 2 · 5 %</text>
    <rect x="10" y="108" width="228" height="6" rx="3" fill="#E3E7EC"/>
    <rect x="10" y="108" width="11" height="6" rx="3" fill="#0A58CA"/>
    <text x="10" y="128" font-size="11" fill="#595959">memory</text>
    <text x="238" y="128" font-size="11" fill="#1A1A1A" font-family="ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace" text-anchor="end">64Mi of 8Gi · 1 %</text>
    <rect x="10" y="132" width="228" height="6" rx="3" fill="#E3E7EC"/>
    <rect x="10" y="132" width="2" height="6" rx="3" fill="#0A58CA"/>
    <text x="10" y="152" font-size="11" fill="#595959">pods</text>
    <text x="238" y="152" font-size="11" fill="#1A1A1A" font-family="ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace" text-anchor="end">1 of 30 · 3 %</text>
    <rect x="10" y="156" width="228" height="6" rx="3" fill="#E3E7EC"/>
    <rect x="10" y="156" width="8" height="6" rx="3" fill="#0A58CA"/>
    <g transform="translate(10 171)">
    <g font-size="13" font-weight="700" text-anchor="middle">
    <g transform="translate(0 0)">
    <g class="pod" data-name="default/web-1">
    <title>default/web-1: running, requests 0.1 CPU, 64Mi memory</title>
    <rect x="1" y="1" width="24" height="24" rx="4" fill="#E69F00" stroke="#1A1A1A" stroke-width="0.8"/>
    <text x="13" y="18" fill="#000000">A</text>
    </g>
    </g>
    <g transform="translate(30 0)">
    <g>
    <title>should be here: web: on pool:extra</title>
    <rect x="2" y="2" width="51" height="22" rx="4" fill="#FFFFFF" stroke="#E69F00" stroke-width="2.5" stroke-dasharray="2 3"/>
    <text x="27" y="18" fill="#1A1A1A">A? ×2</text>
    </g>
    </g>
    </g>
    </g>
    </g>
    </g>
    </g>
    </g>
    </g>
    </g>
    <g transform="translate(0 361)">
    <rect x="0" y="0" width="960" height="93" rx="8" fill="#FFF8EC" stroke="#A03B00" stroke-width="1.5" stroke-dasharray="6 4"/>
    <text x="10" y="21" font-size="14" font-weight="700" fill="#1A1A1A">Pending</text>
    <text x="81" y="21" font-size="11" fill="#595959">1 pod</text>
    <g transform="translate(10 32)">
    <g transform="translate(0 0)">
    <text x="0" y="15" font-size="13" fill="#1A1A1A">0/2 nodes are available: 2 Insufficient cpu.</text>
    </g>
    <g transform="translate(0 25)">
    <g font-size="13" font-weight="700" text-anchor="middle">
    <g transform="translate(0 0)">
    <g class="pod" data-name="default/web-3">
    <title>default/web-3: unschedulable, requests 0.1 CPU, 64Mi memory</title>
    <rect x="1" y="1" width="24" height="24" rx="4" fill="#E69F00" stroke="#1A1A1A" stroke-width="0.8"/>
    <text x="13" y="18" fill="#000000">A</text>
    </g>
    </g>
    </g>
    </g>
    </g>
    </g>
    <g transform="translate(0 468)">
    <text x="0" y="14" font-size="12" font-weight="700" fill="#1A1A1A" font-family="ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace">✗</text>
    <text x="18" y="14" font-size="13" fill="#1A1A1A">does not hold</text>
    <text x="112" y="14" font-size="13" fill="#1A1A1A">web: on pool:extra: 1 of 3 on pool:extra, 1 on main, 1 Pending</text>
    </g>
    </g>
    </svg>
    "##);
}
