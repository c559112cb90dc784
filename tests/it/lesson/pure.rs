//! Stages, inverses and command lines, without a cluster.

use insta::assert_snapshot;
use klab_lab::plan::wanted_version;
use klab_lab::spec::{Action, Lab, LoadOptions, Located, Provider};
use klab_operations::lesson::command::{Line, lines, of_step, of_undoing};
use klab_operations::lesson::undo;
use klab_operations::lesson::undo::Undo;
use klab_operations::lesson::{Tools, stage, stage_within};
use klab_operations::provider::AzureNames;
use klab_operations::provider::aks::pool_commands;

use super::{LESSONS, load, parse};

/// What a stage says of a pool or a workload, as far as it is there.
fn summary(lab: &Lab, with_details: bool) -> Vec<String> {
    let pools = lab.pools.iter().map(|pool| {
        let details = (with_details && !pool.deferred).then(|| {
            (pool.nodes.value, pool.autoscale.as_ref().map(|bounds| bounds.value), wanted_version(lab, Some(pool)))
        });
        format!("pool {} {} {details:?}", pool.name, pool.deferred)
    });
    let workloads = lab.workloads.iter().map(|workload| {
        let mut workload = workload.clone();
        // Where it was written is no part of what it is.
        workload.at = lab.name.at.clone();
        let details = (with_details && !workload.deferred).then(|| format!("{workload:?}"));
        format!("workload {} {} {details:?}", workload.name, workload.deferred)
    });
    pools.chain(workloads).collect()
}

const POOLS: &str = r#"
lab = "stages"
kubernetes = "1.36"
[pool.main]
mode = "system"
nodes = 2
[pool.extra]
nodes = 1
labels = { a = "b" }
[pool.later]
deferred = true
nodes = 3
[workload.web]
replicas = 2
node_selector = { a = "b" }
requests = { cpu = "50m" }
[workload.late]
deferred = true
replicas = 1
[[step]]
name = "one"
do = [{ add_pool = "later" }, { scale_pool = "extra", nodes = 4 }, { deploy = "late" }, { scale = "web", replicas = 6 }]
[[step.check]]
workload = "web"
running = 6
[[step]]
name = "two"
do = [
  { scale_pool = "extra", autoscale = { min = 1, max = 3 } }, { remove_pool = "later" }, { upgrade_pool = "extra", kubernetes = "1.35" },
  { set = "web", node_selector = {}, requests = { memory = "1Gi" }, tolerations = ["k=v:NoSchedule"] }, { delete = "workload/late" },
]
[[step.check]]
nodes = "pool:extra"
exist = 3
[[step]]
name = "three"
do = [{ scale_pool = "extra", nodes = 2 }, { add_pool = "later" }]
[[step.check]]
nodes = "pool:extra"
exist = 2
"#;

#[test]
fn a_stage_has_what_the_steps_before_it_left() {
    let lab = parse(POOLS);
    let pools = |lab: &Lab| -> Vec<(String, u32)> {
        let there = lab.pools.iter().filter(|pool| !pool.deferred);
        there.map(|pool| (pool.name.value.clone(), pool.nodes.value)).collect()
    };
    let named = |pools: &[(&str, u32)]| -> Vec<(String, u32)> {
        pools.iter().map(|(name, nodes)| ((*name).to_owned(), *nodes)).collect()
    };
    assert_eq!(pools(&stage(&lab, 0)), named(&[("main", 2), ("extra", 1)]));
    assert_eq!(pools(&stage(&lab, 1)), named(&[("main", 2), ("extra", 4), ("later", 3)]));
    assert_eq!(pools(&stage(&lab, 2)), named(&[("main", 2), ("extra", 3)]), "bounds hold the number");
    assert_eq!(pools(&stage(&lab, 3)), named(&[("main", 2), ("extra", 2), ("later", 3)]));
    assert_eq!(stage(&lab, 9).pools.len(), 3, "there are no more steps than there are");
    let second = stage(&lab, 2);
    let extra = second.pool("extra").unwrap();
    assert_eq!(extra.autoscale.as_ref().map(|bounds| (bounds.min, bounds.max)), Some((1, 3)));
    assert_eq!(extra.kubernetes.as_ref().unwrap().value.to_string(), "1.35");
    assert!(stage(&lab, 3).pool("extra").unwrap().autoscale.is_none(), "a number ends the autoscaler's say");
    let web = second.workload("web").unwrap();
    assert_eq!((web.replicas.as_ref().unwrap().value, web.node_selector.len(), web.tolerations.len()), (6, 0, 1));
    assert_eq!(web.requests.keys().collect::<Vec<_>>(), ["memory"]);
    assert!(!stage(&lab, 1).workload("late").unwrap().deferred && second.workload("late").unwrap().deferred);
    let checks = |steps: usize| stage(&lab, steps).checks.len();
    assert_eq!((checks(0), checks(1), checks(3)), (0, 1, 1));
    assert_eq!(stage_within(&lab, 0, 2).pool("extra").unwrap().nodes.value, 4);
    assert!(stage_within(&lab, 0, 2).workload("late").unwrap().deferred);
}

