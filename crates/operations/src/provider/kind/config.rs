//! The configuration that kind makes the cluster from, rendered from the lab with Tera.

use std::path::{Path, PathBuf};

use serde::Serialize;
use tera::{Context, Kwargs, State, Tera, TeraResult, Value};

use super::desired::{self, desired};
use super::images::{NodeImage, node_image};
use super::machine::{Emulation, Host, MEMINFO, MEMINFO_FILE, NODE_DIRECTORY, NODE_FOLDER};
use super::names::Names;
use super::roster::{Roster, Slot};
use super::version::KindVersion;
use crate::error::{Code, Context as _, Error, Result};
use klab_lab::spec::{Lab, Mount, Pool, PortMapping};

const TEMPLATE: &str = include_str!("../../../templates/kind/cluster.yaml.tera");

/// Where nodes of the control plane have the scheduler's configuration.
const SCHEDULER: &str = "/etc/klab/scheduler.yaml";

/// The scheduler's configuration as kubeadm's scheduler reads it: a file has to say how the API server is reached.
pub fn scheduler_file(lab: &Lab) -> Option<String> {
    let mut configuration = lab.scheduler.as_ref()?.value.configuration.clone();
    let connection = &mut configuration["clientConnection"];
    if connection["kubeconfig"].is_null() {
        connection["kubeconfig"] = "/etc/kubernetes/scheduler.conf".into();
    }
    // JSON is YAML.
    Some(format!("{configuration}\n"))
}

/// What a cluster's configuration depends on besides the lab.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// Names and places.
    pub names: &'a Names,
    /// The machine.
    pub host: &'a Host,
    /// The kind that will read it.
    pub kind: KindVersion,
    /// Whether the machine has cgroup v1, which kubelets from 1.35 on refuse by default.
    pub cgroup_v1: bool,
}

/// A key with its value; lists of these keep their order in the template.
#[derive(Debug, Clone, Serialize)]
struct Pair<T> {
    key: String,
    value: T,
}

impl<T> Pair<T> {
    fn new(key: impl Into<String>, value: T) -> Self {
        Self { key: key.into(), value }
    }
}

#[derive(Debug, Clone, Serialize)]
struct TaintView {
    key: String,
    value: String,
    effect: String,
}

/// kubeadm's configuration of one worker.
#[derive(Debug, Clone, Serialize)]
struct JoinView {
    taints: Vec<TaintView>,
    kubelet_arguments: Vec<Pair<String>>,
    /// Seconds that each step of joining may take, where kubeadm has a setting for it.
    patience: Option<usize>,
}

#[derive(Debug, Clone, Serialize)]
struct NodeView {
    role: &'static str,
    about: String,
    image: String,
    labels: Vec<Pair<String>>,
    ports: Vec<PortMapping>,
    mounts: Vec<Mount>,
    join: Option<JoinView>,
}

#[derive(Debug, Serialize)]
struct ClusterView {
    lab: String,
    name: String,
    networking: Vec<Pair<serde_json::Value>>,
    feature_gates: Vec<Pair<bool>>,
    runtime_config: Vec<Pair<bool>>,
    allow_cgroup_v1: bool,
    /// The author's patches of kubeadm's configuration, by lines.
    patches: Vec<Vec<String>>,
    /// Where nodes of the control plane have the scheduler's configuration.
    scheduler: Option<&'static str>,
    nodes: Vec<NodeView>,
}

