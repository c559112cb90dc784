//! What failed checks look like to people, causes and fixes included.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::report::{Styles, human};
use crate::verify::tests::fixture::{Cluster, from, lab, running, unschedulable};
use crate::verify::{Context, diagnose, evaluate};

const LAB: &str = r#"
lab = "test"

[pool.main]
mode  = "system"
nodes = 2
size  = "Standard_B2ms"

[pool.extra]
nodes  = 1
size   = "Standard_B2ms"
labels = { workload = "extra" }

[workload.web]
replicas = 2
image    = "nginx"
requests = { cpu = "100m" }
"#;

const ON_EXTRA: &str = r#"
[[check]]
workload = "web"
on       = "pool:extra"
running  = 2
"#;

/// The report on the checks after a look at a cluster.
fn said(checks: &str, cluster: &Cluster) -> String {
    let lab = lab(&format!("{LAB}{checks}"));
    let context = Context::of(&lab);
    let mut snapshot = cluster.snapshot.clone();
    snapshot.taken_at = Some("2026-01-01T00:00:31Z".parse().unwrap());
    let mut report = evaluate(&lab.checks, &snapshot, &context);
    diagnose(&mut report, &lab.checks, &snapshot, &context);
    human(&report, Styles::plain())
}

fn cluster(extra: Value) -> Cluster {
    let mut changes = json!({"metadata": {"labels": {"workload": "extra"}}});
    json_patch::merge(&mut changes, &extra);
    Cluster::default().node("extra", 0, changes).pool("main", 2).deployment("web", 2)
}

fn with(mut pod: Value, spec: &Value) -> Value {
    json_patch::merge(&mut pod, &json!({ "spec": spec }));
    pod
}

