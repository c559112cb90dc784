//! Whole lessons in process: what passes, what fails and its report, and that seeds decide and threads do not.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::*;
use klab_lab::spec::{Lab, LoadOptions, Provider, parse};

/// Three equal nodes and whatever `more` says.
fn lab(name: &str, more: &str) -> Lab {
    let text = format!(
        "lab = \"{name}\"\n[pool.main]\nmode = \"system\"\nnodes = 3\nsize = \"Standard_B2ms\"\n\
         [workload.web]\nreplicas = 1\nimage = \"nginx:1.27\"\nrequests = {{ cpu = \"50m\", memory = \"64Mi\" }}\n{more}"
    );
    let options = LoadOptions { provider: Some(Provider::Sim), ..LoadOptions::default() };
    parse("lab.toml", &text, &options).unwrap_or_else(|problems| panic!("{}", problems.render(false)))
}

fn tried(lab: &Lab, seeds: u32, workers: usize) -> LabTrial {
    let patience = Patience { set_up: Duration::from_mins(2), step: Duration::from_mins(2) };
    let plan = Plan {
        labs: vec![(lab, LabTrial::new(PathBuf::from("lab.toml"), lab))],
        first_seed: None,
        seeds,
        patience,
        workers,
        draws: false,
        stop: &AtomicBool::new(false),
    };
    let world = |_: &Lab, seed: u64| Ok(Box::new(EmbeddedTestCluster::new(seed)?) as Box<dyn TestCluster>);
    sweep(plan, &world, &|_| {}).unwrap().remove(0)
}

fn text(trial: LabTrial) -> String {
    let text = anstream::adapter::strip_str(&report::human(&[trial])).to_string();
    // Times differ from run to run.
    regex::Regex::new(r"\d+(\.\d+)? m?s\b").unwrap().replace_all(&text, "[time]").into_owned()
}

#[test]
fn every_name_that_a_lab_may_have_can_be_made_as_a_lab_and_as_a_seat() {
    for name in ["n".to_owned(), "n".repeat(24), "n".repeat(25), "n".repeat(30)] {
        for like in ["aks", "kind"] {
            let mut lab =
                lab(&name, &format!("[sim]\nlike = \"{like}\"\n[aks]\nlocation = \"southafricanorth\"\n{RUNS}"));
            assert!(tried(&lab, 1, 1).ok(), "{name}");
            lab.name.value = crate::state::class::seat_name(&name, 120);
            let trial = tried(&lab, 1, 1);
            assert!(trial.ok(), "{}", text(trial));
        }
    }
}

#[test]
fn a_stateful_set_makes_a_claim_for_each_of_its_pods_and_nothing_else_does() {
    let table = |kind: &str| {
        format!(
            "[workload.db]\nkind = \"{kind}\"\nreplicas = 2\nmounts = {{ \"/data\" = \"claim-template/2Gi\" }}\n\
             [[check]]\nworkload = \"db\"\nrunning = 2\n\
             [[check]]\nobject = \"persistentvolumeclaim/volume-0-db-1\"\n\
             cel = \"object.status.phase == 'Bound' && object.spec.resources.requests.storage == '2Gi'\"\n"
        )
    };
    let trial = tried(&lab("db", &table("statefulset")), 1, 1);
    assert!(trial.ok(), "{}", text(trial));
    let told = parse("lab.toml", &format!("lab = \"db\"\n{}", table("deployment")), &LoadOptions::default());
    assert!(told.unwrap_err().render(false).contains("`claim-template/2Gi` is not for a deployment"));
}

#[test]
fn what_the_cluster_is_to_refuse_is_refused_or_the_step_fails() {
    let budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: { name: web }\nspec:\n  minAvailable: 1\n  \
                  selector: { matchLabels: { app: web } }\n";
    let lesson = |object: &str, kind: &str, tried_last: &str, refused: &str| {
        let more = format!(
            "{RUNS}[[step]]\nname = \"budget\"\nhint = \"h\"\ndo = [{{ yaml = {object:?} }}]\n\
             [[step.check]]\nobject = \"{kind}/web\"\nexist = 1\n\
             [[step]]\nname = \"drain\"\nhint = \"h\"\n\
             do = [{{ {tried_last}, refused = \"{refused}\" }}]\n\
             [[step.check]]\nworkload = \"web\"\nrunning = 1\n"
        );
        tried(&lab("refused", &more), 1, 1)
    };
    let drain = "drain = \"agentpool=main\", within = \"10s\"";
    let stopped = lesson(budget, "poddisruptionbudget", drain, "Cannot evict pod");
    assert!(stopped.ok(), "{}", text(stopped));
    let other = text(lesson(budget, "poddisruptionbudget", drain, "for another reason"));
    assert!(other.contains("Cannot evict pod"), "{other}");
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: web }\n";
    let done = text(lesson(object, "configmap", "delete = \"configmap/web\"", "is protected"));
    assert!(done.contains("the cluster did what it was to refuse with `is protected`"), "{done}");
}

