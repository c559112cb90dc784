//! kind and docker, played by this test binary: containers are files, the cluster is an embedded one whose nodes report
//! what real kubelets would of the files, flags and labels they are given. Faults are asked for by files.
//!
//! The folder of the pair has shell scripts `kind` and `docker` that start this binary with the ignored test [`play`].

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, exit};
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::Node;
use klab::sim::server::client as server;
use klab::sim::server::{Flavour, Seed};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What docker says of the machine.
const CPUS: u32 = 4;
const MEMORY: u64 = 16 << 30;
const CLUSTER_LABEL: &str = "io.x-k8s.kind.cluster";
const ROLE_LABEL: &str = "io.x-k8s.kind.role";
/// The token kind writes into its configuration, and the one the control plane gives out later.
const KIND_TOKEN: &str = "abcdef.0123456789abcdef";
const NEW_TOKEN: &str = "zyxwvu.fedcba9876543210";

/// The pair, as tests see it.
pub(crate) struct Pair {
    folder: PathBuf,
}

impl Pair {
    /// Puts the scripts into `folder`; with it first on PATH, `kind` and `docker` are the stand-ins.
    pub(crate) fn new(folder: &Path) -> Self {
        let folder = folder.join("pair");
        for name in ["bin", "containers", "faults", "clusters", "late"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        for program in ["kind", "docker"] {
            let path = folder.join("bin").join(program);
            // Results go through a file: a server that is started must not hold the caller's pipe.
            let script = format!(
                "#!/bin/sh\nresults=$(mktemp '{folder}/results.XXXXXX')\n\
                 PAIR_FOLDER='{folder}' PAIR_PROGRAM={program} PAIR_RESULTS=$results \
                 PAIR_ARGUMENTS=\"$(printf '%s\\037' \"$@\")\" \
                 '{this}' --exact kind::pair::play --ignored --nocapture --test-threads=1 >/dev/null\n\
                 code=$?\ncat \"$results\"\nrm \"$results\"\nexit $code\n",
                folder = folder.display(),
                this = std::env::current_exe().unwrap().display()
            );
            fs::write(&path, script).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(&path, mode).unwrap();
        }
        // The disk of the machine that tests run on must not decide how they end.
        let df = folder.join("bin/df");
        fs::write(&df, "#!/bin/sh\necho Filesystem 1024-blocks Used Available Capacity Mounted\necho disk 99999999 0 99999999 0% /\n")
            .unwrap();
        fs::set_permissions(&df, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let pair = Self { folder };
        for image in
            ["kindest/node:v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed", "web:1"]
        {
            pair.add_image(image, "1");
        }
        pair
    }

    /// PATH with the stand-ins first.
    pub(crate) fn path(&self) -> std::ffi::OsString {
        let rest = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.folder.join("bin")).chain(std::env::split_paths(&rest));
        std::env::join_paths(folders).unwrap()
    }

    /// Takes a program away.
    pub(crate) fn remove_program(&self, program: &str) {
        // What the machine has of that name must not be reached either.
        fs::write(self.folder.join("bin").join(program), "#!/bin/sh\necho gone >&2\nexit 127\n").unwrap();
    }

    /// Lets something go wrong; most faults happen once.
    pub(crate) fn fault(&self, name: &str, what: &str) {
        fs::write(self.folder.join("faults").join(name), what).unwrap();
    }

    pub(crate) fn end_fault(&self, name: &str) {
        fs::remove_file(self.folder.join("faults").join(name)).unwrap();
    }

    pub(crate) fn add_image(&self, reference: &str, id: &str) {
        let state = State { folder: self.folder.clone() };
        let mut images = state.images();
        images.insert(reference.to_owned(), format!("sha256:{id}"));
        state.write_json("images.json", &images);
    }

    /// Names of the containers, in order.
    pub(crate) fn containers(&self) -> Vec<String> {
        State { folder: self.folder.clone() }.containers().into_iter().map(|container| container.name).collect()
    }

    pub(crate) fn container(&self, name: &str) -> Container {
        State { folder: self.folder.clone() }.container(name).unwrap()
    }

    /// A container of somebody else's cluster.
    pub(crate) fn add_foreign(&self, cluster: &str) {
        let state = State { folder: self.folder.clone() };
        state.save(&state.new_container(
            cluster,
            &format!("{cluster}-control-plane"),
            "control-plane",
            "kindest/node:v1",
        ));
    }

    /// Every call since the beginning: program, arguments, seconds it took.
    pub(crate) fn calls(&self) -> Vec<(String, f64)> {
        let text = fs::read_to_string(self.folder.join("calls.log")).unwrap_or_default();
        text.lines()
            .filter_map(|line| line.split_once('\t'))
            .map(|(seconds, call)| (call.to_owned(), seconds.parse().unwrap()))
            .collect()
    }

    pub(crate) fn forget_calls(&self) {
        let _ = fs::remove_file(self.folder.join("calls.log"));
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for entry in fs::read_dir(self.folder.join("clusters")).into_iter().flatten().flatten() {
            if let Some(access) = server::access(&entry.path()) {
                let _ = Command::new("kill").args(["-9", &access.pid.to_string()]).stderr(Stdio::null()).status();
            }
        }
    }
}

/// A container, as its file has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) cluster: String,
    pub(crate) role: String,
    pub(crate) image: String,
    pub(crate) running: bool,
    /// When it was started again.
    #[serde(default)]
    pub(crate) started: Option<String>,
    pub(crate) address: String,
    /// Paths of this machine by path in the container.
    pub(crate) mounts: BTreeMap<String, String>,
    /// Files written into it, and those kind and kubeadm leave.
    pub(crate) files: BTreeMap<String, String>,
    /// Whether its kubelet reaches the API server.
    pub(crate) joined: bool,
    /// What its kubelet registers with, once.
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Value>,
    pub(crate) journal: String,
    /// Images loaded into it, with how often.
    pub(crate) loaded: BTreeMap<String, u32>,
}