/// The configuration of the lab's cluster with the workers of the roster.
///
/// # Errors
/// When the host cannot show the size of a pool.
pub fn render(lab: &Lab, roster: &Roster, around: &Surroundings<'_>) -> Result<String> {
    let settings = &lab.kind;
    let image = cluster_image(lab, around.kind);
    let mut networking = Vec::new();
    for (name, value) in [
        ("podSubnet", &settings.pod_subnet),
        ("serviceSubnet", &settings.service_subnet),
        ("apiServerAddress", &settings.api_server_address),
    ] {
        if let Some(value) = value {
            networking.push(Pair::new(name, serde_json::Value::from(value.as_str())));
        }
    }
    if let Some(port) = settings.api_server_port {
        networking.push(Pair::new("apiServerPort", port.into()));
    }
    let mut nodes = Vec::new();
    for number in 1..=settings.control_planes.max(1) {
        nodes.push(control_plane(lab, number, &image, around.names));
    }
    let patience = join_patience(roster.len(), around.host.cpus);
    for (_, place) in roster.iter() {
        nodes.push(worker(lab, place, around, patience)?);
    }
    let minor = image.kubernetes.map_or(0, |version| version.minor);
    let view = ClusterView {
        lab: lab.name.value.clone(),
        name: around.names.cluster.clone(),
        networking,
        feature_gates: settings.feature_gates.iter().map(|(gate, on)| Pair::new(gate, *on)).collect(),
        runtime_config: settings.runtime_config.iter().map(|(api, on)| Pair::new(api, *on)).collect(),
        allow_cgroup_v1: around.cgroup_v1 && minor >= 35,
        patches: settings
            .kubeadm_patches
            .iter()
            .map(|patch| patch.trim().lines().map(str::to_owned).collect())
            .collect(),
        scheduler: lab.scheduler.as_ref().map(|_| SCHEDULER),
        nodes,
    };
    let text = render_view(&view);
    text.map(|text| text.trim_end().to_owned() + "\n")
        .code(Code::KlabFault, || "could not render the configuration for kind".to_owned())
}

fn render_view(view: &ClusterView) -> TeraResult<String> {
    let mut tera = Tera::default();
    tera.register_filter("json", json);
    tera.add_raw_template("cluster.yaml", TEMPLATE)?;
    tera.render("cluster.yaml", &Context::from_serialize(view)?)
}

/// JSON is YAML: whatever is in a text, it stays one value.
pub(super) fn json(value: &Value, _: Kwargs, _: &State) -> TeraResult<String> {
    serde_json::to_string(value).map_err(tera::Error::message)
}

/// The node image of the cluster.
pub fn cluster_image(lab: &Lab, kind: KindVersion) -> NodeImage {
    match &lab.kind.image {
        Some(image) => NodeImage::named(image),
        None => node_image(lab.kubernetes.as_ref().map(|version| version.value), kind),
    }
}

/// The node image of a pool: the cluster's, unless the pool has a version of its own.
pub fn pool_image(lab: &Lab, pool: &Pool, kind: KindVersion) -> NodeImage {
    match &pool.kubernetes {
        Some(version) => node_image(Some(version.value), kind),
        None => cluster_image(lab, kind),
    }
}

fn control_plane(lab: &Lab, number: u32, image: &NodeImage, names: &Names) -> NodeView {
    // Several nodes cannot listen on one port of this machine: the first has it.
    let ports = if number == 1 { lab.kind.ports.as_slice() } else { &[] };
    let scheduler = lab.scheduler.as_ref().map(|_| Mount {
        host: text(&names.scheduler()),
        container: SCHEDULER.to_owned(),
        read_only: true,
    });
    NodeView {
        role: "control-plane",
        about: "control plane".to_owned(),
        image: image.reference.clone(),
        labels: Vec::new(),
        ports: ports.to_vec(),
        mounts: common_mounts(lab, names).into_iter().chain(scheduler).collect(),
        join: None,
    }
}

/// Seconds after which a node that joins counts as failed: long enough for kubelets that share few CPUs, and far less
/// than kubeadm's own four minutes and more.
pub fn join_patience(joining: usize, cpus: u32) -> usize {
    (25 + 5 * joining.saturating_sub(2 * cpus as usize)).min(120)
}

