//! `klab test` as authors and pipelines run it.

use crate::environment::Environment;

const GOOD: &str = r#"
lab = "good"

[pool.main]
mode = "system"
nodes = 2
size = "Standard_B2ms"

[workload.web]
replicas = 1
image = "nginx:1.27"
requests = { cpu = "50m", memory = "64Mi" }

[[step]]
name = "scale"
do = [{ scale = "web", replicas = 3 }]

[[step.check]]
workload = "web"
running = 3
"#;

/// What differs from run to run.
fn steady(text: &str) -> String {
    regex::Regex::new(r"\d+(\.\d+)? m?s\b").unwrap().replace_all(text, "[time]").into_owned()
}

#[test]
fn lessons_pass_and_leave_nothing() {
    let environment = Environment::new();
    environment.write("labs/good.toml", GOOD);
    environment.write("labs/notes/Cargo.toml", "[package]");
    insta::assert_snapshot!(steady(&environment.klab(&["test", "labs", "--seeds", "3"])), @r"
    --- stdout
      ✓ passed  good  1 step  1 check  [time]  3 seeds
    --- stderr
          Tested 1 lab with 3 seeds in [time]
    --- status 0
    ");
    assert_eq!(environment.leftovers(), Vec::<String>::new());
    assert_eq!(environment.server_pid(), None);
}

#[test]
fn one_that_fails_is_explained_and_the_exit_code_says_so() {
    let environment = Environment::new();
    environment.write("good.toml", GOOD);
    environment.write("bad.toml", GOOD.replace("\"good\"", "\"bad\"").replace("running = 3", "pending = 1"));
    insta::assert_snapshot!(steady(&environment.klab(&["test", "bad.toml", "good.toml"])), @"
    --- stdout
      ✗ failed  bad   1 step  0 of 1 check  [time]
          step `scale`: the check does not hold
            ✗ failed   web: 1 Pending → 0 Pending, wanted 1 (3 running)
                web-59756f94bd-ggbfm  runs on aks-main-52553205-vmss000000 (pool main), but should stay Pending
                web-59756f94bd-96vmp, web-59756f94bd-q8d8t  run on aks-main-52553205-vmss000001 (pool main), but should stay Pending
                at bad.toml:18 (K0611)
      ✓ passed  good  1 step  1 check       [time]
    --- stderr
    error[K0622]: 1 of 2 lessons failed: bad
    --- status 1
    ");
    let junit = environment.klab(&["test", "bad.toml", "good.toml", "--format", "junit"]);
    assert!(junit.contains("<testsuites name=\"klab test\" tests=\"2\" skipped=\"0\" failures=\"1\""), "{junit}");
}

#[test]
fn all_problems_of_all_files_come_before_anything_is_tried() {
    let environment = Environment::new();
    environment.write("labs/a.toml", GOOD.replace("\"Standard_B2ms\"", "\"Standard_B2\""));
    environment.write("labs/b.toml", GOOD.replace("workload = \"web\"", "workload = \"wep\""));
    environment.write("labs/c.toml", GOOD);
    let words = environment.klab(&["test", "labs"]);
    assert!(words.contains("labs/a.toml") && words.contains("labs/b.toml"), "{words}");
    assert!(words.contains("2 lab files have") && words.contains("nothing was tried"), "{words}");
    assert!(words.ends_with("--- status 2\n"), "{words}");
}

#[test]
fn programs_of_steps_run_only_where_they_may() {
    let environment = Environment::new();
    let run =
        "do = [{ run = [\"sh\", \"-c\", \"test -r $KUBECONFIG && touch ran\"] }, { scale = \"web\", replicas = 3 }]";
    environment.write("run.toml", GOOD.replace("do = [{ scale = \"web\", replicas = 3 }]", run));
    let refused = environment.klab(&["test", "run.toml"]);
    assert!(refused.contains("--allow-run") && refused.ends_with("--- status 1\n"), "{refused}");
    let allowed = environment.klab(&["test", "run.toml", "--allow-run"]);
    assert!(allowed.ends_with("--- status 0\n"), "{allowed}");
    assert!(environment.folder().join("ran").is_file());
    assert_eq!(environment.leftovers(), Vec::<String>::new());
}

#[test]
fn a_pipeline_gets_annotations_a_summary_and_junit_beside_the_log() {
    let environment = Environment::new();
    environment.write("good.toml", GOOD);
    environment.write("bad.toml", GOOD.replace("\"good\"", "\"bad\"").replace("running = 3", "pending = 1"));
    environment.write("summary.md", "# Others were here\n");
    let words = environment.klab(&[
        "test",
        "bad.toml",
        "good.toml",
        "--annotations",
        "github",
        "--junit",
        "lessons.xml",
        "--summary",
        "summary.md",
    ]);
    let annotations: Vec<&str> = words.lines().filter(|line| line.starts_with("::")).collect();
    assert_eq!(annotations.len(), 1, "{words}");
    let expected = "::error file=bad.toml,line=18,title=bad%2C step `scale`%3A web%3A 1 Pending::✗ failed";
    assert!(annotations[0].trim_start().starts_with(expected) && annotations[0].contains("%0A"), "{}", annotations[0]);
    assert!(words.ends_with("--- status 1\n"), "{words}");
    let summary = environment.read("summary.md");
    assert!(summary.starts_with("# Others were here\n## 1 of 2 lessons failed\n"), "{summary}");
    assert!(summary.contains("Try it again: `klab test bad.toml --seed 0`"), "{summary}");
    assert_eq!(summary.matches("```mermaid\nflowchart LR\n").count(), 2, "{summary}");
    assert!(environment.read("lessons.xml").contains("failures=\"1\""));

    environment.write("wrong.toml", GOOD.replace("workload = \"web\"", "workload = \"wep\""));
    let words = environment.klab(&["test", "wrong.toml", "--annotations", "azure"]);
    assert!(words.contains("##vso[task.logissue type=error;sourcepath=wrong.toml;linenumber=19;]"), "{words}");
    let words = environment.klab(&["test", "good.toml", "--annotations", "azure", "--format", "json"]);
    assert!(words.contains("hint: `--junit FILE.xml`") && words.ends_with("--- status 2\n"), "{words}");
}

/// 600 containers of one port in 33 KB: each command ends, and says what becomes of them.
#[test]
fn a_manifest_with_very_many_containers_is_judged_like_any_other() {
    let environment = Environment::new();
    let containers: String = (0..600)
        .map(|at| {
            format!("  - {name}\n", name = format_args!("{{name: c{at}, image: x, ports: [{{containerPort: 1}}]}}"))
        })
        .collect();
    let pod = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: many}}\nspec:\n  containers:\n{containers}");
    assert!((28_000..40_000).contains(&pod.len()), "{}", pod.len());
    let lab = GOOD.replace("[[step]]", &format!("[[manifest]]\nyaml = \"\"\"\n{pod}\"\"\"\n\n[[step]]"));
    environment.write("good.toml", lab);
    environment.succeeds(&["check", "good.toml"]);
    let tried = environment.klab(&["test", "good.toml"]);
    assert!(tried.contains("passed  good  1 step  1 check"), "{tried}");
    environment.succeeds(&["up", "good.toml"]);
    environment.succeeds(&["list"]);
    environment.succeeds(&["down", "good"]);
    environment.nothing_is_left();
}

