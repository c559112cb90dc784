//! kind: golden configurations, decoded by the real kind; the whole life of a lab on a stand-in for kind and docker.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use klab::provider::kind::config::{Surroundings, render};
use klab::provider::kind::machine::{Emulation, Host};
use klab::provider::kind::names::Names;
use klab::provider::kind::roster::Roster;
use klab::provider::kind::rules;
use klab::provider::kind::version::KindVersion;
use klab::spec::{Lab, LoadOptions, Provider, load};
use klab::state::Home;
use kube::ResourceExt;

use self::pair::Pair;
use crate::environment::Environment;

#[path = "../kind/pair.rs"]
mod pair;

const KIND: KindVersion = KindVersion::new(33, 0);

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The lab files whose configurations are kept: all that ship, and one that says everything.
fn lab_files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(root().join("labs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.push(root().join("tests/kind/everything.toml"));
    files.sort();
    files
}

fn lab(file: &Path) -> Lab {
    let options = LoadOptions { provider: Some(Provider::Kind), ..LoadOptions::default() };
    load(file, &options).unwrap_or_else(|diagnostics| panic!("{}: {diagnostics:?}", file.display()))
}

fn host(emulation: Emulation) -> Host {
    Host { cpus: 4, memory: 16 << 30, emulation }
}

/// The configuration as it would be on a machine of 4 CPUs, with this repository at `/klab`.
fn configuration(lab: &Lab, kind: KindVersion, emulation: Emulation, cgroup_v1: bool) -> String {
    let names = Names::new(&Home::new("/state"), &lab.name.value, None).unwrap();
    let roster = Roster::of_new_cluster(&names, lab);
    let around = Surroundings { names: &names, host: &host(emulation), kind, cgroup_v1 };
    render(lab, &roster, &around).unwrap().replace(&root().display().to_string(), "/klab")
}

fn goldens() -> Vec<(String, String)> {
    let mut goldens = Vec::new();
    for file in lab_files() {
        let lab = lab(&file);
        assert_eq!(rules::problems(&lab, KIND, &host(Emulation::Full)), [], "{}", file.display());
        goldens.push((lab.name.value.clone(), configuration(&lab, KIND, Emulation::Full, false)));
    }
    let scheduling = lab(&root().join("labs/scheduling.toml"));
    let older = configuration(&scheduling, KindVersion::new(27, 0), Emulation::Shrink, true);
    goldens.push(("scheduling.shrunk-on-cgroup-v1-with-kind-0.27".to_owned(), older));
    goldens
}

/// `KLAB_GOLDEN=write cargo test golden` writes them anew.
#[test]
fn golden_configurations_are_as_kept() {
    let folder = root().join("tests/golden/kind");
    let mut kept: Vec<String> = std::fs::read_dir(&folder)
        .map(|entries| entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect())
        .unwrap_or_default();
    for (name, text) in goldens() {
        let file = format!("{name}.yaml");
        let path = folder.join(&file);
        if std::env::var("KLAB_GOLDEN").as_deref() == Ok("write") {
            std::fs::write(&path, &text).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(text == golden, "{} differs; `KLAB_GOLDEN=write cargo test golden` writes:\n{text}", path.display());
        kept.retain(|other| *other != file);
    }
    assert_eq!(kept, Vec::<String>::new(), "golden configurations of no lab");
}

/// The real kind, if this machine has it.
fn real_kind() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("KLAB_KIND").filter(|path| !path.is_empty()) {
        return Some(PathBuf::from(path));
    }
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join("kind")).find(|path| path.is_file())
}