fn worker(lab: &Lab, place: &Slot, around: &Surroundings<'_>, patience: usize) -> Result<NodeView> {
    let pool = lab
        .pool(&place.pool)
        .ok_or_else(|| Error::message(Code::KlabFault, format!("the lab has no pool `{}`", place.pool)))?;
    let node = desired(lab, pool, place.index, around.host).map_err(|words| {
        Error::message(Code::MachineTooSmall, words).hint(
            "make the pool smaller, or run klab where the container runtime can mount files over `/sys/devices/system/node`",
        )
    })?;
    let image = pool_image(lab, pool, around.kind);
    let minor = image.kubernetes.map_or(0, |version| version.minor);
    let mut labels = node.labels;
    labels.retain(|key, _| desired::kubelet_may_set(key));
    let taints = node.taints.into_iter().map(|taint| TaintView {
        key: taint.key,
        value: taint.value.unwrap_or_default(),
        effect: taint.effect,
    });
    Ok(NodeView {
        role: "worker",
        about: format!("pool {}, node {}", place.pool, place.index),
        image: image.reference,
        labels: labels.into_iter().map(|(key, value)| Pair::new(key, value)).collect(),
        ports: Vec::new(),
        mounts: worker_mounts(lab, &place.pool, around.names, around.host),
        join: Some(JoinView {
            taints: taints.collect(),
            kubelet_arguments: vec![
                Pair::new("max-pods", node.sizing.max_pods.to_string()),
                Pair::new("system-reserved", node.sizing.system_reserved()),
            ],
            patience: around.kind.has_join_timeouts(minor).then_some(patience),
        }),
    })
}

/// What every node has: the sign of whose it is, and the mirrors.
fn common_mounts(lab: &Lab, names: &Names) -> Vec<Mount> {
    let mut mounts = vec![Mount { host: text(&names.owner_mount()), container: OWNER.to_owned(), read_only: true }];
    if !lab.kind.registry_mirrors.is_empty() {
        mounts.push(Mount {
            host: text(&names.mirrors()),
            container: "/etc/containerd/certs.d".to_owned(),
            read_only: true,
        });
    }
    mounts
}

/// What a worker of a pool has mounted; the same for one that kind makes and for one that klab adds later.
pub fn worker_mounts(lab: &Lab, pool: &str, names: &Names, host: &Host) -> Vec<Mount> {
    let mut mounts = common_mounts(lab, names);
    if host.emulation == Emulation::Full {
        let folder = names.machine(pool);
        for (file, container) in [(MEMINFO_FILE, MEMINFO), (NODE_FOLDER, NODE_DIRECTORY)] {
            mounts.push(Mount { host: text(&folder.join(file)), container: container.to_owned(), read_only: true });
        }
    }
    for mount in &lab.kind.mounts {
        mounts.push(Mount { host: text(&host_path(lab, &mount.host)), ..mount.clone() });
    }
    mounts
}

/// Where the lab's folder is mounted in its nodes.
pub const OWNER: &str = "/kind/klab";

/// A path of the lab file: relative ones start where the lab file is, not where klab was called.
pub fn host_path(lab: &Lab, path: &str) -> PathBuf {
    let folder = Path::new(lab.source.name()).parent().unwrap_or(Path::new(""));
    let path = folder.join(path);
    std::path::absolute(&path).unwrap_or(path)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The files by which containerd finds the mirrors of a registry, by path below its folder.
pub fn mirror_files(lab: &Lab) -> Vec<(String, String)> {
    let file = |(registry, mirror): (&String, &String)| {
        let quoted = serde_json::to_string(mirror).unwrap_or_default();
        (format!("{registry}/hosts.toml"), format!("[host.{quoted}]\ncapabilities = [\"pull\", \"resolve\"]\n"))
    };
    lab.kind.registry_mirrors.iter().map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_kubelets_on_few_cpus_get_more_time() {
        for (joining, cpus, seconds) in [(1, 2, 25), (4, 2, 25), (7, 2, 40), (7, 8, 25), (60, 2, 120)] {
            assert_eq!(join_patience(joining, cpus), seconds, "{joining} on {cpus}");
        }
    }
}
