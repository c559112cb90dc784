//! Changes tried on copies of clusters that klab made: what becomes of their pods.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use klab_api_machinery::resource::{DEPLOYMENTS, ResourceId};
use klab_cluster::Cluster;
use klab_cluster::cluster::DeleteOptions;
use klab_lab::spec::{Share, UpgradeSettings, UpgradeStrategy};
use klab_whatif::{
    Capture, Change, KINDS, Kind, agreement, fit, human, redacted, shrink, survive, take_bounds, what_if,
};
use serde_json::{Value, json};

fn node(name: &str, pool: &str, zone: usize, cpu: &str) -> Value {
    let resources = json!({ "cpu": cpu, "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi" });
    let labels = json!({
        "agentpool": pool, "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("westeurope-{zone}"),
        "topology.kubernetes.io/region": "westeurope", "node.kubernetes.io/instance-type": "Standard_D4s_v5",
    });
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": labels },
        "status": { "capacity": resources, "allocatable": resources, "nodeInfo": { "kubeletVersion": "v1.36.2" } },
    })
}

fn template(app: &str, cpu: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "containers": [{
                "name": "main", "image": "nginx:1.27", "env": [{ "name": "TOKEN", "value": "planted-secret" }],
                "command": ["serve", "--password=planted-secret"], "resources": { "requests": { "cpu": cpu, "memory": "64Mi" } },
            }],
        },
    })
}

fn workload(kind: &str, app: &str, replicas: usize, cpu: &str) -> Value {
    let mut spec = json!({ "selector": { "matchLabels": { "app": app } }, "template": template(app, cpu) });
    if kind != "DaemonSet" {
        spec["replicas"] = json!(replicas);
    }
    if kind == "StatefulSet" {
        spec["serviceName"] = json!(app);
    }
    json!({ "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": app }, "spec": spec })
}

fn budget(app: &str, least: usize) -> Value {
    let spec = json!({ "minAvailable": least, "selector": { "matchLabels": { "app": app } } });
    json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": app }, "spec": spec })
}

/// Three nodes of 4 CPUs in two pools, with a Deployment, a StatefulSet and a DaemonSet.
fn cluster() -> Cluster {
    let nodes = [node("g0", "general", 1, "4"), node("g1", "general", 2, "4"), node("s0", "system", 1, "4")];
    let workloads = [
        workload("Deployment", "web", 4, "1"),
        workload("StatefulSet", "db", 2, "500m"),
        workload("DaemonSet", "agent", 0, "100m"),
    ];
    let cluster = Cluster::builder().objects(nodes).objects(workloads).objects([budget("db", 2)]).build().unwrap();
    cluster.advance(Duration::from_mins(2));
    cluster
}

fn captured(cluster: &Cluster) -> Capture {
    let mut capture = Capture::default();
    for kind in KINDS {
        let resource = ResourceId::by_kind(kind.api_version, kind.kind).unwrap();
        let objects: Vec<Value> =
            cluster.inner().list(resource, None).0.iter().map(|object| object.to_value()).collect();
        capture.add(kind, &objects);
    }
    capture.finish();
    capture
}

/// The answer in short lines, one a workload.
/// Adds an object.
fn add(capture: &mut Capture, object: &Value) {
    capture.add(Kind::of(object).unwrap(), [object]);
}

/// Changes the objects of a name.
fn edit(capture: &mut Capture, name: &str, change: impl Fn(&mut Value)) {
    capture.objects.iter_mut().filter(|object| &*object.name == name).for_each(|object| object.edit(&change));
}

fn lines(capture: &Capture, changes: &[Change]) -> Vec<String> {
    let answer = what_if(capture, changes).unwrap();
    let mut lines: Vec<String> = answer
        .workloads
        .iter()
        .map(|change| {
            let waiting: usize = change.waiting.values().sum();
            let fails = if change.fails { ", fails" } else { "" };
            format!(
                "{}: {} → {}, {} move, {waiting} wait{fails}",
                change.workload,
                change.placed.0,
                change.placed.1,
                change.moving()
            )
        })
        .collect();
    lines.extend(answer.blocked.iter().map(|blocked| format!("{} blocks: {}", blocked.pod, blocked.why)));
    lines
}

#[test]
fn without_a_change_nothing_happens() {
    let capture = captured(&cluster());
    assert_eq!(lines(&capture, &[]), Vec::<String>::new());
    assert!(!capture.text().contains("planted-secret"));
    assert_eq!(Capture::read(&capture.text()).unwrap(), capture);
}

