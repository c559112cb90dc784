//! kubectl of many versions against a seat, directly and below the path of a proxy: what learners have on their machines. `KLAB_KUBECTLS`
//! names them, separated by `:`; without it the one on `PATH` is taken.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::proxied::Class;
use super::proxy::has_nginx;
use super::running::Running;
use crate::skipped::is_there;

fn kubectls() -> Vec<String> {
    let named = std::env::var("KLAB_KUBECTLS").unwrap_or_else(|_| "kubectl".to_owned());
    named.split(':').filter(|program| is_there(program)).map(str::to_owned).collect()
}

/// A kubectl with the kubeconfig of a seat.
struct Kubectl<'k> {
    program: &'k str,
    folder: &'k Path,
    kubeconfig: &'k Path,
}

impl Kubectl<'_> {
    fn output(&self, line: &str) -> Output {
        let words: Vec<&str> = line.split_whitespace().collect();
        // What it found out of one server is not asked of the next one.
        Command::new(self.program)
            .args(["--kubeconfig", self.kubeconfig.to_str().unwrap(), "--request-timeout=60s"])
            .args(words)
            .env("HOME", self.folder)
            .env("KUBECTL_EXTERNAL_DIFF", "diff")
            .env("KUBE_EDITOR", "sed -i /^[^#]*replicas:/s/2/3/")
            .current_dir(self.folder)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Types a line that ends with this code and says this.
    fn types(&self, line: &str, code: i32, says: &str) {
        let output = self.output(line);
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{} {line}: {text}", self.program);
        assert!(text.contains(says), "{} {line}: {text}", self.program);
    }
}

const MANIFEST: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: typed}\nspec:\n  replicas: 2\n  selector: {matchLabels: {app: typed}}\n  \
     template:\n    metadata: {labels: {app: typed}}\n    spec: {containers: [{name: c, image: nginx, resources: {requests: {cpu: 10m}}}]}\n";

/// Lines, how they end, and what is among what they say.
const LINES: [(&str, i32, &str); 22] = [
    ("version", 0, "Server Version"),
    ("get nodes", 0, "Ready"),
    ("api-resources", 0, "deployments"),
    // Before 1.28 the schemas are asked for at the paths that the server says.
    ("explain deployment.spec.replicas", 0, "replicas"),
    ("apply -f typed.yaml", 0, "created"),
    ("apply -f typed.yaml", 0, "unchanged"),
    ("apply --server-side --force-conflicts -f typed.yaml", 0, "serverside-applied"),
    ("rollout status deployment typed --timeout=60s", 0, "successfully rolled out"),
    ("wait pod -l app=typed --for=condition=Ready --timeout=60s", 0, "condition met"),
    ("get pods --watch --request-timeout=4s", 0, "typed-"),
    ("edit deployment typed", 0, "edited"),
    ("patch deployment typed --type=merge --patch={\"spec\":{\"replicas\":1}}", 0, "patched"),
    ("describe deployment typed", 0, "1 desired"),
    ("set image deployment typed c=nginx:1.25", 0, "updated"),
    ("rollout undo deployment typed", 0, "rolled back"),
    ("auth can-i create pods", 0, "yes"),
    ("top nodes", 0, "CPU"),
    ("get pod nosuch", 1, "NotFound"),
    ("get nosuch", 1, "doesn't have a resource type"),
    ("create deployment typed --image=nginx", 1, "already exists"),
    ("delete deployment typed --timeout=60s", 0, "deleted"),
    ("get deployment typed", 1, "not found"),
];

fn try_out(program: &str, kubeconfig: &Value) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seat.yaml");
    std::fs::write(&path, kubeconfig.as_str().unwrap()).unwrap();
    std::fs::write(folder.path().join("typed.yaml"), MANIFEST).unwrap();
    let kubectl = Kubectl { program, folder: folder.path(), kubeconfig: &path };
    for (line, code, says) in LINES {
        kubectl.types(line, code, says);
    }
    let nodes = kubectl.output("get nodes -o name");
    let nodes = String::from_utf8(nodes.stdout).unwrap();
    let node = nodes.lines().next().unwrap().trim_start_matches("node/");
    kubectl.types(&format!("taint node {node} a=b:NoSchedule"), 0, "tainted");
    kubectl.types(
        &format!("drain {node} --ignore-daemonsets --delete-emptydir-data --force --timeout=60s"),
        0,
        "drained",
    );
    kubectl.types(&format!("uncordon {node}"), 0, "uncordoned");
    kubectl.types(&format!("describe node {node}"), 0, "a=b:NoSchedule");
}

#[tokio::test]
async fn every_kubectl_works_at_a_seat() {
    let host = Running::start(&["scheduling"]);
    for (number, program) in kubectls().iter().enumerate() {
        let seat = host.join(&host.code, &format!("L{number}"), "").await.unwrap();
        try_out(program, &seat["kubeconfig"]);
    }
}

#[tokio::test]
async fn every_kubectl_works_below_the_path_of_a_proxy() {
    if !has_nginx() {
        return;
    }
    let class = Class::start("/kubernetes/labs/");
    for (number, program) in kubectls().iter().enumerate() {
        let seat = class.join(&format!("L{number}")).await;
        try_out(program, &seat["kubeconfig"]);
    }
}