const RUNS: &str = "[[check]]\nworkload = \"web\"\nrunning = 1\n";

#[test]
fn a_lesson_passes_step_by_step() {
    let lab = lab(
        "passes",
        &format!(
            "{RUNS}[[step]]\nname = \"scale\"\ndo = [{{ scale = \"web\", replicas = 4 }}]\n\
             [[step.before]]\nworkload = \"web\"\nrunning = 1\n[[step.check]]\nworkload = \"web\"\nrunning = 4\n\
             [[step]]\nname = \"cordon\"\ndo = [{{ cordon = \"pool:main\" }}]\n\
             [[step.check]]\nnodes = \"pool:main\"\nschedulable = false\n"
        ),
    );
    let trial = tried(&lab, 1, 1);
    assert!(trial.ok(), "{}", text(trial));
    let moments: Vec<String> = trial.trials[0].phases.iter().map(|phase| phase.moment.to_string()).collect();
    assert_eq!(moments, ["set-up", "before step `scale`", "step `scale`", "step `cordon`"]);
    assert_eq!((trial.checks, trial.trials[0].held()), (4, 4));
    assert_eq!(trial.trials[0].proves_nothing().count(), 0);
}

#[test]
fn five_minutes_of_the_cluster_pass_at_once() {
    // Where more than half of a small cluster is silent, no pod is evicted: the fault may be the watcher's.
    let lab = lab(
        "evicts",
        &format!(
            "[pool.other]\nmode = \"user\"\nnodes = 4\ntaints = [\"keep=out:NoSchedule\"]\n\
             {RUNS}[[step]]\nname = \"fail\"\ndo = [{{ fail_node = \"pool:main\" }}]\n\
             [[step.check]]\nnodes = \"pool:main\"\nready = false\nwithin = \"2m\"\n\
             [[step]]\nname = \"moves\"\n[[step.check]]\nworkload = \"web\"\npending = 1\nwithin = \"7m\"\n"
        ),
    );
    let trial = tried(&lab, 1, 1);
    assert!(trial.ok(), "{}", text(trial));
    let passed = trial.trials[0].cluster_time;
    assert!((Duration::from_mins(5)..Duration::from_mins(8)).contains(&passed), "{passed:?}");
}

