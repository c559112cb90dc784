//! `klab pool`: pools of a lab that is up, changed by hand, through the binary.

use insta::assert_snapshot;

use crate::environment::Environment;

const LAB: &str = r#"lab = "small"
kubernetes = "1.36"

[pool.nodepool1]
mode = "system"
nodes = 2
size = "Standard_B2ms"

[pool.later]
deferred = true
nodes = 2
size = "Standard_D4s_v5"
labels = { tier = "web" }

[[step]]
name = "later"
do = [{ add_pool = "later" }]

[[step.check]]
nodes = "pool:later"
exist = 2
"#;

fn up() -> Environment {
    let environment = Environment::new();
    environment.write("small.toml", LAB);
    environment.succeeds(&["up", "small.toml"]);
    environment
}

/// A command line's output without what differs from run to run.
fn klab(environment: &Environment, line: &str) -> String {
    let times = regex::Regex::new(r"in \d+(\.\d+)? (ms|s)").unwrap();
    let text = environment.klab(&line.split_whitespace().collect::<Vec<_>>());
    times.replace_all(&text, "in TIME").into_owned()
}

fn nodes(environment: &Environment) -> Vec<String> {
    let status = environment.json(&["status"]);
    let nodes = status["nodes"].as_array().unwrap().iter();
    nodes.map(|node| format!("{} {}", node["pool"].as_str().unwrap(), node["taints"])).collect()
}