/// What kind says to a configuration. It reads and decodes it strictly, and then finds no docker: so no cluster is made.
fn said_by_kind(kind: &Path, configuration: &Path) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(kind)
        .args(["create", "cluster", "--name", "klab-golden", "--config"])
        .arg(configuration)
        .arg("--kubeconfig")
        .arg(folder.path().join("kubeconfig"))
        .env("KIND_EXPERIMENTAL_PROVIDER", "docker")
        .env("DOCKER_HOST", format!("unix://{}", folder.path().join("no-docker.sock").display()))
        .env_remove("DOCKER_CONTEXT")
        .output()
        .unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn real_kind_decodes_every_golden_configuration() {
    let Some(kind) = real_kind() else {
        println!("skipped: no kind on PATH and no KLAB_KIND; `.ci/kind` gets one");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.yaml");
    for (name, text) in goldens() {
        std::fs::write(&file, &text).unwrap();
        let said = said_by_kind(&kind, &file);
        assert!(!said.contains("unable to decode config"), "{name}: {said}");
        assert!(said.contains("failed to get docker info"), "{name}: {said}");
        // The same with a field kind does not have: this test can fail.
        std::fs::write(&file, text.replace("- role: worker\n", "- role: worker\n  taints: []\n")).unwrap();
        let said = said_by_kind(&kind, &file);
        assert!(said.contains("field taints not found"), "{name}: {said}");
    }
}

/// A lab of two pools, the shape of the shipped ones.
const LAB: &str = r#"
lab        = "pools"
kubernetes = "1.36"

[pool.nodepool1]
mode  = "system"
nodes = 2
size  = "Standard_B2ms"

[pool.extra]
nodes  = 1
size   = "Standard_B2ms"
labels = { workload = "extra" }
taints = ["dedicated=special:NoSchedule"]

[workload.web]
replicas      = 2
image         = "nginx:1.27"
requests      = { cpu = "50m", memory = "64Mi" }
node_selector = { workload = "extra" }
tolerations   = ["dedicated=special:NoSchedule"]

[[check]]
workload = "web"
on       = "pool:extra"
running  = 2
"#;

/// klab, its home, and the pair it finds on its PATH.
struct Stage {
    environment: Environment,
    pair: Pair,
}

impl Stage {
    fn new(lab: &str) -> Self {
        let environment = Environment::new();
        let pair = Pair::new(environment.folder());
        environment.write("pools.toml", lab);
        Self { environment, pair }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.environment.command(arguments);
        command
            .env("PATH", self.pair.path())
            .env("KLAB_PROVIDER", "kind")
            .env("KLAB_KIND_READY", "20")
            .env("KLAB_KIND_LATE", "1000");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "klab {arguments:?}\n{}", self.environment.shown(&output));
        String::from_utf8(output.stderr).unwrap()
    }

    /// The talk of a command that must fail with this exit code.
    fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let talk = self.environment.shown(&output);
        assert_eq!(output.status.code(), Some(code), "{talk}");
        talk
    }

    fn up(&self) -> String {
        self.succeeds(&["up", "pools.toml"])
    }

    fn write(&self, lab: &str) {
        self.environment.write("pools.toml", lab);
    }

    fn down(&self) {
        self.succeeds(&["down", "pools"]);
        self.nothing_is_left();
    }

    fn nothing_is_left(&self) {
        assert_eq!(self.pair.containers(), Vec::<String>::new());
        assert_eq!(self.environment.leftovers(), Vec::<String>::new());
        assert!(!self.environment.folder().join(".kube").exists(), "the user's kubeconfig is not klab's");
    }

    /// The live nodes, by name.
    fn nodes(&self) -> BTreeMap<String, Node> {
        let kubeconfig = std::fs::read_to_string(self.environment.home().join("labs/pools/kubeconfig")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let kubeconfig = kube::config::Kubeconfig::from_yaml(&kubeconfig).unwrap();
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
                .await
                .unwrap();
            let api: kube::Api<Node> = kube::Api::all(kube::Client::try_from(config).unwrap());
            let nodes = api.list(&kube::api::ListParams::default()).await.unwrap();
            nodes.items.into_iter().map(|node| (node.name_any(), node)).collect()
        })
    }

    /// Pool of each worker.
    fn pools(&self) -> Vec<String> {
        let nodes = self.nodes();
        let workers =
            nodes.iter().filter_map(|(name, node)| Some(format!("{name}={}", node.labels().get("agentpool")?)));
        workers.collect()
    }
}

fn resource(node: &Node, list: &str, resource: &str) -> String {
    serde_json::to_value(node).unwrap()["status"][list][resource].as_str().unwrap_or_default().to_owned()
}

fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.map(|taint| format!("{}={}:{}", taint.key, taint.value.as_deref().unwrap_or(""), taint.effect)).collect()
}