fn pool(text: &str) -> Change {
    Change::pool(text).unwrap()
}

#[test]
fn a_drained_pool_moves_its_pods_and_a_budget_blocks() {
    let capture = captured(&cluster());
    let wanted = [
        "deployment default/web: 4 → 3, 2 move, 1 wait, fails",
        "default/db-1 blocks: The disruption budget db needs 2 healthy pods and has 2 currently",
    ];
    assert_eq!(lines(&capture, &[Change::Drain { target: "general".to_owned() }]), wanted);
    let answer = what_if(&capture, &[Change::Drain { target: "general".to_owned() }]).unwrap();
    let waits: Vec<&String> = answer.workloads[0].waiting.keys().collect();
    assert!(
        waits[0].starts_with("0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable."),
        "{waits:?}"
    );
    assert!(answer.fails());
}

#[test]
fn pools_grow_and_shrink_and_get_another_size() {
    let capture = captured(&cluster());
    let state = |changes: &[Change]| {
        let answer = what_if(&capture, changes).unwrap();
        let general = answer.pools["general"].clone();
        (general.before.nodes, general.after.nodes, general.after.allocatable.cpu, answer.fails())
    };
    assert_eq!(state(&[pool("general=5")]), (2, 5, 20_000, false));
    assert_eq!(state(&[pool("general=1")]), (2, 2, 8000, true), "a budget keeps the node");
    assert_eq!(state(&[pool("general=3"), Change::Drain { target: "g1".to_owned() }]), (2, 3, 12_000, true));
    let (_, nodes, cpu, fails) = state(&[pool("general.size=Standard_D8s_v5")]);
    assert_eq!((nodes, cpu > 19_000, fails), (3, true, true), "one old node is kept by the budget");
    let error = what_if(&capture, &[pool("other=1")]).unwrap_err().to_string();
    assert_eq!(error, "there is no pool `other`; there are: general, system");
}

#[test]
fn without_the_budget_an_upgrade_moves_everything_and_ends_where_it_began() {
    let mut capture = captured(&cluster());
    capture.objects.retain(|object| object.kind.kind != "PodDisruptionBudget");
    let answer =
        what_if(&capture, &[Change::Upgrade { pool: "general".to_owned(), settings: UpgradeSettings::default() }])
            .unwrap();
    assert!(!answer.fails(), "{answer:?}");
    assert_eq!(answer.changes, ["pool general is upgraded with AKS's default max_surge of 10%"]);
    assert_eq!((answer.pools["general"].before.nodes, answer.pools["general"].after.nodes), (2, 2));
    assert!(answer.workloads.iter().any(|change| change.moving() > 0));
    // Both nodes at once, without others in their place: four pods of 1 CPU do not fit on what is left meanwhile.
    let settings = UpgradeSettings {
        max_surge: Some(Share::Count(0)),
        max_unavailable: Some(Share::Count(2)),
        ..UpgradeSettings::default()
    };
    let answer = what_if(&capture, &[Change::Upgrade { pool: "general".to_owned(), settings }]).unwrap();
    assert_eq!(answer.changes, ["pool general is upgraded with its max_unavailable of 2"]);
    assert_eq!((answer.pools["general"].after.nodes, answer.fails()), (2, false), "{answer:?}");
    let settings = UpgradeSettings { strategy: Some(UpgradeStrategy::BlueGreen), ..UpgradeSettings::default() };
    let answer = what_if(&capture, &[Change::Upgrade { pool: "general".to_owned(), settings }]).unwrap();
    assert_eq!(answer.changes, ["pool general is upgraded blue-green"]);
    assert_eq!((answer.pools["general"].after.nodes, answer.fails()), (2, false), "{answer:?}");
    assert!(answer.workloads.iter().any(|change| change.moving() > 0));
}

#[test]
fn a_workload_that_is_scaled_by_hand_has_its_autoscaler_named() {
    let mut capture = captured(&cluster());
    let scaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "web", "namespace": "default" },
        "spec": { "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" }, "minReplicas": 2, "maxReplicas": 6 },
    });
    add(&mut capture, &scaler);
    let words = "the HorizontalPodAutoscaler default/web keeps deployment/web between 2 and 6 pods".to_owned();
    let open = |change: &str| what_if(&capture, &[Change::scale(change).unwrap()]).unwrap().open;
    assert!(open("deployment/web=9").contains(&words), "{:?}", open("deployment/web=9"));
    assert!(!open("statefulset/db=1").contains(&words));
}

