//! The command line as people meet it: what is said, where, and with which status.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use klab_operations::event::{COMMON, DESCRIBED};

use crate::environment::Environment;

const LAB: &str = r#"lab = "small"

[pool.nodepool1]
mode = "system"
nodes = 1
size = "Standard_B2ms"

[config.colours]
data = { first = "off", second = "010" }

[workload.web]
image = "nginx:1.27"
requests = { cpu = "50m", memory = "64Mi" }

[[check]]
workload = "web"
running = 1
"#;

/// The lab with a check that does not hold: one of two pods finds no room.
fn full() -> String {
    LAB.replace("cpu = \"50m\"", "cpu = \"1\"")
        .replace("[workload.web]", "[workload.web]\nreplicas = 2")
        .replace("running = 1", "running = 2")
}

#[test]
fn missing_file_is_named() {
    let environment = Environment::new();
    assert_snapshot!(environment.klab(&["up", "missing.toml"]), @"
    --- stderr
    error[K0101]: cannot read missing.toml: there is no such file
     |
     = help: give the path of a lab file, the name of a lesson (`klab lessons`), or begin one with `klab init`
    error[K0904]: missing.toml has 1 error; nothing was created
    --- status 2
    ");
    assert_eq!(environment.leftovers(), Vec::<String>::new());
}

#[test]
fn a_slip_in_the_command_line_has_a_code_and_help_has_none() {
    let environment = Environment::new();
    assert_snapshot!(environment.klab(&["verfy"]), @"
    --- stderr
    error[K0900]: unrecognized subcommand 'verfy'

      tip: a similar subcommand exists: 'verify'

    Usage: klab [OPTIONS] <COMMAND>

    For more information, try '--help'.
    --- status 2
    ");
    let help = environment.klab(&[]);
    assert!(help.contains("Usage: klab") && !help.contains("error[") && help.ends_with("--- status 2\n"), "{help}");
}

#[test]
fn all_mistakes_are_shown_at_once_and_nothing_is_created() {
    let environment = Environment::new();
    environment.write(
        "typo.toml",
        LAB.replace("mode", "mdoe").replace("image =", "imagee =").replace("nodes = 1", "nodes = '1'"),
    );
    let shown = environment.klab(&["up", "typo.toml"]);
    for part in ["has no key `mdoe`", "has no key `imagee`", "must be a whole number", "typo.toml:4:1", "did you mean"]
    {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    assert!(shown.ends_with("nothing was created\n--- status 2\n"), "{shown}");
    assert_eq!(environment.leftovers(), Vec::<String>::new());
}

#[test]
fn a_picture_wants_a_terminal() {
    let environment = Environment::new();
    assert_snapshot!(environment.klab(&["watch"]), @"
    --- stderr
    error[K0902]: `klab watch` draws on a terminal, and this is none
    hint: this prints a line for every change of the checks:
            klab verify --watch
    hint: this is the board for programs:
            klab board --format json
    --- status 2
    ");
}

#[test]
fn without_a_lab_commands_say_so() {
    let environment = Environment::new();
    assert_snapshot!(environment.klab(&["verify"]), @"
    --- stderr
    error[K0801]: no lab is up
    hint: this makes one:
            klab up scheduling
        this lists more:
            klab lessons
    --- status 2
    ");
    assert_snapshot!(environment.klab(&["status", "nosuch"]), @"
    --- stderr
    error[K0801]: lab `nosuch` is not up
    hint: this shows the labs that are up:
            klab list
    --- status 2
    ");
    assert_snapshot!(environment.klab(&["down"]), @r"
    --- stderr
            Down no lab is up
    --- status 0
    ");
}

/// `export KUBECONFIG=$(klab kubeconfig --path)` must never leave the variable empty: kubectl would take the user's own.
#[test]
fn without_one_lab_the_path_of_the_kubeconfig_leads_nowhere() {
    let environment = Environment::new();
    let nowhere = |arguments: &[&str], words: &str| {
        let output = environment.run(&[&["kubeconfig", "--path"], arguments].concat());
        let path = String::from_utf8(output.stdout.clone()).unwrap();
        let said = environment.shown(&output);
        assert!(!path.trim().is_empty() && !std::path::Path::new(path.trim()).exists(), "{said}");
        assert!(!output.status.success() && said.contains(words), "{said}");
    };
    nowhere(&[], "no lab is up");
    nowhere(&["small", "--seat", "3"], "has no seats");
    environment.write("small.toml", LAB);
    environment.write("other.toml", LAB.replacen("lab = \"small\"", "lab = \"other\"", 1));
    environment.succeeds(&["up", "small.toml"]);
    environment.succeeds(&["up", "other.toml"]);
    nowhere(&[], "2 labs are up");
    nowhere(&["third"], "lab `third` is not up");
    let text = environment.run(&["kubeconfig"]);
    assert!(text.stdout.is_empty() && !text.status.success());
    let path = environment.succeeds(&["kubeconfig", "--path", "other"]);
    assert!(std::path::Path::new(path.trim()).exists());
    environment.succeeds(&["down", "small"]);
    environment.succeeds(&["down", "other"]);
}

#[test]
fn who_asks_for_documents_gets_one_of_what_went_wrong() {
    let environment = Environment::new();
    for command in ["verify", "status", "explain", "guide"] {
        let arguments: &[&str] = if command == "explain" { &["explain", "web"] } else { &[command] };
        let document = environment.json(arguments);
        assert_eq!((&document["event"], &document["message"]), (&"error".into(), &"no lab is up".into()), "{command}");
        assert_eq!(document["exit_code"], 2, "{command}");
        assert_eq!(document["schema"], "klab.event/1", "{command}");
    }
}

#[test]
fn a_format_is_refused_where_it_is_not_written() {
    let environment = Environment::new();
    assert!(environment.klab(&["list", "--format", "junit"]).contains("[possible values: human, json]"));
    let refused = environment.klab(&["--format", "json", "kubeconfig"]);
    assert!(refused.contains("error[K0901]: `klab kubeconfig` does not write `--format json`"), "{refused}");
    assert_snapshot!(environment.klab(&["--format", "csv", "plan", "lab.toml"]), @"
    --- stderr
    error[K0901]: `klab plan` does not write `--format csv`
    hint: `--format json` works
    --- status 2
    ");
    assert_snapshot!(environment.klab(&["--format", "csv", "verify"]), @"
    --- stderr
    error[K0901]: CSV has a line for each seat of a class: only `klab verify --seats` writes it
    hint: `--format json` and `--format junit` work for one lab
    --- status 2
    ");
}

#[test]
fn help_lists_groups_and_examples() {
    let environment = Environment::new();
    let help = environment.klab(&["help"]);
    let headings: Vec<&str> = help.lines().filter(|line| !line.starts_with(' ') && line.ends_with(':')).collect();
    assert_eq!(
        headings,
        [
            "Make a lab, check it, remove it:",
            "For learners:",
            "For authors of labs:",
            "For instructors and platforms (`klab up LAB --seats 30` makes a class):",
            "Options:",
        ]
    );
    let down = environment.klab(&["down", "--help"]);
    assert!(down.contains("Examples:\n  klab down\n  klab down scheduling\n"), "{down}");
}

#[test]
fn completions_ask_klab() {
    let environment = Environment::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = environment.succeeds(&["completions", shell]);
        assert!(script.contains("KLAB_COMPLETE"), "{shell}: {script}");
    }
    environment.write("small.toml", LAB);
    environment.succeeds(&["up", "small.toml"]);
    let offered = |words: &[&str]| {
        let mut command = environment.command(&[&["--"], words].concat());
        command.env("KLAB_COMPLETE", "fish");
        let output = command.output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(offered(&["klab", "down", "s"]), ["small"]);
    assert_eq!(offered(&["klab", "pool", "scale", "n"]), ["nodepool1"]);
    let pods = offered(&["klab", "explain", "web"]);
    assert_eq!((pods.len(), pods[0].as_str()), (2, "web"), "the workload and its pod: {pods:?}");
    environment.succeeds(&["down"]);
    assert_eq!(offered(&["klab", "down", "s"]), Vec::<String>::new());
}

#[test]
fn init_writes_a_lab_that_is_valid_and_overwrites_nothing() {
    let environment = Environment::new();
    assert_snapshot!(environment.klab(&["init"]), @r"
    --- stderr
           Wrote lab.toml; this makes the lab:
                     klab up lab.toml
    --- status 0
    ");
    assert_snapshot!(environment.klab(&["check", "lab.toml"]), @r"
    --- stderr
         Checked lab.toml: 2 pools, 1 object, 1 check, 2 steps
    --- status 0
    ");
    assert_snapshot!(environment.klab(&["init"]), @"
    --- stderr
    error[K0315]: `lab.toml` exists and was left as it is
    hint: give another name:
            klab init my-lab.toml
    --- status 2
    ");
}

#[test]
fn pods_that_do_not_fit_on_their_node_together_are_refused_before_anything_is_made() {
    let environment = Environment::new();
    let pinned = |name: &str, more: &str, cpu: &str| {
        format!("[workload.{name}]\nnode_name = \"pool:extra\"\nrequests = {{ cpu = \"{cpu}\" }}\n{more}\n")
    };
    let lab = |cpu: &str| {
        let check = "[[check]]\nworkload = \"filler\"\nrunning = 1\n";
        let filler = pinned("filler", "kind = \"pod\"", "1500m");
        format!("lab = \"twice\"\n[pool.system]\n[pool.extra]\n{filler}{}{check}", pinned("pinned", "", cpu))
    };
    environment.write("lab.toml", lab("1"));
    for command in [["check", "lab.toml"], ["test", "lab.toml"]] {
        let output = environment.command(&command).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("pods on `pool:extra` ask for more cpu than the node has"), "{command:?}: {said}");
        assert!(!output.status.success(), "{command:?}");
    }
    environment.write("lab.toml", lab("400m"));
    environment.succeeds(&["check", "lab.toml"]);
}

#[test]
fn second_up_changes_nothing_and_a_changed_file_updates_and_prunes() {
    let environment = Environment::new();
    environment.write("small.toml", LAB);
    let up = |text: &str| {
        environment.write("small.toml", text);
        let ready = environment.json(&["up", "small.toml"]);
        assert_eq!(ready["event"], "ready", "{ready}");
        let row = DESCRIBED.iter().find(|row| row.name == "ready").unwrap();
        let told: BTreeSet<&str> = COMMON.iter().chain(row.fields).map(|(field, _)| *field).collect();
        let written: BTreeSet<&str> = ready.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(written, told);
        ready
    };
    let names = |event: &serde_json::Value, what: &str| -> Vec<String> {
        event[what].as_array().unwrap().iter().map(|key| key["name"].as_str().unwrap().to_owned()).collect()
    };
    let first = up(LAB);
    assert_eq!(names(&first, "created").len(), 2);
    let again = up(LAB);
    assert_eq!((&again["changed"], &again["unchanged"]), (&false.into(), &2.into()), "{again}");
    let changed = up(&LAB.replace("nginx:1.27", "nginx:1.28").replace("[config.colours]", "[config.shapes]"));
    assert_eq!(names(&changed, "created"), ["shapes"]);
    assert_eq!(names(&changed, "updated"), ["web"]);
    assert_eq!(names(&changed, "pruned"), ["colours"]);
    environment.succeeds(&["down"]);
    assert_eq!(environment.leftovers(), Vec::<String>::new());
}

#[test]
fn objects_the_server_refuses_are_reported_in_its_own_words() {
    let environment = Environment::new();
    environment.write("bad.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: Not_A_Name\n");
    environment.write("worse.yaml", "apiVersion: v1\nkind: Nonsense\nmetadata:\n  name: x\n");
    environment.write(
        "small.toml",
        format!("{LAB}\n[[manifest]]\npath = \"bad.yaml\"\n\n[[manifest]]\npath = \"worse.yaml\"\n"),
    );
    let shown = environment.klab(&["up", "small.toml"]);
    for part in [
        "error[K0404]: could not apply the lab's objects",
        "the cluster refused 2 objects:",
        "(from bad.yaml:1): ConfigMap \"Not_A_Name\" is invalid: metadata.name: Invalid value",
        "the cluster serves no kind `Nonsense` of `v1`",
        "hint: this continues from here:\n        klab up small.toml\n    this removes what there is:\n        klab down small\n",
        "--- status 4",
    ] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    environment.write("small.toml", LAB);
    environment.succeeds(&["up", "small.toml"]);
    environment.succeeds(&["down"]);
}

#[test]
fn state_folder_that_cannot_be_written_is_said_before_anything_is_done() {
    let environment = Environment::new();
    environment.write("small.toml", LAB);
    let output = environment.command(&["up", "small.toml"]).env("KLAB_HOME", "/proc/klab").output().unwrap();
    let talk = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{talk}");
    assert!(talk.contains("could not create the state folder `/proc/klab/labs/small`"), "{talk}");
    assert!(talk.contains("KLAB_HOME"), "{talk}");
}

#[test]
fn failed_check_is_explained_and_gives_status_1() {
    let environment = Environment::new();
    environment.write("small.toml", full());
    let shown = environment.klab(&["up", "small.toml"]);
    assert!(shown.contains("✗ failed"), "{shown}");
    assert!(shown.contains("error[K0620]: the lab does not hold: 1 of 1 check failed"), "{shown}");
    assert!(shown.ends_with("--- status 1\n"), "{shown}");
    let report = environment.json(&["verify"]);
    assert_eq!((&report["schema"], &report["ok"]), (&"klab.report/1".into(), &false.into()));
    let junit = environment.klab(&["--format", "junit", "verify"]);
    assert!(junit.contains("<failure"), "{junit}");
    environment.succeeds(&["down"]);
}

#[test]
fn output_in_a_pipe_has_no_escape_codes() {
    let environment = Environment::new();
    environment.write("small.toml", full());
    for arguments in
        [&["up", "small.toml"][..], &["verify"], &["explain", "web"], &["status"], &["list"], &["check", "small.toml"]]
    {
        let output = environment.run(arguments);
        let bytes = [output.stdout, output.stderr].concat();
        assert!(!bytes.contains(&0x1b), "{arguments:?}: {}", String::from_utf8_lossy(&bytes));
    }
    environment.succeeds(&["down"]);
}

#[test]
fn secrets_do_not_reach_render() {
    let environment = Environment::new();
    environment.write("small.toml", format!("{LAB}\n[secret.door]\nenv = [\"DOOR_KEY\"]\n"));
    let output = environment.command(&["render", "small.toml"]).env("DOOR_KEY", "open sesame").output().unwrap();
    let shown = environment.shown(&output);
    assert!(shown.contains("(secret)") && !shown.contains("sesame") && !shown.contains("b3BlbiBzZXNhbWU"), "{shown}");
}

#[test]
fn cluster_that_places_pods_otherwise_than_predicted_is_told() {
    let environment = Environment::new();
    environment.write("small.toml", LAB);
    environment.succeeds(&["up", "small.toml"]);
    let report = environment.json(&["verify"]);
    assert_eq!(report["differences"], serde_json::json!([]), "the embedded cluster does what was predicted");
    let path = environment.home().join("labs/small/record.json");
    let record = std::fs::read_to_string(&path).unwrap();
    assert!(record.contains("\"nodepool1\": 1"), "{record}");
    std::fs::write(&path, record.replace("\"nodepool1\": 1", "\"extra\": 1")).unwrap();
    assert_snapshot!(environment.klab(&["-q", "verify"]), @r"
    --- stdout
      ✓ held     web: 1 running
      ≠ other    deployment/web: predicted extra 1, the cluster placed nodepool1 1
    --- status 0
    ");
    let report = environment.json(&["verify"]);
    assert_eq!(report["differences"][0]["predicted"]["pools"], serde_json::json!({"extra": 1}));
    assert_eq!(report["differences"][0]["placed"]["pools"], serde_json::json!({"nodepool1": 1}));
    environment.succeeds(&["down"]);
}

#[test]
fn seed_of_the_command_line_is_kept_and_decides_ties_alike_in_plan_and_cluster() {
    let environment = Environment::new();
    let lab = LAB.replace("nodes = 1", "nodes = 6");
    environment.write("small.toml", &lab);
    let nodes = |seed: &str| {
        let plan = environment.json(&["plan", "small.toml", "--seed", seed]);
        plan["placement"][0]["nodes"].as_object().unwrap().keys().next().unwrap().clone()
    };
    let seeds = ["1", "2", "3", "4", "5", "6", "7", "8"];
    let chosen: std::collections::BTreeSet<String> = seeds.into_iter().map(nodes).collect();
    assert!(chosen.len() > 1, "seeds change who wins a tie: {chosen:?}");
    assert_eq!(nodes("7"), nodes("7"));
    environment.succeeds(&["up", "small.toml", "--seed", "7"]);
    let shown = environment.klab(&["up", "small.toml", "--seed", "8"]);
    assert!(shown.contains("lab `small` was made with seed 7 and keeps it"), "{shown}");
    environment.succeeds(&["down"]);
}

#[test]
fn lab_for_azure_is_planned_on_a_machine_without_az() {
    let environment = Environment::new();
    environment.write("small.toml", LAB);
    let output = environment.command(&["plan", "small.toml", "--provider", "aks"]).env("PATH", "/nonexistent").output();
    let shown = environment.shown(&output.unwrap());
    for part in [
        "az aks create -g klab-small-",
        "web  nodepool1 1",
        "nodepool1      1      Standard_B2ms  $0.0960  $0.0960",
        "`az` was not found on PATH; planned as if the lab did not exist",
        "--- status 0",
    ] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
}

#[test]
fn a_build_says_what_it_is_and_has_manual_pages() {
    let environment = Environment::new();
    let words = environment.klab(&["--version", "--verbose"]);
    let said: Vec<&str> = words.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name).collect();
    assert_eq!(said, ["commit", "date", "target", "kubernetes"], "{words}");
    assert!(words.ends_with("--- status 0\n"), "{words}");
    assert_eq!(environment.klab(&["man", "pages"]), "--- status 0\n");
    let page = environment.read("pages/klab-pool-add.1");
    assert!(page.contains(".TH klab\\-pool\\-add 1") || page.contains(".TH klab-pool-add 1"), "{page}");
    assert!(environment.read("pages/klab-up.1").contains("klab up scheduling"));
}

#[test]
fn what_pods_wait_for_that_nobody_makes_is_said_and_not_waited_for() {
    let environment = Environment::new();
    let lab = r#"lab = "lack"

[pool.extra]
nodes = 1
names = ["n1"]

[[manifest]]
yaml = """
apiVersion: v1
kind: Pod
metadata: { name: mounts, labels: { app: mounts } }
spec:
  containers: [{ name: main, image: nginx, volumeMounts: [{ name: settings, mountPath: /etc/settings }] }]
  volumes: [{ name: settings, configMap: { name: settings } }]
"""

[[check]]
pods = "app=mounts"
running = 1
"#;
    environment.write("lack.toml", lab);
    let shown = environment.klab(&["test", "lack.toml"]);
    // The time that it took is another every time.
    let lines: Vec<&str> = shown.lines().filter(|line| !line.contains("0 of 1 check")).collect();
    assert_snapshot!(lines.join("\n"), @r#"
    --- stdout
          set-up: the check does not hold
            ✗ failed   pods app=mounts: 1 running → 0 running, wanted 1 (1 FailedMount)
                mounts  FailedMount on n1 (pool extra): MountVolume.SetUp failed for volume "settings" : configmap "settings" not found
                at lack.toml:17 (K0519)
    --- stderr
    error[K0622]: 1 of 1 lesson failed: lack
    --- status 1
    "#);
}