#[test]
fn nodes_have_the_labels_taints_and_size_of_aks() {
    let stage = Stage::new(LAB);
    let talk = stage.up();
    assert!(talk.contains("Created cluster klab-pools"), "{talk}");
    let nodes = stage.nodes();
    assert_eq!(nodes.len(), 4);
    assert_eq!(
        stage.pools(),
        ["klab-pools-worker=nodepool1", "klab-pools-worker2=nodepool1", "klab-pools-worker3=extra"]
    );
    let extra = &nodes["klab-pools-worker3"];
    for (key, value) in [
        ("workload", "extra"),
        ("kubernetes.azure.com/mode", "user"),
        ("node.kubernetes.io/instance-type", "Standard_B2ms"),
        ("topology.kubernetes.io/region", "westeurope"),
        ("topology.kubernetes.io/zone", "0"),
        ("kubernetes.io/hostname", "klab-pools-worker3"),
    ] {
        assert_eq!(extra.labels().get(key).map(String::as_str), Some(value), "{key}");
    }
    assert_eq!(taints(extra), ["dedicated=special:NoSchedule"]);
    // 8 GiB less a quarter less 100 MiB, as AKS reserves with 250 pods.
    assert_eq!(resource(extra, "allocatable", "cpu"), "1900m");
    assert_eq!(resource(extra, "allocatable", "memory"), "6044Mi");
    assert_eq!(resource(extra, "allocatable", "pods"), "250");
    if Path::new("/sys/devices/system/node").is_dir() {
        assert_eq!(resource(extra, "capacity", "cpu"), "2");
        assert_eq!(resource(extra, "capacity", "memory"), "8Gi");
    }
    stage.succeeds(&["verify"]);
    stage.down();
}

#[test]
fn unchanged_up_changes_nothing_and_asks_little() {
    let stage = Stage::new(LAB);
    stage.up();
    stage.pair.forget_calls();
    let talk = stage.up();
    assert!(talk.contains("was as its file says"), "{talk}");
    let calls: Vec<String> = stage.pair.calls().into_iter().map(|(call, _)| call).collect();
    let changing = |call: &&String| {
        ["create", "delete", "run", "rm", "exec", "cp", "load"].iter().any(|verb| call.split(' ').nth(1) == Some(verb))
    };
    assert_eq!(calls.iter().filter(changing).collect::<Vec<_>>(), Vec::<&String>::new());
    // Each call takes as long on a real machine as everything klab does itself.
    assert!(calls.len() <= 6, "{calls:#?}");
    stage.down();
}

#[test]
fn pools_change_on_the_live_cluster() {
    let stage = Stage::new(LAB);
    stage.up();
    stage.pair.forget_calls();

    // Labels, taints, size and pods of one pool; nodes stay the same.
    let changed = LAB
        .replace(
            "labels = { workload = \"extra\" }",
            "labels = { workload = \"extra\", tier = \"gold\", \"node-role.kubernetes.io/extra\" = \"\" }",
        )
        .replace(
            "[\"dedicated=special:NoSchedule\"]\n\n[workload",
            "[\"dedicated=special:NoSchedule\", \"a=b:PreferNoSchedule\"]\n\n[workload",
        )
        .replace("size   = \"Standard_B2ms\"", "size   = \"Standard_D16s_v5\"\nmax_pods = 30");
    stage.write(&changed);
    let talk = stage.up();
    assert!(talk.contains("Changed pool extra"), "{talk}");
    let node = &stage.nodes()["klab-pools-worker3"];
    assert_eq!(node.labels()["tier"], "gold");
    assert_eq!(node.labels()["node-role.kubernetes.io/extra"], "");
    assert_eq!(node.labels()["node.kubernetes.io/instance-type"], "Standard_D16s_v5");
    assert_eq!(taints(node), ["dedicated=special:NoSchedule", "a=b:PreferNoSchedule"]);
    assert_eq!(resource(node, "allocatable", "pods"), "30");
    if Path::new("/sys/devices/system/node").is_dir() {
        assert_eq!(resource(node, "capacity", "cpu"), "16", "more than the machine has");
        assert_eq!(resource(node, "allocatable", "cpu"), "15740m");
    }
    let made = |calls: &[(String, f64)]| {
        calls.iter().filter(|(call, _)| call.starts_with("docker run") || call.starts_with("kind create")).count()
    };
    assert_eq!(made(&stage.pair.calls()), 0);

    // A pool in the middle and one node less: no node that stays changes its pool.
    let inserted = LAB
        .replace("nodes = 2", "nodes = 1")
        .replace("[pool.extra]", "[pool.middle]\nnodes = 2\ncpu = 1\nmemory = \"2Gi\"\n\n[pool.extra]");
    stage.write(&inserted);
    stage.up();
    assert_eq!(
        stage.pools(),
        [
            "klab-pools-worker=nodepool1",
            "klab-pools-worker2=middle",
            "klab-pools-worker3=extra",
            "klab-pools-worker4=middle"
        ]
    );
    assert_eq!(stage.pair.containers().len(), 5);
    let nodes = stage.nodes();
    assert_eq!(resource(&nodes["klab-pools-worker2"], "allocatable", "cpu"), "940m");
    assert_eq!(nodes["klab-pools-worker3"].labels().get("tier"), None, "a label that is declared no more goes");
    assert_eq!(taints(&nodes["klab-pools-worker3"]), ["dedicated=special:NoSchedule"]);
    assert_eq!(resource(&nodes["klab-pools-worker3"], "allocatable", "pods"), "250");
    stage.succeeds(&["verify"]);

    // The pool goes again, with its containers.
    stage.write(&LAB.replace("nodes = 2", "nodes = 1"));
    stage.up();
    assert_eq!(stage.pools(), ["klab-pools-worker=nodepool1", "klab-pools-worker3=extra"]);
    stage.down();
}

