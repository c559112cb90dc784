//! What a learner types beside klab: kubectl and files, in a lab that klab made.

use std::process::{Command, Output};

use crate::environment::{Environment, has_kubectl};

/// A lab that is up, and its kubectl; none where this machine has no kubectl.
struct Learner {
    environment: Environment,
    kubeconfig: String,
}

impl Learner {
    fn at(lab: &str) -> Option<Self> {
        if !has_kubectl() {
            return None;
        }
        let environment = Environment::new();
        environment.write("lab.toml", lab);
        environment.succeeds(&["up", "lab.toml"]);
        let kubeconfig = environment.succeeds(&["kubeconfig", "--path"]).trim().to_owned();
        Some(Self { environment, kubeconfig })
    }

    fn kubectl(&self, arguments: &[&str]) -> Output {
        Command::new("kubectl")
            .args(arguments)
            .current_dir(self.environment.folder())
            .env("HOME", self.environment.folder())
            .env("KUBECONFIG", &self.kubeconfig)
            .output()
            .unwrap()
    }

    /// What a kubectl command prints that neither fails nor warns.
    fn types(&self, arguments: &[&str]) -> String {
        let output = self.kubectl(arguments);
        let warned = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && warned.is_empty(), "kubectl {arguments:?}: {warned}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// The workshop's experiment: take the node selector out of the manifest and apply it, put it in and apply, take it out again.
#[test]
fn a_field_that_is_removed_from_a_file_goes_away() {
    let Some(learner) = Learner::at(include_str!("../labs/lesson/lesson.toml")) else { return };
    let selector = || learner.types(&["get", "deployment", "api", "-o", "jsonpath={.spec.template.spec.nodeSelector}"]);
    assert_eq!(selector(), r#"{"workload":"extra"}"#);
    let with = learner.environment.succeeds(&["render", "lesson", "--workload", "api"]);
    let without: String =
        with.split_inclusive('\n').filter(|line| !matches!(line.trim(), "nodeSelector:" | "workload: extra")).collect();
    assert_eq!(with.lines().count(), without.lines().count() + 2, "{with}");
    for (file, expected) in [(&without, ""), (&with, r#"{"workload":"extra"}"#), (&without, "")] {
        learner.environment.write("api.yaml", file);
        assert_eq!(learner.types(&["apply", "-f", "api.yaml"]), "deployment.apps/api configured\n");
        assert_eq!(selector(), expected);
    }
    learner.environment.write("api.yaml", &with);
    learner.types(&["apply", "-f", "api.yaml"]);
    assert_eq!(learner.types(&["apply", "-f", "api.yaml"]), "deployment.apps/api unchanged\n");
    // klab's own apply keeps the annotation in step: what it changes back, kubectl takes away again.
    learner.environment.succeeds(&["up", "lab.toml"]);
    learner.environment.write("api.yaml", &without);
    learner.types(&["apply", "-f", "api.yaml"]);
    assert_eq!(selector(), "");
}

#[test]
fn what_a_learner_did_is_named_and_taken_back() {
    let Some(learner) = Learner::at(include_str!("../labs/lesson/lesson.toml")) else { return };
    let environment = &learner.environment;
    let lines = || environment.klab(&["diff"]);
    assert!(lines().contains("nothing differs from lab `lesson` at its set-up"), "{}", lines());
    let node = learner.types(&["get", "nodes", "-l", "agentpool=extra", "-o", "name"]);
    let node = node.trim().trim_start_matches("node/");
    learner.types(&["taint", "node", node, "dedicatd=special:NoSchedule"]);
    learner.types(&["label", "node", node, "disk=ssd"]);
    learner.types(&["cordon", node]);
    learner.types(&["scale", "deploy/api", "--replicas=3"]);
    learner.types(&["create", "deployment", "tolerant", "--image=nginx"]);
    learner.types(&["create", "namespace", "dev"]);
    learner.types(&["-n", "dev", "run", "x", "--image=nginx"]);
    learner.types(&["-n", "kube-system", "delete", "deployment", "coredns"]);
    learner.types(&["set", "env", "deploy/api", "A=b"]);
    let told = lines().replace(node, "NODE");
    for line in [
        "  taint dedicatd=special:NoSchedule is not in the lab\n    to undo:\n        kubectl taint node NODE dedicatd=special:NoSchedule-\n",
        "  label disk=ssd is not in the lab\n    to undo:\n        kubectl label node NODE disk-\n",
        "  is cordoned, and is not in the lab\n    to undo:\n        kubectl uncordon NODE\n",
        "deployment/api\n  spec.replicas is 3, the lab has 2\n  spec.template.spec.containers[api].env is \
         [{\"name\":\"A\",\"value\":\"b\"}], the lab has nothing\n    to undo:\n        klab render lesson --workload api | kubectl replace -f -\n",
        "deployment/tolerant\n  is not in the lab\n    to undo:\n        kubectl delete deployment/tolerant\n",
        "namespace/dev\n  is not in the lab\n",
        "deployment/coredns in kube-system\n  is gone\n    to undo:\n        klab reset lesson\n",
    ] {
        assert!(told.contains(line), "{line}\n{told}");
    }
    assert!(!told.contains("pod/x"), "a new namespace says it of all that is in it: {told}");
    let refused = environment.klab(&["reset"]);
    assert!(
        refused.contains("2 objects would be removed that the lab does not have") && refused.contains("--yes"),
        "{refused}"
    );
    environment.succeeds(&["reset", "--yes"]);
    assert!(lines().contains("nothing differs from lab `lesson` at its set-up"), "{}", lines());
    environment.succeeds(&["reset", "--to", "taint"]);
    assert!(lines().contains("nothing differs from lab `lesson` after step 1 of"), "{}", lines());
}

/// What a command prints when a shell runs it with klab first in PATH.
fn types_in_shell(environment: &Environment, line: &str) -> String {
    environment.shown(&environment.shell("sh", line).output().unwrap())
}

#[test]
fn a_shell_gets_the_lab_that_is_meant_and_never_another_cluster() {
    let environment = Environment::new();
    let lab = include_str!("../labs/lesson/lesson.toml");
    let nowhere = types_in_shell(&environment, "eval \"$(klab env)\"; echo $KUBECONFIG");
    assert!(nowhere.contains("no-such-lab.kubeconfig\n") && nowhere.contains("no lab is up"), "{nowhere}");
    for name in ["one", "two"] {
        environment.write("lab.toml", lab.replacen("lab         = \"lesson\"", &format!("lab = \"{name}\""), 1));
        environment.succeeds(&["up", "lab.toml"]);
    }
    let both = types_in_shell(&environment, "eval \"$(klab env)\"; echo $KUBECONFIG");
    assert!(both.contains("no-such-lab.kubeconfig\n") && both.contains("2 labs are up: one, two"), "{both}");
    let variables =
        types_in_shell(&environment, "eval \"$(klab env two)\"; echo $KUBECONFIG $RES_GROUP $AKS_NAME $KLAB_LAB");
    assert_eq!(variables, "--- stdout\n[FOLDER]/home/labs/two/kubeconfig klab-two klab-two two\n--- status 0\n");
    let chosen =
        types_in_shell(&environment, "eval \"$(klab env two)\"; klab kubeconfig --path; klab status | head -1");
    assert!(chosen.starts_with("--- stdout\n[FOLDER]/home/labs/two/kubeconfig\n"), "{chosen}");
    let opened =
        types_in_shell(&environment, "echo 'echo in $KLAB_LAB; klab kubeconfig --path' | SHELL=/bin/sh klab shell one");
    assert!(opened.contains("in one\n[FOLDER]/home/labs/one/kubeconfig\n"), "{opened}");
    let missing = types_in_shell(&environment, "SHELL=/no/such/shell klab shell one");
    assert!(missing.contains("`/no/such/shell` was not found on PATH") && missing.contains("status 3"), "{missing}");
    let gone = types_in_shell(&environment, "eval \"$(klab env two)\"; klab down two -q; klab env");
    assert!(gone.contains("export KUBECONFIG=[FOLDER]/home/labs/one/kubeconfig"), "{gone}");
}