struct State {
    folder: PathBuf,
}

/// How a program ends: its stdout, or its stderr and exit code.
type Ended = Result<String, (i32, String)>;

fn failed<T>(words: impl Into<String>) -> Result<T, (i32, String)> {
    Err((1, words.into()))
}

impl State {
    fn write_json(&self, name: &str, value: &impl Serialize) {
        let mut file = tempfile::NamedTempFile::new_in(&self.folder).unwrap();
        file.write_all(&serde_json::to_vec_pretty(value).unwrap()).unwrap();
        file.persist(self.folder.join(name)).unwrap();
    }

    fn images(&self) -> BTreeMap<String, String> {
        fs::read(self.folder.join("images.json")).map(|text| serde_json::from_slice(&text).unwrap()).unwrap_or_default()
    }

    fn containers(&self) -> Vec<Container> {
        let mut containers: Vec<Container> = fs::read_dir(self.folder.join("containers"))
            .unwrap()
            .filter_map(|entry| serde_json::from_slice(&fs::read(entry.unwrap().path()).ok()?).ok())
            .collect();
        containers.sort_by_key(|container| (container.name.len(), container.name.clone()));
        containers
    }

    fn container(&self, name: &str) -> Option<Container> {
        self.containers().into_iter().find(|container| container.name == name)
    }

    fn save(&self, container: &Container) {
        self.write_json(&format!("containers/{}.json", container.name), container);
    }

    /// Says whether the fault is asked for, with what it is about; it happens once.
    fn take_fault(&self, name: &str) -> Option<String> {
        let path = self.folder.join("faults").join(name);
        let what = fs::read_to_string(&path).ok()?;
        fs::remove_file(path).unwrap();
        Some(what)
    }

    /// As [`State::take_fault`], where it is about this node.
    fn take_fault_of(&self, name: &str, node: &str) -> bool {
        let is_its = fs::read_to_string(self.folder.join("faults").join(name)).is_ok_and(|what| what == node);
        is_its && self.take_fault(name).is_some()
    }

    fn has_fault(&self, name: &str) -> bool {
        self.folder.join("faults").join(name).exists()
    }

    fn new_container(&self, cluster: &str, name: &str, role: &str, image: &str) -> Container {
        let lock = OpenOptions::new().create(true).append(true).open(self.folder.join("lock")).unwrap();
        lock.lock().unwrap();
        let counter = self.folder.join("addresses");
        let used: u32 = fs::read_to_string(&counter).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
        fs::write(&counter, (used + 1).to_string()).unwrap();
        Container {
            name: name.to_owned(),
            cluster: cluster.to_owned(),
            role: role.to_owned(),
            image: image.to_owned(),
            running: true,
            started: None,
            address: format!("172.18.0.{}", used + 1),
            mounts: BTreeMap::new(),
            files: BTreeMap::new(),
            joined: false,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            journal: String::new(),
            loaded: BTreeMap::new(),
        }
    }

    fn server_folder(&self, cluster: &str) -> PathBuf {
        self.folder.join("clusters").join(cluster)
    }