#[test]
fn what_only_a_new_cluster_can_change_is_asked_for() {
    let stage = Stage::new(LAB);
    stage.up();
    stage.write(&format!("{LAB}\n[kind]\nfeature_gates = {{ A = true }}\n"));
    let talk = stage.fails(2, &["up", "pools.toml"]);
    assert!(talk.contains("feature gates none becomes A=true") && talk.contains("--recreate"), "{talk}");
    stage.pair.forget_calls();
    let talk = stage.succeeds(&["up", "--recreate", "pools.toml"]);
    assert!(talk.contains("Recreating cluster klab-pools"), "{talk}");
    assert_eq!(stage.nodes().len(), 4);
    stage.down();
}

#[test]
fn worker_that_kind_forgot_is_made() {
    let stage = Stage::new(LAB);
    stage.pair.fault("missing-worker", "klab-pools-worker2");
    let talk = stage.up();
    assert!(talk.contains("klab-pools-worker2 is not there"), "{talk}");
    assert_eq!(
        stage.pools(),
        ["klab-pools-worker=nodepool1", "klab-pools-worker2=nodepool1", "klab-pools-worker3=extra"]
    );
    stage.down();
}

#[test]
fn node_that_registers_late_is_waited_for() {
    let stage = Stage::new(LAB);
    stage.pair.fault("slow-worker", "");
    stage.up();
    assert_eq!(stage.nodes().len(), 4);
    stage.down();
}

#[test]
fn node_that_never_registers_fails_with_its_kubelets_words_and_is_made_anew() {
    let stage = Stage::new(LAB);
    stage.pair.fault("reservation", "klab-pools-worker2");
    let mut command = stage.command(&["up", "pools.toml"]);
    let output = command.env("KLAB_KIND_READY", "1").output().unwrap();
    let talk = stage.environment.shown(&output);
    assert_eq!(output.status.code(), Some(5), "{talk}");
    assert!(talk.contains("waiting for klab-pools-worker2 to register"), "{talk}");
    assert!(talk.contains("invalid Node Allocatable configuration"), "{talk}");
    stage.up();
    assert_eq!(stage.nodes().len(), 4);
    stage.down();
}

#[test]
fn drift_on_live_nodes_is_mended() {
    let stage = Stage::new(LAB);
    stage.up();
    // Docker lost a worker; another's kubelet was given other flags.
    std::fs::remove_file(stage.environment.folder().join("pair/containers/klab-pools-worker2.json")).unwrap();
    stage.up();
    assert_eq!(
        stage.pools(),
        ["klab-pools-worker=nodepool1", "klab-pools-worker2=nodepool1", "klab-pools-worker3=extra"]
    );
    stage.down();
}

#[test]
fn stopped_nodes_are_started_and_not_made_anew() {
    let stage = Stage::new(LAB);
    stage.up();
    for name in stage.pair.containers() {
        let docker = stage.environment.folder().join("pair/bin/docker");
        assert!(Command::new(docker).args(["stop", &name]).status().unwrap().success());
    }
    stage.pair.forget_calls();
    let talk = stage.up();
    assert!(talk.contains("Started 4 stopped nodes"), "{talk}");
    assert!(!stage.pair.calls().iter().any(|(call, _)| call.starts_with("kind create")), "{:?}", stage.pair.calls());
    stage.succeeds(&["verify"]);
    stage.down();
}

/// One node lost its power; and what the API says of a node that was stopped is not believed.
#[test]
fn stopped_worker_is_started_and_its_kubelet_waited_for() {
    let stage = Stage::new(LAB);
    stage.up();
    let docker = stage.environment.folder().join("pair/bin/docker");
    assert!(Command::new(docker).args(["stop", "klab-pools-worker3"]).status().unwrap().success());
    stage.pair.fault("slow-start", "klab-pools-worker3");
    stage.pair.forget_calls();
    let plan = stage.run(&["plan", "pools.toml"]);
    let plan = String::from_utf8(plan.stdout).unwrap();
    assert!(plan.contains("\ncommands\n  docker start klab-pools-worker3\n"), "{plan}");
    let talk = stage.up();
    assert!(talk.contains("Started 1 stopped node"), "{talk}");
    let restarted =
        stage.pair.calls().iter().any(|(call, _)| call.ends_with("klab-pools-worker3 systemctl restart kubelet"));
    assert!(restarted, "up ended before the kubelet of the node had reported: {:?}", stage.pair.calls());
    stage.down();
}

