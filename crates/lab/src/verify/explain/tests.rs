//! What explanations say, and that every suggestion does what it promises.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::report::{Styles, explanation_text};
use crate::verify::tests::fixture::{Cluster, unschedulable};
use crate::verify::{Context, explain};

/// The explanation of a target in plain text.
fn said(cluster: &Cluster, target: &str) -> String {
    let mut snapshot = cluster.snapshot.clone();
    snapshot.taken_at = Some("2026-01-01T00:00:31Z".parse().unwrap());
    explanation_text(&explain(&snapshot, &Context::default(), target, None).unwrap(), Styles::plain())
}

fn cluster() -> Cluster {
    Cluster::default().node("extra", 0, json!({"metadata": {"labels": {"workload": "extra"}}})).pool("main", 2)
}

/// A Pending pod with a spec merged in.
fn pending(spec: Value) -> Value {
    let mut pod = unschedulable("0/3 nodes are available");
    pod["spec"] = spec;
    pod
}

fn requests(cpu: &str) -> Value {
    json!({"containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]})
}

#[test]
fn an_untolerated_taint() {
    let taint = json!({
        "metadata": {"labels": {"workload": "extra"}},
        "spec": {"taints": [{"key": "dedicated", "value": "special", "effect": "NoSchedule"}]},
    });
    let cluster = Cluster::default().node("extra", 0, taint).pool("main", 2).deployment("web", 2);
    let pod = pending(json!({"nodeSelector": {"workload": "extra"}}));
    assert_snapshot!(said(&cluster.pod("web", &pod).pod("web", &pod), "web"), @r#"
    web-1, web-2  Pending for 31 s (K0503)
      fits on none of 3 nodes:
        extra-0         taint dedicated=special:NoSchedule is not tolerated
        main-0, main-1  no label workload, nodeSelector asks for workload=extra
      fix: add a toleration of the taint dedicated=special:NoSchedule to `deployment/web`:
           kubectl patch deployment/web -p '{"spec":{"template":{"spec":{"tolerations":[{"effect":"NoSchedule","key":"dedicated","operator":"Equal","value":"special"}]}}}}'
       or: remove the taint dedicated=special:NoSchedule from pool extra:
           kubectl taint nodes -l agentpool=extra dedicated=special:NoSchedule-
       or: label pool main `workload=extra`:
           kubectl label nodes -l agentpool=main workload=extra
    "#);
}

#[test]
fn a_slip_of_the_pen_in_the_selector() {
    let cluster = cluster().pod("web", &pending(json!({"nodeSelector": {"workload": "extr"}})));
    assert_snapshot!(said(&cluster, "web-1"), @"
    web-1  Pending for 31 s (K0504)
      fits on none of 3 nodes:
        extra-0         label workload is extra, nodeSelector asks for extr
        main-0, main-1  no label workload, nodeSelector asks for workload=extr
      fix: write `extra` for `extr` in the node selector `workload` of `pod/web-1`
       or: remove `workload` from the node selector of `pod/web-1`
    ");
}

#[test]
fn too_little_cpu_for_some_pods() {
    let mut cluster = cluster().deployment("web", 3).deployment("other", 2);
    for node in ["extra-0", "main-0", "main-1"] {
        let mut busy = crate::verify::tests::fixture::running(node);
        busy["spec"]["containers"] = requests("1500m")["containers"].clone();
        cluster = cluster.pod("other", &busy);
    }
    let pod = pending(requests("800m"));
    assert_snapshot!(said(&cluster.pod("web", &pod).pod("web", &pod), "web"), @"
    web-4, web-5  Pending for 31 s (K0508)
      fits on none of 3 nodes:
        extra-0         0.8 cpu requested, 0.5 of 2 free
        main-0, main-1  0.8 cpu requested, 0.5 of 2 free
      fix: lower `requests.cpu` of `deployment/web` from 0.8 to `500m`:
           kubectl set resources deployment/web --requests=cpu=500m
       or: add 1 node to pool extra
       or: add 1 node to pool main
    ");
}

#[test]
fn more_than_any_node_has() {
    let cluster = cluster().pod("web", &pending(requests("6")));
    assert_snapshot!(said(&cluster, "web-1"), @"
    web-1  Pending for 31 s (K0508)
      fits on none of 3 nodes:
        extra-0         6 cpu requested, more than the 2 a node has
        main-0, main-1  6 cpu requested, more than the 2 a node has
      fix: lower `requests.cpu` of `pod/web-1` from 6 to `2`
    ");
}

#[test]
fn cordoned_and_port_taken() {
    let port = |node: Option<&str>| {
        let mut pod = node.map_or_else(|| unschedulable(""), crate::verify::tests::fixture::running);
        pod["spec"]["containers"] =
            json!([{"name": "main", "image": "nginx", "ports": [{"containerPort": 80, "hostPort": 8080}]}]);
        pod
    };
    let cluster = Cluster::default()
        .node("main", 0, json!({"spec": {"unschedulable": true}}))
        .pool("extra", 1)
        .pod("holder", &port(Some("extra-0")))
        .pod("web", &port(None));
    assert_snapshot!(said(&cluster, "web-2"), @"
    web-2  Pending for 31 s (K0540)
      fits on none of 2 nodes:
        extra-0  host port 8080/TCP is taken by default/holder-1
        main-0   cordoned
      fix: uncordon main-0:
           kubectl uncordon main-0
       or: remove the host port 8080 of `pod/web-2`
       or: add 1 node to pool extra
    ");
}

#[test]
fn cordoned_and_tainted_nodes_are_told_and_mended_apart() {
    let both = json!({"spec": {"unschedulable": true, "taints": [
        {"key": "dedicated", "value": "special", "effect": "NoSchedule"}]}});
    let cluster = Cluster::default().node("main", 0, both).pod("web", &unschedulable(""));
    let said = said(&cluster, "web-1");
    assert!(said.contains("main-0  cordoned; taint dedicated=special:NoSchedule is not tolerated\n"), "{said}");
    assert!(
        said.contains("fix: uncordon main-0 and add a toleration of the taint dedicated=special:NoSchedule to"),
        "{said}"
    );
    assert!(said.contains("\n       kubectl uncordon main-0 && kubectl patch pod/web-1 -p "), "{said}");
}

#[test]
fn a_value_that_no_node_has_is_not_put_on_nodes_where_another_is_meant() {
    let ssd = json!({"metadata": {"labels": {"disk": "ssd"}}});
    let affinity = |value: &str| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "disk", "operator": "In", "values": [value]}]}]}}}})
    };
    let cluster = Cluster::default().node("extra", 0, ssd).pool("main", 2).deployment("web", 1);
    let slip = said(&cluster.clone().pod("web", &pending(affinity("sdd"))), "web");
    let fix =
        "fix: write `ssd` for `sdd` in the node affinity of `deployment/web`:\n       kubectl edit deployment/web\n";
    assert!(slip.contains(fix) && !slip.contains("disk=sdd`") && !slip.contains("kubectl label"), "{slip}");
    // Nothing like it is there: then the label is what is missing.
    let said = said(&cluster.pod("web", &pending(affinity("tape"))), "web");
    assert!(said.contains("kubectl label nodes") && said.contains("disk=tape"), "{said}");
}