#[test]
fn pending_pods_of_a_tainted_pool() {
    let tainted = json!({"spec": {"taints": [{"key": "dedicated", "value": "special", "effect": "NoSchedule"}]}});
    let pod = with(unschedulable("0/3 nodes are available"), &json!({"nodeSelector": {"workload": "extra"}}));
    let cluster = cluster(tainted).pod("web", &pod).pod("web", &pod);
    assert_snapshot!(said(ON_EXTRA, &cluster), @r#"
    ✗ failed   web: on pool:extra, 2 running → 0 of 2 on pool:extra, 2 Pending; 0 running, wanted 2 (2 Pending)
        web-1, web-2  Pending for 31 s, fits on none of 3 nodes:
          extra-0         taint dedicated=special:NoSchedule is not tolerated
          main-0, main-1  no label workload, nodeSelector asks for workload=extra
        fix: add `tolerations = ["dedicated=special:NoSchedule"]` to `[workload.web]` (labs/x.toml:14), or:
             kubectl patch deployment/web -p '{"spec":{"template":{"spec":{"tolerations":[{"effect":"NoSchedule","key":"dedicated","operator":"Equal","value":"special"}]}}}}'
         or: remove the taint dedicated=special:NoSchedule from pool extra:
             kubectl taint nodes -l agentpool=extra dedicated=special:NoSchedule-
        at labs/x.toml:19 (K0503)
    "#);
}

#[test]
fn pods_on_the_wrong_nodes() {
    let cluster = cluster(json!({})).running("web", "main-0", 1).running("web", "extra-0", 1);
    assert_snapshot!(said(ON_EXTRA, &cluster), @r#"
    ✗ failed   web: on pool:extra, 2 running → 1 of 2 on pool:extra, 1 on main
        web-1  runs on main-0 (pool main)
        fix: add `workload = "extra"` to the node selector of `[workload.web]` (labs/x.toml:14), or:
             kubectl patch deployment/web -p '{"spec":{"template":{"spec":{"nodeSelector":{"workload":"extra"}}}}}'
        at labs/x.toml:19 (K0611)
    "#);
    // With a taint in the way it takes a toleration as well.
    let tainted = json!({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}});
    let cluster = self::cluster(tainted).running("web", "main-0", 2);
    assert_snapshot!(said(ON_EXTRA, &cluster), @r#"
    ✗ failed   web: on pool:extra, 2 running → 0 of 2 on pool:extra, 2 on main
        web-1, web-2  run on main-0 (pool main)
        fix: add `workload = "extra"` to the node selector of `[workload.web]` and add `tolerations = ["gpu:NoSchedule"]` to `[workload.web]` (labs/x.toml:14), or:
             kubectl patch deployment/web -p '{"spec":{"template":{"spec":{"nodeSelector":{"workload":"extra"}}}}}' && kubectl patch deployment/web -p '{"spec":{"template":{"spec":{"tolerations":[{"effect":"NoSchedule","key":"gpu","operator":"Exists"}]}}}}'
         or: add `workload = "extra"` to the node selector of `[workload.web]` and remove the taint gpu:NoSchedule from pool extra (labs/x.toml:14), or:
             kubectl patch deployment/web -p '{"spec":{"template":{"spec":{"nodeSelector":{"workload":"extra"}}}}}' && kubectl taint nodes -l agentpool=extra gpu:NoSchedule-
        at labs/x.toml:19 (K0611)
    "#);
}

#[test]
fn a_workload_of_another_name_is_scaled_by_the_name_that_it_has() {
    let labelled = |mut pod: Value| {
        json_patch::merge(&mut pod, &json!({ "metadata": { "labels": { "klab.dev/workload": "web" } } }));
        pod
    };
    let cluster =
        Cluster::default().pool("main", 2).deployment("renamed", 1).pod("renamed", &labelled(running("main-0")));
    assert_snapshot!(said("\n[[check]]\nworkload = 'web'\nrunning = 2\n", &cluster), @"
    ✗ failed   web: 2 running → 1 running, wanted 2
        fix: scale deployment/renamed from 1 to 2:
             kubectl scale deployment/renamed --replicas=2
        at labs/x.toml:19 (K0602)
    ");
}

#[test]
fn an_autoscaler_that_undoes_what_is_scaled_by_hand_is_the_cause() {
    let scaled_by = |target: &str| {
        let mut cluster = Cluster::default().pool("main", 2).deployment("web", 3).running("web", "main-0", 3);
        cluster.snapshot.autoscalers.push(from(json!({
            "metadata": { "name": "web-hpa", "namespace": "default" },
            "spec": {
                "minReplicas": 3, "maxReplicas": 5,
                "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": target },
            },
        })));
        cluster
    };
    assert_snapshot!(said("\n[[check]]\nworkload = 'web'\nrunning = 2\n", &scaled_by("web")), @"
    ✗ failed   web: 2 running → 3 running, wanted 2
        web-1, web-2, web-3  run on main-0 (pool main)
        deployment/web  the HorizontalPodAutoscaler web-hpa sets its number of pods, from 3 to 5 and 3 now; it undoes `kubectl scale`
        fix: delete the HorizontalPodAutoscaler web-hpa, and scale `deployment/web` to 2:
             kubectl delete hpa web-hpa && kubectl scale deployment/web --replicas=2
        at labs/x.toml:19 (K0602)
    ");
    for (checks, target) in [
        ("\n[[check]]\nworkload = 'web'\nrunning = 2\n", "api"),
        ("\n[[check]]\nworkload = 'web'\non = 'pool:extra'\n", "web"),
    ] {
        let said = said(checks, &scaled_by(target));
        assert!(!said.contains("Autoscaler"), "{said}");
    }
}

#[test]
fn too_little_room() {
    let big = |pod: Value| {
        with(
            pod,
            &json!({"containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "1500m"}}}], "nodeSelector": {"workload": "extra"}}),
        )
    };
    let cluster = cluster(json!({})).pod("web", &big(running("extra-0"))).pod("web", &big(unschedulable("")));
    assert_snapshot!(said(ON_EXTRA, &cluster), @"
    ✗ failed   web: on pool:extra, 2 running → 1 of 2 on pool:extra, 1 Pending; 1 running, wanted 2 (1 Pending)
        web-2  Pending for 31 s, fits on none of 3 nodes:
          extra-0         1.5 cpu requested, 0.5 of 2 free
          main-0, main-1  no label workload, nodeSelector asks for workload=extra
        fix: restore `requests.cpu` (100m, now 1500m) of `deployment/web` as the lab says:
             kubectl set resources deployment/web --requests=cpu=100m
         or: set `pool.extra.nodes = 2` (from 1) (labs/x.toml:10), or:
             klab pool scale extra --nodes 2
        at labs/x.toml:19 (K0508)
    ");
}

#[test]
fn containers_that_do_not_start() {
    let pulling = json!({"spec": {"nodeName": "extra-0"}, "status": {"containerStatuses": [{
        "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"ngnix\""}}}]}});
    let cluster = cluster(json!({})).pod("web", &pulling).pod("web", &pulling);
    assert_snapshot!(said(ON_EXTRA, &cluster), @r#"
    ✗ failed   web: on pool:extra, 2 running → 0 of 2 on pool:extra, 2 ImagePullBackOff; 0 running, wanted 2 (2 ImagePullBackOff)
        web-1, web-2  ImagePullBackOff on extra-0 (pool extra): Back-off pulling image "ngnix"
        at labs/x.toml:19 (K0519)
    "#);
}

#[test]
fn pods_that_run_but_are_to_stay_pending() {
    let checks = "[[check]]\nworkload = 'web'\npending = 2\nreason = 'untolerated taint'";
    let cluster = cluster(json!({})).running("web", "extra-0", 1).unschedulable(
        "web",
        1,
        "0/3 nodes are available: Insufficient cpu",
    );
    assert_snapshot!(said(checks, &cluster), @"
    ✗ failed   web: 2 Pending, untolerated taint → 1 Pending, 0 of them with `untolerated taint`, wanted 2
        web-2  Pending for 31 s, would fit on extra-0, main-0 and main-1 now
        web-1  runs on extra-0 (pool extra), but should stay Pending
        at labs/x.toml:18 (K0603)
    ");
}

#[test]
fn more_pods_than_the_workload_has() {
    let checks = "[[check]]\nworkload = 'web'\nrunning = 2";
    let cluster = Cluster::default().pool("extra", 1).pool("main", 2).deployment("web", 1).running("web", "extra-0", 1);
    assert_snapshot!(said(checks, &cluster), @"
    ✗ failed   web: 2 running → 1 running, wanted 2
        fix: scale deployment/web from 1 to 2:
             kubectl scale deployment/web --replicas=2
        at labs/x.toml:18 (K0602)
    ");
}

#[test]
fn nodes_and_missing_subjects() {
    let checks = "
[[check]]
nodes   = 'pool:extra'
tainted = 'dedicated=special:NoSchedule'
[[check]]
nodes       = 'node:main-0'
schedulable = false
[[check]]
pods    = 'app=web'
running = 1
[[check]]
object = 'deployment/web'
cel    = 'object.spec.replicas == 3'
";
    let cluster = cluster(json!({})).running("wep", "extra-0", 2);
    assert_snapshot!(said(checks, &cluster), @"
    ✗ failed   nodes pool:extra: tainted dedicated=special:NoSchedule → 0 of 1 tainted dedicated=special:NoSchedule, not extra-0
        fix: taint 1 node:
             kubectl taint nodes -l agentpool=extra dedicated=special:NoSchedule --overwrite
        at labs/x.toml:19 (K0608)
    ✗ failed   nodes node:main-0: cordoned → 0 of 1 cordoned, not main-0
        fix: cordon 1 node:
             kubectl cordon main-0
        at labs/x.toml:22 (K0608)
    ✗ failed   pods app=web: 1 running → no pod matches app=web in namespace default; pods with similar labels: app=wep
        at labs/x.toml:25 (K0610)
    ✗ not yet  deployment/web: object.spec.replicas == 3 → false; object.spec.replicas is 2
        waiting: its controller is still at work
        at labs/x.toml:28 (K0609)
    ");
}

#[test]
fn nodes_that_a_daemon_set_leaves_out() {
    let checks = r#"
[workload.agent]
kind  = "daemonset"
image = "nginx"

[[check]]
workload     = "agent"
one_per_node = "agentpool in (main, extra)"
"#;
    let tainted = json!({"spec": {"taints": [{"key": "dedicated", "value": "special", "effect": "NoSchedule"}]}});
    let mut cluster = cluster(tainted);
    let template = json!({
        "metadata": {"labels": {"app": "agent", "klab.dev/workload": "agent"}},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    });
    cluster.snapshot.daemon_sets.push(from(json!({
        "metadata": {"name": "agent", "namespace": "default", "uid": "agent", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": 2, "currentNumberScheduled": 2,
            "numberReady": 2, "numberMisscheduled": 0, "updatedNumberScheduled": 2, "numberAvailable": 2},
    })));
    for (number, node) in ["main-0", "main-1"].into_iter().enumerate() {
        let mut pod = running(node);
        let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent", "controller": true}]);
        let labels = json!({"app": "agent", "klab.dev/workload": "agent"});
        let metadata = json!({"name": format!("agent-{number}"), "namespace": "default", "labels": labels, "ownerReferences": owner});
        json_patch::merge(&mut pod, &json!({"metadata": metadata, "spec": template["spec"]}));
        cluster.snapshot.pods.push(from(pod));
    }
    assert_snapshot!(said(checks, &cluster), @r#"
    ✗ failed   agent: one per node of agentpool in (extra,main) → 2 of 3 nodes have exactly one, none on extra-0
        daemonset/agent  makes no pod for 1 node:
          extra-0  taint dedicated=special:NoSchedule is not tolerated
        fix: add `tolerations = ["dedicated=special:NoSchedule"]` to `[workload.agent]` (labs/x.toml:19), or:
             kubectl patch daemonset/agent -p '{"spec":{"template":{"spec":{"tolerations":[{"effect":"NoSchedule","key":"dedicated","operator":"Equal","value":"special"}]}}}}'
         or: remove the taint dedicated=special:NoSchedule from pool extra:
             kubectl taint nodes -l agentpool=extra dedicated=special:NoSchedule-
        at labs/x.toml:23 (K0503)
    "#);
}

/// A pod with a node selector, which runs on a node.
fn selecting(value: &str, node: &str) -> Value {
    let mut pod = running(node);
    pod["spec"]["nodeSelector"] = json!({"disk": value});
    pod
}

#[test]
fn pods_that_would_go_home_by_themselves_are_restarted() {
    let checks = "[[check]]\nworkload = 'web'\non = 'pool:extra'";
    let closed = json!({"spec": {"taints": [{"key": "dedicated", "value": "special", "effect": "NoSchedule"}]}});
    let cluster = Cluster::default().pool("extra", 1).node("main", 0, closed).deployment("web", 1);
    let said = said(checks, &cluster.running("web", "main-0", 1));
    let fix = "fix: restart `deployment/web`, as pods do not move by themselves:\n           kubectl rollout restart deployment/web\n";
    assert!(said.contains(fix), "{said}");
}

#[test]
fn a_label_on_the_wrong_pool_is_moved() {
    let checks = "[[check]]\nworkload = 'web'\non = 'pool:extra'\nrunning = 1";
    let ssd = json!({"metadata": {"labels": {"disk": "ssd"}}});
    let cluster = Cluster::default().pool("extra", 1).node("main", 0, ssd).deployment("web", 1);
    let said = said(checks, &cluster.pod("web", &selecting("ssd", "main-0")));
    let command = "\n           kubectl label nodes -l agentpool=extra disk=ssd && kubectl label nodes main-0 disk- && \
                   kubectl rollout restart deployment/web\n";
    assert!(said.contains(command) && !said.contains("node selector of"), "{said}");
}

#[test]
fn a_label_also_on_the_wrong_pool_is_taken_off() {
    let checks = "[[check]]\nworkload = 'web'\non = 'pool:extra'\nrunning = 1";
    let ssd = || json!({"metadata": {"labels": {"disk": "ssd"}}});
    let cluster = Cluster::default().node("extra", 0, ssd()).node("main", 0, ssd()).deployment("web", 1);
    let said = said(checks, &cluster.pod("web", &selecting("ssd", "main-0")));
    let command = "\n           kubectl label nodes main-0 disk- && kubectl rollout restart deployment/web\n";
    assert!(said.contains(command) && !said.contains("node selector of"), "{said}");
}

#[test]
fn the_clusters_own_pods_are_restarted_and_not_changed() {
    let checks = "[[check]]\npods = 'app=dns'\nnamespace = 'kube-system'\non = 'pool:extra'";
    let mut pod = running("main-0");
    pod["metadata"] = json!({"namespace": "kube-system"});
    let said = said(checks, &Cluster::default().pool("extra", 1).pool("main", 1).pod("dns", &pod));
    assert!(said.contains("runs on main-0") && !said.contains("node selector"), "{said}");
}

#[test]
fn what_a_node_that_is_gone_left_behind_is_cleared_away() {
    let cluster = cluster(json!({})).running("web", "extra-0", 2).running("web", "extra-1", 1);
    assert_snapshot!(said("[[check]]\nworkload = 'web'\nrunning = 2\n", &cluster), @"
    ✗ not yet  web: 2 running → 3 running, wanted 2
        waiting: 3 running, some are going
        web-1, web-2  run on extra-0 (pool extra)
        web-3  is on extra-1, which is gone: the cluster clears it away within a minute
        fix: wait for what extra-1 left behind to be cleared away, or do it now:
             kubectl delete pods --field-selector spec.nodeName=extra-1 --force
         or: scale deployment/web from 3 to 2:
             kubectl scale deployment/web --replicas=2
        at labs/x.toml:18 (K0602)
    ");
}

#[test]
fn the_lab_file_is_cited_only_where_the_slip_is_in_it() {
    let checks = "node_selector = { workload = 'extra' }\n[[check]]\nworkload = 'web'\nrunning = 1";
    let cluster = || {
        Cluster::default().node("extra", 0, json!({"metadata": {"labels": {"workload": "extra"}}})).deployment("web", 1)
    };
    let pod = |value: &str| {
        let mut pod = unschedulable("");
        pod["spec"]["nodeSelector"] = json!({"workload": value});
        pod
    };
    let said = said(checks, &cluster().pod("web", &pod("exta")));
    let fix = "fix: restore the node selector of `deployment/web` as the lab says:\n           kubectl patch deployment/web --type json \
               -p '[{\"op\":\"add\",\"path\":\"/spec/template/spec/nodeSelector\",\"value\":{\"workload\":\"extra\"}}]'\n";
    assert!(said.contains(fix), "{said}");
    assert!(!said.contains("label nodes") && !said.contains(" or: "), "{said}");
}

#[test]
fn a_workload_of_another_namespace_is_said_to_be_there() {
    let owner =
        json!([{"apiVersion": "example.com/v1", "kind": "Site", "name": "web", "uid": "web", "controller": true}]);
    let pod = json!({"metadata": {"namespace": "team", "ownerReferences": owner}});
    let said = said("[[check]]\nworkload = 'web'\nrunning = 1\n", &Cluster::default().pool("main", 1).pod("web", &pod));
    assert!(said.contains("no workload web in the cluster; there is one in namespace team\n"), "{said}");
}