#[test]
fn lessons_stop_and_start_the_containers_of_nodes() {
    let lab = format!(
        "{LAB}\n[[step]]\nname = \"fails\"\ndo = [{{ fail_node = \"pool:extra\" }}]\n\n\
         [[step]]\nname = \"returns\"\ndo = [{{ restore_node = \"pool:extra\" }}]\n"
    );
    let stage = Stage::new(&lab);
    stage.succeeds(&["test", "pools.toml", "--provider", "kind"]);
    let calls: Vec<String> = stage.pair.calls().into_iter().map(|(call, _)| call).collect();
    let at = |wanted: &str| calls.iter().position(|call| call.starts_with(wanted) && call.ends_with("-worker3"));
    let (stopped, started) = (at("docker stop -t 1 klab-"), at("docker start klab-"));
    assert!(stopped.is_some() && started > stopped, "{calls:?}");
    stage.nothing_is_left();
}

#[test]
fn plan_tells_the_commands_of_live_changes() {
    let stage = Stage::new(LAB);
    stage.up();
    stage.write(&LAB.replace("nodes = 2", "nodes = 1").replace(
        "[pool.extra]\nnodes  = 1\nsize   = \"Standard_B2ms\"",
        "[pool.extra]\nnodes  = 2\nsize   = \"Standard_D4s_v5\"",
    ));
    let calls = stage.pair.calls().len();
    let plan = stage.run(&["plan", "pools.toml", "--format", "json"]);
    let plan: serde_json::Value = serde_json::from_slice(&plan.stdout).unwrap();
    let commands: Vec<&str> = plan["commands"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let made: Vec<String> = stage.pair.calls().drain(calls..).map(|(call, _)| call).collect();
    assert!(
        !made.iter().any(|call| call.contains(" exec ") || call.contains(" run ") || call.contains(" rm ")),
        "{made:?}"
    );
    for expected in [
        "docker exec --privileged klab-pools-worker3 systemctl restart kubelet",
        "docker exec --privileged klab-pools-control-plane kubeadm token create --ttl 30m",
        "docker run --name klab-pools-worker2 --hostname klab-pools-worker2 --label io.x-k8s.kind.role=worker",
        "docker exec --privileged klab-pools-worker2 kubeadm join --config /kind/kubeadm.conf",
        "# node klab-pools-worker2 is drained and deleted through the API",
        "docker rm --force --volumes klab-pools-worker2",
    ] {
        assert!(commands.iter().any(|line| line.starts_with(expected)), "{expected}\n{commands:#?}");
    }
    // And that is what is done.
    stage.pair.forget_calls();
    stage.up();
    let done: Vec<String> = stage.pair.calls().into_iter().map(|(call, _)| call).collect();
    for line in commands.iter().filter(|line| !line.starts_with('#') && !line.starts_with("docker cp")) {
        let plain = line.replace('\'', "");
        assert!(done.contains(&plain), "{plain}\n{done:#?}");
    }
    stage.down();
}

/// What a newer kind would take for a new cluster does not come into one that is there.
#[test]
fn other_kind_leaves_workers_as_they_are_and_adds_alike() {
    let stage = Stage::new(LAB);
    stage.up();
    stage.pair.fault("kind-version", "0.32.0");
    stage.pair.fault("slow-boot", "klab-pools-worker4");
    stage.pair.forget_calls();
    stage.write(&LAB.replace("nodes = 2", "nodes = 3"));
    stage.up();
    let removed = stage.pair.calls().iter().any(|(call, _)| call.starts_with("docker rm"));
    assert!(!removed, "{:?}", stage.pair.calls());
    let image = |name: &str| stage.pair.container(name).image;
    assert_eq!(image("klab-pools-worker4"), image("klab-pools-control-plane"));
    stage.down();
}

#[test]
fn node_image_on_this_machine_takes_the_place_of_one_that_cannot_be_had() {
    let stage = Stage::new(&LAB.replace("\"1.36\"", "\"1.35\""));
    stage.pair.add_image("kindest/node:v1.35.2", "1");
    stage.pair.fault("no-registry", "");
    let talk = stage.up();
    assert!(talk.contains("kindest/node:v1.35.8 could not be pulled; kindest/node:v1.35.2"), "{talk}");
    stage.write(&LAB.replace("\"1.36\"", "\"1.35\"").replace("nodes = 2", "nodes = 3"));
    stage.up();
    for name in stage.pair.containers() {
        assert_eq!(stage.pair.container(&name).image, "kindest/node:v1.35.2", "{name}");
    }
    stage.down();
}

#[test]
fn images_are_loaded_into_every_node_once() {
    let lab = format!("{LAB}\n[kind]\nload = [\"web:1\"]\n");
    let stage = Stage::new(&lab);
    stage.up();
    stage.up();
    let loaded = |name: &str| stage.pair.container(name).loaded.get("web:1").copied();
    for name in stage.pair.containers() {
        assert_eq!(loaded(&name), Some(1), "{name}");
    }
    // An added node gets it too; a new version goes to all.
    stage.write(&lab.replace("nodes  = 1", "nodes  = 2"));
    stage.up();
    assert_eq!(loaded("klab-pools-worker4"), Some(1));
    assert_eq!(loaded("klab-pools-worker3"), Some(1));
    stage.pair.add_image("web:1", "2");
    stage.up();
    assert_eq!(loaded("klab-pools-worker3"), Some(2));
    stage.write(&lab.replace("web:1", "absent:1"));
    let talk = stage.fails(3, &["up", "pools.toml"]);
    assert!(talk.contains("`absent:1` is not on this machine"), "{talk}");
    stage.down();
}

#[test]
fn faults_end_with_words_and_leave_nothing() {
    for (fault, what, code, words) in [
        ("join-failure", "klab-pools-worker", 4, "unknown flag: --max-podz"),
        ("port-in-use", "30000", 3, "a port of this machine that the lab wants is in use"),
        ("late-container", "klab-pools-worker9", 4, "docker run --name lb"),
    ] {
        let stage = Stage::new(LAB);
        stage.pair.fault(fault, what);
        let talk = stage.fails(code, &["up", "pools.toml"]);
        assert!(talk.contains(words), "{fault}: {talk}");
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert_eq!(stage.pair.containers(), Vec::<String>::new(), "{fault}");
        stage.up();
        stage.down();
    }
}

#[test]
fn what_is_missing_outside_is_said_before_anything_is_made() {
    let stage = Stage::new(LAB);
    stage.pair.fault("docker-down", "");
    let talk = stage.fails(3, &["up", "pools.toml"]);
    assert!(talk.contains("Docker is installed but does not run") && talk.contains("systemctl start docker"), "{talk}");
    stage.pair.end_fault("docker-down");
    stage.pair.fault("kind-version", "0.20.0");
    let talk = stage.fails(3, &["up", "pools.toml"]);
    assert!(talk.contains("kind 0.20.0 is too old"), "{talk}");
    stage.write(&LAB.replace("kubernetes = \"1.36\"", "kubernetes = \"1.35\""));
    stage.pair.fault("no-registry", "");
    let talk = stage.fails(3, &["up", "pools.toml"]);
    assert!(talk.contains("could not pull the image `kindest/node:v1.35.8"), "{talk}");
    assert_eq!(stage.pair.containers(), Vec::<String>::new());
    stage.down();
}

#[test]
fn cluster_of_somebody_else_is_left_alone() {
    let stage = Stage::new(LAB);
    stage.pair.add_foreign("klab-pools");
    let talk = stage.fails(3, &["up", "pools.toml"]);
    assert!(talk.contains("that this klab did not make") && talk.contains("KLAB_SEAT"), "{talk}");
    stage.succeeds(&["down", "pools"]);
    assert_eq!(stage.pair.containers(), ["klab-pools-control-plane"]);
    let seat = stage.command(&["up", "pools.toml"]).env("KLAB_SEAT", "s07").output().unwrap();
    assert!(seat.status.success(), "{}", stage.environment.shown(&seat));
    assert!(stage.pair.containers().contains(&"klab-pools-s07-worker3".to_owned()));
    // The record knows the seat: `down` needs no variable.
    stage.succeeds(&["down", "pools"]);
    assert_eq!(stage.pair.containers(), ["klab-pools-control-plane"]);
}

#[test]
fn down_works_without_kind_and_with_half_a_cluster() {
    let stage = Stage::new(LAB);
    stage.up();
    std::fs::remove_file(stage.environment.folder().join("pair/containers/klab-pools-control-plane.json")).unwrap();
    stage.pair.remove_program("kind");
    std::fs::remove_file(stage.environment.folder().join("pools.toml")).unwrap();
    stage.down();
}

#[test]
fn killed_kubeconfig_lock_does_not_block() {
    let stage = Stage::new(LAB);
    stage.environment.write("home/labs/pools/kubeconfig.lock", "");
    let talk = stage.up();
    assert!(talk.contains("which a killed kind had left"), "{talk}");
    stage.down();
}

/// klab killed at every entry of its journal: `up` converges, `down` leaves nothing.
fn killed_at_every_entry(moment: &str) {
    use std::os::unix::process::ExitStatusExt;
    for entry in 1.. {
        let stage = Stage::new(LAB);
        let fault = format!("{moment}:{entry}");
        let up = stage.command(&["up", "pools.toml"]).env("KLAB_FAULT", fault).output().unwrap();
        if up.status.success() {
            assert!(entry > 2, "{entry}");
            stage.down();
            return;
        }
        assert_eq!(up.status.signal(), Some(9), "{}", stage.environment.shown(&up));
        if entry % 2 == 0 {
            stage.up();
        }
        stage.down();
    }
}

#[test]
fn klab_killed_before_any_entry_converges_or_goes() {
    killed_at_every_entry("before");
}

#[test]
fn klab_killed_after_any_entry_converges_or_goes() {
    killed_at_every_entry("after");
}

#[test]
fn paused_lab_is_stopped_and_comes_back_as_it_was() {
    let stage = Stage::new(LAB);
    stage.up();
    let before = stage.pools();
    let talk = stage.succeeds(&["pause"]);
    assert!(talk.contains("Stopped 4 nodes"), "{talk}");
    assert!(stage.pair.containers().iter().all(|name| !stage.pair.container(name).running));
    let talk = stage.fails(3, &["kubeconfig"]);
    assert!(talk.contains("`klab resume pools`"), "{talk}");
    let talk = stage.succeeds(&["resume", "pools"]);
    assert!(talk.contains("Started 4 stopped nodes"), "{talk}");
    assert_eq!(stage.pools(), before);
    stage.succeeds(&["verify"]);
    stage.down();
}

#[test]
fn addons_come_and_go_with_the_lab_file() {
    let lab = LAB.replace("kubernetes =", "addons = [\"metrics-server\"]\nkubernetes =");
    let stage = Stage::new(&lab);
    stage.up();
    let kubeconfig = stage.environment.home().join("labs/pools/kubeconfig");
    let deployments = || {
        let text = std::fs::read_to_string(&kubeconfig).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let kubeconfig = kube::config::Kubeconfig::from_yaml(&text).unwrap();
            let options = kube::config::KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
            let client = kube::Client::try_from(config).unwrap();
            let api: kube::Api<Deployment> = kube::Api::namespaced(client, "kube-system");
            let all = api.list(&kube::api::ListParams::default()).await.unwrap();
            all.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
        })
    };
    assert!(deployments().contains(&"metrics-server".to_owned()), "{:?}", deployments());
    stage.write(LAB);
    let talk = stage.up();
    assert!(talk.contains("Removed metrics-server"), "{talk}");
    assert!(!deployments().contains(&"metrics-server".to_owned()));
    stage.down();
}

