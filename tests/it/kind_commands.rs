//! `klab kind`: the commands of kind without Docker, through the binary.

use std::path::Path;
use std::process::{Command, Stdio};

use insta::assert_snapshot;

use crate::environment::{Environment, has_kubectl};

const TWO: &str = "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n- role: worker\n  labels: { tier: gold }\n";

/// klab with a kubeconfig of its own.
fn command(environment: &Environment, line: &str) -> Command {
    let words: Vec<&str> = std::iter::once("kind").chain(line.split_whitespace()).collect();
    let mut command = environment.command(&words);
    command.env("KUBECONFIG", environment.folder().join("config")).env_remove("KIND_CLUSTER_NAME").stdin(Stdio::null());
    command
}

/// What it says, and its exit code.
fn kind(environment: &Environment, line: &str) -> String {
    let output = command(environment, line).output().unwrap();
    let text = [output.stderr, output.stdout].map(|text| String::from_utf8(text).unwrap()).concat();
    let text = format!("$ kind {line}\n{text}exit {}\n", output.status.code().unwrap());
    text.replace(&environment.folder().display().to_string(), "FOLDER")
}

fn session(environment: &Environment, lines: &[&str]) -> String {
    lines.iter().map(|line| kind(environment, line)).collect()
}

fn config(path: &Path) -> serde_json::Value {
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_cluster_comes_and_goes_as_with_kind() {
    let environment = Environment::new();
    environment.write("two.yaml", TWO);
    let file = environment.folder().join("two.yaml").display().to_string();
    let shown = session(
        &environment,
        &[
            "get clusters",
            &format!("create cluster --name demo --config {file} --wait 1m"),
            "create cluster --name demo",
            "get clusters",
            "get nodes --name demo",
            "load docker-image shop:1 --name demo --nodes demo-worker",
            "load docker-image shop:1 --name demo --nodes other",
            "delete cluster --name demo",
            "delete cluster --name demo",
            "get nodes --name demo",
        ],
    );
    assert_snapshot!(shown);
    assert_eq!(config(&environment.folder().join("config"))["current-context"], "");
    assert!(!environment.folder().join("config.lock").exists());
}

#[test]
fn mistakes_are_kinds() {
    let environment = Environment::new();
    environment.write("bad.yaml", TWO.replace("labels", "label"));
    environment.write("late.yaml", TWO.replace("tier:", "kubernetes.io/x:"));
    let path = |name: &str| environment.folder().join(name).display().to_string();
    let shown = session(
        &environment,
        &[
            "create cluster --foo",
            "create",
            "create cluster --name A_b",
            &format!("create cluster --config {}", path("bad.yaml")),
            &format!("create cluster --config {}", path("late.yaml")),
            "get kubeconfig",
            "export logs",
            "completion bash",
            "-q get frob",
        ],
    );
    assert_snapshot!(shown);
    assert_eq!(kind(&environment, "get clusters"), "$ kind get clusters\nNo kind clusters found.\nexit 0\n");
}

#[test]
fn the_users_kubeconfig_keeps_what_is_theirs_and_a_labs_is_left_alone() {
    let environment = Environment::new();
    let mine = "apiVersion: v1\nkind: Config\nclusters: [{ name: mine, cluster: { server: https://mine } }]\ncontexts: []\nusers: []\ncurrent-context: mine\n";
    environment.write("config", mine);
    assert!(kind(&environment, "create cluster").ends_with("exit 0\n"));
    let with = config(&environment.folder().join("config"));
    assert_eq!((&with["current-context"], with["clusters"].as_array().unwrap().len()), (&"kind-kind".into(), 2));
    std::fs::write(environment.folder().join("config.lock"), "").unwrap();
    assert!(kind(&environment, "delete cluster").contains("failed to lock config file"));
    std::fs::remove_file(environment.folder().join("config.lock")).unwrap();
    assert!(environment.klab(&["list"]).contains("klab kind"));
    assert!(environment.klab(&["down"]).contains("kind delete cluster --name kind"));
    assert!(kind(&environment, "delete clusters --all").ends_with("exit 0\n"));
    let after = config(&environment.folder().join("config"));
    assert_eq!(after["clusters"], config_of(mine)["clusters"]);

    environment.write("lab.toml", "lab = \"one\"\n[pool.main]\nmode = \"system\"\nnodes = 1\n");
    environment.succeeds(&["up", "lab.toml"]);
    let own = environment.succeeds(&["kubeconfig", "one", "--path"]);
    let before = std::fs::read_to_string(own.trim()).unwrap();
    let refused = kind(&environment, &format!("create cluster --kubeconfig {}", own.trim()));
    assert!(refused.contains("is the kubeconfig of a lab") && refused.ends_with("exit 1\n"), "{refused}");
    assert_eq!(std::fs::read_to_string(own.trim()).unwrap(), before);
    environment.succeeds(&["down", "one"]);
}

fn config_of(text: &str) -> serde_json::Value {
    serde_saphyr::from_str(text).unwrap()
}

/// A klab that is killed while it makes a cluster leaves what `delete` removes, as kind leaves nodes.
#[test]
fn what_a_killed_klab_leaves_is_deleted() {
    let environment = Environment::new();
    for millis in [0, 2, 5, 10, 20, 40, 80] {
        let mut child = command(&environment, "-q create cluster --name cut").spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(millis));
        child.kill().unwrap();
        child.wait().unwrap();
        // The lock of a kubeconfig stays, as kind's does, and is the user's to remove.
        let _ = std::fs::remove_file(environment.folder().join("config.lock"));
        let deleted = kind(&environment, "delete cluster --name cut");
        assert!(deleted.ends_with("exit 0\n"), "after {millis} ms: {deleted}");
        assert!(kind(&environment, "get clusters").contains("No kind clusters found."), "after {millis} ms");
    }
}