#[test]
fn a_node_that_is_not_there() {
    let cluster = cluster().pod("web", &json!({"spec": {"nodeName": "node01"}}));
    let said = said(&cluster, "web-1");
    assert!(said.contains("web-1  waits on node01, and there is no such node"), "{said}");
    assert!(!said.contains("would go to"), "{said}");
}

#[test]
fn rules_between_pods() {
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}]}}});
    let with = |node: &str| {
        let mut pod = crate::verify::tests::fixture::running(node);
        pod["spec"]["affinity"] = apart["affinity"].clone();
        pod
    };
    let cluster = cluster()
        .deployment("web", 4)
        .pod("web", &with("extra-0"))
        .pod("web", &with("main-0"))
        .pod("web", &with("main-1"))
        .pod("web", &pending(apart.clone()));
    assert_snapshot!(said(&cluster, "web-4"), @"
    web-4  Pending for 31 s (K0513)
      fits on none of 3 nodes:
        extra-0         default/web-1 is on the same node, which the pod's anti-affinity forbids; the anti-affinity of default/web-1 forbids this pod on the same node
        main-0, main-1  another pod is on the same node, which the pod's anti-affinity forbids; the anti-affinity of another pod forbids this pod on the same node
      fix: add 1 node to pool extra
       or: add 1 node to pool main
       or: scale `deployment/web` down to 3, as many as run:
           kubectl scale deployment/web --replicas=3
    ");
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "db"}}}],
        "nodeSelector": {"agentpool": "main"}});
    let full = json!({"spec": {"unschedulable": true}});
    let cluster =
        Cluster::default().pool("main", 1).node("main", 1, full).running("db", "main-0", 1).pod("db", &pending(spread));
    assert_snapshot!(said(&cluster, "db-2"), @"
    db-2  Pending for 31 s (K0540)
      fits on none of 2 nodes:
        main-0  z0 has 1 of the pods the spread over topology.kubernetes.io/zone counts, the emptiest zone, z1, has 0; maxSkew is 1
        main-1  cordoned
      fix: uncordon main-1:
           kubectl uncordon main-1
       or: set `nodeTaintsPolicy: Honor` in the topology spread of `pod/db-2`, so that nodes whose taints the pods do not tolerate do not count
       or: raise `maxSkew` of `pod/db-2` from 1 to 2
    ");
}