#[test]
fn several_control_planes_need_an_image_that_is_asked_for_first() {
    let stage = Stage::new(&format!("{LAB}\n[kind]\ncontrol_planes = 3\n"));
    stage.pair.fault("no-registry", "");
    let talk = stage.fails(3, &["up", "pools.toml"]);
    assert!(talk.contains("could not pull the image `docker.io/envoyproxy/envoy:"), "{talk}");
    stage.pair.end_fault("no-registry");
    stage.up();
    assert_eq!(stage.nodes().len(), 6);
    stage.down();
}

#[test]
fn half_created_cluster_is_made_whole_or_removed() {
    for again in [true, false] {
        let stage = Stage::new(LAB);
        stage.pair.fault("kind-killed", "");
        let talk = stage.fails(4, &["up", "pools.toml"]);
        assert!(talk.contains("could not create the cluster"), "{talk}");
        if again {
            stage.up();
        }
        stage.down();
    }
}

/// What kind, kubeadm or the kubelet would refuse minutes later is refused at once, all of it.
#[test]
fn what_cannot_be_on_kind_is_refused_before_anything_is_made() {
    let stage = Stage::new(
        &LAB.replace("[pool.extra]", "[pool.extra]\nresources = { \"example.com/fpga\" = \"500m\" }")
            .replace("kubernetes = \"1.36\"", "kubernetes = \"1.36\"\n"),
    );
    let file = stage.environment.folder().join("pools.toml");
    let text = std::fs::read_to_string(&file).unwrap()
        + "\n[kind]\ncontrol_planes = 2\npod_subnet = \"10.96.0.0/12\"\nfeature_gates = { \"lower-case\" = true }\n\
           mounts = [{ host = \"absent\", container = \"/data\" }, { host = \".\", container = \"/proc/x\" }]\n\
           ports = [{ host = 30080, container = 80 }, { host = 30080, container = 81 }]\n\n\
           [kind.registry_mirrors]\n\"docker.io\" = \"mirror.example.com\"\n";
    stage.write(&text);
    let talk = stage.fails(2, &["up", "pools.toml"]);
    for words in [
        "`example.com/fpga = \"500m\"` is not a whole number",
        "`control_planes = 2` gives no cluster that can lose a node",
        "the networks of pods (10.96.0.0/12) and services (10.96.0.0/16) overlap",
        "`lower-case` cannot be a feature gate",
        "is to be mounted into the nodes, and is not there",
        "`/proc/x` holds what the node itself needs",
        "port 30080 of this machine is mapped twice",
        "the mirror of `docker.io`, `mirror.example.com`, is not a URL",
        "nothing was created",
    ] {
        assert!(talk.contains(words), "{words}\n{talk}");
    }
    assert_eq!(stage.pair.containers(), Vec::<String>::new());
    // `check` says the same, on a machine without any of the tools.
    let checked = stage.environment.run(&["check", "pools.toml", "--provider", "kind"]);
    let talk = stage.environment.shown(&checked);
    assert_eq!(checked.status.code(), Some(2), "{talk}");
    for words in ["`control_planes = 2` gives no cluster", "is not a URL", "pools.toml has 8 errors"] {
        assert!(talk.contains(words), "{words}\n{talk}");
    }
}