#[test]
fn what_fails_is_explained_and_ends_the_lesson() {
    let lab = lab(
        "fails",
        &format!(
            "{RUNS}[[step]]\nname = \"pin\"\ndo = [{{ set = \"web\", node_selector = {{ disk = \"ssd\" }} }}]\n\
             [[step.check]]\nworkload = \"web\"\nrunning = 1\non = \"pool:main\"\n[[step.check]]\nworkload = \"web\"\npending = 1\n\
             [[step]]\nname = \"never\"\n[[step.check]]\nworkload = \"web\"\nrunning = 1\n"
        ),
    );
    let trial = tried(&lab, 1, 1);
    assert!(!trial.ok());
    insta::assert_snapshot!(text(trial), @r#"
    ✗ failed  fails  2 steps  2 of 4 checks  [time]
        step `pin`: 1 of 2 checks hold
          ✗ failed   web: 1 running, on pool:main → 0 running, wanted 1 (1 Pending); 0 of 1 on pool:main, 1 Pending
              web-6c5d49b7fd-x5gwd  Pending for [time], fits on none of 3 nodes:
                aks-main-87038019-vmss000000, aks-main-87038019-vmss000001, aks-main-87038019-vmss000002
                  no label disk, nodeSelector asks for disk=ssd
              fix: add the label `disk = "ssd"` to `[pool.main]` (lab.toml:2), or:
                   kubectl label nodes -l agentpool=main disk=ssd
               or: remove `disk` from the node selector of `[workload.web]` (lab.toml:15), or:
                   kubectl patch deployment/web -p '{"spec":{"template":{"spec":{"nodeSelector":{"disk":null}}}}}'
              at lab.toml:16 (K0504)
    "#);
}

#[test]
fn checks_that_held_before_the_step_prove_nothing() {
    let lab = lab(
        "vacuous",
        "[[step]]\nname = \"taint\"\ndo = [{ taint = \"a=b:NoSchedule\", nodes = \"pool:main\" }]\n\
         [[step.check]]\nworkload = \"web\"\nrunning = 1\n\
         [[step]]\nname = \"look\"\n[[step.check]]\nworkload = \"web\"\nrunning = 1\n",
    );
    let trial = tried(&lab, 1, 1);
    insta::assert_snapshot!(text(trial), @r"
    ✓ passed  vacuous  2 steps  2 checks  [time]
        warning: step `taint`: all its checks held before its actions, so they prove nothing
    ");
}

/// A lesson that holds only where the scheduler chose the first of three equal nodes.
fn tie() -> Lab {
    let plain = lab("tie", "");
    let node = klab_lab::nodes::node(&plain, &plain.pools[0], 0)["metadata"]["name"].as_str().unwrap().to_owned();
    lab("tie", &format!("[[check]]\nworkload = \"web\"\non = \"node:{node}\"\n"))
}

#[test]
fn a_lucky_tie_is_found_by_its_seeds() {
    let trial = tried(&tie(), 12, 2);
    let failed = trial.failed().count();
    assert!((1..12).contains(&failed), "{failed} of 12 seeds choose another of three equal nodes");
    let first = trial.failed().next().unwrap().seed;
    let text = text(trial);
    assert!(
        text.contains(&format!("this shows seed {first} again:\n          klab test lab.toml --seed {first}\n")),
        "{text}"
    );
    assert!(text.contains("of 12 fail"), "{text}");
}

#[test]
fn threads_decide_nothing() {
    let lab = tie();
    let held = |workers| {
        let trial = tried(&lab, 8, workers);
        trial.trials.iter().map(|trial| (trial.seed, trial.held())).collect::<Vec<_>>()
    };
    assert_eq!(held(1), held(4));
}

/// What `klab up` is said to be for: whatever the steps did, the lesson can begin again.
#[test]
fn every_shipped_lesson_comes_back_to_its_set_up() {
    let mut tried = 0;
    for entry in std::fs::read_dir("labs").unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let options = LoadOptions { provider: Some(Provider::Sim), ..LoadOptions::default() };
        let lab = klab_lab::spec::load(&path, &options).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        let minutes = Duration::from_mins(2);
        let set_up = crate::lesson::stage(&lab, 0);
        let world = EmbeddedTestCluster::new(0).unwrap();
        world.up(&set_up).unwrap();
        assert!(world.wait(&set_up, minutes).unwrap().ok(), "{}", path.display());
        for (number, step) in lab.steps.iter().enumerate() {
            let (snapshot, mut after) = (world.snapshot(&set_up).unwrap(), crate::lesson::stage(&lab, number + 1));
            let context = klab_lab::verify::Context::of(&lab);
            let noted = klab_lab::verify::Before::of(&step.checks, &snapshot, &context);
            noted.tell(&mut after.checks);
            world.perform(&lab, number).unwrap();
            let within = step.checks.iter().filter_map(|check| Duration::try_from(check.within?).ok()).max();
            let report = world.wait(&after, within.unwrap_or(minutes)).unwrap();
            assert!(report.ok(), "{} {}", path.display(), step.name);
        }
        let report = world.back(&set_up, minutes).unwrap();
        let text = klab_lab::report::human(&report, klab_lab::report::Styles::plain());
        assert!(report.ok(), "{}\n{text}", path.display());
        tried += 1;
    }
    assert!(tried >= 6);
}

#[test]
fn what_was_deleted_of_the_cluster_itself_comes_back() {
    use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
    use kube::api::{Api, DeleteParams};
    let lab = lab(
        "system",
        "[[check]]\npods = \"k8s-app=kube-dns\"\nnamespace = \"kube-system\"\nrunning = 2\n\
         [[check]]\npods = \"component=kube-proxy\"\nnamespace = \"kube-system\"\nrunning = 3\n",
    );
    let world = EmbeddedTestCluster::new(0).unwrap();
    let minutes = Duration::from_mins(2);
    world.up(&lab).unwrap();
    assert!(world.wait(&lab, minutes).unwrap().ok());
    let client = world.client().unwrap();
    world.block_on(async {
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), "kube-system");
        deployments.delete("coredns", &DeleteParams::default()).await.unwrap();
        let daemons: Api<DaemonSet> = Api::namespaced(client.clone(), "kube-system");
        daemons.delete("kube-proxy", &DeleteParams::default()).await.unwrap();
    });
    assert!(!world.wait(&lab, minutes).unwrap().ok());
    let report = world.back(&lab, minutes).unwrap();
    assert!(report.ok(), "{}", klab_lab::report::human(&report, klab_lab::report::Styles::plain()));
}

#[test]
fn programs_get_one_document() {
    let lab = lab("documents", RUNS);
    let trials = [tried(&lab, 2, 1)];
    let json = report::json(&trials);
    assert_eq!((&json["schema"], &json["ok"]), (&"klab.test/1".into(), &true.into()));
    assert_eq!(json["labs"][0]["trial"]["phases"][0]["report"]["checks"][0]["verdict"], "held");
    let junit = report::junit(&trials).unwrap();
    assert!(junit.contains("<testsuite name=\"documents\" tests=\"1\""), "{junit}");
    assert!(junit.contains("classname=\"documents / set-up\""), "{junit}");
}
