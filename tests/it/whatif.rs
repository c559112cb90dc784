//! `klab capture` and `klab whatif`, through the binary, on a lab that is up and on what was captured of it.

use insta::assert_snapshot;

use crate::environment::Environment;

const LAB: &str = r#"lab = "shop"

[pool.general]
mode = "system"
nodes = 2
size = "Standard_B2ms"

[pool.extra]
nodes = 1
size = "Standard_B2ms"
labels = { disk = "ssd" }

[secret.token]
data = { password = "planted-secret" }

[workload.web]
image = "nginx"
replicas = 2
requests = { cpu = "100m", memory = "64Mi" }
node_selector = { disk = "ssd" }
env = { PASSWORD = "planted-secret" }

[[check]]
workload = "web"
running = 2
"#;

fn up() -> Environment {
    let environment = Environment::new();
    environment.write("shop.toml", LAB);
    environment.succeeds(&["up", "shop.toml"]);
    environment
}

#[test]
fn a_change_is_tried_on_a_lab_that_is_up_and_on_what_was_captured_of_it() {
    let environment = up();
    let before = environment.json(&["status"]);
    let shown = environment.klab(&["whatif", "--drain", "extra"]);
    assert_eq!(environment.json(&["status"])["nodes"], before["nodes"], "nothing is changed");
    assert_snapshot!(shown, @r"
    --- stdout
    What if extra is drained

    POOL     NODES  PODS   CPU REQUESTED                      MEMORY REQUESTED
    extra    1      8 → 6  ██░░░░░░░░  28% → █░░░░░░░░░  18%  ░░░░░░░░░░   9% → ░░░░░░░░░░   7%
    general  2      19     ███░░░░░░░  33%                    █░░░░░░░░░  11%
    The nodes cost $0.29 an hour, as before.

    2 pods that run today would not run:
      deployment default/web: 0 of 2 run
        2 pods wait: None of 3 nodes takes them: 1 is cordoned, 2 lack a label that they ask for.
    --- stderr
    error[K0909]: 2 pods that run today would not run
    --- status 1
    ");
    environment.succeeds(&["capture", "-o", "kept"]);
    let text = environment.read("kept/capture.jsonl");
    assert!(text.contains("nginx") && !text.contains("planted-secret"), "{text}");
    environment.succeeds(&["down"]);
    assert_eq!(environment.klab(&["whatif", "kept", "--drain", "extra"]), shown);
    let output = environment.run(&["whatif", "kept", "--drain", "extra", "--format", "json"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!((&answer["schema"], &answer["runs"]), (&"klab.whatif/1".into(), &false.into()));
    assert_snapshot!(environment.klab(&["whatif", "kept", "--scale", "deployment/web=3", "--format", "markdown"]), @r"
    --- stdout
    ### What if deployment/web has 3 pods

    | POOL | NODES | PODS | CPU REQUESTED | MEMORY REQUESTED |
    | --- | --- | --- | --- | --- |
    | extra | 1 | 8 → 9 | ██░░░░░░░░  28% → ███░░░░░░░  34% | ░░░░░░░░░░   9% → █░░░░░░░░░  10% |
    | general | 2 | 19 | ███░░░░░░░  33% | █░░░░░░░░░  11% |

    The nodes cost $0.29 an hour, as before.

    **Everything that runs today still runs.**

    **Pods that come or go:**

    - deployment default/web: 1 more on extra
    --- status 0
    ");
    assert_snapshot!(environment.klab(&["whatif", "kept", "--drain", "extra", "--format", "junit"]), @r#"
    --- stdout
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="klab" tests="1" skipped="0" failures="1" errors="0">
        <testsuite name="what if extra is drained" tests="1" skipped="0" errors="0" failures="1">
            <testcase name="deployment default/web">
                <failure message="0 of 2 pods run, 2 before. 0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn&apos;t match Pod&apos;s node affinity/selector."/>
            </testcase>
        </testsuite>
    </testsuites>
    --- stderr
    error[K0909]: 2 pods that run today would not run
    --- status 1
    "#);
}

#[test]
fn the_lab_file_beside_a_capture_says_how_a_pool_is_upgraded() {
    let environment = up();
    environment.succeeds(&["capture", "-o", "kept"]);
    environment.succeeds(&["down"]);
    let upgraded = || environment.klab(&["whatif", "kept", "--upgrade", "general"]);
    assert!(upgraded().contains("What if pool general is upgraded with AKS's default max_surge of 10%"));
    let lab = environment.read("kept/lab.toml");
    let with = |upgrade: &str| {
        environment.write("kept/lab.toml", lab.replace("[pool.general]", &format!("[pool.general]\n{upgrade}")));
        upgraded()
    };
    let shown = with("upgrade = { max_surge = 2 }");
    assert!(shown.contains("What if pool general is upgraded with its max_surge of 2"), "{shown}");
    let shown = with("upgrade = { max_surge = true }");
    assert!(shown.contains("kept/lab.toml:") && shown.contains("--- status 2"), "{shown}");
}

#[test]
fn what_is_wrong_is_said_with_what_there_is() {
    let environment = up();
    environment.succeeds(&["capture", "-o", "kept"]);
    for (line, words) in [
        ("kept", "no change is given"),
        ("kept --pool other=2", "there is no pool `other`; there are: extra, general"),
        ("kept --drain other", "there is no node and no pool `other`"),
        ("kept --zone-down 7", "no node is in a zone `7`; the zones are: none"),
        ("kept --scale deployment/none=2", "there is no workload `deployment/none`"),
        ("kept --pool extra", "not of the form POOL=NODES"),
        ("kept --add none.yaml", "could not read `none.yaml`"),
        ("kept --apply shop.toml", "shop.toml:1"),
        ("kept --profile shop.toml", "shop.toml"),
        ("torn.jsonl --drain extra", "line 2: EOF while parsing"),
    ] {
        environment.write("torn.jsonl", "{\"schema\":\"klab.capture/1\"}\n{");
        let arguments: Vec<&str> = ["whatif"].into_iter().chain(line.split_whitespace()).collect();
        let shown = environment.klab(&arguments);
        assert!(shown.contains(words) && shown.contains("--- status 2"), "{line}: {shown}");
    }
}

#[test]
fn what_fits_what_can_fail_and_what_can_go_is_answered() {
    let environment = up();
    environment.succeeds(&["capture", "-o", "kept"]);
    environment.write(
        "more.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: more}\nspec:\n  selector: {matchLabels: {app: more}}\n  \
         template:\n    metadata: {labels: {app: more}}\n    spec:\n      \
         containers: [{name: c, image: nginx, resources: {requests: {cpu: 500m}}}]\n",
    );
    assert_snapshot!(environment.klab(&["fit", "more.yaml", "kept"]), @r"
    --- stdout
    6 more pods of deployment more fit: 2 on extra, 4 on general.
    Then there is no room: None of 3 nodes takes them: 3 have too little cpu left.
    --- status 0
    ");
    let survive = environment.klab(&["survive"]);
    assert!(survive.contains("2 of 3 nodes can fail; not these:\n  aks-extra-"), "{survive}");
    assert!(survive.contains("  extra: 2 pods without a place: default/web-"), "{survive}");
    // Which of two equal nodes goes is open.
    let shrink = environment.klab(&["shrink", "kept", "--cheapest"]);
    assert_snapshot!(regex::Regex::new(r"general-\d+-vmss00000\d").unwrap().replace(&shrink, "general-NODE"), @r"
    --- stdout
    1 node can go. Every pod has a place then, also where one more node is lost.
      general: 2 → 1 nodes, without aks-general-NODE
    They cost $0.10 an hour, $70 a month.
    The cluster cannot lose aks-extra-05586221-vmss000000 even now; `klab survive` says why.
    --- status 0
    ");
    let shown = environment.klab(&["fit", "shop.toml", "kept"]);
    assert!(shown.contains("shop.toml:1: ") && shown.contains("--- status 2"), "{shown}");
    for (command, schema) in [("survive", "klab.survive/1"), ("shrink", "klab.shrink/1")] {
        assert_eq!(environment.json(&[command, "kept"])["schema"], schema);
    }
}

#[test]
fn what_was_captured_is_a_lab_whose_pods_go_to_the_same_pools() {
    let environment = up();
    environment.succeeds(&["capture", "-o", "twin"]);
    environment.succeeds(&["down"]);
    environment.succeeds(&["check", "twin/lab.toml"]);
    let check = "\n[[check]]\npods = \"klab.dev/workload=web\"\non = \"pool:extra\"\nrunning = 2\n";
    environment.write("twin/lab.toml", environment.read("twin/lab.toml") + check);
    environment.succeeds(&["up", "twin/lab.toml"]);
    let status = environment.json(&["status"]);
    let nodes: Vec<&str> =
        status["nodes"].as_array().unwrap().iter().filter_map(|node| node["pool"].as_str()).collect();
    assert_eq!(nodes.len(), 3, "{status}");
    // Pods of the system may still be on their way.
    let checked = environment.klab(&["capture", "-o", "again", "--check"]);
    assert!(checked.contains("pods scheduled again on an empty copy: "), "{checked}");
    let placed = |folder: &str| {
        let text = environment.read(&format!("{folder}/capture.jsonl"));
        text.lines().filter(|line| line.contains("\"nginx\"") && line.contains("\"nodeName\":\"aks-extra-")).count()
    };
    assert_eq!((placed("twin"), placed("again")), (2, 2));
}

/// The step of the action for GitHub, with this `gh`.
fn ask(environment: &Environment, gh: &str, fail: &str) -> (Option<i32>, String) {
    use std::os::unix::fs::PermissionsExt as _;
    let program = environment.write("bin/gh", format!("#!/bin/sh\necho \"$@\" >>gh.log\n{gh}\n"));
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/actions/whatif/ask");
    let mut command = std::process::Command::new("bash");
    let path = format!("{}:{}", environment.folder().join("bin").display(), std::env::var("PATH").unwrap());
    let set =
        [("LAB", "kept"), ("CHANGES", "--drain\nextra"), ("COMMENT", "true"), ("FAIL", fail), ("PULL_REQUEST", "7")];
    let files = [("GITHUB_STEP_SUMMARY", "summary.md"), ("GITHUB_OUTPUT", "output"), ("RUNNER_TEMP", ".")];
    command.arg(script).current_dir(environment.folder()).env("PATH", path).env("KLAB", env!("CARGO_BIN_EXE_klab"));
    command.envs(set).envs(files).env("GITHUB_REPOSITORY", "acme/shop").env("KLAB_HOME", environment.home());
    let output = command.output().unwrap();
    (output.status.code(), environment.read("gh.log"))
}

#[test]
fn the_action_comments_once_and_replaces_its_comment() {
    let action = std::fs::read_to_string("actions/whatif/action.yml").unwrap();
    let action: serde_json::Value = serde_saphyr::from_str(&action).unwrap();
    for input in ["lab", "changes", "comment", "fail"] {
        assert!(action["inputs"][input].is_object(), "{action}");
        let given = format!("${{{{ inputs.{input} }}}}");
        assert_eq!(action["runs"]["steps"][1]["env"][input.to_uppercase()], given);
    }
    let environment = up();
    environment.succeeds(&["capture", "-o", "kept"]);
    let (status, asked) = ask(&environment, "", "true");
    assert_eq!(status, Some(1), "{asked}");
    assert!(asked.contains("-X POST repos/acme/shop/issues/7/comments -F body=@./klab-whatif.md"), "{asked}");
    assert_eq!(environment.read("output"), "runs=false\n");
    let summary = environment.read("summary.md");
    assert!(summary.starts_with("<!-- klab whatif -->\n### What if extra is drained"), "{summary}");
    let (status, asked) = ask(&environment, "case \"$*\" in *--jq*) echo 41; echo 42;; esac", "false");
    assert_eq!(status, Some(0), "{asked}");
    assert!(asked.contains("-X PATCH repos/acme/shop/issues/comments/42 "), "{asked}");
}