#[test]
fn a_pod_that_has_its_place() {
    let preferred = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [{"key": "workload", "operator": "In", "values": ["extra"]}]}}]}}});
    let mut pod = crate::verify::tests::fixture::running("extra-0");
    pod["spec"]["affinity"] = preferred["affinity"].clone();
    let cluster = cluster()
        .node("gpu", 0, json!({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}))
        .pod("web", &pod)
        .running("other", "extra-0", 3);
    assert_snapshot!(said(&cluster, "web-1"), @"
    web-1  running on extra-0 (pool extra)
      3 nodes take it, none scores higher than extra-0
        NODE     TAINTS×3  AFFINITY×2  FREE  BALANCE  IMAGE  TOTAL
        extra-0  300       200         88    74       0      662    here
        main-0   300       0           97    73       0      470    loses by 192
        main-1   300       0           97    73       0      470    loses by 192
      not elsewhere:
        gpu-0  taint gpu:NoSchedule is not tolerated
    ");
    assert_snapshot!(said(&cluster, "other-2"), @"
    other-2  running on extra-0 (pool extra)
      if it were scheduled now, it would go to main-1
        NODE     TAINTS×3  FREE  BALANCE  IMAGE  TOTAL
        extra-0  300       88    74       0      462    here
        main-0   300       97    73       0      470    ahead by 8
        main-1   300       97    73       0      470    ahead by 8
      not elsewhere:
        gpu-0  taint gpu:NoSchedule is not tolerated
    ");
}

#[test]
fn gates_other_schedulers_and_empty_clusters() {
    let gated = json!({"spec": {"schedulingGates": [{"name": "example.com/quota"}]}, "status": {"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates"}]}});
    let mine = json!({"spec": {"schedulerName": "mine"}});
    let cluster = cluster().pod("gated", &gated).pod("mine", &mine);
    assert_snapshot!(said(&cluster, "gated-1"), @r#"
    gated-1  held by its scheduling gates for 31 s (K0516)
      gates: example.com/quota
      3 nodes would take it now: extra-0, main-0, main-1
      fix: remove the scheduling gates example.com/quota of `pod/gated-1`:
           kubectl patch pod/gated-1 -p '{"spec":{"schedulingGates":null}}'
    "#);
    assert_snapshot!(said(&cluster, "mine-2"), @"
    mine-2  not scheduled yet for 31 s (K0540)
      it waits for the scheduler `mine`, which klab does not find here
      3 nodes would take it now: extra-0, main-0, main-1
    ");
    assert_snapshot!(said(&Cluster::default().pod("web", &unschedulable("")), "web-1"), @"
    web-1  Pending for 31 s (K0540)
      there are no nodes
      no single change that klab knows of would let it in
    ");
    let error = explain(&cluster.snapshot, &Context::default(), "gated-2", Some("default")).unwrap_err();
    assert_eq!(error.to_string(), "there is no pod or workload `gated-2` in namespace default");
    assert_eq!(error.similar.as_deref(), Some("gated-1"));
}

/// The commands by which explanations of a cluster that no lab describes change its objects.
#[test]
fn objects_of_no_lab_are_changed_by_commands() {
    let template = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let said = |spec: Value| {
        let mut pod = pending(spec.clone());
        pod["metadata"] = json!({"namespace": "team"});
        let mut cluster = cluster().deployment_with("web", 1, template(spec)).replica_set("web", 1).pod("web", &pod);
        cluster.snapshot.pods[0] = crate::verify::tests::fixture::from(pod_with_owner(&cluster));
        said(&cluster, "deployment.apps/web")
    };
    let affinity = |kind: &str| {
        json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "none"}}, "topologyKey": "kubernetes.io/hostname"}]}}})
    };
    for (spec, command) in [
        (
            json!({"nodeSelector": {"workload": "extr"}}),
            r#"kubectl -n team patch deployment/web -p '{"spec":{"template":{"spec":{"nodeSelector":{"workload":"extra"}}}}}'"#,
        ),
        (
            json!({"nodeSelector": {"example.com/none": "x", "workload": "extra"}}),
            r#"kubectl -n team patch deployment/web -p '{"spec":{"template":{"spec":{"nodeSelector":{"example.com/none":null}}}}}'"#,
        ),
        (
            affinity("podAffinity"),
            r#"kubectl -n team patch deployment/web --type json -p '[{"op":"remove","path":"/spec/template/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/0"}]'"#,
        ),
    ] {
        let said = said(spec);
        assert!(said.contains(command), "{command} is not in\n{said}");
    }
}