    /// The API server of a cluster: started if it does not run.
    fn start_api(&self, cluster: &str) -> String {
        let folder = self.server_folder(cluster);
        let alive = |access: &klab::sim::server::Access| klab::exec::process_exists(access.pid);
        if !server::access(&folder).as_ref().is_some_and(alive) {
            fs::create_dir_all(&folder).unwrap();
            klab::exec::Command::new(env!("CARGO_BIN_EXE_klab"))
                .args(["serve", "--state-directory"])
                .arg(&folder)
                .start_in_background(&folder.join("log"))
                .unwrap();
        }
        block_on(async {
            let access = server::access(&folder).unwrap();
            let seed = Seed { flavour: Flavour::Kind, seed: 1, ..Seed::default() };
            server::Client::new(&access).await.unwrap().add(cluster, &seed).await.unwrap().kubeconfig
        })
    }

    fn stop_api(&self, cluster: &str) {
        if let Some(access) = server::access(&self.server_folder(cluster)) {
            klab::exec::end_process(access.pid, false);
            while klab::exec::process_exists(access.pid) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// What the kubelet of a node does when it starts: reads its size and its flags, registers or posts its status.
    fn start_kubelet(&self, container: &mut Container) {
        if !container.joined {
            return;
        }
        if self.take_fault_of("reservation", &container.name) {
            container.journal = format!(
                "Nov 21 10:00:00 {0} kubelet[1]: E1121 10:00:00.000000 1 kubelet.go:1] \"Failed to start ContainerManager\" \
                 err=\"invalid Node Allocatable configuration. Resource \\\"cpu\\\" has a reservation of 4 but capacity of 2\"\n",
                container.name
            );
            return;
        }
        let meminfo = container.mounts.get("/proc/meminfo").map(|path| fs::read_to_string(path).unwrap());
        let memory = meminfo.map_or(MEMORY, |text| {
            let line = text.lines().find(|line| line.starts_with("MemTotal:")).unwrap().to_owned();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
        });
        let cpus = container.mounts.get("/sys/devices/system/node").map_or(CPUS, |path| count_cpus(Path::new(path)));
        let flag = |name: &str| {
            let arguments = container.files.get("/var/lib/kubelet/kubeadm-flags.env").unwrap();
            let arguments = arguments.trim().trim_start_matches("KUBELET_KUBEADM_ARGS=").trim_matches('"');
            let flag = format!("--{name}=");
            arguments.split_whitespace().find_map(|argument| argument.strip_prefix(&flag)).map(str::to_owned)
        };
        let reserved = flag("system-reserved").unwrap_or_default();
        let reserved = |resource: &str| {
            reserved.split(',').find_map(|pair| pair.strip_prefix(&format!("{resource}="))).map_or(0, |text| {
                let (number, unit) =
                    text.split_at(text.len() - text.bytes().rev().take_while(u8::is_ascii_alphabetic).count());
                let factor = match unit {
                    "" | "m" => 1,
                    "Ki" => 1 << 10,
                    other => panic!("unit {other}"),
                };
                number.parse::<u64>().unwrap() * factor
            })
        };
        let (cpu, memory_reserved) = (u64::from(cpus) * 1000, reserved("memory"));
        assert!(reserved("cpu") <= cpu && memory_reserved <= memory, "klab reserves more than there is");
        let pods = flag("max-pods").unwrap_or_else(|| "110".to_owned());
        let capacity = json!({ "cpu": cpus.to_string(), "memory": format!("{}Ki", memory >> 10), "pods": pods,
            "ephemeral-storage": "100Gi", "hugepages-2Mi": "0" });
        let allocatable = json!({ "cpu": format!("{}m", cpu - reserved("cpu")), "pods": pods,
            "memory": format!("{}Ki", (memory - memory_reserved) >> 10), "ephemeral-storage": "100Gi", "hugepages-2Mi": "0" });
        let kubeconfig = self.start_api(&container.cluster);
        let (name, labels, taints) = (container.name.clone(), container.labels.clone(), container.taints.clone());
        let version = container.image.split(['@']).next().unwrap().rsplit(':').next().unwrap().to_owned();
        let status = json!({
            "capacity": capacity, "allocatable": allocatable,
            "addresses": [{ "type": "InternalIP", "address": container.address }, { "type": "Hostname", "address": name }],
            "nodeInfo": { "architecture": "amd64", "bootID": "1", "containerRuntimeVersion": "containerd://2.1.1",
                "kernelVersion": "6.12", "kubeProxyVersion": "", "kubeletVersion": version, "machineID": "1",
                "operatingSystem": "linux", "osImage": "Debian GNU/Linux 12 (bookworm)", "systemUUID": "1" },
        });
        block_on(async {
            let api: Api<Node> = Api::all(client(&kubeconfig).await);
            if let Some(node) = api.get_opt(&name).await.unwrap() {
                let mut conditions = serde_json::to_value(node.status.unwrap().conditions).unwrap();
                for condition in conditions.as_array_mut().into_iter().flatten() {
                    condition["lastHeartbeatTime"] = now().into();
                }
                let patch = json!({ "status": { "capacity": status["capacity"], "allocatable": status["allocatable"],
                    "conditions": conditions } });
                api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop).unwrap();
            } else {
                let mut all = labels;
                for (key, value) in [
                    ("kubernetes.io/hostname", name.as_str()),
                    ("kubernetes.io/os", "linux"),
                    ("kubernetes.io/arch", "amd64"),
                ] {
                    all.insert(key.to_owned(), value.to_owned());
                }
                let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": all },
                    "spec": { "taints": taints }, "status": status });
                api.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.map(drop).unwrap();
            }
        });
    }
}