#[test]
fn an_upgrade_of_the_control_plane_leaves_pools_at_their_version() {
    let lab = parse(
        r#"
lab = "upgrade"
kubernetes = "1.35"
[pool.main]
[pool.later]
deferred = true
[[step]]
name = "control-plane"
do = [{ upgrade_control_plane = "1.36" }, { add_pool = "later" }]
"#,
    );
    let after = stage(&lab, 1);
    let version = |pool: &str| klab_lab::plan::wanted_version(&after, after.pool(pool)).unwrap();
    assert_eq!((version("main"), version("later")), ("1.35".to_owned(), "1.36".to_owned()));
    assert_eq!(klab_lab::plan::wanted_version(&after, None).unwrap(), "1.36");
}

/// For every action of every lesson: done and undone, a stage is what it was.
#[test]
fn what_undoes_an_action_leads_back_to_the_stage_before() {
    let mut labs: Vec<Lab> = LESSONS.iter().map(|path| load(path, None)).collect();
    labs.push(parse(POOLS));
    labs.push(load("tests/labs/valid/everything.toml", None));
    let mut undone = 0;
    for lab in &labs {
        for (number, step) in lab.steps.iter().enumerate() {
            for (index, action) in step.actions.iter().enumerate() {
                let Undo::Actions(actions) = undo(lab, number, index) else { continue };
                undone += 1;
                let mut there_and_back = lab.clone();
                let changed = &mut there_and_back.steps[number].actions;
                changed.truncate(index + 1);
                changed.extend(actions.into_iter().map(|action| Located::new(action, lab.name.at.clone())));
                let after = stage_within(&there_and_back, number, usize::MAX);
                let before = stage_within(lab, number, index);
                // What is made again is made as the stage before has it, which no action says.
                let is_removal = matches!(action.value, Action::Delete { .. } | Action::RemovePool { .. });
                let place = format!("{} step {} action {index}", lab.name, step.name);
                assert_eq!(summary(&after, !is_removal), summary(&before, !is_removal), "{place}");
            }
        }
    }
    assert!(undone > 60, "{undone}");
}

const NODES: &str = r#"
lab = "inverses"
[pool.main]
mode = "system"
[pool.extra]
taints = ["a=1:NoSchedule"]
labels = { tier = "one" }
[pool.burst]
spot = true
nodes = 2
[pool.grown]
spot = true
autoscale = { min = 1, max = 4 }
[workload.web]
[workload.bare]
kind = "pod"
[config.colours]
data = { a = "b" }
[[step]]
name = "first"
do = [
  { taint = "b=2:NoExecute", nodes = "agentpool=extra" }, { label = "x=1", nodes = "pool:extra" }, { cordon = "pool:extra" },
  { fail_node = "pool:extra", count = 1 },
]
[[step]]
name = "second"
do = [ACTION]
"#;

fn inverse(action: &str) -> String {
    let lab = parse(&NODES.replace("ACTION", action));
    match undo(&lab, 1, 0) {
        Undo::Nothing => "nothing".to_owned(),
        Undo::Impossible(why) => why,
        Undo::Objects(objects) => {
            let names = |list: Vec<String>| list.join(" ");
            let put = objects.apply.iter().map(|one| format!("+{}/{}", one.kind(), one.name())).collect();
            let taken = objects.delete.iter().map(|key| format!("-{key}")).collect();
            format!("{}{}", names(put), names(taken))
        }
        // As a learner would type it.
        Undo::Actions(actions) => {
            let mut typed = lab.clone();
            typed.steps[1].actions =
                actions.into_iter().map(|action| Located::new(action, lab.name.at.clone())).collect();
            let count = typed.steps[1].actions.len();
            let all = (0..count).flat_map(|index| lines(&typed, 1, index, &Tools::default()));
            all.flat_map(|line| line.pasted())
                .map(|line| line.trim_start_matches("# ").to_owned())
                .collect::<Vec<_>>()
                .join(" && ")
        }
    }
}

