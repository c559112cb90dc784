//! Upgrades of pools as steps, on the embedded cluster that is like AKS.

use serde_json::Value;

use super::Bench;

const HEAD: &str = r#"
lab = "rolls"
kubernetes = "1.36"
[pool.main]
mode = "system"
[pool.apps]
nodes = 3
kubernetes = "1.35"
upgrade = { drain_timeout = "5m" }
[workload.web]
replicas = 6
requests = { cpu = "50m" }
node_selector = { agentpool = "apps" }
"#;

const BUDGET: &str = r#"
[[manifest]]
yaml = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: { name: web, namespace: default }
spec: { minAvailable: NUMBER, selector: { matchLabels: { app: web } } }
"""
"#;

fn bench(more: &str, actions: &str) -> Bench {
    Bench::new(&format!("{HEAD}{more}\n[[step]]\nname = \"act\"\ndo = [{actions}]\n"))
}

fn budget(least: u32) -> String {
    BUDGET.replace("NUMBER", &least.to_string())
}

/// Each node of the pool: number, version, whether it is cordoned or marked.
fn nodes(bench: &Bench) -> Vec<String> {
    let told = |node: &Value| {
        let name = node["metadata"]["name"].as_str().unwrap();
        let version = &node["status"]["nodeInfo"]["kubeletVersion"].as_str().unwrap()[3..5];
        let cordoned = if node["spec"]["unschedulable"] == true { " cordoned" } else { "" };
        let mark = node["metadata"]["labels"]["kubernetes.azure.com/upgrade-status"].as_str();
        format!(
            "{}:{version}{cordoned}{}",
            &name[name.len() - 1..],
            mark.map(|mark| format!(" {mark}")).unwrap_or_default()
        )
    };
    bench.nodes("apps").iter().map(told).collect()
}

fn pods(bench: &Bench) -> usize {
    bench.provider.pass(std::time::Duration::from_secs(5));
    let status = bench.get("deployment", "web")["status"]["readyReplicas"].clone();
    usize::try_from(status.as_u64().unwrap_or_default()).unwrap()
}

#[test]
fn a_pool_is_upgraded_with_surge_nodes_and_comes_back_to_its_version() {
    let bench = bench(&budget(5), r#"{ upgrade_pool = "apps", kubernetes = "1.36", upgrade = { max_surge = "50%" } }"#);
    let before = bench.provider.age();
    bench.perform(0);
    assert_eq!((nodes(&bench), pods(&bench)), (vec!["0:36".to_owned(), "1:36".to_owned(), "2:36".to_owned()], 6));
    assert!(
        bench.provider.age() >= before.saturating_add(std::time::Duration::from_secs(3 * 5)),
        "surge nodes, and two sets"
    );
    bench.perform(0);
    assert!(bench.undo(0).is_empty());
    assert_eq!(nodes(&bench), ["0:35", "1:35", "2:35"]);
}

/// A drain that waits for a budget longer than `drain_timeout`; with `refused` the step goes on.
#[test]
fn a_budget_that_is_used_up_ends_the_upgrade_after_the_drain_timeout() {
    let spread = r#"
[pool.solo]
kubernetes = "1.35"
upgrade = { drain_timeout = "5m" }
[workload.db]
replicas = 2
requests = { cpu = "50m" }
node_selector = { agentpool = "solo" }
affinity = { podAntiAffinity = { requiredDuringSchedulingIgnoredDuringExecution = [
  { topologyKey = "kubernetes.io/hostname", labelSelector = { matchLabels = { app = "db" } } } ] } }
"#;
    let more = format!("{spread}{}", budget(1).replace("web", "db"));
    let in_place = "upgrade = { max_surge = 0, max_unavailable = 1 }";
    let upgrade = |rest: &str| format!("{{ upgrade_pool = \"solo\", kubernetes = \"1.36\"{rest} }}");
    let bench = bench(
        &more,
        &format!(
            "{}, {}",
            upgrade(&format!(", {in_place}, refused = \"failed with Too Many Requests error\"")),
            upgrade("")
        ),
    );
    let before = bench.provider.age();
    bench.perform(0);
    assert!(bench.provider.age() >= before.saturating_add(std::time::Duration::from_mins(5)));
    let version = bench.nodes("solo")[0]["status"]["nodeInfo"]["kubeletVersion"].clone();
    assert_eq!(version, "v1.36.2", "a surge node makes room for the second pod, and the budget allows the eviction");
}

/// <https://learn.microsoft.com/troubleshoot/azure/azure-kubernetes/error-codes/unsatisfiablepdb-error>
#[test]
fn a_budget_that_can_never_allow_it_is_told_before_the_upgrade_begins() {
    let bench = bench(&budget(6), r#"{ upgrade_pool = "apps", kubernetes = "1.36" }"#);
    let error = bench.try_perform(0).unwrap_err();
    let words = "(UnsatisfiablePDB) Upgrade is blocked due to invalid Pod Disruption Budgets (PDBs).";
    let budget = "* PDB default/web has minAvailable(6) >= expectedPods(6)  can't proceed with put operation";
    assert!(error.to_string().contains(words) && error.to_string().contains(budget), "{error}");
    assert_eq!((error.code.to_string().as_str(), nodes(&bench).len()), ("K0418", 3));
}

#[test]
fn a_step_goes_on_while_a_pool_is_upgraded_and_what_is_begun_can_be_undone() {
    let steps = r#"{ upgrade_pool = "apps", kubernetes = "1.36", upgrade = { node_soak = "10m" }, no_wait = true }"#;
    let bench = bench("", steps);
    bench.perform(0);
    assert_eq!(nodes(&bench), ["0:35", "1:35", "2:35"], "it is only begun");
    bench.provider.pass(std::time::Duration::from_mins(1));
    assert_eq!(nodes(&bench), ["0:35 cordoned", "1:35", "2:35", "3:36"]);
    assert!(bench.undo(0).is_empty());
    bench.provider.pass(std::time::Duration::from_hours(1));
    assert_eq!((nodes(&bench), pods(&bench)), (vec!["0:35".to_owned(), "1:35".to_owned(), "2:35".to_owned()], 6));
}

/// upgrade-aks-node-pools-rolling: one surge node where there is no room for all, in place where there is none.
#[test]
fn less_capacity_than_the_surge_asks_for_is_made_do_with() {
    for (capacity, settings, fits) in
        [(4, "max_surge = 3", true), (3, "max_surge = 3, max_unavailable = 1", true), (3, "max_surge = 3", false)]
    {
        let more = format!(
            "[pool.more]\nnodes = 3\nkubernetes = \"1.35\"\ncapacity = {capacity}\nautoscale = {{ min = 3, max = 3 }}\n"
        );
        let steps = format!("{{ upgrade_pool = \"more\", kubernetes = \"1.36\", upgrade = {{ {settings} }} }}");
        let bench = bench(&more, &steps);
        let done = bench.try_perform(0);
        assert_eq!(done.is_ok(), fits, "{capacity} {settings}");
        if let Err(error) = done {
            assert!(error.to_string().contains("3 surge nodes are asked for, and the cloud has 0 more"), "{error}");
        }
        assert_eq!(bench.nodes("more").len(), 3);
    }
}

/// resize-node-pool: without surge capacity the request is rejected, also where an upgrade would go on in place.
#[test]
fn machines_are_not_exchanged_in_place() {
    let more = "[pool.more]\nnodes = 3\ncapacity = 3\nautoscale = { min = 3, max = 3 }\n";
    let settings = "upgrade = { max_surge = 1, max_unavailable = 1 }";
    let bench = bench(more, &format!("{{ resize_pool = \"more\", size = \"Standard_D4s_v5\", {settings} }}"));
    let error = bench.try_perform(0).unwrap_err();
    assert!(error.to_string().contains("the cloud has 0 more for it"), "{error}");
    assert_eq!(bench.nodes("more").len(), 3);
}

#[test]
fn a_pool_has_one_upgrade_at_a_time() {
    let steps = r#"{ upgrade_pool = "apps", kubernetes = "1.36", upgrade = { node_soak = "10m" }, no_wait = true },
        { upgrade_pool = "apps", kubernetes = "1.36.1" }"#;
    let bench = bench("", steps);
    let error = bench.try_perform(0).unwrap_err();
    let words = "Operation is not allowed: Another agentpool operation (apps - Upgrading) is in progress";
    assert!(error.to_string().contains(words), "{error}");
}

/// A label of each node of a pool, by the last character of its name.
fn label(bench: &Bench, pool: &str, key: &str) -> Vec<String> {
    let told = |node: &Value| {
        let name = node["metadata"]["name"].as_str().unwrap();
        format!("{}:{}", &name[name.len() - 1..], node["metadata"]["labels"][key].as_str().unwrap())
    };
    bench.nodes(pool).iter().map(told).collect()
}

/// upgrade-node-image: the node image changes without the Kubernetes version, with the same surge; the label says which one it is.
#[test]
fn node_images_are_upgraded_alone_and_come_with_a_version() {
    const IMAGE: &str = "kubernetes.azure.com/node-image-version";
    let more = "[pool.old]\nnodes = 2\nnode_image = \"202607.20.0\"\n[pool.older]\nkubernetes = \"1.35\"\nnode_image = \"202606.01.0\"\n";
    let bench = bench(
        more,
        r#"{ upgrade_pool = "old", node_image_only = true }, { scale_pool = "old", nodes = 3 },
           { upgrade_pool = "older", kubernetes = "1.36" }"#,
    );
    let (old, new) = ("AKSUbuntu-2404gen2containerd-202607.20.0", "AKSUbuntu-2404gen2containerd-202608.14.0");
    assert_eq!(label(&bench, "old", IMAGE), [format!("0:{old}"), format!("1:{old}")]);
    let uids = |bench: &Bench| -> Vec<Value> {
        bench.nodes("old").iter().map(|node| node["metadata"]["uid"].clone()).collect()
    };
    let before = uids(&bench);
    bench.perform(0);
    assert_eq!(label(&bench, "old", IMAGE), [format!("0:{new}"), format!("1:{new}"), format!("2:{new}")]);
    assert_eq!(label(&bench, "older", IMAGE), [format!("0:{new}")]);
    let after = uids(&bench);
    assert!(before.iter().all(|uid| !after.contains(uid)), "each node is reimaged");
    bench.perform(0);
    assert_eq!(uids(&bench), after, "what is done is not done again");
}

/// resize-node-pool: new nodes of the target size come, and the old ones are drained and deleted.
#[test]
fn a_pool_is_resized_by_new_nodes_and_brought_back() {
    const SIZE: &str = "node.kubernetes.io/instance-type";
    let bench = bench(&budget(5), r#"{ resize_pool = "apps", size = "Standard_D4s_v5", upgrade = { max_surge = 2 } }"#);
    bench.perform(0);
    let large = |numbers: [u32; 3]| numbers.map(|number| format!("{number}:Standard_D4s_v5"));
    assert_eq!((label(&bench, "apps", SIZE), pods(&bench)), (large([3, 4, 5]).to_vec(), 6));
    assert_eq!(nodes(&bench), ["3:35", "4:35", "5:35"], "the version stays");
    bench.perform(0);
    assert_eq!(label(&bench, "apps", SIZE), large([3, 4, 5]));
    assert!(bench.undo(0).is_empty());
    assert_eq!(label(&bench, "apps", SIZE), ["0:Standard_B2ms", "1:Standard_B2ms", "2:Standard_B2ms"]);
}

/// configure-automatic-zone-placement: up to three zones, none with more than half of the nodes.
#[test]
fn zones_that_aks_chooses_are_all_three() {
    let bench = bench("[pool.spread]\nnodes = 6\nzones = \"auto\"\n", "{ wait = \"1s\" }");
    let zones = label(&bench, "spread", "topology.kubernetes.io/zone");
    let mut zones: Vec<&str> = zones.iter().filter_map(|zone| Some(zone.split_once(':')?.1)).collect();
    zones.sort_unstable();
    let all = ["westeurope-1", "westeurope-2", "westeurope-3"].map(|zone| [zone; 2]);
    assert_eq!(zones, all.concat());
}