/// The moment as the API has it, in whole seconds.
fn now() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}

/// CPUs as the kubelet counts them, of ids that this machine has.
fn count_cpus(folder: &Path) -> u32 {
    let mut count = 0;
    for node in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        for entry in fs::read_dir(node).unwrap().map(|entry| entry.unwrap()) {
            let name = entry.file_name().into_string().unwrap();
            if let Some(id) = name.strip_prefix("cpu").and_then(|id| id.parse::<u32>().ok()) {
                assert!(id < CPUS, "the kubelet dies on a CPU the machine does not have");
                assert!(
                    entry.path().join("topology/core_id").is_file()
                        && entry.path().join("topology/physical_package_id").is_file()
                );
                count += 1;
            }
        }
    }
    count
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn client(kubeconfig: &str) -> kube::Client {
    let kubeconfig = kube::config::Kubeconfig::from_yaml(kubeconfig).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    kube::Client::try_from(kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap()).unwrap()
}

/// Not a test: it plays kind and docker for those that are, started by the scripts of [`Pair`].
#[test]
#[ignore = "not a test: it plays kind and docker for the tests that need them"]
fn play() {
    perform();
}

/// Plays the program that was called, and ends the process; returns where none was.
pub(crate) fn perform() {
    let Some(folder) = std::env::var_os("PAIR_FOLDER") else { return };
    let state = State { folder: PathBuf::from(folder) };
    let program = std::env::var("PAIR_PROGRAM").unwrap();
    let text = std::env::var("PAIR_ARGUMENTS").unwrap();
    let arguments: Vec<&str> = text.strip_suffix('\u{1f}').map_or_else(Vec::new, |text| text.split('\u{1f}').collect());
    let started = SystemTime::now();
    let ended = match program.as_str() {
        "kind" => kind(&state, &arguments),
        _ => docker(&state, &arguments),
    };
    let mut log = OpenOptions::new().create(true).append(true).open(state.folder.join("calls.log")).unwrap();
    let seconds = started.elapsed().unwrap().as_secs_f64();
    writeln!(log, "{seconds:.6}\t{program} {}", arguments.join(" ")).unwrap();
    match ended {
        Ok(stdout) => {
            fs::write(std::env::var_os("PAIR_RESULTS").unwrap(), stdout).unwrap();
            exit(0);
        }
        Err((code, words)) => {
            std::io::stderr().write_all(words.as_bytes()).unwrap();
            exit(code);
        }
    }
}

fn value<'a>(arguments: &[&'a str], flag: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|argument| *argument == flag)?;
    arguments.get(at + 1).copied()
}

fn error(words: &str) -> Ended {
    failed(format!("ERROR: {words}\n"))
}

fn kind(state: &State, arguments: &[&str]) -> Ended {
    if let ["version"] = arguments {
        return Ok(format!(
            "kind v{} go1.26.1 linux/amd64\n",
            state.take_fault("kind-version").unwrap_or("0.33.0".into())
        ));
    }
    let name = value(arguments, "--name").unwrap_or("kind");
    if docker(state, &["info"]).is_err() {
        return error(
            "failed to get docker info: command \"docker info --format '{{json .}}'\" failed with error: exit status 1\n\
             Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
        );
    }
    match arguments {
        ["create", "cluster", ..] => create(state, name, arguments),
        ["delete", "cluster", ..] => {
            let nodes: Vec<String> = of_cluster(state, name).into_iter().map(|container| container.name).collect();
            let mut call = vec!["rm", "-f", "-v"];
            call.extend(nodes.iter().map(String::as_str));
            docker(state, &call)?;
            // kind takes its entries out of the kubeconfig and leaves the file.
            if let Some(path) = value(arguments, "--kubeconfig").filter(|path| Path::new(path).exists()) {
                fs::write(path, "apiVersion: v1\nkind: Config\n").unwrap();
            }
            Ok(String::new())
        }
        ["get", "kubeconfig", ..] => match of_cluster(state, name).iter().find(|node| node.role == "control-plane") {
            Some(_) => Ok(state.start_api(name)),
            None => error(&format!("could not locate any control plane nodes for cluster named '{name}'.")),
        },
        ["load", "image-archive", file, ..] => {
            let image = fs::read_to_string(file).unwrap();
            for node in value(arguments, "--nodes").unwrap().split(',') {
                let Some(mut container) = state.container(node) else {
                    return error(&format!("unknown node: \"{node}\""));
                };
                *container.loaded.entry(image.trim().to_owned()).or_default() += 1;
                state.save(&container);
            }
            Ok(String::new())
        }
        other => panic!("kind {other:?} is not played"),
    }
}

