//! The lesson as a learner meets it, through the binary; and killed in the middle.

use std::os::unix::process::ExitStatusExt;

use insta::assert_snapshot;

use crate::environment::Environment;

const LAB: &str = include_str!("../../labs/lesson/lesson.toml");

fn environment() -> Environment {
    let environment = Environment::fast();
    environment.write("lesson.toml", LAB);
    environment.succeeds(&["up", "lesson.toml"]);
    environment
}

/// Output without what differs from run to run.
fn klab(environment: &Environment, arguments: &[&str]) -> String {
    let times = regex::Regex::new(r"in \d+(\.\d+)? (ms|s)").unwrap();
    let nodes = regex::Regex::new(r"aks-(\w+)-\d+-vmss00000(\d)").unwrap();
    let text = environment.klab(arguments);
    nodes.replace_all(&times.replace_all(&text, "in TIME"), "$1-$2").into_owned()
}

#[test]
#[expect(clippy::too_many_lines, reason = "one lesson from its first line to its last")]
fn learner_reads_types_and_is_graded() {
    let environment = environment();
    assert_snapshot!(klab(&environment, &["guide"]), @r"
    --- stdout
    A small lesson

    Nodes repel pods, and pods tolerate it.

    pool     nodes
    ───────  ─────
    `main`       2
    `extra`      1

    The steps:

        1  Repel pods with a taint
        2  Let the pods in
        3  Another pool
        4  Empty a pool

    `klab verify` checks the set-up and opens the first step; `klab step` performs it for you.
    --- status 0
    ");
    assert_snapshot!(klab(&environment, &["verify"]), @r"
    --- stdout
      ✓ held     api: on pool:extra, 2 running → 2 of 2 on pool:extra; 2 running
    --- stderr
        Verified 1 of 1 check in TIME
          Passed the set-up; this shows step 1 of 4 `taint`:
                     klab guide
    --- status 0
    ");
    assert_snapshot!(klab(&environment, &["guide"]), @r"
    --- stdout
    Step 1 of 4: Repel pods with a taint

    A taint keeps pods away that do not tolerate it. Put one on the node of pool `extra`, then ask for
    more pods:

    1. those that run already stay: the effect is `NoSchedule`;
    2. the new ones find no node, and are Pending.

    Type:

        kubectl taint nodes -l agentpool=extra dedicated=special:NoSchedule
        kubectl scale deployment/api --replicas 6

    Then `klab verify` checks it. `klab step` does all of it for you.
    --- status 0
    ");
    let failed = klab(&environment, &["verify"]);
    assert!(failed.contains("error[K0620]: step 1 of 4 `taint` does not hold: 1 of 1 check failed"), "{failed}");
    let (hint, cause) = (failed.find("hint: `kubectl describe pod`").unwrap(), failed.find("at lesson.toml").unwrap());
    assert!(hint < cause, "the author's word comes first\n{failed}");
    assert!(failed.ends_with("--- status 1\n"), "{failed}");
    assert_snapshot!(klab(&environment, &["step"]), @r"
    --- stdout
      ✓ held     api: 2 running, 4 Pending, untolerated taint → 2 running (4 Pending); 4 Pending (2 running)
    --- stderr
            Step 1 of 4 `taint`: Repel pods with a taint
      ✓ held     api: 2 running
        Verified 1 of 1 check in TIME
               $ kubectl taint nodes -l agentpool=extra dedicated=special:NoSchedule
         Tainted node extra-0 with dedicated=special:NoSchedule
               $ kubectl scale deployment/api --replicas 6
          Scaled deployment/api to 6 replicas
        Verified 1 of 1 check in TIME
            Done step 1 of 4 `taint`; next is `tolerate`
    --- status 0
    ");
    let status = klab(&environment, &["status"]);
    assert!(status.contains("lesson: at step 2 of 4 `tolerate`, 1 done"), "{status}");
    let guide = environment.json(&["guide"]);
    assert_eq!((&guide["shown"], &guide["lesson"]["done"]), (&"tolerate".into(), &1.into()));
    assert_snapshot!(klab(&environment, &["verify", "--step", "nonsense"]), @"
    --- stderr
    error[K0630]: lab `lesson` has no step `nonsense`
    hint: its steps are 1 to 4: taint, tolerate, pools, drain
    --- status 2
    ");
    environment.succeeds(&["verify", "--step", "taint"]);
    assert_snapshot!(klab(&environment, &["step", "--to", "pools"]), @r#"
    --- stdout
      ✓ held     api: on pool:extra, 6 running → 6 of 6 on pool:extra; 6 running
      ✓ held     nodes pool:later: 1 exist, ready → 1 node; 1 of 1 ready
      ✓ held     later: 1 running
    --- stderr
            Step 2 of 4 `tolerate`: Let the pods in
               $ kubectl patch deployment/api --type merge -p '{"spec":{"template":{"spec":{"tolerations":[{"effect":"NoSchedule","key":"dedicated","operator":"Equal","value":"special"}]}}}}'
         Applied workload api: 1 updated in TIME
        Verified 1 of 1 check in TIME
            Done step 2 of 4 `tolerate`; next is `pools`
            Step 3 of 4 `pools`: Another pool
               $ klab pool add later --nodes 1 --size Standard_B2ms
         Created pool later (1 × Standard_B2ms) in TIME
               $ klab render lesson --workload later | kubectl apply -f -
         Applied workload later: 2 created in TIME
        Verified 2 of 2 checks in TIME
            Done step 3 of 4 `pools`; next is `drain`
    --- status 0
    "#);
    assert_snapshot!(klab(&environment, &["step", "--back"]), @r"
    --- stdout
      ✓ held     api: on pool:extra, 6 running → 6 of 6 on pool:extra; 6 running
    --- stderr
         Undoing 3 of 4 `pools`: Another pool
         Deleted workload/later in TIME
         Removed pool later and its 1 node in TIME
        Verified 1 of 1 check in TIME
    --- status 0
    ");
    environment.succeeds(&["step", "--all"]);
    assert_snapshot!(klab(&environment, &["step"]), @r"
    --- stderr
            Done all 4 steps; this shows what to learn next:
                     klab lessons
                 this removes this lab:
                     klab down lesson
    --- status 0
    ");
    let again = klab(&environment, &["up", "lesson.toml"]);
    assert!(again.contains("Lesson back to the set-up; 4 steps had been done"), "{again}");
    assert!(again.ends_with("--- status 0\n"), "everything steps did is undone\n{again}");
    environment.succeeds(&["down"]);
    assert_eq!(environment.leftovers(), Vec::<String>::new());
}

#[test]
fn first_step_that_was_typed_counts_although_the_set_up_is_gone() {
    let environment = environment();
    environment.succeeds(&["step"]);
    std::fs::remove_file(environment.home().join("labs/lesson/progress.json")).unwrap();
    let shown = klab(&environment, &["verify"]);
    assert!(
        shown.contains("Passed step 1 of 4 `taint`; this shows the next:\n                 klab guide\n"),
        "{shown}"
    );
}

#[test]
fn what_was_reached_holds_however_often_it_is_asked() {
    let environment = environment();
    for _ in 0..3 {
        let shown = klab(&environment, &["verify"]);
        assert!(
            shown.contains("Passed the set-up; this shows step 1 of 4 `taint`:\n                 klab guide\n"),
            "{shown}"
        );
    }
    environment.succeeds(&["step"]);
    for _ in 0..2 {
        let shown = klab(&environment, &["verify"]);
        let words =
            "Still holds step 1 of 4 `taint`; this opens step 2 of 4 `tolerate`:\n                 klab guide\n";
        assert!(shown.contains(words) && !shown.contains("Passed"), "{shown}");
    }
    let guide = klab(&environment, &["guide"]);
    assert!(guide.contains("Step 2 of 4"), "{guide}");
    let opened = klab(&environment, &["verify"]);
    assert!(opened.contains("error[K0620]: step 2 of 4 `tolerate` does not hold"), "{opened}");
}

#[test]
fn watching_ends_when_everything_holds() {
    let environment = environment();
    environment.succeeds(&["verify"]);
    environment.succeeds(&["guide"]);
    let mut watching = environment.command(&["verify", "--watch"]);
    let watching = watching.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    environment.succeeds(&["step"]);
    let output = watching.wait_with_output().unwrap();
    let text = environment.shown(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("✓ held     api: 2 running, 4 Pending, untolerated taint"), "{text}");
}

#[test]
fn files_of_a_step_are_found_beside_the_lab_file_wherever_klab_is_called() {
    let environment = Environment::new();
    let (head, _) = LAB.split_once("[[step]]").unwrap();
    let step = "[[step]]\nname = \"files\"\ndo = [{ apply = \"k8s/*.yaml\" }]\n[[step.check]]\nobject = \"configmap/colours\"\nexist = 1\n";
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: colours }\n";
    environment.write("labs/k8s/map.yaml", map);
    environment.write("labs/lesson.toml", format!("{head}{step}"));
    environment.succeeds(&["up", "labs/lesson.toml"]);
    environment.succeeds(&["step"]);
    environment.succeeds(&["step", "--back"]);
    std::fs::remove_dir_all(environment.folder().join("labs")).unwrap();
    let gone = klab(&environment, &["step"]);
    assert!(gone.contains("there is nothing to apply for k8s/*.yaml"), "{gone}");
    assert!(gone.ends_with("--- status 3\n"), "{gone}");
    environment.succeeds(&["down"]);
}

#[test]
fn programs_of_a_step_are_refused_before_anything_is_done() {
    let environment = Environment::new();
    let step = "[[step]]\nname = \"program\"\ndo = [{ scale = \"api\", replicas = 3 }, { run = [\"touch\", \"ran\"] }]\n[[step.check]]\nworkload = \"api\"\nrunning = 3\n";
    let (head, _) = LAB.split_once("[[step]]").unwrap();
    environment.write("lesson.toml", format!("{head}{step}"));
    environment.succeeds(&["up", "lesson.toml"]);
    let refused = klab(&environment, &["step"]);
    assert!(
        refused.contains("error[K0631]: step `program` runs `touch ran` on this machine (lesson.toml:"),
        "{refused}"
    );
    assert!(refused.ends_with("--- status 2\n"), "{refused}");
    assert!(!environment.folder().join("ran").exists());
    environment.succeeds(&["step", "--allow-run"]);
    assert!(environment.folder().join("ran").exists());
    let back = klab(&environment, &["step", "--back"]);
    assert!(back.contains("warning[K0632]: not undone: what `touch` did is not known"), "{back}");
}

/// Killed before and after every entry of its journal, in turn, a step is done again and comes to hold.
fn killed_at_every_entry(prepare: &[&[&str]], arguments: &[&str], done: u64) -> usize {
    let environment = environment();
    let mut kills = 0;
    for moment in ["before", "after"] {
        for entry in 1.. {
            // `up` brings the lab back to its set-up, whatever a kill has left.
            environment.succeeds(&["up", "lesson.toml"]);
            for arguments in prepare {
                environment.succeeds(arguments);
            }
            let killed =
                environment.command(arguments).env("KLAB_FAULT", format!("{moment}:{entry}")).output().unwrap();
            if killed.status.success() {
                break;
            }
            assert_eq!(killed.status.signal(), Some(9), "{}", environment.shown(&killed));
            kills += 1;
            environment.succeeds(arguments);
            let progress = std::fs::read(environment.home().join("labs/lesson/progress.json")).unwrap();
            let progress: serde_json::Value = serde_json::from_slice(&progress).unwrap();
            assert_eq!((progress["done"].as_u64(), &progress["doing"]), (Some(done), &serde_json::Value::Null));
        }
    }
    kills
}

#[test]
fn steps_killed_at_every_entry_converge() {
    let kills = killed_at_every_entry(&[], &["step", "--to", "pools"], 3);
    assert!(kills >= 10, "{kills}");
}

#[test]
fn undoing_killed_at_every_entry_converges() {
    let kills = killed_at_every_entry(&[&["step", "--all"]], &["step", "--to", "tolerate"], 2);
    assert!(kills >= 6, "{kills}");
}

/// Lets a learner's hands act on the Deployments of a namespace of the lab that is up.
fn with_deployments<F: Future<Output = ()>>(
    environment: &Environment,
    namespace: &str,
    act: impl FnOnce(kube::Api<k8s_openapi::api::apps::v1::Deployment>) -> F,
) {
    let kubeconfig = environment.succeeds(&["kubeconfig"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let kubeconfig = kube::config::Kubeconfig::from_yaml(&kubeconfig).unwrap();
        let options = kube::config::KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        act(kube::Api::namespaced(kube::Client::try_from(config).unwrap(), namespace)).await;
    });
}

const MOVED: &str = r#"
lab = "moved"
[pool.main]
mode = "system"
[pool.extra]
labels = { tier = "extra" }
[workload.web]
replicas = 2
requests = { cpu = "50m", memory = "32Mi" }
[[workload.web.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution]]
weight = 100
preference.matchExpressions = [{ key = "tier", operator = "In", values = ["extra"] }]
[[check]]
workload = "web"
on       = "pool:extra"
running  = 2
[[check]]
pods      = "k8s-app=kube-dns"
namespace = "kube-system"
running   = "1.."
"#;

#[test]
fn up_brings_back_pods_that_do_not_move_and_what_was_deleted_of_the_cluster() {
    let environment = Environment::new();
    let step = "[[step]]\nname = \"drain\"\nhint = \"h\"\ndo = [{ drain = \"pool:extra\" }]\n\
                [[step.check]]\nworkload = \"web\"\non = \"pool:main\"\nrunning = 2\n";
    environment.write("moved.toml", format!("{MOVED}{step}"));
    environment.succeeds(&["up", "moved.toml"]);
    environment.succeeds(&["step"]);
    with_deployments(&environment, "kube-system", async |deployments| {
        deployments.delete("coredns", &kube::api::DeleteParams::default()).await.unwrap();
    });
    let up = environment.klab(&["up", "moved.toml"]);
    assert!(up.contains("Restored Deployment/coredns"), "{up}");
    assert!(up.contains("Restarted web: its pods were not where the set-up wants them"), "{up}");
    assert!(up.ends_with("--- status 0\n"), "{up}");
    // What was foreseen before the restart is not held against it.
    let verified = environment.klab(&["verify"]);
    assert!(verified.ends_with("--- status 0\n") && !verified.contains("predicted"), "{verified}");
    environment.succeeds(&["down"]);
}

#[test]
fn what_was_typed_for_the_next_step_is_graded_while_it_takes_effect() {
    let environment = Environment::new();
    let steps = "[[step]]\nname = \"look\"\nhint = \"h\"\n[[step.check]]\nnodes = \"pool:extra\"\nexist = 1\n\
                 [[step]]\nname = \"scale\"\nhint = \"h\"\ndo = [{ scale = \"web\", replicas = 9 }]\n\
                 [[step.check]]\nworkload = \"web\"\nrunning = 9\nhold = \"1s\"\n";
    environment.write("moved.toml", format!("{MOVED}{steps}"));
    environment.succeeds(&["up", "moved.toml"]);
    environment.succeeds(&["verify"]);
    environment.succeeds(&["step"]);
    with_deployments(&environment, "default", async |deployments| {
        let patch = kube::api::Patch::Merge(serde_json::json!({ "spec": { "replicas": 9 } }));
        deployments.patch("web", &kube::api::PatchParams::default(), &patch).await.unwrap();
    });
    let verified = klab(&environment, &["verify"]);
    assert!(verified.contains("Passed step 2 of 2 `scale`"), "{verified}");
    environment.succeeds(&["down"]);
}

/// A lesson of which each step says whether the pods are to be those of before.
const MOVING: &str = r#"lab = "moving"
[pool.main]
mode = "system"
nodes = 2
size = "Standard_B2ms"
[workload.web]
replicas = 2
[[check]]
workload = "web"
running = 2
[[step]]
name = "close"
do = [{ cordon = "pool:main" }]
[[step.check]]
nodes = "pool:main"
schedulable = false
[[step.check]]
workload = "web"
same_pods = true
[[step]]
name = "open"
do = [{ uncordon = "pool:main" }, { delete = "pods", selector = "app=web" }]
[[step.check]]
workload = "web"
same_pods = false
running = 2
[[step]]
name = "again"
do = [{ scale = "web", replicas = 3 }, { delete = "pods", selector = "app=web" }]
[[step.check]]
workload = "web"
same_pods = true
running = 3
"#;

#[test]
fn pods_are_compared_with_those_of_before_the_step() {
    let environment = Environment::new();
    environment.write("moving.toml", MOVING);
    environment.succeeds(&["up", "moving.toml"]);
    // Whoever types the step is graded by what `up` has noted.
    let said = klab(&environment, &["verify", "--step", "close"]);
    assert!(said.contains("✓ held     web: the same pods as before → 2 of 2 pods of before on their nodes"), "{said}");
    let said = klab(&environment, &["step", "--to", "open"]);
    assert!(said.contains("✓ held     web: the same pods as before → 2 of 2 pods of before on their nodes"), "{said}");
    assert!(
        said.contains("✓ held     web: none of the pods of before, 2 running → 0 of 2 pods of before still there"),
        "{said}"
    );
    let said = klab(&environment, &["verify"]);
    assert!(said.contains("✓ held     web: none of the pods of before"), "{said}");
    let said = klab(&environment, &["step"]);
    assert!(said.contains("✗ failed   web: the same pods as before, 3 running → "), "{said}");
    assert!(said.contains("0 of 2 pods of before on their nodes, 2 pods are gone, 3 pods are new"), "{said}");
    let said = klab(&environment, &["test", "moving.toml"]);
    assert!(said.contains("2 pods are gone"), "{said}");
    environment.succeeds(&["down"]);
}

#[test]
fn a_workload_that_is_gone_is_explained_with_what_makes_it() {
    let environment = environment();
    assert_snapshot!(klab(&environment, &["explain", "deployment/later"]), @"
    --- stderr
    error[K0905]: deployment/later is not in the cluster yet: step 3 of 4 `pools` makes it
    hint: this makes it now:
            klab render lesson --workload later | kubectl apply -f -
    --- status 2
    ");
}