/// A lesson for the stand-in: one step beyond the set-up.
fn lesson() -> String {
    format!(
        "{LAB}\n[[step]]\nname = \"scale\"\ndo = [{{ scale = \"web\", replicas = 3 }}]\n\
         [[step.check]]\nworkload = \"web\"\nrunning = 3\n"
    )
}

#[test]
fn lessons_are_tried_on_clusters_of_their_own_and_removed() {
    let stage = Stage::new(&lesson());
    stage.up();
    let before = stage.pair.containers();
    let folder = stage.environment.folder().join("temporary");
    std::fs::create_dir(&folder).unwrap();
    let test = |arguments: &[&str]| stage.command(arguments).env("TMPDIR", &folder).output().unwrap();
    let output = test(&["test", "pools.toml", "--provider", "kind"]);
    assert!(output.status.success(), "{}", stage.environment.shown(&output));
    let made = stage.pair.calls().iter().filter(|(call, _)| call.contains("create cluster")).count();
    assert_eq!(made, 2, "the lab that is up, and one for the test: {:?}", stage.pair.calls());
    assert_eq!(stage.pair.containers(), before, "the lab that is up stays as it is");

    stage.write(&lesson().replace("running = 3\n", "pending = 3\n"));
    let output = test(&["test", "pools.toml", "--provider", "kind", "--step-timeout", "1s"]);
    assert_eq!(output.status.code(), Some(1), "{}", stage.environment.shown(&output));
    assert_eq!(stage.pair.containers(), before);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "nothing of the tests is left");
    stage.down();
}