#[test]
fn pools_come_change_and_go_by_hand_and_up_brings_the_file_back() {
    let environment = up();
    let shown = klab(&environment, "pool add extra --nodes 1 --labels workload=extra,team=a --taints k=v:NoSchedule");
    assert_snapshot!(shown, @r"
    --- stderr
         Created pool extra (1 × Standard_B2ms) in TIME
    --- status 0
    ");
    assert_snapshot!(klab(&environment, "pool list"), @r"
    --- stdout
    POOL       MODE    NODES  SIZE           KUBERNETES  LABELS                 TAINTS
    nodepool1  system  2      Standard_B2ms  1.36.2
    extra      user    1      Standard_B2ms  1.36.2      team=a workload=extra  k=v:NoSchedule
    --- status 0
    ");
    assert_snapshot!(klab(&environment, "pool scale extra --nodes 2"), @r"
    --- stderr
          Scaled pool extra from 1 to 2 nodes in TIME
    --- status 0
    ");
    assert_snapshot!(klab(&environment, "pool update extra --labels team=b --taints= --mode system"), @r"
    --- stderr
         Changed pool extra: mode user becomes system, label team=b, no label workload, no taint k=v:NoSchedule in TIME
    --- status 0
    ");
    assert_snapshot!(klab(&environment, "pool upgrade extra --kubernetes 1.35"), @r"
    --- stderr
        Replaced the nodes of pool extra (2 × Standard_B2ms): Kubernetes 1.36.2 becomes 1.35 in TIME
    --- status 0
    ");
    assert_snapshot!(klab(&environment, "pool delete nodepool1"), @r"
    --- stderr
         Removed pool nodepool1 and its 2 nodes in TIME
    --- status 0
    ");
    assert_snapshot!(klab(&environment, "pool list"), @r"
    --- stdout
    POOL   MODE    NODES  SIZE           KUBERNETES  LABELS  TAINTS
    extra  system  2      Standard_B2ms  1.35.0      team=b
    --- status 0
    ");
    assert_snapshot!(klab(&environment, "up small.toml --no-wait"), @r"
    --- stderr
         Checked small.toml: 1 pool, 0 objects, 0 checks
         Created pool nodepool1 (2 × Standard_B2ms) in TIME
         Removed pool extra and its 2 nodes in TIME
         Applied 0 objects: none in TIME
           Ready lab `small` in TIME

      export KUBECONFIG=[FOLDER]/home/labs/small/kubeconfig    # then: kubectl get pods -o wide
      klab verify small    klab guide small    klab down small
    --- status 0
    ");
    assert_snapshot!(klab(&environment, "pool list"), @r"
    --- stdout
    POOL       MODE    NODES  SIZE           KUBERNETES  LABELS  TAINTS
    nodepool1  system  2      Standard_B2ms  1.36.2
    --- status 0
    ");
    environment.succeeds(&["pool", "add", "mine"]);
    environment.succeeds(&["down"]);
    environment.nothing_is_left();
}

#[test]
fn what_others_put_on_nodes_stays_there() {
    let environment = up();
    environment.succeeds(&["pool", "add", "extra", "--taints", "mine=1:NoSchedule"]);
    environment.succeeds(&["pool", "update", "extra", "--autoscale", "1..3"]);
    let kubeconfig = environment.succeeds(&["kubeconfig", "--path"]);
    let taint = std::process::Command::new("kubectl")
        .args(["--kubeconfig", kubeconfig.trim(), "taint", "nodes", "-l", "agentpool=extra", "theirs=1:NoExecute"])
        .output();
    if taint.is_err() {
        return;
    }
    environment.succeeds(&["pool", "update", "extra", "--taints", "other=2:NoSchedule"]);
    let extra = nodes(&environment).into_iter().find(|node| node.starts_with("extra")).unwrap();
    assert!(extra.contains("theirs=1:NoExecute") && extra.contains("other=2:NoSchedule"), "{extra}");
    assert!(!extra.contains("mine"), "{extra}");
}

#[test]
fn pool_without_nodes_is_remembered_and_a_pool_of_the_file_is_made_as_it_says() {
    let environment = up();
    environment.succeeds(&["pool", "add", "extra", "--size", "Standard_D4s_v5"]);
    environment.succeeds(&["pool", "scale", "extra", "--nodes", "0"]);
    let pools = environment.json(&["pool", "list"])["pools"].as_array().unwrap().clone();
    assert_eq!((&pools[1]["name"], &pools[1]["nodes"]), (&"extra".into(), &0.into()));
    environment.succeeds(&["pool", "scale", "extra", "--nodes", "2"]);
    let pools = environment.json(&["pool", "list"])["pools"].as_array().unwrap().clone();
    assert_eq!((&pools[1]["size"], &pools[1]["nodes"]), (&"Standard_D4s_v5".into(), &2.into()));
    assert_snapshot!(klab(&environment, "pool add later"), @r"
    --- stderr
         Created pool later (2 × Standard_D4s_v5) in TIME
    --- status 0
    ");
    assert!(klab(&environment, "verify --step later").contains("✓ held"));
    // A step makes of a pool what the file says, whatever was typed of it.
    environment.succeeds(&["pool", "scale", "later", "--nodes", "0"]);
    environment.succeeds(&["step"]);
    environment.succeeds(&["step", "--back"]);
    let pools = environment.json(&["pool", "list"])["pools"].as_array().unwrap().clone();
    let names: Vec<_> = pools.iter().map(|pool| pool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["nodepool1", "extra"]);
}

#[test]
fn refusals_say_what_would_do() {
    let environment = up();
    let lines = [
        "pool add nodepool1",
        "pool scale extra --nodes 2",
        "pool delete nodepool1",
        "pool add Extra",
        "pool add extra --size B2ms",
        "pool add extra --taints dedicated",
        "pool add extra --labels kubernetes.io/x=y",
        "pool add extra --kubernetes 1.37",
        "pool update nodepool1 --size Standard_D4s_v5",
        "pool update nodepool1 --autoscale 3..2",
        "pool update nodepool1",
    ];
    let shown = lines.map(|line| format!("$ klab {line}\n{}", klab(&environment, line))).concat();
    assert_snapshot!(shown, @r#"
    $ klab pool add nodepool1
    --- stderr
    error[K0411]: lab `small` has a pool `nodepool1` already
    hint: this changes it:
            klab pool update nodepool1
        this changes its number of nodes:
            klab pool scale nodepool1
    --- status 2
    $ klab pool scale extra --nodes 2
    --- stderr
    error[K0410]: lab `small` has no pool `extra`
    hint: its pools are nodepool1
    --- status 2
    $ klab pool delete nodepool1
    --- stderr
    error[K0411]: pool `nodepool1` is the last system pool: the cluster's own pods have no other place
    hint: `klab pool add NAME --mode system` makes another one, or `klab pool update NAME --mode system`
    --- status 2
    $ klab pool add Extra
    --- stderr
    error[K0411]: AKS refuses the pool name `Extra`: not a valid pool name
    hint: a pool's name has 1 to 12 lower-case letters and digits and begins with a letter, such as `extra`
    --- status 2
    $ klab pool add extra --size B2ms
    --- stderr
    error[K0411]: klab does not know the VM size `B2ms`: no such size in klab's table
    hint: did you mean `Standard_B2ms`
    hint: this lists the sizes that klab knows:
            klab az vm list-sizes -l westeurope -o table
    hint: `cpu = 4` and `memory = "16Gi"` describe a machine that klab does not know: on aks beside `size`, on sim and kind in its place
    --- status 2
    $ klab pool add extra --taints dedicated
    --- stderr
    error[K0411]: `dedicated` is not a taint: expected `key=value:Effect` or `key:Effect`
    hint: the effects are NoSchedule, PreferNoSchedule and NoExecute
    --- status 2
    $ klab pool add extra --labels kubernetes.io/x=y
    --- stderr
    error[K0411]: the label `kubernetes.io/x` belongs to Kubernetes: pool `extra` cannot set it
    hint: choose a key of your own, with or without a prefix such as `example.com/`
    --- status 2
    $ klab pool add extra --kubernetes 1.37
    --- stderr
    error[K0411]: pool `extra` cannot run Kubernetes 1.37: newer than the cluster
    --- status 2
    $ klab pool update nodepool1 --size Standard_D4s_v5
    --- stderr
    error[K0408]: `size` of pool `nodepool1` cannot change on its nodes
    hint: `--replace` recreates the nodes; their pods start elsewhere meanwhile
    --- status 2
    $ klab pool update nodepool1 --autoscale 3..2
    --- stderr
    error[K0411]: the autoscaler's bounds of pool `nodepool1` do not fit: `max` must be at least `min`, and 1
    --- status 2
    $ klab pool update nodepool1
    --- stderr
           Found pool nodepool1, which needs no change
    --- status 0
    "#);
    assert_eq!(nodes(&environment).len(), 2);
}

#[test]
fn a_lab_that_is_not_up_has_no_pools() {
    let shown = klab(&up(), "pool list --lab other");
    assert!(
        shown.contains(
            "error[K0801]: lab `other` is not up\nhint: this shows the labs that are up:\n        klab list\n"
        ),
        "{shown}"
    );
}

#[test]
fn devices_of_a_pool_that_is_up_follow_the_lab_file() {
    let environment = Environment::new();
    let write = |devices: &str| {
        environment.write("dev.toml", format!("lab = \"dev\"\n\n[pool.gpu]\nnodes = 1\ndevices = [{devices}]\n"));
    };
    write("{ class = \"gpu.example.com\", count = 4 }");
    environment.succeeds(&["up", "dev.toml"]);
    let shown = klab(&environment, "plan dev.toml");
    assert!(!shown.contains("pool gpu:"), "{shown}");
    write("{ class = \"gpu.example.com\", count = 1 }");
    let change = "pool gpu: 1 device of class gpu.example.com a node instead of 4";
    let shown = klab(&environment, "plan dev.toml");
    assert!(shown.contains(&format!("change {change}")), "{shown}");
    let shown = klab(&environment, "up dev.toml");
    assert!(shown.contains(&format!("Changed {change}")), "{shown}");
    let shown = klab(&environment, "plan dev.toml");
    assert!(!shown.contains("pool gpu:"), "{shown}");
}

/// "Another agentpool operation is in progress": <https://aka.ms/aks-pending-operation>. A soak of 30 minutes outlives the test.
#[test]
fn a_pool_that_is_being_upgraded_is_left_alone() {
    let environment = up();
    environment.succeeds(&["pool", "add", "old", "--kubernetes", "1.35", "--nodes", "2"]);
    let soak = ["pool", "upgrade", "old", "--max-surge", "1", "--node-soak", "30", "--no-wait"];
    let begun = klab(&environment, &soak.join(" "));
    assert!(begun.contains("Began the upgrade of pool old") && begun.contains("source=upgrader"), "{begun}");
    let of_lab = "-g klab-small --cluster-name klab-small -n old";
    let words = "(OperationNotAllowed) Operation is not allowed: Another agentpool operation (old - Upgrading) is in progress, please wait";
    for line in [
        "pool scale old --nodes 2".to_owned(),
        "pool scale old --nodes 3".to_owned(),
        "pool update old --labels a=b".to_owned(),
        "pool update old --size Standard_D4s_v5 --replace".to_owned(),
        "pool upgrade old --kubernetes 1.36.1".to_owned(),
        format!("az aks nodepool scale {of_lab} -c 2"),
        format!("az aks nodepool scale {of_lab} -c 4 --no-wait"),
        format!("az aks nodepool update {of_lab} --labels a=b"),
        format!("az aks nodepool stop {of_lab}"),
    ] {
        let refused = klab(&environment, &line);
        assert!(refused.contains(words), "{line}: {refused}");
    }
    assert_eq!(klab(&environment, &soak.join(" ")), "--- status 0\n", "it goes on");
    let list = klab(&environment, "pool list");
    assert!(list.contains("old        user    2 "), "surge nodes are not counted: {list}");
    environment.succeeds(&["pool", "delete", "old"]);
}

/// roll-back-node-pool-version: Kubernetes and node image go back to what they were, once; "No rollback versions" are az's words.
#[test]
fn pools_are_resized_and_rolled_back_by_hand() {
    let environment = Environment::new();
    environment.write("small.toml", format!("{LAB}\n[sim]\nnode_start = \"1ms\"\n"));
    environment.succeeds(&["up", "small.toml"]);
    // How far an upgrade is shows only where it takes a while.
    let klab = |line: &str| -> String {
        let said = klab(&environment, line);
        said.lines().filter(|line| !line.contains(" so far: ")).map(|line| format!("{line}\n")).collect()
    };
    klab("pool add old --kubernetes 1.35 --nodes 1");
    let none = "No rollback versions available. The nodepool must have been upgraded at least once";
    assert!(klab("pool rollback old").contains(none));
    klab("pool upgrade old");
    klab("pool scale old --nodes 2");
    assert_snapshot!(klab("pool rollback old"), @r"
    --- stderr
        Upgraded pool old: Kubernetes 1.36.2 becomes 1.35.0 in TIME
    --- status 0
    ");
    assert!(klab("pool rollback old").contains(none), "not twice");
    assert_snapshot!(klab("pool resize old --size Standard_D2ps_v5"), @r"
    --- stderr
    error[K0213]: AKS does not resize pool `old` in place: Standard_B2ms has the CPU architecture amd64, Standard_D2ps_v5 has arm64
    hint: `klab pool add NAME --size Standard_D2ps_v5` makes another pool, to which a drain moves the pods
    --- status 2
    ");
    assert_snapshot!(klab("pool resize old --size Standard_D4s_v5 --max-surge 2"), @r"
    --- stderr
        Upgraded pool old: size Standard_B2ms becomes Standard_D4s_v5 in TIME
    --- status 0
    ");
    assert_snapshot!(klab("pool resize old --size Standard_D4s_v5"), @r"
    --- stderr
           Found pool old, which needs no change
    --- status 0
    ");
    assert_snapshot!(klab("pool upgrade old --node-image-only"), @r"
    --- stderr
           Found pool old, which needs no change
    --- status 0
    ");
    assert_snapshot!(klab("pool list"), @r"
    --- stdout
    POOL       MODE    NODES  SIZE             KUBERNETES  LABELS  TAINTS
    nodepool1  system  2      Standard_B2ms    1.36.2
    old        user    2      Standard_D4s_v5  1.35.0
    --- status 0
    ");
}

/// Whether the blue-green upgrade of a pool of one node beside two others is in its final soak.
fn is_soaking(environment: &Environment) -> bool {
    (0..500).any(|_| nodes(environment).len() == 4)
}

/// What a klab says that waits for the upgrade, with the lock of the lab, while another aborts it.
fn aborted_while_another_waits(environment: &Environment) -> String {
    let mut waits = environment.command(&["pool", "upgrade", "old"]);
    let waits = waits.stderr(std::process::Stdio::piped()).spawn().unwrap();
    assert!(is_soaking(environment));
    klab(environment, "pool abort old");
    let ended = waits.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(4));
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    said.lines().filter(|line| !line.contains(" so far: ")).map(|line| format!("{line}\n")).collect()
}

/// blue-green-node-pool-upgrade: aborted in its final soak, an upgrade goes back to the nodes that are there still, or on.
#[test]
fn a_blue_green_upgrade_is_aborted_and_goes_back_or_on() {
    let environment = Environment::new();
    environment.write("small.toml", format!("{LAB}\n[sim]\nnode_start = \"1ms\"\n"));
    environment.succeeds(&["up", "small.toml"]);
    let klab = |line: &str| klab(&environment, line);
    klab("pool add old --kubernetes 1.35 --nodes 1");
    assert_snapshot!(klab("pool abort old"), @r"
    --- stderr
    error[K0418]: pool `old` is not being upgraded: there is nothing to abort
    --- status 4
    ");
    assert_snapshot!(klab("pool abort other"), @r"
    --- stderr
    error[K0410]: lab `small` has no pool `other`
    hint: its pools are nodepool1 and old
    --- status 2
    ");
    klab("pool upgrade old --upgrade-strategy blue-green --batch-soak 0 --final-soak 600 --no-wait");
    assert!(is_soaking(&environment));
    assert_snapshot!(klab("pool rollback old"), @r"
    --- stderr
    error[K0418]: (OperationNotAllowed) Operation is not allowed: Another agentpool operation (old - Upgrading) is in progress, please wait for it to finish before starting a new operation. See https://aka.ms/aks-pending-operation for more details.
    hint: this shows how far the upgrade is:
            kubectl get events --field-selector source=upgrader
    hint: in the final soak of a blue-green upgrade, this makes way for it:
            klab pool abort old
    --- status 4
    ");
    assert_snapshot!(klab("pool abort old"), @r"
    --- stderr
         Aborted the upgrade of pool old in TIME
    --- status 0
    ");
    assert_snapshot!(klab("pool scale old --nodes 2"), @r"
    --- stderr
    error[K0418]: the blue-green upgrade of pool `old` stopped halfway: another change has to wait for it
    hint: ask for the same upgrade again, which goes on where it stopped, or bring the old nodes back with:
            klab pool rollback old
        this shows what blocks a drain:
            kubectl get pdb -A
    --- status 4
    ");
    assert_snapshot!(klab("pool rollback old"), @r"
    --- stderr
        Upgraded pool old: back to the nodes of Kubernetes 1.35.0 in TIME
    --- status 0
    ");
    assert_snapshot!(klab("pool list"), @r"
    --- stdout
    POOL       MODE    NODES  SIZE           KUBERNETES  LABELS  TAINTS
    nodepool1  system  2      Standard_B2ms  1.36.2
    old        user    1      Standard_B2ms  1.35.0
    --- status 0
    ");
    let said = aborted_while_another_waits(&environment);
    assert_snapshot!(said, @r"
    error[K0418]: the upgrade of pool `old` was aborted: its old and its new nodes stay
    hint: ask for the same upgrade again, which goes on where it stopped, or bring the old nodes back with:
            klab pool rollback old
    ");
    assert_snapshot!(klab("pool upgrade old --final-soak 0"), @r"
    --- stderr
        Upgraded pool old: Kubernetes 1.35.0 becomes 1.36 in TIME
    --- status 0
    ");
    assert_eq!(nodes(&environment).len(), 3);
    klab("pool add rolling --kubernetes 1.35 --nodes 1");
    klab("pool upgrade rolling --node-soak 30 --no-wait");
    assert_snapshot!(klab("pool abort rolling"), @r"
    --- stderr
    error[K0418]: klab aborts blue-green upgrades alone, and that of pool `rolling` is not
    hint: AKS's pages do not say which surge nodes an aborted rolling upgrade leaves, so klab does not simulate it
    --- status 4
    ");
}
