//! Labs on a cluster that klab did not make: what they make there, what they leave alone, and that nothing stays.

use insta::assert_snapshot;
use k8s_openapi::api::core::v1::ConfigMap;
use klab_operations::client;
use kube::api::{Api, PostParams};

use super::Somebodys;
use crate::environment::Environment;

const LAB: &str = r#"lab = "mine"
provider = "existing"

[existing]
context = "klab-theirs"

[pool.system]

[pool.busy]
match = { workload = "extra" }
labels = { workload = "extra" }
taints = ["dedicated=special:NoSchedule"]

[namespace.here]
labels = { course = "one" }

[workload.api]
namespace = "here"
image = "nginx:1.27"
service = 80
node_selector = { workload = "extra" }
tolerations = ["dedicated=special:NoSchedule"]

[workload.guest]
namespace = "team"
image = "nginx:1.27"

[config.settings]
data = { a = "b" }

[[check]]
workload = "api"
on = "pool:busy"
running = 1

[[check]]
workload = "guest"
on = "pool:system"
running = 1

[[step]]
name = "grow"
do = [{ scale = "api", replicas = 2 }]

[[step.check]]
workload = "api"
running = 2

[[step]]
name = "open"
do = [{ untaint = "dedicated", nodes = "pool:busy" }]

[[step.check]]
nodes = "pool:busy"
schedulable = true
"#;

/// A lab that deletes in a step what is not its own.
const GREEDY: &str = r#"lab = "greedy"
provider = "existing"

[[step]]
name = "grab"
do = [{ delete = "deployment/web" }]

[[step.check]]
object = "deployment/web"
exist = 0
"#;

impl Somebodys {
    /// Nothing of the cluster is other than its own lab says.
    fn is_as_it_was(&self) {
        let output = self.theirs.run(&["diff"]);
        let said = self.theirs.shown(&output);
        assert!(said.contains("nothing differs from lab `theirs`"), "{said}");
    }

    /// Makes a ConfigMap as people do who do not use klab.
    fn make_guest(&self, namespace: &str) {
        let kubeconfig = self.theirs.home().join("labs/theirs/kubeconfig");
        let guest: ConfigMap = serde_json::from_value(serde_json::json!({ "metadata": { "name": "guest" } })).unwrap();
        let made = client::runtime().unwrap().block_on(async {
            let api: Api<ConfigMap> = Api::namespaced(client::connect(&kubeconfig).await.unwrap(), namespace);
            api.create(&PostParams::default(), &guest).await
        });
        made.unwrap();
    }

