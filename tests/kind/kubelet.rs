//! Nodes: what kubeadm and the kubelet do in a container, and what the kubelet reports.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use klab_cluster::control::HEARTBEAT_ANNOTATION;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::docker::docker;
use super::state::{Container, State, failed};
use super::{CPUS, MEMORY};

impl State {
    /// What the kubelet of a node does when it starts: reads its size and its flags, registers or posts its status.
    pub(super) fn start_kubelet(&self, container: &mut Container) {
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
        let api = self.start_api(&container.cluster);
        let (name, labels, taints) = (container.hostname.clone(), container.labels.clone(), container.taints.clone());
        let version = container.image.split(['@']).next().unwrap().rsplit(':').next().unwrap().to_owned();
        let status = json!({
            "capacity": capacity, "allocatable": allocatable,
            "addresses": [{ "type": "InternalIP", "address": container.address }, { "type": "Hostname", "address": name }],
            "nodeInfo": { "architecture": "amd64", "bootID": "1", "containerRuntimeVersion": "containerd://2.1.1",
                "kernelVersion": "6.12", "kubeProxyVersion": "", "kubeletVersion": version, "machineID": "1",
                "operatingSystem": "linux", "osImage": "Debian GNU/Linux 12 (bookworm)", "systemUUID": "1" },
        });
        api.block_on(async {
            let api: Api<Node> = Api::all(api.client.clone());
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

impl State {
    /// After this time.
    pub(super) fn restart_kubelet_later(&self, node: &str, time: Duration) {
        let (state, node) = (self.own.clone(), node.to_owned());
        std::thread::spawn(move || {
            std::thread::sleep(time);
            // The test may be over.
            let Some(state) = state.upgrade().filter(|state| state.folder.exists()) else { return };
            let call = ["exec", "--privileged", &node, "systemctl", "restart", "kubelet"];
            let started = Instant::now();
            docker(&state, &call).unwrap();
            state.note("docker", &call, started);
        });
    }

    /// Whether the control plane believes that a node's kubelet runs.
    pub(super) fn set_ready(&self, container: &Container, ready: bool) {
        let api = self.start_api(&container.cluster);
        let (status, reason) = if ready { ("True", "KubeletReady") } else { ("Unknown", "NodeStatusUnknown") };
        let heartbeat = if ready { Value::Null } else { json!("stopped") };
        let annotations = json!({ "metadata": { "annotations": { HEARTBEAT_ANNOTATION: heartbeat } } });
        let conditions = json!({ "status": { "conditions": [{ "type": "Ready", "status": status, "reason": reason,
            "message": "Kubelet stopped posting node status.", "lastHeartbeatTime": now() }] } });
        let name = container.hostname.clone();
        api.block_on(async {
            let api: Api<Node> = Api::all(api.client.clone());
            if api.get_opt(&name).await.unwrap().is_some() {
                let parameters = PatchParams::default();
                api.patch(&name, &parameters, &Patch::Merge(&annotations)).await.map(drop).unwrap();
                api.patch_status(&name, &parameters, &Patch::Strategic(&conditions)).await.map(drop).unwrap();
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

/// What kubeadm and the kubelet do when a node joins.
pub(super) fn join(state: &State, container: &mut Container, flags: &[String]) -> Result<(), (i32, String)> {
    for key in container.labels.keys().filter(|key| !key.ends_with("/control-plane")) {
        if !klab_operations::provider::kind::desired::kubelet_may_set(key) {
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
        state.restart_kubelet_later(&container.name, Duration::from_millis(500));
        return Ok(());
    }
    state.start_kubelet(container);
    Ok(())
}
