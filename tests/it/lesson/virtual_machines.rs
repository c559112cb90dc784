//! Pools of single virtual machines on the embedded cluster: nodes of each size, scaled, added, upgraded and removed.

use klab_lab::plan::{Action, plan};
use klab_operations::provider::{Options, Provider};

use super::{Bench, parse, with_work};

const LAB: &str = r#"
lab = "machines"
kubernetes = "1.36"
[pool.main]
mode = "system"
[pool.mixed]
type = "VirtualMachines"
sizes = { "Standard_D4s_v5" = 2, "Standard_D8s_v5" = 1 }
kubernetes = "1.35"
upgrade = { max_surge = 0, max_unavailable = 1 }
[workload.large]
replicas = 2
requests = { cpu = "5" }
node_selector = { agentpool = "mixed" }
[[check]]
workload = "large"
running = 1
pending = 1
[[check]]
nodes = "node.kubernetes.io/instance-type=Standard_D4s_v5"
exist = 2
"#;

/// Number, CPUs, size and version of each node of the pool.
fn nodes(bench: &Bench) -> Vec<String> {
    let row = |node: &serde_json::Value| {
        let name = node["metadata"]["name"].as_str().unwrap();
        let id = node["spec"]["providerID"].as_str().unwrap();
        assert!(id.ends_with(&format!("/providers/Microsoft.Compute/virtualMachines/{name}")), "{id}");
        let (set, number) = name.rsplit_once("-vms").unwrap();
        assert!(set.starts_with("aks-mixed-"), "{name}");
        let size = node["metadata"]["labels"]["node.kubernetes.io/instance-type"].as_str().unwrap();
        let version = &node["status"]["nodeInfo"]["kubeletVersion"].as_str().unwrap()[3..5];
        format!("{number} {} {size} {version}", node["status"]["allocatable"]["cpu"].as_str().unwrap())
    };
    let mut rows: Vec<String> = bench.nodes("mixed").iter().map(row).collect();
    rows.sort();
    rows
}

fn without_checks(lab: &str) -> &str {
    lab.split("[[check]]").next().unwrap_or(lab)
}

/// What the pool's sizes become, as `klab up` of the changed file does it.
fn change(bench: &Bench, from: &str, to: &str) -> Vec<String> {
    let text = LAB.replace(from, to);
    let lab = parse(without_checks(&text));
    let mut said = Vec::new();
    with_work(|work| {
        let actions: Vec<Action> = plan(&lab, &bench.provider.observe("machines", Some(&lab))?);
        said = actions.iter().map(Action::to_string).collect();
        bench.provider.perform_all(&lab, &actions, &Options::default(), work)
    })
    .unwrap();
    said
}

#[test]
fn nodes_of_each_size_come_and_go() {
    let bench = Bench::new(LAB);
    let at_first = ["0 3860m Standard_D4s_v5 35", "1 3860m Standard_D4s_v5 35", "2 7820m Standard_D8s_v5 35"];
    assert_eq!(nodes(&bench), at_first);
    assert_eq!(change(&bench, "", ""), [""; 0], "nothing is to be done");
    let said = change(&bench, "\"Standard_D4s_v5\" = 2", "\"Standard_D4s_v5\" = 1, \"Standard_D2s_v5\" = 1");
    assert_eq!(said, ["scale pool mixed from 3 to 3 nodes (Standard_D2s_v5 from 0 to 1, Standard_D4s_v5 from 2 to 1)"]);
    assert_eq!(
        nodes(&bench),
        ["0 3860m Standard_D4s_v5 35", "2 7820m Standard_D8s_v5 35", "3 1900m Standard_D2s_v5 35"]
    );
    assert_eq!(change(&bench, "", "").len(), 1);
    assert_eq!(nodes(&bench), at_first, "numbers that are free are taken again");
    let kind = "type = \"VirtualMachines\"\nsizes = { \"Standard_D4s_v5\" = 2, \"Standard_D8s_v5\" = 1 }";
    let replaced = change(&bench, kind, "size = \"Standard_D8s_v5\"");
    assert_eq!(replaced, ["replace the nodes of pool mixed: type VirtualMachines becomes VirtualMachineScaleSets"]);
}

#[test]
fn upgrade_in_place_keeps_the_size_of_each_node() {
    let steps = "[[step]]\nname = \"roll\"\ndo = [{ upgrade_pool = \"mixed\", kubernetes = \"1.36\" }]\n\
                 [[step]]\nname = \"go\"\ndo = [{ remove_pool = \"mixed\" }]\n[[step]]\nname = \"back\"\ndo = [{ add_pool = \"mixed\" }]\n";
    let bench = Bench::new(&format!("{LAB}{steps}"));
    bench.perform(0);
    let upgraded = ["0 3860m Standard_D4s_v5 36", "1 3860m Standard_D4s_v5 36", "2 7820m Standard_D8s_v5 36"];
    assert_eq!(nodes(&bench), upgraded);
    bench.perform(1);
    assert_eq!(nodes(&bench), [""; 0]);
    bench.perform(2);
    assert_eq!(nodes(&bench).len(), 3);
}

#[test]
fn surge_nodes_have_the_size_of_the_pool_where_it_has_one() {
    let one = LAB
        .replace(
            "sizes = { \"Standard_D4s_v5\" = 2, \"Standard_D8s_v5\" = 1 }",
            "size = \"Standard_D8s_v5\"\nnodes = 2",
        )
        .replace("max_surge = 0, max_unavailable = 1", "node_soak = \"10m\"");
    let one = without_checks(&one);
    let step = "[[step]]\nname = \"roll\"\ndo = [{ upgrade_pool = \"mixed\", kubernetes = \"1.36\", no_wait = true }]\n\
                [[step]]\nname = \"more\"\ndo = [{ scale_pool = \"mixed\", nodes = 3 }]\n";
    let bench = Bench::new(&format!("{one}{step}"));
    bench.perform(0);
    bench.provider.pass(std::time::Duration::from_mins(1));
    assert!(nodes(&bench).contains(&"2 7820m Standard_D8s_v5 36".to_owned()), "{:?}", nodes(&bench));
    bench.provider.pass(std::time::Duration::from_hours(1));
    assert_eq!(nodes(&bench), ["0 7820m Standard_D8s_v5 36", "1 7820m Standard_D8s_v5 36"]);
    bench.perform(1);
    assert_eq!(nodes(&bench).len(), 3);
}