fn of_cluster(state: &State, cluster: &str) -> Vec<Container> {
    state.containers().into_iter().filter(|container| container.cluster == cluster).collect()
}

/// kind's configuration, as strictly as kind decodes it, as far as klab uses it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    kind: String,
    api_version: String,
    name: String,
    #[serde(default)]
    #[expect(dead_code, reason = "decoded as kind does")]
    networking: BTreeMap<String, Value>,
    #[serde(default)]
    #[expect(dead_code, reason = "decoded as kind does")]
    feature_gates: BTreeMap<String, bool>,
    #[serde(default)]
    #[expect(dead_code, reason = "decoded as kind does")]
    kubeadm_config_patches: Vec<String>,
    nodes: Vec<ConfigNode>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConfigNode {
    role: String,
    image: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    #[expect(dead_code, reason = "decoded as kind does")]
    extra_port_mappings: Vec<Value>,
    #[serde(default)]
    extra_mounts: Vec<ConfigMount>,
    #[serde(default)]
    kubeadm_config_patches: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConfigMount {
    host_path: String,
    container_path: String,
    #[expect(dead_code, reason = "decoded as kind does")]
    read_only: bool,
}

fn create(state: &State, cluster: &str, arguments: &[&str]) -> Ended {
    let kubeconfig = PathBuf::from(value(arguments, "--kubeconfig").expect("klab never uses the user's kubeconfig"));
    assert!(arguments.contains(&"--retain"), "klab reads journals before it removes what failed");
    let text = fs::read_to_string(value(arguments, "--config").unwrap()).unwrap();
    let config: Config = match serde_saphyr::from_str(&text) {
        Ok(config) => config,
        Err(problem) => return error(&format!("failed to create cluster: unable to decode config: yaml: {problem}")),
    };
    assert_eq!((config.kind.as_str(), config.api_version.as_str()), ("Cluster", "kind.x-k8s.io/v1alpha4"));
    assert_eq!(config.name, cluster);
    if !of_cluster(state, cluster).is_empty() {
        return error(&format!(
            "failed to create cluster: node(s) already exist for a cluster with the name \"{cluster}\""
        ));
    }
    let images = state.images();
    if let Some(node) = config.nodes.iter().find(|node| !images.contains_key(&node.image)) {
        return error(&format!("failed to create cluster: failed to pull image \"{}\": no such host", node.image));
    }
    if let Some(port) = state.take_fault("port-in-use") {
        return error(&format!(
            "failed to create cluster: command \"docker run --name {cluster}-control-plane\" failed with error: exit status 125\n\
             Command Output: failed to bind host port 0.0.0.0:{port}: bind: address already in use"
        ));
    }
    let absent = state.take_fault("missing-worker");
    let mut numbers = BTreeMap::new();
    let mut nodes = Vec::new();
    for node in &config.nodes {
        let number = numbers.entry(node.role.clone()).or_insert(0);
        *number += 1;
        let number = if *number == 1 { String::new() } else { number.to_string() };
        let name = format!("{cluster}-{}{number}", node.role);
        if absent.as_deref() == Some(&name) {
            continue;
        }
        let mut container = state.new_container(cluster, &name, &node.role, &node.image);
        container.mounts =
            node.extra_mounts.iter().map(|mount| (mount.container_path.clone(), mount.host_path.clone())).collect();
        assert!(container.mounts.values().all(|path| Path::new(path).exists()), "{:?}", container.mounts);
        nodes.push((container, node));
    }
    fs::write(state.folder.join("network-kind"), "").unwrap();
    for (container, _) in &nodes {
        state.save(container);
        if state.take_fault("kind-killed").is_some() {
            return Err((137, String::new()));
        }
    }
    if let Some(name) = state.take_fault("late-container") {
        return late(state, &name, cluster);
    }
    let kubeconfig_text = state.start_api(cluster);
    for (mut container, node) in nodes {
        let patch = node.kubeadm_config_patches.iter().map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
        let patch = patch.into_iter().find(|patch| patch["kind"] == "JoinConfiguration").unwrap_or_default();
        let mut arguments = patch["nodeRegistration"]["kubeletExtraArgs"].as_object().cloned().unwrap_or_default();
        arguments.insert("node-ip".to_owned(), container.address.clone().into());
        container.labels = node.labels.clone();
        container.taints = patch["nodeRegistration"]["taints"].as_array().cloned().unwrap_or_default();
        if node.role == "control-plane" {
            container.labels.insert("node-role.kubernetes.io/control-plane".to_owned(), String::new());
            container.taints.push(json!({ "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" }));
        }
        container.files.insert("/kind/kubeadm.conf".to_owned(), kubeadm_configuration(cluster, &container));
        if let Some(name) = state.take_fault("join-failure") {
            container.journal = format!(
                "Nov 21 10:00:00 {name} kubelet[1]: E1121 10:00:00.000000 1 run.go:72] \"command failed\" \
                 err=\"failed to parse kubelet flag: unknown flag: --max-podz\"\n"
            );
            state.save(&container);
            let log: Vec<String> = (0..100).map(|line| format!("I1121 log line {line}")).collect();
            return error(&format!(
                "failed to create cluster: failed to join node with kubeadm: command \"docker exec --privileged {name} kubeadm \
                 join\" failed with error: exit status 1\nCommand Output: {}",
                log.join("\n")
            ));
        }
        let flags = arguments.iter().map(|(name, value)| format!("--{name}={}", value.as_str().unwrap()));
        join(state, &mut container, &flags.collect::<Vec<_>>())?;
        state.save(&container);
    }
    fs::write(&kubeconfig, kubeconfig_text).unwrap();
    Ok(String::new())
}

/// Runs a script that outlives this process, as calls of docker outlive a kind that gave up.
#[expect(clippy::zombie_processes, reason = "this process ends before the script does")]
fn later(script: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
}

fn restart_kubelet_later(state: &State, node: &str) {
    let docker = state.folder.join("bin/docker");
    later(&format!("sleep 0.5; '{}' exec --privileged {node} systemctl restart kubelet", docker.display()));
}

/// A failed create whose last `docker run` is still under way when kind has cleaned up.
fn late(state: &State, name: &str, cluster: &str) -> Ended {
    let container = state.new_container(cluster, name, "worker", "kindest/node:v1");
    state.write_json(&format!("late/{name}.json"), &container);
    let (from, to) = (state.folder.join("late"), state.folder.join("containers"));
    let script = format!("sleep 0.2; mv '{0}/{name}.json' '{1}/{name}.json'", from.display(), to.display());
    later(&script);
    error("failed to create cluster: command \"docker run --name lb\" failed with error: exit status 125")
}

fn kubeadm_configuration(cluster: &str, container: &Container) -> String {
    format!(
        "# config generated by kind\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nclusterName: \"{cluster}\"\n---\n\
         apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\nnodeRegistration:\n  criSocket: \"unix:///run/containerd/containerd.sock\"\n  \
         kubeletExtraArgs:\n  - name: node-ip\n    value: \"{}\"\ndiscovery:\n  bootstrapToken:\n    apiServerEndpoint: \
         \"{cluster}-control-plane:6443\"\n    token: \"{KIND_TOKEN}\"\n    unsafeSkipCAVerification: true\nskipPhases:\n  - \"preflight\"\n---\n\
         apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
        container.address
    )
}

/// What kubeadm and the kubelet do when a node joins.
fn join(state: &State, container: &mut Container, flags: &[String]) -> Result<(), (i32, String)> {
    for key in container.labels.keys().filter(|key| !key.ends_with("/control-plane")) {
        if !klab::provider::kind::desired::kubelet_may_set(key) {
            container.journal = format!(
                "kubelet[1]: E1 server.go:1] \"command failed\" err=\"unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [{key}]\"\n"
            );
            state.save(container);
            return failed(format!("failed to join node with kubeadm: {}\n", container.name));
        }
    }
    let text = format!("KUBELET_KUBEADM_ARGS=\"{}\"\n", flags.join(" "));
    container.files.insert("/var/lib/kubelet/kubeadm-flags.env".to_owned(), text);
    container.joined = true;
    if state.take_fault("slow-worker").is_some() {
        // Its kubelet registers a moment after everybody thinks all is done.
        restart_kubelet_later(state, &container.name);
        return Ok(());
    }
    state.start_kubelet(container);
    Ok(())
}

fn docker(state: &State, arguments: &[&str]) -> Ended {
    if state.has_fault("docker-down") {
        return failed(
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n",
        );
    }
    match arguments {
        ["info", ..] => Ok(json!({ "NCPU": CPUS, "MemTotal": MEMORY, "CgroupVersion": "2", "DockerRootDir": "/",
            "OperatingSystem": "Debian GNU/Linux 13 (trixie)", "SecurityOptions": [] })
        .to_string()),
        ["context", "inspect", ..] => Ok("unix:///var/run/docker.sock\n".to_owned()),
        ["ps", ..] => {
            let filter = value(arguments, "--filter").unwrap().strip_prefix("label=").unwrap();
            let cluster = filter.strip_prefix(&format!("{CLUSTER_LABEL}="));
            let all = arguments.contains(&"--all");
            let shown = |container: &Container| (all || container.running) && cluster.is_none_or(|name| name == container.cluster);
            let names: Vec<String> = state.containers().into_iter().filter(shown).map(|container| container.name).collect();
            Ok(names.join("\n"))
        }
        ["inspect", "--type", "container", names @ ..] => inspect(state, names),
        ["network", "ls", ..] => {
            Ok(if state.folder.join("network-kind").exists() { "bridge\nkind\n" } else { "bridge\n" }.to_owned())
        }
        ["volume", "ls", ..] => {
            let names: Vec<String> =
                state.containers().iter().map(|container| format!("volume-of-{}", container.name)).collect();
            Ok(names.join("\n"))
        },
        ["rm", rest @ ..] => {
            for name in rest.iter().filter(|name| !name.starts_with('-')) {
                let Some(container) = state.container(name) else { return failed(format!("Error: No such container: {name}\n")) };
                fs::remove_file(state.folder.join(format!("containers/{name}.json"))).unwrap();
                if container.role == "control-plane" {
                    state.stop_api(&container.cluster);
                    let _ = fs::remove_dir_all(state.server_folder(&container.cluster));
                }
            }
            Ok(String::new())
        }
        ["stop", "-t", _, names @ ..] | ["start" | "stop", names @ ..] => {
            for name in names {
                let mut container = state.container(name).unwrap();
                container.running = arguments[0] == "start";
                if container.running {
                    container.started = Some(jiff::Timestamp::now().to_string());
                }
                state.save(&container);
                if container.role == "control-plane" {
                    if container.running {
                        state.start_api(&container.cluster);
                    } else {
                        state.stop_api(&container.cluster);
                    }
                }
                if container.running && state.take_fault_of("slow-start", name) {
                    restart_kubelet_later(state, name);
                } else if container.running {
                    state.start_kubelet(&mut container);
                }
            }
            Ok(String::new())
        }
        ["logs", _] => Ok("INFO: ensuring\r\n[  OK  ] Reached target \u{1b}[0;1;39mmulti-user.target\u{1b}[0m - Multi-User System.\r\n".to_owned()),
        ["cp", from, to] => {
            let (node, path) = to.split_once(':').unwrap();
            let mut container = state.container(node).unwrap();
            container.files.insert(path.to_owned(), fs::read_to_string(from).unwrap());
            state.save(&container);
            Ok(String::new())
        }
        ["image", "inspect", "--format", "{{.Id}}", reference] => match state.images().get(*reference) {
            Some(id) => Ok(format!("{id}\n")),
            None => failed(format!("Error: No such image: {reference}\n")),
        },
        ["image", "ls", "--format", "{{.Repository}}:{{.Tag}}", repository] => {
            let images = state.images();
            // One that was pulled by its digest has no tag.
            let tagged = images.keys().filter(|image| image.starts_with(&format!("{repository}:")) && !image.contains('@'));
            Ok(tagged.map(|image| format!("{image}\n")).chain([format!("{repository}:<none>\n")]).collect())
        }
        ["pull", "--quiet", reference] => {
            if state.has_fault("no-registry") {
                return failed("Error response from daemon: dial tcp: lookup registry-1.docker.io: no such host\n");
            }
            let mut images = state.images();
            images.insert((*reference).to_owned(), "sha256:2".to_owned());
            state.write_json("images.json", &images);
            Ok(String::new())
        }
        ["save", rest @ ..] => {
            let file = value(rest, "--output").unwrap();
            fs::write(file, rest.last().unwrap()).unwrap();
            Ok(String::new())
        }
        ["run", "--name", name, rest @ ..] => run(state, name, rest),
        ["exec", "--privileged", node, program @ ..] => exec(state, node, program),
        other => panic!("docker {other:?} is not played"),
    }
}

fn inspect(state: &State, names: &[&str]) -> Ended {
    let mut all = Vec::new();
    for name in names {
        let Some(container) = state.container(name) else {
            return failed(format!("Error: No such container: {name}\n"));
        };
        let mounts =
            container.mounts.iter().map(|(to, from)| json!({ "Type": "bind", "Source": from, "Destination": to }));
        let volume =
            json!({ "Type": "volume", "Name": format!("volume-of-{name}"), "Source": "/v", "Destination": "/var" });
        all.push(json!({
            "Name": format!("/{name}"),
            "State": { "Running": container.running,
                "StartedAt": container.started.as_deref().unwrap_or("0001-01-01T00:00:00Z") },
            "HostConfig": { "UsernsMode": "", "Devices": null, "Binds": ["/lib/modules:/lib/modules:ro"] },
            "Config": { "Image": container.image, "Env": [],
                "Labels": { CLUSTER_LABEL: container.cluster, ROLE_LABEL: container.role } },
            "Mounts": mounts.chain([volume]).collect::<Vec<_>>(),
            "NetworkSettings": { "Networks": { "kind": { "IPAddress": container.address } } },
        }));
    }
    Ok(Value::from(all).to_string())
}

fn run(state: &State, name: &str, arguments: &[&str]) -> Ended {
    let image = arguments.last().unwrap();
    if !state.images().contains_key(*image) {
        return failed(format!("Unable to find image '{image}' locally\n"));
    }
    if state.container(name).is_some() {
        return failed(format!("Conflict. The container name \"/{name}\" is already in use\n"));
    }
    let label = |key: &str| {
        let prefix = format!("{key}=");
        arguments.iter().find_map(|argument| argument.strip_prefix(&prefix)).unwrap().to_owned()
    };
    for needed in ["--privileged", "--detach", "--tty", "--restart=on-failure:1"] {
        assert!(arguments.contains(&needed), "{needed} of kind's own nodes");
    }
    assert_eq!(value(arguments, "--net"), Some("kind"));
    assert_eq!(value(arguments, "--hostname"), Some(name));
    let mut container = state.new_container(&label(CLUSTER_LABEL), name, &label(ROLE_LABEL), image);
    for mount in arguments.iter().filter_map(|argument| argument.strip_prefix("--volume=")) {
        let (from, to) = mount.split_once(':').unwrap();
        assert!(Path::new(from).exists(), "{from}");
        container.mounts.insert(to.trim_end_matches(":ro").to_owned(), from.to_owned());
    }
    state.save(&container);
    Ok(format!("{name}\n"))
}

fn exec(state: &State, node: &str, program: &[&str]) -> Ended {
    let Some(mut container) = state.container(node).filter(|container| container.running) else {
        return failed(format!("Error response from daemon: container {node} is not running\n"));
    };
    match program {
        ["cat", path] => match container.files.get(*path) {
            Some(text) => Ok(text.clone()),
            None => failed(format!("cat: {path}: No such file or directory\n")),
        },
        ["test", "-S", path] => {
            assert_eq!(*path, "/run/containerd/containerd.sock");
            if state.take_fault_of("slow-boot", node) { failed("") } else { Ok(String::new()) }
        }
        ["journalctl", ..] => Ok(container.journal),
        ["kubeadm", "token", "create", "--ttl", _] => {
            assert_eq!(container.role, "control-plane");
            Ok(format!("{NEW_TOKEN}\n"))
        }
        ["kubeadm", "join", "--config", path] => {
            let configuration: Value = serde_json::from_str(&container.files[*path]).unwrap();
            assert_eq!(
                configuration["discovery"]["bootstrapToken"]["token"], NEW_TOKEN,
                "kind's own has run out by then"
            );
            let registration = &configuration["nodeRegistration"];
            let mut flags = Vec::new();
            for argument in registration["kubeletExtraArgs"].as_array().unwrap() {
                let (name, text) = (argument["name"].as_str().unwrap(), argument["value"].as_str().unwrap());
                if name == "node-labels" {
                    let pairs = text.split(',').map(|pair| pair.split_once('=').unwrap());
                    container.labels = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
                }
                if name == "node-ip" {
                    assert_eq!(text, container.address);
                }
                flags.push(format!("--{name}={text}"));
            }
            container.taints.clone_from(registration["taints"].as_array().unwrap());
            let joined = join(state, &mut container, &flags);
            state.save(&container);
            joined.map(|()| String::new())
        }
        ["systemctl", "restart", "kubelet"] => {
            state.start_kubelet(&mut container);
            state.save(&container);
            Ok(String::new())
        }
        other => panic!("docker exec {other:?} is not played"),
    }
}