/// What `docker` under klab's name says, and its exit code.
fn docker(environment: &Environment, words: &[&str]) -> String {
    let link = environment.folder().join("docker");
    if !link.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_klab"), &link).unwrap();
    }
    let mut command = Command::new(&link);
    let ours = environment.command(&[]);
    for (name, value) in ours.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        command.env(name, value);
    }
    let output = command.args(words).env("PATH", environment.folder()).stdin(Stdio::null()).output().unwrap();
    let text = [output.stderr, output.stdout].map(|text| String::from_utf8(text).unwrap()).concat();
    format!("$ docker {}\n{text}exit {}\n", words.join(" "), output.status.code().unwrap())
}

#[test]
fn commands_on_nodes_stop_components_and_make_static_pods() {
    let environment = Environment::new();
    environment.write("two.yaml", TWO);
    let file = environment.folder().join("two.yaml").display().to_string();
    kind(&environment, &format!("create cluster --name demo --config {file}"));
    let node = "demo-control-plane";
    let manifests = "/etc/kubernetes/manifests";
    let own = format!(
        "cat > {manifests}/own.yaml <<'EOF'\napiVersion: v1\nkind: Pod\nmetadata: {{name: own}}\nspec:\n  containers:\n  - {{name: own, image: nginx}}\nEOF"
    );
    let shown: String = [
        &["exec", node, "mv", &format!("{manifests}/kube-scheduler.yaml"), "/etc/kubernetes/"][..],
        &["exec", node, "bash", "-c", &own],
        &["exec", "-it", node, "ls", manifests],
        &["exec", node, "crictl", "ps", "--name", "kube-scheduler", "-q"],
        &["exec", node, "mv", "/etc/kubernetes/kube-scheduler.yaml", manifests],
        &["exec", "demo-worker", "systemctl", "stop", "kubelet"],
        &["exec", "demo-worker", "systemctl", "is-active", "kubelet"],
        &["exec", node, "apt-get", "update"],
        &["exec", node, "sed", "-i", "s/6443/7443/", &format!("{manifests}/kube-apiserver.yaml")],
        &["exec", "other", "ls"],
        &["ps"],
    ]
    .iter()
    .map(|words| docker(&environment, words))
    .collect();
    assert_snapshot!(shown);
    let logs = environment.folder().join("logs").display().to_string();
    kind(&environment, &format!("export logs {logs} --name demo"));
    let read = |node: &str| std::fs::read_to_string(format!("{logs}/{node}/inspect.json")).unwrap();
    assert!(read("demo-worker").contains("stopped") && !read(node).contains("stopped"));
    kind(&environment, "delete cluster --name demo");
}

