//! What an ephemeral cluster is not started with: every mistake is told, and nothing is left.

use super::{WEBSITES, finished};
use crate::environment::Environment;

/// What is said on stderr of a command that is refused with this exit code.
fn refused(environment: &Environment, code: i32, arguments: &[&str]) -> String {
    let output = finished(environment.command(&[&["serve"], arguments].concat()));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", environment.shown(&output));
    assert!(output.stdout.is_empty(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn mistakes_on_the_command_line() {
    let environment = Environment::new();
    environment.write("mine", "current-context: home\n");
    for (arguments, words) in [
        (&[][..], "<--ephemeral|--state-directory <FOLDER>>"),
        (&["--ephemeral", "--state-directory", "x"], "cannot be used with"),
        (&["--state-directory", "x", "--nodes", "3"], "cannot be used with"),
        (&["--nodes", "3"], "--ephemeral"),
        (&["--ephemeral", "--nodes", "-1"], "unexpected argument '-1'"),
        (&["--ephemeral", "--nodes", "5001"], "5001 is not in 0..=5000"),
        (&["--ephemeral", "--clock", "slow"], "possible values"),
        (&["--ephemeral", "--port", "65536"], "--port"),
        (&["--ephemeral", "--ready-fd", "1"], "1 is not in 3..=65535"),
        (&["--ephemeral", "--ready-fd", "77"], "descriptor 77 of `--ready-fd` cannot be written to"),
        (&["--ephemeral", "--controllers", "*,-kubelt"], "no controllers that can be switched: `kubelt`"),
        (&["--ephemeral", "--controllers", "-kubelet"], "none would act"),
        (&["--ephemeral", "--kubeconfig", "mine"], "`mine` is there already"),
        (&["--ephemeral", "--kubeconfig", "no/folder"], "there is no folder `no`"),
        (&["--ephemeral", "--kubeconfig", "/dev/null"], "is no file"),
    ] {
        let told = refused(&environment, 2, arguments);
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
    assert_eq!(environment.read("mine"), "current-context: home\n");
}

#[test]
fn mistakes_in_definitions_are_told_all_at_once() {
    let environment = Environment::new();
    environment.write("crds/a.yaml", WEBSITES);
    environment.write("crds/b.yaml", WEBSITES.replace("websites", "shops"));
    environment.write("crds/c.yaml", WEBSITES.replace("type: object", "type: text").replace("websites", "texts"));
    environment.write("crds/d.yaml", WEBSITES);
    environment.write("crds/e.yaml", "kind: [\n");
    environment.write("crds/f.yaml", "apiVersion: apps/v1\nkind: Deployment\n");
    let arguments = ["--ephemeral", "--crds", "crds", "--crds", "none", "--kubeconfig", "kubeconfig"];
    let told = refused(&environment, 2, &arguments);
    for words in [
        "there are 5 mistakes in the CustomResourceDefinitions of `--crds`",
        "crds/c.yaml:1: CustomResourceDefinition.apiextensions.k8s.io \"texts.example.com\" is invalid",
        "crds/d.yaml:1: `websites.example.com` is defined in crds/a.yaml:1, too",
        "crds/e.yaml:",
        "crds/f.yaml:1: is a Deployment, not a CustomResourceDefinition",
        "none: cannot be read: No such file or directory",
    ] {
        assert!(told.contains(words), "{words}\n{told}");
    }
    assert!(!environment.folder().join("kubeconfig").exists());
}

#[test]
fn a_port_that_is_taken_is_told() {
    let environment = Environment::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let told = refused(&environment, 3, &["--ephemeral", "--port", &port]);
    assert!(told.contains(&format!("could not listen at port {port}")), "{told}");
}
