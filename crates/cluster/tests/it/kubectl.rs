//! kubectl against a cluster of the server, as users have it: by the lab's kubeconfig, under the cluster's path.
//!
//! The recorded flows (`golden_kubectl`) say much more; this is for machines that have only one kubectl.

use std::path::Path;
use std::process::{Command, Output};

use klab_cluster::server::{Flavour, Seed, Server, ServerOptions};
use serde_json::json;

fn kubectl(home: &Path, arguments: &[&str]) -> Output {
    Command::new("kubectl")
        .args(arguments)
        .env("HOME", home)
        .env("KUBECONFIG", home.join("kubeconfig"))
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lesson_s_commands_work() {
    let home = tempfile::tempdir().unwrap();
    if Command::new("kubectl").args(["version", "--client"]).output().is_err() {
        println!("skipped: there is no kubectl on this machine");
        return;
    }
    let options = ServerOptions::at(home.path().join("state"));
    let server = Server::start(options).await.unwrap_or_else(|error| panic!("{error:?}"));
    let node = |name: &str, pool: &str| {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"agentpool": pool, "kubernetes.io/hostname": name}},
            "status": {
                "capacity": {"cpu": "2", "memory": "8Gi", "pods": "30"},
                "allocatable": {"cpu": "1900m", "memory": "6Gi", "pods": "30"},
                "conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": {"kubeletVersion": "v1.36.2"},
            },
        })
    };
    let seed = Seed { objects: vec![node("a", "one"), node("b", "extra")], flavour: Flavour::Bare, ..Seed::default() };
    server.add("lesson", seed).unwrap();
    std::fs::write(home.path().join("kubeconfig"), server.kubeconfig("lesson").unwrap()).unwrap();
    let run = |arguments: &[&str]| text(&kubectl(home.path(), arguments));

    let nodes = run(&["get", "nodes", "-o", "wide"]);
    assert!(nodes.contains("v1.36.2") && nodes.lines().count() == 3, "{nodes}");
    run(&["taint", "nodes", "-l", "agentpool=extra", "dedicated=special:NoSchedule"]);
    run(&["create", "deployment", "web", "--image=nginx:1.27", "--replicas=3"]);
    run(&["rollout", "status", "deployment/web", "--timeout=20s"]);
    let pods = run(&["get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}"]);
    assert_eq!(pods, "a a a");
    run(&["scale", "deployment", "web", "--replicas=1"]);
    run(&["taint", "nodes", "b", "dedicated-"]);
    run(&["drain", "a", "--ignore-daemonsets", "--timeout=20s"]);
    run(&["wait", "--for=condition=Available", "deployment/web", "--timeout=20s"]);
    assert!(run(&["describe", "node", "a"]).contains("Unschedulable:      true"));
    assert!(run(&["top", "nodes"]).contains("CPU(cores)"));
    run(&["delete", "deployment", "web"]);
    let gone = kubectl(home.path(), &["get", "deployment", "web"]);
    assert!(String::from_utf8_lossy(&gone.stderr).contains("deployments.apps \"web\" not found"));
    let logs = run(&["run", "solo", "--image=nginx:1.27"]);
    assert_eq!(logs, "pod/solo created\n");
    run(&["wait", "--for=condition=Ready", "pod/solo", "--timeout=20s"]);
    let refused = kubectl(home.path(), &["logs", "solo"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("the embedded cluster runs no containers"));
}