#[test]
fn pools_that_grow_by_themselves_are_named_where_pods_wait() {
    let mut capture = captured(&cluster());
    let group = |name: &str, max: u64| json!({ "name": name, "health": { "minSize": 1, "maxSize": max } });
    take_bounds(
        &mut capture,
        &json!({ "nodeGroups": [group("g", 5), group("https://cloud/groups/s0-grp", 1), group("none", 9)] }),
    );
    assert!(redacted(&capture).0.text().contains("\"klab.dev/captured-autoscaler-bounds\":\"1..5\""));
    let capture = Capture::read(&capture.text()).unwrap();
    let open = |replicas: usize| {
        let change = Change::scale(&format!("deployment/web={replicas}")).unwrap();
        what_if(&capture, &[change]).unwrap().open
    };
    let grows = |open: &[String]| {
        open.iter().filter(|line| line.starts_with("the cluster autoscaler")).cloned().collect::<Vec<_>>()
    };
    assert_eq!(
        grows(&open(40)),
        [
            "the cluster autoscaler, which keeps pool general between 1 and 5 nodes, may add up to 3 nodes for pods that wait; klab adds none"
        ]
    );
    assert!(grows(&open(3)).is_empty(), "none waits");
}

#[test]
fn a_zone_fails_with_its_nodes() {
    let capture = captured(&cluster());
    let answer = what_if(&capture, &[Change::ZoneDown { zone: "1".to_owned() }]).unwrap();
    assert_eq!((answer.pools["general"].after.nodes, answer.pools["system"].after.nodes), (1, 0));
    assert!(answer.fails());
    let error = what_if(&capture, &[Change::ZoneDown { zone: "9".to_owned() }]).unwrap_err().to_string();
    assert_eq!(error, "no node is in a zone `9`; the zones are: westeurope-1, westeurope-2");
}

#[test]
fn workloads_are_scaled_added_and_applied() {
    let capture = captured(&cluster());
    let scaled = lines(&capture, &[Change::scale("deployment/web=12").unwrap()]);
    assert_eq!(scaled.len(), 1);
    assert!(scaled[0].starts_with("deployment default/web: 4 → "), "{scaled:?}");
    assert!(!scaled[0].ends_with("fails"), "pods that do not run today are no loss: {scaled:?}");
    let add = Change::Add { objects: vec![workload("Deployment", "extra", 1, "100m")], times: 3 };
    assert_eq!(
        lines(&capture, &[add]),
        ["extra-1", "extra-2", "extra-3"].map(|name| format!("deployment default/{name}: 0 → 1, 0 move, 0 wait"))
    );
    // What a manifest leaves out goes: without its selector the pod has a place.
    let mut bound = workload("Deployment", "bound", 1, "100m");
    bound["spec"]["template"]["spec"]["nodeSelector"] = json!({ "disk": "none" });
    let cluster = cluster();
    cluster.add_objects(&[bound]).unwrap();
    cluster.advance(Duration::from_mins(1));
    assert_eq!(
        lines(&captured(&cluster), &[Change::Apply { objects: vec![workload("Deployment", "bound", 1, "100m")] }]),
        ["deployment default/bound: 0 → 1, 0 move, 0 wait"]
    );
    // Applied as it is, nothing changes, whatever its environment says; a larger request rolls out.
    assert_eq!(
        lines(&capture, &[Change::Apply { objects: vec![workload("Deployment", "web", 4, "1")] }]),
        Vec::<String>::new()
    );
    let larger = lines(&capture, &[Change::Apply { objects: vec![workload("Deployment", "web", 4, "3500m")] }]);
    assert!(larger[0].contains("fails") || larger[0].contains("wait"), "{larger:?}");
    let error = what_if(&capture, &[Change::scale("deployment/none=1").unwrap()]).unwrap_err().to_string();
    assert_eq!(error, "there is no workload `deployment/none`");
}

#[test]
fn a_rollout_with_another_count_scales_the_old_pods_as_a_cluster_does() {
    let mut web = workload("Deployment", "web", 1, "100m");
    web["spec"]["template"]["spec"]["nodeSelector"] = json!({ "disk": "none" });
    let cluster = cluster();
    cluster.inner().delete(DEPLOYMENTS, "default", "web", &DeleteOptions::default()).unwrap();
    cluster.advance(Duration::from_mins(1));
    cluster.add_objects(&[web.clone()]).unwrap();
    cluster.advance(Duration::from_mins(1));
    web["spec"]["replicas"] = json!(7);
    web["spec"]["template"]["metadata"]["labels"]["version"] = json!("2");
    // Seven of the old template first, then at most two more, of which none becomes ready.
    let answer = what_if(&captured(&cluster), &[Change::Apply { objects: vec![web] }]).unwrap();
    assert_eq!(answer.workloads[0].waiting.values().sum::<usize>(), 9, "{answer:?}");
}

