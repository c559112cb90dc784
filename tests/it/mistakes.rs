//! Mistakes that learners make, and the way back: what klab prints is typed as it stands, and the lesson goes on.

mod learner;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use self::learner::Learner;

const EXTRA: &str = "-l agentpool=extra";
const RENDER: &str = "klab render scheduling --workload";
/// Off the nodes with all pods, budgets or not.
const DRAIN: &str = "kubectl drain --disable-eviction --ignore-daemonsets --delete-emptydir-data";

fn patched(workload: &str, spec: &str) -> String {
    format!("kubectl patch deployment {workload} --type merge -p '{{\"spec\":{{\"template\":{{\"spec\":{spec}}}}}}}'")
}

/// The manifest as the cluster has it once three of its pods wait, with a toleration of this taint written into it.
fn edited(key: &str) -> String {
    format!(
        "kubectl wait deployment nanomon-api --for=jsonpath='{{.status.unavailableReplicas}}'=3 --timeout=60s && \
         kubectl get deployment nanomon-api -o yaml > api.yaml && sed -i 's/^      nodeSelector:/      tolerations:\\n      \
         - {{key: {key}, value: special, effect: NoSchedule}}\\n&/' api.yaml && kubectl apply -f api.yaml"
    )
}

#[test]
fn mistakes_before_the_first_step_lead_back() {
    let Some(learner) = Learner::of("scheduling") else { return };
    for (mistake, typed) in [
        (
            "the node selector is taken out",
            format!("{RENDER} nanomon-api | sed '/nodeSelector/,+1d' | kubectl apply -f -"),
        ),
        (
            "a node is drained and opened again",
            format!("{DRAIN} {EXTRA} && kubectl rollout status deployment nanomon-web && kubectl uncordon {EXTRA}"),
        ),
    ] {
        // The set-up is graded as long as no step is.
        learner.does("klab up scheduling");
        learner.does(&typed);
        learner.is_led_back(mistake);
    }
    learner.does("klab guide");
    learner.does("kubectl delete -n kube-system deployment/coredns daemonset/kube-proxy");
    learner.is_led_back("the cluster's own objects are deleted");
    learner.errs(&[
        ("explore", "a workload is deleted", "kubectl delete deployment nanomon-api".to_owned()),
        ("explore", "a slip in a node selector", patched("nanomon-api", r#"{"nodeSelector":{"workload":"exta"}}"#)),
        ("explore", "a node that does not exist", patched("plain", r#"{"nodeName":"node01"}"#)),
        ("explore", "a node is deleted", format!("kubectl delete node {EXTRA}")),
        ("agentpool", "another workload is scaled", "kubectl scale deployment nanomon-web --replicas=3".to_owned()),
        (
            "agentpool",
            "kubectl looks into another namespace",
            "kubectl config set-context --current --namespace=kube-system".to_owned(),
        ),
    ]);
}

#[test]
fn mistakes_with_labels_and_taints_lead_back() {
    let Some(learner) = Learner::of("scheduling") else { return };
    learner.errs(&[
        (
            "selector",
            "a workload is made in another namespace",
            format!(
                "kubectl create namespace dev && {RENDER} requires-ssd | kubectl apply -f - && \
                 {RENDER} prefers-ssd | sed 's/namespace: default/namespace: dev/' | kubectl apply -f -"
            ),
        ),
        (
            "selector",
            "a slip in a manifest",
            format!(
                "{RENDER} prefers-ssd | kubectl apply -f -; {RENDER} requires-ssd | \
                 sed 's/- ssd$/- sdd/' | kubectl apply -f -"
            ),
        ),
        ("wish", "a label on the wrong pool", "kubectl label nodes -l agentpool=nodepool1 disk=ssd".to_owned()),
        (
            "label",
            "a slip in a taint",
            format!(
                "kubectl taint nodes {EXTRA} dedicatd=special:NoSchedule && \
                 kubectl scale deployment nanomon-api --replicas=6"
            ),
        ),
        (
            "taint",
            "a slip in a toleration",
            patched("nanomon-api", r#"{"tolerations":[{"key":"dedicate","value":"special","effect":"NoSchedule"}]}"#),
        ),
        ("tolerate", "a workload of the learner's own", "kubectl create deployment tolerant --image=nginx".to_owned()),
        (
            "no-magnet",
            "the taint on the wrong pool, and not taken off",
            "kubectl taint nodes -l agentpool=nodepool1 dedicated=special:NoSchedule".to_owned(),
        ),
    ]);
}

#[test]
fn mistakes_with_nodes_and_pools_lead_back_and_the_lesson_begins_again() {
    let Some(learner) = Learner::of("scheduling") else { return };
    learner.errs(&[
        (
            "wish",
            "a label also on the wrong pool",
            format!(
                "kubectl label nodes -l agentpool=nodepool1 disk=ssd && kubectl rollout status deployment requires-ssd && \
                 kubectl label nodes {EXTRA} disk=ssd"
            ),
        ),
        ("taint", "a slip in the manifest of a running workload", edited("dedicate")),
        (
            "top",
            "a node too many is cordoned",
            format!(
                "kubectl cordon {EXTRA} && kubectl cordon -l agentpool=nodepool1 && \
                 kubectl scale deployment nanomon-api --replicas=4"
            ),
        ),
        ("drain", "the uncordon is forgotten", "true".to_owned()),
        ("daemonset", "the pool is not scaled back", "true".to_owned()),
    ]);
    learner.comes_to("daemonset");
    learner.does(&format!("kubectl delete node $(kubectl get nodes {EXTRA} -o name | tail -n 1 | cut -d/ -f2)"));
    learner.is_led_back_soon("a node is deleted in place of the pool's", "1s");
    learner.errs(&[("compute", "the pool is not there yet", format!("{RENDER} batch | kubectl apply -f -"))]);
    learner.does("klab step --all");
    let guide = learner.types("klab guide", "true").text;
    assert!(guide.contains("All steps are done. `klab lessons` lists more lessons"), "{guide}");
    learner.does("klab up scheduling");
    learner.has_done_no_harm("the lesson is begun again");
}

/// As long as a step is not done, `verify` offers the step's own commands and no other way to the same end.
#[test]
fn what_a_step_asks_for_is_the_only_fix_until_it_is_done() {
    let Some(learner) = Learner::of("scheduling") else { return };
    let text = std::fs::read_to_string("labs/scheduling.toml").unwrap();
    let steps = text.split("[[step]]").skip(1).filter_map(|step| step.split('"').nth(1));
    let mut open = Vec::new();
    let mut before = None;
    for step in steps {
        if let Some(before) = before.replace(step) {
            learner.comes_to(before);
            let seen = learner.verifies("1s").text;
            if seen.contains("not done yet:") {
                assert!(!seen.contains("fix: "), "{step}\n{seen}");
                open.push(step);
            }
        }
    }
    for expected in ["taint", "back-to-normal"] {
        assert!(open.contains(&expected), "{open:?}");
    }
}

/// What was done in another order than the step says differs in nothing but where the pods are.
#[test]
fn the_way_back_is_named_where_nothing_else_helps() {
    let Some(learner) = Learner::at("scheduling", "top") else { return };
    learner.does("kubectl scale deployment nanomon-api --replicas=4 && kubectl rollout status deployment nanomon-api");
    learner.does("kubectl cordon -l agentpool=extra");
    let seen = learner.verifies("20s");
    assert!(seen.text.contains("klab reset scheduling --to top"), "{}", seen.text);
}

/// Pods do not move back by themselves, and what the cluster's own pods ask for is not a learner's to change.
#[test]
fn all_nodes_are_drained_and_opened_again() {
    let Some(learner) = Learner::at("nodepools", "critical-pool") else { return };
    let of_system = "-l 'agentpool in (nodepool1, critical)'";
    learner.does(&format!("kubectl cordon -l agentpool && {DRAIN} {of_system} && kubectl uncordon -l agentpool"));
    learner.is_led_back_soon("all nodes are drained", "1s");
}

#[test]
fn what_looks_like_a_mistake_does_no_harm() {
    let Some(learner) = Learner::at("scheduling", "taint") else { return };
    let applied = learner.types(&edited("dedicated"), "true");
    assert!(applied.status == 0 && !applied.text.contains("Warning"), "{}", applied.text);
    learner.has_done_no_harm("the manifest of a running workload is edited and applied");
    learner.comes_to("untaint");
    learner.does("kubectl delete pods --all -n kube-system --wait=false");
    learner.has_done_no_harm("all pods of the cluster itself are deleted");
    // As after a reboot.
    let server = learner.environment.server_pid().unwrap();
    learner.does(&format!("kill -9 {server}"));
    let refused = learner.types("kubectl get nodes", "true");
    assert!(refused.status != 0 && refused.text.contains("was refused"), "{}", refused.text);
    learner.has_done_no_harm("the server is killed");
    learner.does("kubectl get nodes");
}

/// Who types a step's commands before the guide has shown it is graded by that step once it is done, and told of both.
#[test]
fn steps_are_done_without_the_guide() {
    let Some(learner) = Learner::of("scheduling") else { return };
    learner.does("klab step --to selector");
    learner.does(&format!("for it in prefers-ssd requires-ssd; do {RENDER} $it | kubectl apply -f -; done"));
    let seen = learner.verifies("20s").text;
    assert!(seen.contains("Passed step 5 of 21 `wish`; this shows the next:\n                 klab guide\n"), "{seen}");
    learner.does(&format!("kubectl label nodes {EXTRA} disk=sdd"));
    let seen = learner.verifies("20s").text;
    assert!(
        seen.contains(
            "Still holds step 5 of 21 `wish`; this opens step 6 of 21 `label`:\n                 klab guide\n"
        ),
        "{seen}"
    );
    assert!(seen.contains("label disk=sdd is not in the lab"), "{seen}");
    // Whoever reads no further than the title has been shown the step.
    learner.does("klab guide | head -n 1");
    learner.is_led_back("a slip in a label, without the guide");
}

/// Where two labs are up and none is meant, kubectl must not reach a cluster that happens to be in `~/.kube/config`.
#[test]
fn no_lab_is_meant_where_two_are_up() {
    let Some(learner) = Learner::of("scheduling") else { return };
    learner.does("klab up taints && mkdir -p ~/.kube && cp \"$KUBECONFIG\" ~/.kube/config && kubectl get nodes");
    let seen =
        learner.types("unset KUBECONFIG; export KUBECONFIG=$(klab kubeconfig --path); kubectl get nodes", "true");
    assert_ne!(seen.status, 0, "{}", seen.text);
    assert!(seen.text.contains("error[K0802]: 2 labs are up: scheduling, taints"), "{}", seen.text);
    let hint = seen.text.lines().map(str::trim).find(|line| line.starts_with("eval"));
    let hint = hint.unwrap_or_else(|| panic!("nothing to type\n{}", seen.text));
    learner.does(&format!("unset KUBECONFIG; {hint}; kubectl get nodes && klab verify"));
}

#[test]
fn who_watches_sees_the_way_back() {
    let Some(learner) = Learner::at("scheduling", "wish") else { return };
    let mut watch = learner.environment.command(&["verify", "scheduling", "--watch", "--format", "json"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    learner.does("kubectl label nodes -l agentpool=nodepool1 disk=ssd");
    let mut reports = BufReader::new(watch.stdout.take().unwrap()).lines().map_while(Result::ok);
    let fix = reports.by_ref().find_map(|line| {
        let report: serde_json::Value = serde_json::from_str(&line).unwrap();
        let check = &report["checks"][0];
        let misplaced = check["now"].as_str().is_some_and(|now| now.contains("2 on nodepool1"));
        let command = check["suggestions"][0]["command"].as_str().filter(|_| misplaced)?;
        // kubectl labels the nodes one by one, so the first report may name one alone.
        ["vmss000000", "vmss000001"].iter().all(|node| command.contains(node)).then(|| command.to_owned())
    });
    learner.does(&fix.unwrap());
    assert!(reports.last().is_some_and(|line| line.contains("\"ok\":true")), "the last report holds");
    assert!(watch.wait().unwrap().success());
}