    /// What klab says of a lab with times made even.
    fn lab(&self, line: &str) -> String {
        let times = regex::Regex::new(r"\b\d+(\.\d+)? m?s\b").unwrap();
        let ports = regex::Regex::new(r"127\.0\.0\.1:\d+").unwrap();
        let dates = regex::Regex::new(r"\d{4}-\d\d-\d\d \d\d:\d\d").unwrap();
        let text = self.klab(&line.split_whitespace().collect::<Vec<_>>());
        let text = times.replace_all(&text, "TIME");
        let text = dates.replace_all(&text, "DATE");
        ports.replace_all(&text, "ADDRESS").into_owned()
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one lab from its beginning to its end")]
fn a_lab_comes_and_goes_and_the_cluster_is_as_it_was() {
    let cluster = Somebodys::new();
    cluster.own.write("mine.toml", LAB);
    assert_snapshot!(cluster.lab("plan mine.toml"), @"
    --- stdout
    lab mine (existing)

    cluster
      klab-theirs at https://ADDRESS/clusters/theirs, not created by klab; it will not be modified

    objects
      + create Namespace/here
      + create Service/api in namespace here
      + create ConfigMap/settings
      + create Deployment/api in namespace here
      + create Deployment/guest in namespace team

    placement, as kube-scheduler would decide
      api    busy 1
      guest  system 1

    steps
      1 grow: grow
          kubectl scale deployment/api --replicas 2 -n here
      2 open: open
          kubectl taint nodes -l workload=extra dedicated-
    --- status 0
    ");
    assert!(cluster.own.leftovers().is_empty(), "a plan leaves nothing");
    assert_snapshot!(cluster.lab("up mine.toml"), @"
    --- stderr
         Checked mine.toml: 2 pools, 6 objects, 2 checks
           Found cluster klab-theirs at https://ADDRESS/clusters/theirs
         Applied 6 objects: 5 created, 1 unchanged in TIME
      ✓ held     api: on pool:busy, 1 running → 1 of 1 on pool:busy; 1 running
      ✓ held     guest: on pool:system, 1 running → 1 of 1 on pool:system; 1 running
        Verified 2 of 2 checks in TIME
           Ready lab `mine` in TIME

      export KUBECONFIG=[FOLDER]/home/labs/mine/kubeconfig    # then: kubectl get pods -o wide
      klab verify mine    klab guide mine    klab down mine
    --- status 0
    ");
    assert_snapshot!(cluster.lab("-q up mine.toml"), @"
    --- status 0
    ");
    assert_snapshot!(cluster.lab("list"), @"
    --- stdout
    LAB   PROVIDER  STATE  NODES  SINCE             FILE
    mine  existing  up     2      DATE  [FOLDER]/mine.toml
    --- status 0
    ");
    assert_snapshot!(cluster.lab("status"), @"
    --- stdout
    lab mine (existing)
    lesson: at the set-up, 2 steps ahead

    NODE                            POOL    STATE  PODS  TAINTS
    extra-0   busy    Ready  8     dedicated=special:NoSchedule
    system-0  system  Ready  14

    WORKLOAD  RUNNING  PENDING  WHERE
    api       1        0        busy 1
    guest     1        0        system 1
    --- status 0
    ");
    assert_snapshot!(cluster.lab("-q step"), @"
    --- stdout
      ✓ held     api: 2 running
    --- status 0
    ");
    assert_snapshot!(cluster.lab("step"), @"
    --- stderr
            Step 2 of 2 `open`: open
    error[K0631]: step `open` changes nodes (mine.toml:51), and klab changes none on a cluster that klab did not make; nothing was done
    hint: type it yourself, then `klab verify`:
        kubectl taint nodes -l workload=extra dedicated-
    --- status 2
    ");
    assert_snapshot!(cluster.lab("step --back"), @"
    --- stdout
      ✓ held     api: on pool:busy, 1 running → 1 of 1 on pool:busy; 1 running
      ✓ held     guest: on pool:system, 1 running → 1 of 1 on pool:system; 1 running
    --- stderr
         Undoing 1 of 2 `grow`: grow
          Scaled deployment/api to 1 replica
        Verified 2 of 2 checks in TIME
    --- status 0
    ");
    for line in ["diff", "reset", "pool list", "pool add more", "pause", "test mine.toml --provider existing"] {
        let said = cluster.lab(line);
        assert!(said.contains("error[") && said.ends_with("--- status 2\n"), "{line}: {said}");
    }
    let mode = |name: &str| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(cluster.own.home().join("labs/mine").join(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(mode("kubeconfig"), 0o600);
    assert_snapshot!(cluster.lab("down"), @"
    --- stderr
         Removed 6 objects of lab mine from cluster klab-theirs in TIME
            Down nothing of lab `mine` is left; it was up for AGE
    --- status 0
    ");
    cluster.own.nothing_is_left();
    cluster.is_as_it_was();
}

/// klab killed at every entry of its journal: `up` goes on, and `down` leaves the cluster as it was.
#[test]
fn a_klab_that_is_killed_leaves_nothing_that_the_next_does_not_remove() {
    let cluster = Somebodys::new();
    cluster.own.write("mine.toml", LAB);
    let killed = |command: &str, fault: &str| {
        let arguments: Vec<&str> = command.split_whitespace().collect();
        let output = cluster.own.command(&arguments).env("KLAB_FAULT", fault).output().unwrap();
        assert!(output.status.success() || output.status.code().is_none(), "{}", cluster.shown(&output));
        !output.status.success()
    };
    for moment in ["before", "after"] {
        for entry in 1.. {
            let fault = format!("{moment}:{entry}");
            let in_up = killed("up mine.toml", &fault);
            if in_up && entry % 2 == 0 {
                cluster.own.succeeds(&["up", "mine.toml"]);
            }
            let in_down = killed("down mine", &fault);
            cluster.own.succeeds(&["down", "mine"]);
            cluster.own.nothing_is_left();
            if !in_up && !in_down {
                assert!(entry > 2, "{entry}");
                break;
            }
        }
    }
    cluster.is_as_it_was();
}

#[test]
fn what_klab_did_not_make_is_neither_overwritten_nor_removed() {
    let cluster = Somebodys::new();
    let lab = "lab = \"other\"\nprovider = \"existing\"\n[workload.web]\nimage = \"busybox\"\n[config.fine]\ndata = { a = \"b\" }\n";
    cluster.own.write("other.toml", format!("{lab}[namespace.team]\nlabels = {{ a = \"b\" }}\n"));
    assert_snapshot!(cluster.lab("up other.toml"), @"
    --- stderr
         Checked other.toml: 0 pools, 3 objects, 0 checks
    error[K0409]: Namespace/team (from other.toml:7) is there, and klab did not make it for lab `other`; nothing was changed
    hint: another name, or another namespace, makes one beside it
    error[K0409]: Deployment/web (from other.toml:3) is there, and klab did not make it for lab `other`; nothing was changed
    hint: another name, or another namespace, makes one beside it
    --- status 2
    ");
    assert!(cluster.lab("plan other.toml").contains("is there, and klab did not make it for lab `other`"));
    cluster.own.nothing_is_left();
    cluster.is_as_it_was();
    cluster.own.write("greedy.toml", GREEDY);
    cluster.own.succeeds(&["up", "greedy.toml", "--no-wait"]);
    let said = cluster.lab("step");
    assert!(said.contains("deployments `web` in namespace default is there, and klab did not make it"), "{said}");
    cluster.own.write("greedy.toml", GREEDY.replace("deployment/web\" }", "pods\", selector = \"app=web\" }"));
    cluster.own.succeeds(&["up", "greedy.toml", "--no-wait"]);
    let said = cluster.lab("step");
    assert!(said.contains("in namespace default is there, and klab did not make it"), "{said}");
    cluster.own.succeeds(&["down"]);
    cluster.own.nothing_is_left();
    cluster.is_as_it_was();
}

#[test]
fn a_namespace_stays_that_somebody_else_uses() {
    let cluster = Somebodys::new();
    cluster.own.write(
        "one.toml",
        "lab = \"one\"\nprovider = \"existing\"\n[config.a]\nnamespace = \"shared\"\ndata = { a = \"b\" }\n",
    );
    cluster.own.write(
        "two.toml",
        "lab = \"two\"\nprovider = \"existing\"\n[config.b]\nnamespace = \"shared\"\ndata = { a = \"b\" }\n",
    );
    cluster.own.succeeds(&["up", "one.toml"]);
    cluster.own.succeeds(&["up", "two.toml"]);
    assert_snapshot!(cluster.lab("down one"), @"
    --- stderr
         Removed 1 object of lab one from cluster klab-theirs in TIME
    warning[K0409]: namespace shared stays: lab `two` uses it, and removes it at its end
            Down nothing of lab `one` is left; it was up for AGE
    --- status 0
    ");
    let said = cluster.lab("plan two.toml");
    assert!(said.contains("objects\n  as the lab file says"), "{said}");
    // With nobody else in it, the lab that has it removes it.
    assert_snapshot!(cluster.lab("down two"), @"
    --- stderr
         Removed 2 objects of lab two from cluster klab-theirs in TIME
            Down nothing of lab `two` is left; it was up for AGE
    --- status 0
    ");
    cluster.own.succeeds(&["up", "one.toml"]);
    cluster.make_guest("shared");
    assert_snapshot!(cluster.lab("down one"), @"
    --- stderr
         Removed 1 object of lab one from cluster klab-theirs in TIME
    warning[K0409]: namespace shared stays, without klab's labels: it has 1 object that no lab made: ConfigMap/guest
            Down nothing of lab `one` is left; it was up for AGE
    --- status 0
    ");
    cluster.own.nothing_is_left();
}

#[test]
fn a_namespace_stays_where_klab_may_not_see_what_others_have_in_it() {
    let cluster = Somebodys::new();
    cluster.kubeconfig_of("maker", "default");
    let lab = "lab = \"one\"\nprovider = \"existing\"\n[existing]\nkubeconfig = \"maker.kubeconfig\"\n";
    cluster.own.write("one.toml", format!("{lab}[config.a]\nnamespace = \"shared\"\ndata = {{ a = \"b\" }}\n"));
    cluster.own.succeeds(&["up", "one.toml"]);
    let said = cluster.lab("down one");
    assert!(
        said.contains("warning[K0409]: namespace shared stays, without klab's labels: you may not list its "),
        "{said}"
    );
    assert!(said.contains("this removes it:\n        kubectl delete namespace/shared\n"), "{said}");
    cluster.own.nothing_is_left();
}

#[test]
fn nodes_that_are_not_as_the_lab_asks_are_told_with_what_mends_them() {
    let cluster = Somebodys::new();
    let file = |pools: &str| {
        cluster.own.write("mine.toml", format!("lab = \"mine\"\nprovider = \"existing\"\n{pools}"));
    };
    file("[pool.gpu]\nnodes = 2\n[pool.extra]\nlabels = { disk = \"ssd\" }\ntaints = [\"only=me:NoExecute\"]\n");
    assert_snapshot!(cluster.lab("up mine.toml"), @"
    --- stderr
         Checked mine.toml: 2 pools, 0 objects, 0 checks
    error[K0431]: pool `gpu` asks for 2 nodes, and no node of the cluster has `agentpool=gpu`
    hint: `match = { … }` in `[pool.gpu]` says by which labels its nodes are found (mine.toml:3)
    hint: or give them the label, if they are yours: `kubectl label nodes NODE agentpool=gpu`
    hint: its nodes have kubernetes.azure.com/agentpool=extra, kubernetes.azure.com/agentpool=system
    error[K0431]: extra-0 of pool `extra` does not have the label `disk=ssd`
    hint: klab changes no nodes here; if they are yours:
            kubectl label nodes extra-0 disk=ssd --overwrite
    error[K0431]: extra-0 of pool `extra` does not have the taint `only=me:NoExecute`
    hint: klab changes no nodes here; if they are yours:
            kubectl taint nodes extra-0 only=me:NoExecute --overwrite
    --- status 3
    ");
    file("[pool.a]\nmatch = { workload = \"extra\" }\n[pool.b]\nmatch = { agentpool = \"extra\" }\n");
    assert_snapshot!(cluster.lab("up mine.toml"), @"
    --- stderr
         Checked mine.toml: 2 pools, 0 objects, 0 checks
    error[K0431]: node `extra-0` is in several pools of the lab: a, b
    hint: `match = { … }` of a pool names labels that only its own nodes have
    --- status 2
    ");
    file("[pool.all]\nmatch = { \"kubernetes.io/os\" = \"linux\" }\nsize = \"Standard_D8s_v5\"\n");
    assert_snapshot!(cluster.lab("up mine.toml"), @"
    --- stderr
         Checked mine.toml: 1 pool, 0 objects, 0 checks
    warning[K0406]: pool all has 2 nodes, the lab file says 1: checks that count nodes may say otherwise
    warning[K0406]: extra-0 of pool all has the taint dedicated=special:NoSchedule, which the lab file does not name; this takes it off:
            kubectl taint nodes extra-0 dedicated=special:NoSchedule-
    warning[K0406]: extra-0, system-0 of pool all are smaller than Standard_D8s_v5, for which the lab was written
           Found cluster klab-theirs at https://ADDRESS/clusters/theirs
         Applied 0 objects: none in TIME

        Verified 0 of 0 checks in TIME
           Ready lab `mine` in TIME

      export KUBECONFIG=[FOLDER]/home/labs/mine/kubeconfig    # then: kubectl get pods -o wide
      klab verify mine    klab down mine
    --- status 0
    ");
    cluster.own.succeeds(&["down"]);
    file("[pool.none]\nmatch = {}\n");
    assert!(cluster.lab("check mine.toml").contains("error[K0113]: pool `none` matches every node"));
    cluster.own.nothing_is_left();
    cluster.is_as_it_was();
}

#[test]
fn a_cluster_that_is_not_reached_is_said_and_can_be_forgotten() {
    let cluster = Somebodys::new();
    cluster.own.write("mine.toml", LAB.replace("klab-theirs", "nowhere"));
    assert_snapshot!(cluster.lab("up mine.toml"), @"
    --- stderr
         Checked mine.toml: 2 pools, 6 objects, 2 checks
    error[K0311]: the kubeconfig has no context `nowhere`
    hint: it has klab-theirs
    --- status 2
    ");
    cluster.own.write("mine.toml", LAB.replace("[existing]", "[existing]\nkubeconfig = \"missing\""));
    assert_snapshot!(cluster.lab("up mine.toml"), @"
    --- stderr
         Checked mine.toml: 2 pools, 6 objects, 2 checks
    error[K0310]: could not use the kubeconfig `[FOLDER]/missing`
    caused by: No such file or directory (os error 2)
    --- status 3
    ");
    cluster.kubeconfig_of("learner", "default");
    cluster.own.write("mine.toml", LAB.replace("[existing]", "[existing]\nkubeconfig = \"learner.kubeconfig\""));
    assert_snapshot!(cluster.lab("up mine.toml"), @r#"
    --- stderr
         Checked mine.toml: 2 pools, 6 objects, 2 checks
    error[K0416]: you may not list the nodes of the cluster, without which a lab cannot be checked
    caused by: nodes is forbidden: User "learner" cannot list resource "nodes" in API group "" at the cluster scope
    hint: who administers the cluster can let you:
            kubectl create clusterrole node-reader --verb=get,list,watch --resource=nodes
        then `kubectl create clusterrolebinding NAME --clusterrole=node-reader --user=USER`
    --- status 3
    "#);
    assert_snapshot!(cluster.lab("up mine.toml --seats 2"), @"
    --- stderr
         Checked mine.toml: 2 pools, 6 objects, 2 checks
    error[K0406]: lab `mine` is on a cluster that klab did not make, and each seat needs one of its own
    hint: `--provider sim --seats …` makes a cluster for each learner
    --- status 2
    ");
    cluster.own.nothing_is_left();
    cluster.own.write("mine.toml", LAB);
    cluster.own.succeeds(&["up", "mine.toml"]);
    // Another klab, of another person.
    let other = Environment::new();
    other.write(".kube/config", cluster.kubeconfig());
    other.write("mine.toml", LAB);
    let said = other.klab(&["up", "mine.toml"]);
    assert!(said.contains("lab `mine` is on this cluster already, and this klab did not make it"), "{said}");
    other.nothing_is_left();
    // The same context leads to another cluster.
    let config = cluster.kubeconfig().replace("/clusters/theirs", "/clusters/elsewhere");
    cluster.own.write(".kube/config", config);
    let said = cluster.lab("up mine.toml");
    assert!(said.contains("lab `mine` is up on https://ADDRESS/clusters/theirs, and context"), "{said}");
    cluster.own.succeeds(&["verify"]);
    cluster.theirs.succeeds(&["down"]);
    assert_snapshot!(cluster.lab("list"), @"
    --- stdout
    LAB   PROVIDER  STATE        NODES  SINCE             FILE
    mine  existing  unreachable  -      DATE  [FOLDER]/mine.toml
    --- stderr
    warning[K0401]: lab `mine`: could not reach the embedded cluster: client error (Connect): tcp connect error: Connection refused (os error 111): client error (Connect): tcp connect error: Connection refused (os error 111)
    --- status 0
    ");
    let said = cluster.lab("down");
    assert!(
        said.contains(
            "if the cluster no longer exists, this makes klab forget the lab:\n        rm -r [FOLDER]/home/labs/mine\n"
        ),
        "{said}"
    );
}