#[test]
fn a_gated_pod_waits_for_its_gate() {
    let mut gated = workload("Deployment", "gated", 1, "100m");
    gated["spec"]["template"]["spec"]["schedulingGates"] = json!([{ "name": "example.com/later" }]);
    let cluster = cluster();
    cluster.add_objects(&[gated]).unwrap();
    cluster.advance(Duration::from_mins(1));
    let answer = what_if(&captured(&cluster), &[]).unwrap();
    let waits: Vec<&String> = answer.workloads[0].waiting.keys().collect();
    assert_eq!(waits, ["Scheduling is blocked due to non-empty scheduling gates"]);
}

#[test]
fn taints_and_labels_of_nodes_count() {
    let capture = captured(&cluster());
    let tainted = lines(&capture, &[Change::taint("general:maintenance:NoExecute").unwrap()]);
    assert!(
        tainted.iter().any(|line| line.starts_with("deployment default/web: 4 → ") && line.ends_with("fails")),
        "{tainted:?}"
    );
    assert_eq!(lines(&capture, &[Change::label("general:disk=ssd").unwrap()]), Vec::<String>::new());
}

#[test]
fn pods_are_counted_until_none_fits() {
    let capture = captured(&cluster());
    // Of 12 CPUs 6.7 are free, on three nodes: 2.4, 2.4 and 1.9.
    let fits = fit(&capture, &workload("Deployment", "more", 2, "1")).unwrap();
    assert_eq!(fits.count(), 5);
    assert!(
        fits.human().contains("Then there is no room: None of 3 nodes takes them: 3 have too little cpu left."),
        "{}",
        fits.human()
    );
    let large = fit(&capture, &workload("StatefulSet", "more", 1, "64")).unwrap();
    assert_eq!((large.count(), large.human().lines().next().unwrap()), (0, "0 more pods of statefulset more fit."));
    assert!(fit(&capture, &workload("DaemonSet", "more", 1, "1")).is_err());
}

#[test]
fn each_node_pool_and_zone_fails_on_its_own() {
    let mut capture = captured(&cluster());
    let survival = survive(&capture).unwrap();
    assert!(survival.nodes.values().all(Vec::is_empty), "{survival:?}");
    assert_eq!(
        survival.pools["general"].len(),
        2,
        "the other pool has 4 CPUs for 5.2: a pod of web and one of db have no place"
    );
    assert!(!survival.zones["westeurope-1"].is_empty() && survival.zones["westeurope-2"].is_empty());
    assert_eq!(survival.budgets, ["default/db"]);
    let bare = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "bare", "namespace": "default", "uid": "1" },
        "spec": { "nodeName": "g0", "containers": [{ "name": "c", "image": "x" }] }, "status": { "phase": "Running" },
    });
    add(&mut capture, &bare);
    let lost = survive(&capture).unwrap().nodes["g0"].clone();
    assert_eq!((lost[0].pod.as_str(), lost[0].why.as_str()), ("default/bare", "nothing makes it again"));
}

#[test]
fn nodes_go_as_long_as_one_more_can_be_lost() {
    let capture = captured(&cluster());
    let none = shrink(&capture, false).unwrap();
    assert_eq!(none.removed.len(), 0, "two nodes hold 5.3 CPUs, one does not");
    // A fourth node is more than is needed.
    let more = [
        node("g0", "general", 1, "4"),
        node("g1", "general", 2, "4"),
        node("g2", "general", 1, "8"),
        node("s0", "system", 1, "8"),
    ];
    let cluster = Cluster::builder().objects(more).objects([workload("Deployment", "web", 4, "1")]).build().unwrap();
    cluster.advance(Duration::from_mins(2));
    let found = shrink(&captured(&cluster), false).unwrap();
    let gone: Vec<&String> = found.removed.values().flatten().collect();
    assert_eq!(gone.len(), 2, "{found:?}");
    assert!(found.saved.is_some_and(|saved| saved > 0.0), "{found:?}");
    assert!(found.human().starts_with("2 nodes can go."), "{}", found.human());
}