fn pod_with_owner(cluster: &Cluster) -> Value {
    let mut pod = serde_json::to_value(&*cluster.snapshot.pods[0]).unwrap();
    pod["metadata"]["namespace"] = json!("team");
    pod
}

#[test]
fn the_autoscaler_says_of_each_pool_what_it_does() {
    let text = |bounds: &str| {
        format!(
            "lab = \"x\"\n[pool.main]\nmode = \"system\"\n[pool.extra]\nnodes = 1\nautoscale = {bounds}\n\
             [pool.idle]\nnodes = 0\nautoscale = {{ min = 0, max = 3 }}\ntaints = [\"gpu=true:NoSchedule\"]\n"
        )
    };
    let pod = pending(requests("1500m"));
    let cluster = Cluster::default().pool("main", 1).pool("extra", 1).deployment("web", 1);
    let cluster = cluster.running("other", "main-0", 6).running("other", "extra-0", 6).pod("web", &pod);
    let said = |bounds: &str, backed_off: &[(&str, &str)]| {
        let lab = crate::spec::parse("lab.toml", &text(bounds), &crate::spec::LoadOptions::default()).unwrap();
        let back_off =
            |why: &str| crate::verify::BackOff { why: why.to_owned(), since: "2026-06-01T08:00:00Z".parse().ok() };
        let backed_off = backed_off.iter().map(|(group, why)| ((*group).to_owned(), back_off(why))).collect();
        let taken_at = "2026-06-01T08:00:50Z".parse().ok();
        let snapshot = crate::verify::Snapshot { taken_at, backed_off, ..cluster.snapshot.clone() };
        let explained = explain(&snapshot, &Context::of(&lab), "web", None).unwrap();
        let text = explanation_text(&explained, Styles::plain());
        text.lines().skip_while(|line| !line.contains("autoscaler:")).collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(said("{ min = 1, max = 2 }", &[]), @"
    the cluster autoscaler:
      pool extra  1 of 2 nodes  a new node would take it, and comes
      pool idle   0 of 3 nodes  a new node would not take it: taint gpu=true:NoSchedule is not tolerated
    fix: lower `requests.cpu` of `deployment/web` from 1.5 to `1400m`:
         kubectl set resources deployment/web --requests=cpu=1400m
     or: wait for the autoscaler: pool extra may have 2 nodes
     or: set `pool.main.nodes = 2` (from 1) (lab.toml:2), or:
         klab pool scale main --nodes 2
    ");
    let failed = [("aks-extra-1-vmss", "Scale-up timed out"), ("aks-extras-1-vmss", "no"), ("idle", "too")];
    assert_snapshot!(said("{ min = 1, max = 2 }", &failed).lines().take(5).collect::<Vec<_>>().join("\n"), @r"
    the cluster autoscaler:
      pool extra  1 of 2 nodes  a new node would take it, but the pool is in backoff after failed scale-up: Scale-up timed out; the autoscaler tries again in 4m 10s at the earliest
      pool idle   0 of 3 nodes  a new node would not take it: taint gpu=true:NoSchedule is not tolerated
    fix: lower `requests.cpu` of `deployment/web` from 1.5 to `1400m`:
         kubectl set resources deployment/web --requests=cpu=1400m
    ");
    assert_snapshot!(said("{ min = 1, max = 1 }", &[]), @"
    the cluster autoscaler:
      pool extra  1 of 1 node   a new node would take it, but the pool is at its maximum
      pool idle   0 of 3 nodes  a new node would not take it: taint gpu=true:NoSchedule is not tolerated
    fix: lower `requests.cpu` of `deployment/web` from 1.5 to `1400m`:
         kubectl set resources deployment/web --requests=cpu=1400m
     or: set `max` of `pool.extra.autoscale` to 2 (from 1) (lab.toml:6), or:
         klab pool update extra --autoscale 1..2
     or: set `pool.main.nodes = 2` (from 1) (lab.toml:2), or:
         klab pool scale main --nodes 2
    ");
}

#[test]
fn a_slip_of_the_pen_in_a_topology_key() {
    let spread = |key: &str| {
        pending(json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]}))
    };
    let cluster = cluster().deployment("web", 1);
    let slip = said(&cluster.clone().pod("web", &spread("topology.kubernetes.io/zones")), "web");
    let fix = "fix: write `topology.kubernetes.io/zone` for `topology.kubernetes.io/zones` as the topology key of the topology spread \
               of `deployment/web`:\n       kubectl patch deployment/web --type json -p '[{\"op\":\"replace\",\
               \"path\":\"/spec/template/spec/topologySpreadConstraints/0/topologyKey\",\"value\":\"topology.kubernetes.io/zone\"}]'\n";
    assert!(slip.contains(fix), "{slip}");
    let affinity = pending(json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostnam"}]}}}));
    let slip = said(&cluster.clone().running("db", "main-0", 1).pod("web", &affinity), "web");
    let fix = "fix: write `kubernetes.io/hostname` for `kubernetes.io/hostnam` as the topology key of the pod affinity of `deployment/web`";
    assert!(slip.contains(fix), "{slip}");
    // The lab says which, also where it looks like nothing that is there.
    let text = "lab = 'x'\n[pool.main]\nnodes = 2\n[workload.web]\n[[workload.web.topology_spread]]\nmaxSkew = 1\n\
                topologyKey = 'topology.kubernetes.io/zone'\nwhenUnsatisfiable = 'DoNotSchedule'\n";
    let lab = crate::verify::tests::fixture::lab(text);
    let cluster = cluster.pod("web", &spread("area"));
    let said = explanation_text(&explain(&cluster.snapshot, &Context::of(&lab), "web", None).unwrap(), Styles::plain());
    let fix = "fix: restore the topology spread of `deployment/web` as the lab says:\n       kubectl";
    assert!(said.contains(fix), "{said}");
}

#[test]
fn constraints_of_azure_policy_are_named_with_where_their_exceptions_are_made() {
    let refused = |message: &str| {
        let failed = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message});
        let template = json!({"spec": {"containers": [{"name": "c", "image": "nginx"}]}});
        let changes = json!({"spec": {"template": template}, "status": {"conditions": [failed]}});
        said(&Cluster::default().pool("main", 1).deployment_with("web", 1, changes).replica_set("web", 1), "web")
    };
    let denied = "admission webhook \"validation.gatekeeper.sh\" denied the request: ";
    let azure = refused(&format!("{denied}[azurepolicy-probes-1a2b] Container c has no livenessProbe"));
    assert!(azure.contains("change deployment/web as the constraint azurepolicy-probes-1a2b asks"), "{azure}");
    assert!(azure.contains("kubectl get constraints") && azure.contains("is made in Azure"), "{azure}");
    let own = refused(&format!("{denied}[no-latest] a tag is missing\n[owner] a label is missing"));
    assert!(own.contains("as the constraints no-latest and owner ask") && !own.contains("Azure"), "{own}");
}

#[test]
fn what_refuses_the_latest_template_is_said_and_not_what_refused_an_earlier_one() {
    let failed = |message: &str| {
        let failed = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message});
        json!({"status": {"conditions": [failed]}})
    };
    let template = json!({"spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    let mut changes = failed("pods \"web-1-a\" is forbidden: maximum cpu usage per Container is 1, but limit is 4");
    changes["spec"] = json!({ "template": template });
    let mut cluster = Cluster::default().pool("main", 1).deployment_with("web", 1, changes);
    cluster = cluster.replica_set("web", 9).replica_set("web", 10);
    for (set, message) in cluster.snapshot.replica_sets.iter_mut().zip(["limit is 4", "limit is 2"]) {
        let message = format!("pods \"web-1-a\" is forbidden: maximum cpu usage per Container is 1, but {message}");
        let mut value = serde_json::to_value(&**set).unwrap();
        json_patch::merge(&mut value, &failed(&message));
        *set = std::sync::Arc::new(serde_json::from_value(value).unwrap());
    }
    let said = said(&cluster, "web");
    assert!(said.contains("limit is 2") && !said.contains("limit is 4"), "{said}");
}
