//! `klab import`: a folder that was made for kind becomes a lab that comes up, and is solved by the folder's own script.

use crate::environment::{Environment, has_kubectl};

const CONFIGURATION: &str = "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n- role: worker\n  labels: { tier: web }\n- role: worker\n";
const WEB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: { name: web }\nspec:\n  replicas: 1\n  selector: { matchLabels: { app: web } }\n  template:\n    metadata: { labels: { app: web } }\n    spec:\n      nodeSelector: { tier: web }\n      containers: [{ name: web, image: nginx }]\n";

fn folder() -> Environment {
    let environment = Environment::new();
    environment.write("task-7/assets/kind.yaml", CONFIGURATION);
    environment.write("task-7/assets/web.yaml", WEB);
    environment.write("task-7/assets/fix.sh", "kubectl create configmap settings --from-literal=mode=fast\n");
    environment.write("task-7/assets/check.sh", "kubectl get configmap settings > /dev/null\n");
    environment.write("task-7/README.md", "# Settings for the shop\n\nMake a ConfigMap `settings`.\n");
    environment
}

#[test]
fn a_folder_for_kind_becomes_a_lab() {
    if !has_kubectl() {
        return;
    }
    let environment = folder();
    let shown = environment.klab(&["import", "task-7"]);
    assert!(shown.contains("Wrote task-7/lab.toml") && shown.contains("klab step --allow-run"), "{shown}");
    environment.succeeds(&["check", "task-7/lab.toml"]);
    environment.succeeds(&["up", "task-7/lab.toml"]);
    let status = environment.klab(&["status"]);
    assert!(status.contains("task-7-worker") && status.contains("web"), "{status}");
    environment.succeeds(&["guide"]);
    environment.succeeds(&["step", "--allow-run"]);
    environment.succeeds(&["down"]);
    environment.nothing_is_left();
}

#[test]
fn what_cannot_be_imported_is_said_and_nothing_is_overwritten() {
    let environment = folder();
    environment.write("task-7/lab.toml", "mine");
    for (arguments, said) in [
        (
            &["import", "task-7"][..],
            "`task-7/lab.toml` exists and was left as it is\nhint: give another name:\n        klab import task-7 --output task-7/other.toml",
        ),
        (&["import", "nowhere"], "could not read `nowhere`"),
        (&["import", "task-7", "-o", "lab.toml"], "`lab.toml` is not in `task-7`"),
    ] {
        let shown = environment.klab(arguments);
        assert!(shown.contains(said) && !shown.contains("--- status 0"), "{shown}");
    }
    assert_eq!(environment.read("task-7/lab.toml"), "mine");
    environment.write("task-8/kind.yaml", CONFIGURATION.replace("control-plane", "master"));
    let shown = environment.klab(&["import", "task-8"]);
    assert!(shown.contains("kind.yaml") && shown.contains("--- status 2"), "{shown}");
}
