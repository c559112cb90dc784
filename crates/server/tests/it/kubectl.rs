//! kubectl against a cluster of the server, as users have it: by the lab's kubeconfig, under the cluster's path.
//!
//! The recorded flows (`golden_kubectl`) say much more; this is for machines that have only one kubectl.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use klab_server::{Flavour, Seed, Server, ServerOptions};
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
    if !crate::skipped::is_there("kubectl") {
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
    run(&["rollout", "status", "deployment/web", "--timeout=120s"]);
    let pods = run(&["get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}"]);
    assert_eq!(pods, "a a a");
    run(&["scale", "deployment", "web", "--replicas=1"]);
    run(&["taint", "nodes", "b", "dedicated-"]);
    run(&["drain", "a", "--ignore-daemonsets", "--timeout=120s"]);
    run(&["wait", "--for=condition=Available", "deployment/web", "--timeout=120s"]);
    assert!(run(&["describe", "node", "a"]).contains("Unschedulable:      true"));
    assert!(run(&["top", "nodes"]).contains("CPU(cores)"));
    run(&["delete", "deployment", "web"]);
    let gone = kubectl(home.path(), &["get", "deployment", "web"]);
    assert!(String::from_utf8_lossy(&gone.stderr).contains("deployments.apps \"web\" not found"));
    let logs = run(&["run", "solo", "--image=nginx:1.27"]);
    assert_eq!(logs, "pod/solo created\n");
    run(&["wait", "--for=condition=Ready", "pod/solo", "--timeout=120s"]);
    let refused = kubectl(home.path(), &["logs", "solo"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("the embedded cluster runs no containers"));
    run(&["run", "box", "--image=busybox:1.37", "--command", "--", "sh", "-c", "echo up; sleep 3600"]);
    run(&["wait", "--for=condition=Ready", "pod/box", "--timeout=120s"]);
    assert_eq!(run(&["logs", "box"]), "up\n");
    let given = home.path().join("given");
    std::fs::write(&given, "a\nb\n").unwrap();
    for program in kubectls() {
        let speak = |web_sockets: &str, arguments: &[&str]| {
            Command::new(&program)
                .args(arguments)
                .stdin(std::fs::File::open(&given).unwrap())
                .env("HOME", home.path())
                .env("KUBECONFIG", home.path().join("kubeconfig"))
                .env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", web_sockets)
                .output()
                .unwrap()
        };
        let refused = speak("false", &["exec", "box", "--", "true"]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains("use kubectl 1.31 or later"), "{said}");
        if minor_version(&program) >= 29 {
            executes(&|arguments| speak("true", arguments));
        }
    }
    let refused = kubectl(home.path(), &["port-forward", "pod/box", "8080:80"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("the embedded cluster runs no containers: there is nothing to forward to"), "{said}");
}

/// The kubectl of PATH, and those of other versions that some distributions have beside it.
fn kubectls() -> Vec<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let real = std::env::split_paths(&folders).find_map(|folder| folder.join("kubectl").canonicalize().ok());
    let beside = real.as_deref().and_then(Path::parent).and_then(|folder| std::fs::read_dir(folder).ok());
    let entries = beside.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let others =
        entries.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("kubectl.1.")));
    [PathBuf::from("kubectl")].into_iter().chain(others).collect()
}

/// 32 of v1.32.4.
fn minor_version(kubectl: &Path) -> u32 {
    let version = Command::new(kubectl).args(["version", "--client", "--output=json"]).output().unwrap();
    let version: serde_json::Value = serde_json::from_slice(&version.stdout).unwrap();
    version["clientVersion"]["minor"].as_str().unwrap().trim_end_matches('+').parse().unwrap()
}

fn executes(kubectl: &dyn Fn(&[&str]) -> Output) {
    const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
    let (there, none) = (format!("{ACCOUNT}/namespace"), format!("{ACCOUNT}/none"));
    let executed = kubectl(&["exec", "box", "--", "cat", &there, &none]);
    let said = String::from_utf8_lossy(&executed.stderr).into_owned();
    let missing = format!("cat: can't open '{none}': No such file or directory\ncommand terminated with exit code 1\n");
    assert_eq!((executed.status.code(), said), (Some(1), missing));
    assert_eq!(String::from_utf8_lossy(&executed.stdout), "default");
    assert_eq!(text(&kubectl(&["exec", "-i", "box", "--", "hostname"])), "box\n");
    let refused = kubectl(&["exec", "box", "--", "ps"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.starts_with("error: the embedded cluster runs no containers: `ps` is not followed"), "{said}");
    assert!(said.ends_with("kind runs real containers (`klab up LAB --provider kind`)\n"), "{said}");
    let refused = kubectl(&["attach", "box"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("the embedded cluster runs no containers: there is nothing to attach to"), "{said}");
}