#[test]
fn pods_go_by_the_profile_that_they_name() {
    let environment = Environment::new();
    let workload = |name: &str, scheduler: &str| {
        let requests = "requests = { cpu = \"100m\", memory = \"64Mi\" }";
        format!(
            "[workload.{name}]\nreplicas = 2\nimage = \"nginx:1.27\"\n{requests}\nscheduler_name = \"{scheduler}\"\n\n"
        )
    };
    let mut lab =
        "lab = \"packed\"\n\n[pool.main]\nmode = \"system\"\nnodes = 3\nsize = \"Standard_B2ms\"\n\n".to_owned();
    for profile in ["default-scheduler", "packing"] {
        lab += &format!("[[scheduler.profiles]]\nschedulerName = \"{profile}\"\n");
    }
    lab += "plugins.score = { disabled = [{ name = \"*\" }], enabled = [{ name = \"NodeResourcesFit\" }] }\n";
    lab += "pluginConfig = [{ name = \"NodeResourcesFit\", args.scoringStrategy = { type = \"MostAllocated\" } }]\n\n";
    lab += &(workload("spread", "default-scheduler") + &workload("packed", "packing") + &workload("lost", "other"));
    lab += "[[check]]\nworkload = \"spread\"\nspread = { over = \"kubernetes.io/hostname\", max_skew = 1 }\n\n";
    lab += "[[check]]\nworkload = \"packed\"\nspread = { over = \"kubernetes.io/hostname\", max_skew = 1 }\n\n";
    lab += "[[check]]\nworkload = \"lost\"\nrunning = 0\n";
    environment.write("packed.toml", &lab);
    environment.klab(&["up", "packed.toml"]);
    let report = environment.klab(&["verify", "packed.toml"]);
    assert!(report.contains("skew 2, at most 1 wanted"), "{report}");
    assert_eq!(report.matches("✗").count(), 1, "{report}");
    let plan = environment.klab(&["plan", "packed.toml"]);
    environment.klab(&["down", "packed.toml"]);
    assert!(plan.ends_with("--- status 0\n"), "{plan}");
}
