//! What a learner types beside klab: kubectl and files, in a lab that klab made.

use std::process::{Command, Output};

use crate::environment::Environment;

/// A lab that is up, and its kubectl; none where this machine has no kubectl.
struct Learner {
    environment: Environment,
    kubeconfig: String,
}

impl Learner {
    #[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
    fn at(lab: &str) -> Option<Self> {
        if Command::new("kubectl").args(["version", "--client"]).output().is_err() {
            println!("skipped: there is no kubectl on this machine");
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