#[test]
fn inverses_follow_from_what_was_there_before() {
    for (action, expected) in [
        (
            r#"{ taint = "c=3:NoSchedule", nodes = "pool:extra" }"#,
            "kubectl taint nodes -l agentpool=extra c=3:NoSchedule-",
        ),
        // What the taint replaced comes back.
        (
            r#"{ taint = "b=9:NoExecute", nodes = "pool:extra" }"#,
            "kubectl taint nodes -l agentpool=extra b=2:NoExecute",
        ),
        (r#"{ untaint = "b", nodes = "pool:extra" }"#, "kubectl taint nodes -l agentpool=extra b=2:NoExecute"),
        (
            r#"{ untaint = "a:NoSchedule", nodes = "pool:extra" }"#,
            "kubectl taint nodes -l agentpool=extra a=1:NoSchedule",
        ),
        (r#"{ untaint = "z", nodes = "pool:extra" }"#, "which taints `z` took off pool:extra is not in the lab file"),
        (
            r#"{ label = "x=2,new=3", nodes = "pool:extra" }"#,
            "kubectl label nodes -l agentpool=extra x=1 --overwrite && kubectl label nodes -l agentpool=extra new-",
        ),
        (
            r#"{ unlabel = "tier", nodes = "pool:extra" }"#,
            "kubectl label nodes -l agentpool=extra tier=one --overwrite",
        ),
        (
            r#"{ unlabel = "tier,other", nodes = "pool:extra" }"#,
            "the values of the labels `other` of pool:extra are not in the lab file",
        ),
        (r#"{ cordon = "pool:extra" }"#, "nothing"),
        (r#"{ drain = "node:elsewhere" }"#, "kubectl uncordon elsewhere"),
        (r#"{ uncordon = "agentpool=extra" }"#, "kubectl cordon -l agentpool=extra"),
        (r#"{ uncordon = "node:elsewhere" }"#, "nothing"),
        (r#"{ fail_node = "pool:extra" }"#, "kubectl annotate nodes -l agentpool=extra klab.dev/heartbeat-"),
        (
            r#"{ restore_node = "pool:extra" }"#,
            "the first 1 node of `kubectl get nodes -l agentpool=extra`, in place of NODE: && kubectl annotate nodes NODE klab.dev/heartbeat=stopped",
        ),
        (
            r#"{ reclaim_pool = "burst", count = 1 }"#,
            "klab pool scale burst --nodes 2 && kubectl annotate nodes -l agentpool=burst klab.dev/heartbeat-",
        ),
        (r#"{ reclaim_pool = "grown" }"#, "nothing"),
        (r#"{ scale = "web", replicas = 7 }"#, "kubectl scale deployment/web --replicas 1"),
        (r#"{ delete = "configmap/colours" }"#, "+ConfigMap/colours"),
        (r#"{ delete = "cm/colours" }"#, "+ConfigMap/colours"),
        (r#"{ delete = "deployment/web" }"#, "klab render inverses --workload web | kubectl apply -f -"),
        (r#"{ delete = "job/other" }"#, "`job/other` is not the lab's own, so what it was is not known"),
        (r#"{ delete = "pods", selector = "app=web" }"#, "nothing"),
        (r#"{ delete = "pods", selector = "app=bare" }"#, "klab render inverses --workload bare | kubectl apply -f -"),
        (r#"{ wait = "5s" }"#, "nothing"),
        (r#"{ run = ["make", "it"] }"#, "what `make` did is not known"),
    ] {
        assert_eq!(inverse(action), expected, "{action}");
    }
}

/// What is typed for all steps of a lab; sentences are marked.
fn typed(lab: &Lab) -> String {
    let mut text = String::new();
    for (number, step) in lab.steps.iter().enumerate() {
        for index in 0..step.actions.len() {
            for line in lines(lab, number, index, &Tools::default()) {
                let mark = if matches!(line, Line::Note(_)) { "" } else { "$ " };
                for line in line.pasted() {
                    text.push_str(&format!("{mark}{}\n", line.replace(env!("CARGO_MANIFEST_DIR"), "[KLAB]")));
                }
            }
        }
    }
    text
}

#[test]
fn every_action_is_typed_as_kubectl_takes_it() {
    assert_snapshot!(typed(&load("tests/labs/valid/everything.toml", Some(Provider::Sim))), @r#"
    $ kubectl taint nodes -l agentpool=general dedicated=special:NoSchedule
    $ kubectl taint nodes -l agentpool=general dedicated-
    $ kubectl label nodes -l agentpool=general a=b c=d --overwrite
    $ kubectl label nodes -l agentpool=general a- c-
    $ kubectl cordon -l agentpool=general
    $ kubectl drain -l agentpool=general --ignore-daemonsets --delete-emptydir-data --force --timeout=120s
    $ kubectl uncordon -l agentpool=general
    # the first 1 node of `kubectl get nodes -l agentpool=cheap`, in place of NODE:
    $ kubectl annotate nodes NODE klab.dev/heartbeat=stopped
    $ kubectl annotate nodes -l agentpool=cheap klab.dev/heartbeat-
    # wait for 5 s
    $ klab pool add later --nodes 2 --size Standard_B2ms
    $ klab pool scale later --nodes 3
    $ klab pool update general --autoscale 2..6
    $ klab pool upgrade later --kubernetes 1.36 --max-surge 1 --node-soak 1
    $ klab pool upgrade later --node-image-only
    $ klab pool resize later --size Standard_D8s_v5 --max-surge 1 --no-wait
    $ kubectl annotate namespace kube-system klab.dev/api-silent=20s
    $ klab pool delete later
    $ kubectl scale deployment/web --replicas 6 -n team-a
    $ kubectl set image deployment/web web=nginx:1.28 -n team-a
    $ kubectl patch deployment/web -p '{"spec":{"template":{"spec":{"containers":[{"name":"web","resources":{"limits":null,"requests":{"cpu":"100m","memory":null}}}]}}}}' -n team-a
    $ kubectl patch deployment/web --type merge -p '{"spec":{"template":{"spec":{"affinity":null,"nodeSelector":null,"priorityClassName":null,"tolerations":null,"topologySpreadConstraints":null}}}}' -n team-a
    $ klab render everything --workload later | kubectl apply -f -
    $ kubectl apply -f [KLAB]/tests/labs/valid/everything/objects.yaml
    $ kubectl delete deployment/later -n team-b
    $ kubectl delete pods -l app=web -n team-a
    $ kubectl get nodes
    "#);
}

const SPOT: &str = r#"
lab = "spot"
[pool.main]
mode = "system"
[pool.burst]
spot = true
nodes = 3
[[step]]
name = "all"
do = [{ reclaim_pool = "burst" }, { reclaim_pool = "burst", count = 2 }]
"#;

#[test]
fn machines_are_taken_back_by_annotation_or_by_az() {
    let lines = |provider: Provider| {
        let options = LoadOptions { provider: Some(provider), ..LoadOptions::default() };
        klab_lab::spec::parse("lab.toml", SPOT, &options).map(|lab| typed(&lab))
    };
    assert_snapshot!(lines(Provider::Sim).unwrap(), @r"
    $ kubectl annotate nodes -l agentpool=burst klab.dev/spot=preempt
    # the first 2 nodes of `kubectl get nodes -l agentpool=burst`, in place of NODE:
    $ kubectl annotate nodes NODE klab.dev/spot=preempt
    ");
    assert_snapshot!(lines(Provider::Aks).unwrap(), @r"
    # for each NODE of `kubectl get nodes -l agentpool=burst`:
    $ kubectl get node NODE -o 'jsonpath={.spec.providerID}'
    # which ends in the resource group, the scale set and the number of the machine:
    $ az vmss simulate-eviction -g GROUP -n SCALE_SET --instance-id NUMBER
    # the first 2 nodes of `kubectl get nodes -l agentpool=burst`, in place of NODE:
    $ kubectl get node NODE -o 'jsonpath={.spec.providerID}'
    # which ends in the resource group, the scale set and the number of the machine:
    $ az vmss simulate-eviction -g GROUP -n SCALE_SET --instance-id NUMBER
    ");
    let refused = lines(Provider::Kind).unwrap_err().render(false);
    assert!(refused.contains("`skip = { kind = \"kind has no spot machines\" }`"), "{refused}");
}

const POWER: &str = r#"
lab = "power"
kubernetes = "1.36"
[pool.main]
mode = "system"
nodes = 2
[pool.later]
deferred = true
nodes = 2
size = "Standard_D4s_v5"
zones = [1, 2]
labels = { a = "b" }
taints = ["k=v:NoSchedule"]
[[step]]
name = "all"
do = [
  { add_pool = "later" }, { scale_pool = "later", nodes = 3 }, { scale_pool = "later", autoscale = { min = 1, max = 4 } },
  { upgrade_pool = "later", kubernetes = "1.36.2" }, { remove_pool = "later" }, { fail_node = "pool:main", count = 1 },
  { restore_node = "node:worker" }, { run = ["echo", "two words"] }, { fail_api = "90s" },
]
"#;

#[test]
fn power_and_pools_are_typed_at_docker_and_az() {
    let lines = |provider: Provider| {
        let options = LoadOptions { provider: Some(provider), ..LoadOptions::default() };
        let lab = klab_lab::spec::parse("lab.toml", POWER, &options)
            .unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        typed(&lab)
    };
    assert_snapshot!(lines(Provider::Kind), @r"
    $ klab pool add later --nodes 2 --size Standard_D4s_v5 --labels a=b --taints k=v:NoSchedule --zones 1,2
    $ klab pool scale later --nodes 3
    $ klab pool update later --autoscale 1..4
    $ klab pool upgrade later --kubernetes 1.36.2
    $ klab pool delete later
    # the first 1 node of `kubectl get nodes -l agentpool=main`, in place of NODE:
    $ docker stop NODE
    $ docker start worker
    $ echo 'two words'
    # for each NODE of `kubectl get nodes -l node-role.kubernetes.io/control-plane`:
    $ docker pause NODE
    # after 1m 30s:
    $ docker unpause NODE
    ");
    assert_snapshot!(lines(Provider::Aks), @r"
    $ az aks nodepool add -g GROUP --cluster-name CLUSTER -n later --mode User -s Standard_D4s_v5 --labels a=b --node-taints k=v:NoSchedule -c 2 --max-pods 250 --zones 1 2 --node-osdisk-type Managed --node-osdisk-size 128
    $ az aks nodepool scale -g GROUP --cluster-name CLUSTER -n later -c 3
    $ az aks nodepool update -g GROUP --cluster-name CLUSTER -n later --enable-cluster-autoscaler --min-count 1 --max-count 4
    $ az aks nodepool upgrade -g GROUP --cluster-name CLUSTER -n later -k 1.36.2 --yes
    $ az aks nodepool delete -g GROUP --cluster-name CLUSTER -n later
    # AKS cannot stop single nodes: do this step on sim or kind
    # AKS cannot stop single nodes: do this step on sim or kind
    $ echo 'two words'
    # AKS keeps its API server: do this step on sim or kind
    ");
}

#[test]
fn the_autoscaler_of_a_pool_is_turned_on_changed_and_turned_off() {
    let lab = parse(
        r#"
        lab = "words"
        provider = "aks"
        [pool.sys]
        [pool.p]
        [[step]]
        name = "scale"
        do   = [
            { scale_pool = "p", autoscale = { min = 1, max = 3 } },
            { scale_pool = "p", autoscale = { min = 2, max = 5 } },
            { scale_pool = "p", nodes = 0 },
            { scale_pool = "p", nodes = 1 },
        ]
        "#,
    );
    let typed: Vec<String> = (0..4)
        .flat_map(|number| {
            let (before, after) = (stage_within(&lab, 0, number), stage_within(&lab, 0, number + 1));
            pool_commands(&before, &after, &lab.steps[0].actions[number].value, &AzureNames::default())
        })
        .map(|line| line.split("-n p ").last().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(
        typed,
        [
            "--enable-cluster-autoscaler --min-count 1 --max-count 3",
            "--update-cluster-autoscaler --min-count 2 --max-count 5",
            "--disable-cluster-autoscaler",
            "-c 0",
            "-c 1",
        ]
    );
}

/// What is typed to take a step back is never what was typed for it.
#[test]
fn what_takes_a_step_back_is_not_the_step_itself() {
    let tools = Tools::default();
    let mut some = 0;
    for lesson in LESSONS {
        for provider in [Provider::Sim, Provider::Kind, Provider::Aks] {
            let lab = load(lesson, Some(provider));
            for step in 0..lab.steps.len() {
                let (forward, back) = (of_step(&lab, step, &tools), of_undoing(&lab, step, &tools));
                let typed = |lines: &[Line]| lines.iter().flat_map(Line::commands).cloned().collect::<Vec<_>>();
                some += back.len();
                assert!(typed(&back).is_empty() || typed(&forward) != typed(&back), "{lesson} {step}: {forward:?}");
            }
        }
    }
    assert!(some > 20, "{some}");
}
