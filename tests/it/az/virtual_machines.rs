//! `klab az` and `klab pool` for pools of single virtual machines, whose nodes have one to five sizes.

use serde_json::json;

use super::{LAB, OF_LAB, az, document};
use crate::environment::Environment;

/// virtual-machines-node-pools, as typed there; and what az and AKS refuse.
#[test]
fn sizes_of_single_virtual_machines_are_added_changed_and_deleted() {
    let environment = &Environment::new();
    environment.write("small.toml", LAB);
    environment.succeeds(&["up", "small.toml"]);
    let on = |verb: &str, rest: &str| document(environment, &format!("aks nodepool {verb} {OF_LAB} -n vms {rest}"));
    let refused = |verb: &str, rest: &str, why: &str| {
        let said = az(environment, &format!("aks nodepool {verb} {OF_LAB} -n vms {rest}"));
        assert!(said.contains(why) && !said.contains("status 0"), "{verb} {rest}: {said}");
    };
    let machines = "--vm-set-type VirtualMachines";
    for (rest, why) in [
        ("--vm-sizes Standard_D4s_v3", "--vm-sizes can only be used with --vm-set-type VirtualMachines."),
        (
            "--vm-set-type VirtualMachines --vm-sizes a -s b",
            "Cannot specify -vm-sizes and --node-vm-size at the same time.",
        ),
        ("--vm-set-type VirtualMachines --vm-sizes a,b", "single sku size for scale profile. ['a', 'b'] is invalid."),
        ("--vm-set-type AvailabilitySet", "which AKS retired"),
        ("--vm-set-type Sets", "--vm-set-type can only be"),
        ("--vm-set-type VirtualMachines --zones 1", "AKS has no availability zones for it"),
        ("--vm-set-type VirtualMachines --priority Spot", "AKS documents no spot nodes in it"),
        ("--vm-set-type VirtualMachines -e --min-count 1 --max-count 3", "its autoscaler is a preview of AKS"),
        ("--vm-set-type VirtualMachines --os-type Windows --os-sku Windows2022", "AKS has no Windows nodes in it"),
    ] {
        refused("add", rest, why);
    }
    let made = on("add", &format!("{machines} --vm-sizes Standard_D4s_v3 --node-count 3"));
    for (key, expected) in [
        ("typePropertiesType", json!("VirtualMachines")),
        ("vmSize", json!("")),
        ("count", json!(null)),
        ("virtualMachineNodesStatus", json!([{ "count": 3, "size": "Standard_D4s_v3" }])),
    ] {
        assert_eq!(made[key], expected, "{key}");
    }
    let manual = |pool: serde_json::Value| pool["virtualMachinesProfile"]["scale"]["manual"].to_string();
    assert_eq!(manual(on("scale", "-c 2")), r#"[{"count":2,"size":"Standard_D4s_v3"}]"#);
    let added = on("manual-scale add", "--vm-sizes Standard_D2s_v3 --node-count 2");
    assert_eq!(manual(added), r#"[{"count":2,"size":"Standard_D2s_v3"},{"count":2,"size":"Standard_D4s_v3"}]"#);
    let five = "--current-vm-sizes standard_D4s_v3 --vm-sizes Standard_D8s_v3 --node-count 5";
    let changed = on("manual-scale update", five);
    assert_eq!(manual(changed), r#"[{"count":2,"size":"Standard_D2s_v3"},{"count":5,"size":"Standard_D8s_v3"}]"#);
    for (verb, rest, why) in [
        ("scale", "-c 4", "Cannot scale virtual machines node pool with more than one size."),
        ("stop", "", "AKS does not say what a stopped pool"),
        ("update", "-s Standard_D8s_v3", "changes their sizes by 'az aks nodepool manual-scale'"),
        ("update", "-e --min-count 1 --max-count 3", "no autoscaler for pools of type 'VirtualMachines'"),
        ("upgrade", "-k 1.35 --yes --node-image-only --max-surge 1", "Conflicting flags"),
        ("manual-scale add", "--vm-sizes Standard_D2s_v3 -c 1", "adds no second profile of size Standard_D2s_v3"),
        (
            "manual-scale add",
            "--vm-sizes Standard_E2s_v3 -c 1",
            "Standard_D2s_v3 has the family D, Standard_E2s_v3 has E",
        ),
        ("manual-scale add", "--vm-sizes a,b -c 1", "We only accept single sku size for manual profile."),
        ("manual-scale update", "--current-vm-sizes Standard_D2s_v3", "specify --vm-sizes or --node-count or both."),
        ("manual-scale update", "--current-vm-sizes Standard_D2s_v3 -c 1", "for manual profile. None is invalid."),
        (
            "manual-scale delete",
            "--current-vm-sizes Standard_D4s_v3 --yes",
            "Manual with size standard_d4s_v3 doesn't exist in node pool vms.",
        ),
        ("manual-scale delete", "--current-vm-sizes Standard_D8s_v3", "Operation cancelled."),
    ] {
        refused(verb, rest, why);
    }
    let left = on("manual-scale delete", "--current-vm-sizes Standard_D8s_v3 -y");
    assert_eq!(manual(left), r#"[{"count":2,"size":"Standard_D2s_v3"}]"#);
    refused("manual-scale delete", "--current-vm-sizes Standard_D2s_v3 -y", "Cannot delete the last manual profile");
    let other = az(environment, &format!("aks nodepool manual-scale add {OF_LAB} -n nodepool1 --vm-sizes a -c 1"));
    assert!(other.contains("Cannot add manual to a non-virtualmachines node pool."), "{other}");
    let table = az(environment, &format!("aks nodepool list {OF_LAB} -o table"));
    assert!(table.contains("vms        Linux"), "{table}");

    let pool = |line: &str| environment.klab(&line.split(' ').collect::<Vec<_>>());
    pool("pool update vms --sizes Standard_D4s_v3=1,Standard_D8s_v3=1");
    let listed = pool("pool list");
    assert!(listed.contains("2      1 × Standard_D4s_v3, 1 × Standard_D8s_v3"), "{listed}");
    let scaled = pool("pool scale vms --nodes 3");
    assert!(scaled.contains("`klab pool update vms --sizes SIZE=COUNT,…`"), "{scaled}");
    let upgraded = pool("pool upgrade vms --kubernetes 1.35");
    assert!(upgraded.contains("status 0"), "nothing is to be upgraded: {upgraded}");
}

#[test]
fn what_is_explained_and_undone_names_the_sizes() {
    let environment = Environment::new();
    let pool =
        "[pool.mixed]\ntype = \"VirtualMachines\"\nsizes = { \"Standard_D4s_v5\" = 2, \"Standard_D8s_v5\" = 1 }\n";
    let workload = "[workload.large]\nreplicas = 2\nrequests = { cpu = \"5\" }\nnode_selector = { agentpool = \"mixed\" }\n\
                    [[check]]\nworkload = \"large\"\nrunning = 1\npending = 1\n";
    environment.write("small.toml", format!("{LAB}{pool}{workload}"));
    environment.succeeds(&["up", "small.toml"]);
    let says = |line: &str, words: &str| {
        let said = environment.klab(&line.split(' ').collect::<Vec<_>>());
        assert!(said.contains(words), "{line}: {said}");
    };
    says("explain large", "klab pool update mixed --sizes Standard_D4s_v5=2,Standard_D8s_v5=2");
    environment.succeeds(&["pool", "update", "mixed", "--sizes", "Standard_D4s_v5=2,Standard_D8s_v5=2"]);
    says("plan small.toml", "scale pool mixed from 4 to 3 nodes (Standard_D8s_v5 from 2 to 1)");
    says("diff", "klab pool update mixed --sizes Standard_D4s_v5=2,Standard_D8s_v5=1 --lab small");
    environment.succeeds(&["up", "small.toml"]);
    says("pool resize mixed --size Standard_D2s_v5", "are given as `--sizes SIZE=COUNT,…`");
    says("pool list", "3      2 × Standard_D4s_v5, 1 × Standard_D8s_v5");
}
