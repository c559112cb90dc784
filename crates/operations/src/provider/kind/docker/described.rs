//! What klab needs to know of a container runtime and of a node's container.

use std::path::PathBuf;

use jiff::Timestamp;

/// Label with the cluster's name on every container of kind.
pub const CLUSTER_LABEL: &str = "io.x-k8s.kind.cluster";
/// Label with the node's role.
pub const ROLE_LABEL: &str = "io.x-k8s.kind.role";

/// Which family of commands the runtime speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// nerdctl, or a program that is called like it.
    Nerdctl,
}

/// What the runtime says of itself and the machine it runs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// CPUs.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Whether cgroup v2 is in use.
    pub cgroup_v2: bool,
    /// Whether it runs without root privileges.
    pub rootless: bool,
    /// Where it keeps images and volumes.
    pub root: PathBuf,
    /// The operating system it runs on, in its words.
    pub system: String,
}

/// A container of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its host name, which is the node's name: that of the container itself where kind made it, and what the lab file calls the node
    /// where klab did.
    pub hostname: String,
    /// `control-plane`, `worker` or `external-load-balancer`.
    pub role: String,
    /// Whether it runs, and is not frozen.
    pub running: bool,
    /// Whether what runs in it is frozen (`docker pause`).
    pub frozen: bool,
    /// Whether the runtime is removing it.
    pub going: bool,
    /// When it was started last.
    pub started: Option<Timestamp>,
    /// The image it was made from, as named then.
    pub image: String,
    /// Paths of this machine that are mounted into it.
    pub mounted: Vec<PathBuf>,
    /// Names of its volumes.
    pub volumes: Vec<String>,
    /// The network it is in, and its address there.
    pub network: String,
    /// IPv4 address.
    pub address: String,
    /// What kind gave it because of the machine.
    pub manner: Manner,
}

/// What kind gives a node's container because of the machine and its settings: a node that is added later needs the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manner {
    /// Variables of its environment that were set for it, not by its image.
    pub variables: Vec<String>,
    /// Whether it is in the machine's own user namespace, where the runtime gives containers another one.
    pub host_users: bool,
    /// Devices of the machine that kind passes on (rootless: `/dev/fuse`).
    pub devices: Vec<String>,
    /// Whether it sees the machine's device mapper (disks with btrfs, zfs or xfs).
    pub device_mapper: bool,
}

impl Container {
    /// Whether it is a worker node.
    pub fn is_worker(&self) -> bool {
        self.role == "worker"
    }

    /// Whether it is a control-plane node.
    pub fn is_control_plane(&self) -> bool {
        self.role == "control-plane"
    }
}