#[test]
fn an_emptied_copy_is_scheduled_as_its_cluster_where_there_is_no_choice() {
    let mut pinned = workload("Deployment", "pinned", 2, "100m");
    pinned["spec"]["template"]["spec"]["nodeSelector"] = json!({ "agentpool": "system" });
    let mut stuck = workload("Deployment", "stuck", 1, "100m");
    stuck["spec"]["template"]["spec"]["nodeSelector"] = json!({ "agentpool": "none" });
    let cluster = cluster();
    cluster.add_objects(&[pinned, stuck]).unwrap();
    cluster.advance(Duration::from_mins(1));
    let mut capture = captured(&cluster);
    let found = agreement(&capture).unwrap();
    assert!(found.holds(), "{found:?}");
    assert_eq!((found.pods, found.bound_to_pool), (9, 2));
    // Labels that changed after pods were placed are seen.
    edit(&mut capture, "s0", |node| node["metadata"]["labels"]["agentpool"] = json!("other"));
    let moved = agreement(&capture).unwrap();
    assert_eq!((moved.holds(), moved.waiting.len()), (false, 2), "{moved:?}");
}

#[test]
fn a_capture_under_other_names_has_the_same_answers() {
    let capture = captured(&cluster());
    let (other, _) = redacted(&capture);
    let text = other.text();
    assert!(!text.contains("\"web") && !text.contains("\"db") && !text.contains("\"g0"), "{text}");
    let counts = |capture: &Capture, zone: &str| {
        let answer = what_if(capture, &[Change::ZoneDown { zone: zone.to_owned() }]).unwrap();
        let each = answer.workloads.iter().map(|change| (change.placed, change.moving(), change.fails));
        each.collect::<std::collections::BTreeSet<_>>()
    };
    for zone in ["1", "2"] {
        assert_eq!(counts(&other, zone), counts(&capture, zone));
    }
}

#[test]
fn what_others_own_stays_in_the_copy_and_is_not_made_again() {
    let cluster = cluster();
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "team" } });
    let mut canary = workload("ReplicaSet", "canary", 1, "100m");
    canary["metadata"]["namespace"] = json!("team");
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "broker" } });
    pod["spec"] = template("broker", "100m")["spec"].clone();
    cluster.add_objects(&[namespace, canary, pod]).unwrap();
    cluster.advance(Duration::from_mins(1));
    let mut capture = captured(&cluster);
    for (name, owner) in [("canary", "Rollout"), ("broker", "StatefulSet")] {
        let reference = json!([{ "apiVersion": "x.io/v1", "kind": owner, "name": name, "uid": format!("of-{name}"), "controller": true }]);
        edit(&mut capture, name, |object| object["metadata"]["ownerReferences"] = reference.clone());
    }
    assert_eq!(lines(&capture, &[]), Vec::<String>::new());
    let all = ["g0", "g1", "s0"].map(|node| Change::Drain { target: node.to_owned() });
    let mut more: Vec<Change> = vec![pool("general=4")];
    more.extend(all);
    let answer = what_if(&capture, &more).unwrap();
    let of = |kind: &str| answer.workloads.iter().find(|change| change.workload.kind == kind).unwrap();
    let broker = of("StatefulSet.x.io");
    assert_eq!((broker.placed, broker.fails), ((1, 0), true));
    let survival = survive(&capture).unwrap();
    let lost: Vec<_> = survival.nodes.values().flatten().filter(|lost| lost.pod == "default/broker").collect();
    assert_eq!(lost[0].why, "klab does not know the controller that makes such pods again");
    assert!(survival.human().contains("1 pod belongs to controllers that klab does not know"), "{}", survival.human());
    let shrunk = shrink(&capture, false).unwrap();
    assert_eq!(shrunk.unknown.len(), 1);
    assert!(shrunk.human().contains("1 node stays, because"), "{}", shrunk.human());
    assert_eq!(of("ReplicaSet").placed, (1, 1), "a Rollout's ReplicaSet makes its pods itself");
    assert!(
        human(&answer).contains("klab does not know the controller that makes such pods again"),
        "{}",
        human(&answer)
    );
}

#[test]
fn a_capture_that_was_changed_by_hand_is_refused_where_it_is_no_cluster() {
    let capture = captured(&cluster());
    let text = capture.text().replace("\"tolerations\":[", "\"tolerations\":[7,");
    let error = what_if(&Capture::read(&text).unwrap(), &[]).unwrap_err().to_string();
    assert!(
        error.starts_with("klab could not copy the cluster: an object of the new cluster is refused: Pod agent-"),
        "{error}"
    );
    assert_eq!(
        what_if(&Capture::default(), &[]).unwrap_err().to_string(),
        "the capture has no nodes, and without nodes no pod can run; klab needs the right to list them"
    );
}
