//! Feature gates and APIs of embedded clusters, through the binary: in a lab file, and in kind's configuration.

use std::process::Stdio;

use crate::environment::{Environment, has_kubectl};

/// What a command says, and whether it succeeds.
fn said(environment: &Environment, words: &[&str]) -> (bool, String) {
    let mut command = environment.command(words);
    command.env("KUBECONFIG", environment.folder().join("config")).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = [output.stderr, output.stdout].map(|text| String::from_utf8(text).unwrap()).concat();
    (output.status.success(), text)
}

const LAB: &str = "lab = \"gates\"\n[pool.system]\nmode = \"system\"\n[pool.extra]\ntaints = [\"sla=950:NoSchedule\"]\n\
                   [sim]\nruntime_config = { \"batch/v1\" = false }\nfeature_gates = { TaintTolerationComparisonOperators = ON }\n\
                   [workload.web]\nnode_selector = { agentpool = \"extra\" }\n\
                   tolerations = [{ key = \"sla\", operator = \"Gt\", value = \"900\" }]\n\
                   [[check]]\nworkload = \"web\"\nrunning = 1\n";

#[test]
fn a_lab_has_the_features_of_its_file_until_it_is_made_again() {
    let environment = Environment::new();
    environment.write("gates.toml", LAB.replace("ON", "false"));
    let file = environment.folder().join("gates.toml").display().to_string();
    let (is_good, words) = said(&environment, &["check", &file]);
    assert!(!is_good && words.contains("it needs the feature gate `TaintTolerationComparisonOperators`"), "{words}");
    environment.write("gates.toml", LAB.replace("ON", "true"));
    for line in [&["plan", &file][..], &["up", &file], &["verify", "gates"], &["diff", "gates"], &["test", &file]] {
        let (is_good, words) = said(&environment, line);
        assert!(is_good, "{line:?}: {words}");
    }
    environment.write("gates.toml", LAB.replace("= ON", "= true, EnvFiles = false"));
    let change = "features TaintTolerationComparisonOperators=true,batch/v1=false become \
                  EnvFiles=false,TaintTolerationComparisonOperators=true,batch/v1=false";
    let (is_good, words) = said(&environment, &["up", &file]);
    assert!(!is_good && words.contains(&format!("only a new cluster can change this: {change}")), "{words}");
    assert!(words.contains(&format!("klab up --recreate {file}\n")), "{words}");
    let (is_good, words) = said(&environment, &["plan", &file]);
    assert!(is_good && words.contains("only with --recreate") && words.contains(change), "{words}");
    let (is_good, words) = said(&environment, &["up", "--recreate", &file]);
    assert!(is_good && words.contains("Recreating the cluster of lab gates"), "{words}");
    for line in [&["plan", &file][..], &["up", &file], &["down", "gates"]] {
        let (is_good, words) = said(&environment, line);
        assert!(is_good, "{line:?}: {words}");
    }
}

#[test]
fn kinds_configuration_switches_what_klab_models() {
    let environment = Environment::new();
    let configured = |gates: &str| {
        let text = format!(
            "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nfeatureGates: {gates}\nruntimeConfig: {{ batch/v1: 'false' }}\n"
        );
        environment.write("two.yaml", text);
        let file = environment.folder().join("two.yaml").display().to_string();
        said(&environment, &["kind", "create", "cluster", "--config", &file])
    };
    let (is_good, words) = configured("{ NodeSwap: false }");
    let why = "cannot set feature gate NodeSwap to false, feature is locked to true";
    assert!(!is_good && words.contains(why), "{words}");
    let (is_good, words) = configured("{ MaxUnavailableStatefulSet: true, KubeletInUserNamespace: true }");
    let note = "klab does nothing about featureGates KubeletInUserNamespace: klab does not model the feature gate \
                KubeletInUserNamespace\nCreating";
    assert!(is_good && words.contains(note), "{words}");
    if has_kubectl() {
        let kubectl = |words: &[&str]| {
            let mut command = std::process::Command::new("kubectl");
            let output = command.args(words).env("KUBECONFIG", environment.folder().join("config")).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let kinds = kubectl(&["api-resources", "--cached=false"]);
        assert!(kinds.contains("apps/v1") && !kinds.contains("batch/v1"), "{kinds}");
    }
    assert!(said(&environment, &["kind", "delete", "cluster"]).0);
}