#[test]
fn the_scheduler_has_the_configuration_that_kubeadm_is_given() {
    let environment = Environment::new();
    let file = |profile: &str| {
        format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- {profile}\n"
        )
    };
    environment.write("sched/config.yaml", file("schedulerName: packing"));
    environment.write(
        "kind.yaml",
        "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n  extraMounts:\n  \
         - { hostPath: sched, containerPath: /files }\n  kubeadmConfigPatches:\n  - |\n    kind: ClusterConfiguration\n    \
         scheduler:\n      extraArgs: { config: /sched/config.yaml }\n      extraVolumes:\n      \
         - { name: sched, hostPath: /files, mountPath: /sched }\n",
    );
    let said = kind(&environment, "create cluster --name demo --config kind.yaml");
    assert!(said.contains("Have a nice day") && !said.contains("klab does nothing about"), "{said}");
    if has_kubectl() {
        let kubectl = |words: &[&str]| {
            let mut kubectl = Command::new("kubectl");
            let output = kubectl.args(words).env("KUBECONFIG", environment.folder().join("config")).output().unwrap();
            assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        let spec = r#"{"spec":{"schedulerName":"packing"}}"#;
        kubectl(&["run", "one", "--image", "nginx", "--overrides", spec]);
        kubectl(&["wait", "pod/one", "--for=condition=Ready", "--timeout=60s"]);
    }
    kind(&environment, "delete cluster --name demo");
    environment.write(
        "sched/config.yaml",
        file("{ schedulerName: packing, plugins: { filter: { enabled: [{ name: Mine }] } } }"),
    );
    let refused = kind(&environment, "create cluster --name demo --config kind.yaml");
    assert!(
        refused.contains("kube-scheduler would end because of /sched/config.yaml (sched/config.yaml)"),
        "{refused}"
    );
    assert_eq!(kind(&environment, "get clusters").matches("demo").count(), 0);
}

#[test]
fn a_container_that_crictl_removes_is_started_again() {
    let environment = Environment::new();
    kind(&environment, "create cluster --name demo");
    let node = "demo-control-plane";
    let crictl = |words: &[&str]| {
        let said = docker(&environment, &[&["exec", node, "crictl"], words].concat());
        said.split_once('\n').unwrap().1.to_owned()
    };
    // Nothing before the status where no such container runs yet.
    let id = |name: &str| crictl(&["ps", "--name", name, "-q"]).replace("exit 0\n", "").trim().to_owned();
    let proxy = || id("kube-proxy");
    let begun = std::time::Instant::now();
    let other_than = |before: &str| loop {
        let now = proxy();
        assert!(begun.elapsed().as_secs() < 240, "{now}");
        if !now.is_empty() && now != before {
            return now;
        }
    };
    let first = other_than("");
    assert_eq!(crictl(&["stop", &first]), format!("{first}\nexit 0\n"));
    let second = other_than(&first);
    assert_eq!(crictl(&["rm", &first]), format!("{first}\nexit 0\n"), "it has ended");
    assert_eq!(crictl(&["rm", "--force", &second]), format!("{second}\n{second}\nexit 0\n"));
    other_than(&second);
    assert_eq!(crictl(&["rm", "--force", &second]), format!("E: container \"{second}\": not found\nexit 1\n"));
    let server = id("kube-apiserver");
    assert!(crictl(&["stop", &server]).ends_with("is not followed\nexit 126\n"));
    kind(&environment, "delete cluster --name demo");
}

#[test]
fn without_its_manifest_the_api_server_answers_no_client_but_nodes_go_on() {
    let environment = Environment::new();
    kind(&environment, "create cluster --name demo");
    let node = "demo-control-plane";
    let answers = || {
        let mut kubectl = Command::new("kubectl");
        let output = kubectl.args(["get", "nodes"]).env("KUBECONFIG", environment.folder().join("config")).output();
        let output = output.unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    if !has_kubectl() {
        return crate::skipped::skipped("kubectl is not installed");
    }
    assert!(answers().0);
    let (here, there) = ("/etc/kubernetes/manifests/kube-apiserver.yaml", "/tmp/kube-apiserver.yaml");
    assert!(docker(&environment, &["exec", node, "mv", here, there]).ends_with("yaml\nexit 0\n"));
    let begun = std::time::Instant::now();
    let (answered, said) = answers();
    assert!(!answered && said.contains("Unable to connect to the server"), "{said}");
    assert!(begun.elapsed().as_secs() < 8, "a connection ends at once: {:?}", begun.elapsed());
    let ps = |name: &str| docker(&environment, &["exec", node, "crictl", "ps", "--name", name, "-q"]).lines().count();
    assert_eq!((ps("kube-apiserver"), ps("etcd")), (2, 3), "the command, the ids, and the exit code");
    Command::new("kill").args(["-9", &environment.server_pid().unwrap().to_string()]).status().unwrap();
    assert!(docker(&environment, &["exec", node, "ls", there]).ends_with("exit 0\n"));
    let (answered, said) = answers();
    assert!(!answered && said.contains("Unable to connect to the server"), "another server knows it, too: {said}");
    assert!(docker(&environment, &["exec", node, "mv", there, here]).ends_with("yaml\nexit 0\n"));
    let (answered, said) = answers();
    assert!(answered, "{said}");
    kind(&environment, "delete cluster --name demo");
}