#[test]
fn an_interrupted_test_leaves_no_cluster() {
    let stage = Stage::new(&lesson());
    let folder = stage.environment.folder().join("temporary");
    std::fs::create_dir(&folder).unwrap();
    let mut command = stage.command(&["test", "pools.toml", "--provider", "kind"]);
    let child = command.env("TMPDIR", &folder).stderr(std::process::Stdio::piped()).spawn().unwrap();
    while stage.pair.containers().is_empty() {
        std::thread::yield_now();
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{words}");
    assert!(words.contains("what was made is being removed"), "{words}");
    assert_eq!(stage.pair.containers(), Vec::<String>::new(), "{words}");
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, Vec::<PathBuf>::new(), "{words}");
}

#[test]
fn seats_are_clusters_of_their_own() {
    let stage = Stage::new(LAB);
    stage.succeeds(&["up", "pools.toml", "--seats", "2"]);
    let clusters: BTreeMap<String, usize> = stage.pair.containers().iter().fold(BTreeMap::new(), |mut all, name| {
        *all.entry(stage.pair.container(name).cluster).or_default() += 1;
        all
    });
    assert_eq!(clusters.keys().collect::<Vec<_>>(), ["klab-pools-01", "klab-pools-02"]);
    stage.succeeds(&["verify", "pools-02"]);
    stage.succeeds(&["verify", "--seats"]);
    stage.succeeds(&["down"]);
    stage.nothing_is_left();
}
