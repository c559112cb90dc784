//! What this machine lacks for a lab on kind, each with the command that mends it; and what it can only approximate.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::time::Duration;

use super::config;
use super::create::needed_images;
use super::machine::{Emulation, Host};
use super::rules;
use super::session::Session;
use super::version::KindVersion;
use crate::environment;
use crate::error::{Code, Error};
use crate::exec::Command;
use klab_lab::spec::Lab;

/// inotify instances that a node takes, measured: 15 to 20. Below the first number nodes fail, below the second they may.
const INOTIFY_LEAST: u64 = 15;
const INOTIFY_SAFE: u64 = 20;
const INOTIFY_WATCHES: u64 = 524_288;
/// Memory of an idle control plane and of an idle worker, measured with some room.
const CONTROL_PLANE_MEMORY: u64 = 600 << 20;
const WORKER_MEMORY: u64 = 100 << 20;
/// Disk of a node, and of a node image that is not here yet.
const NODE_DISK: u64 = 768 << 20;
const IMAGE_DISK: u64 = 1 << 30;

/// The machine in numbers; what is not known is not asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Machine {
    instances: Option<u64>,
    watches: Option<u64>,
    available_memory: Option<u64>,
    available_disk: Option<u64>,
}

/// What a new cluster takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Need {
    nodes: u64,
    control_planes: u64,
    workers: u64,
    other_nodes: u64,
    new_images: u64,
}

/// Everything that keeps the lab from being made here.
pub(super) fn problems(session: &Session, lab: &Lab, kind: KindVersion) -> Vec<Error> {
    let host = host(session);
    let mut problems: Vec<Error> = rules::error(lab, rules::problems(lab, kind, &host)).into_iter().collect();
    if session.info.rootless && !session.info.cgroup_v2 {
        let message =
            "the container runtime works without root privileges, and for that needs cgroup v2, which is not in use";
        problems.push(
            Error::message(Code::ContainerRuntime, message)
                .hint("https://kind.sigs.k8s.io/docs/user/rootless tells how"),
        );
    }
    let containers = match session.containers_seen() {
        Ok(containers) => containers,
        Err(error) => {
            problems.push(error);
            return problems;
        }
    };
    // What is there already was there for the asking when it was made.
    if (containers.len() as u64) < new_nodes(lab) {
        if session.runtime.is_local(&session.info) {
            let need = need(session, lab, kind, containers.len());
            problems.extend(resource_problems(&Machine::this(&session.info.root), &need, &session.info.root));
        } else {
            problems.extend(sharing_problem(session));
        }
    }
    if containers.is_empty() {
        problems.extend(rules::listening_ports(lab).into_iter().filter_map(port_problem));
    }
    problems
}

/// What of the lab this machine can only approximate, in words.
pub(super) fn caveats(session: &Session, lab: &Lab, kind: KindVersion) -> Vec<String> {
    let mut caveats = Vec::new();
    if host(session).emulation == Emulation::Shrink {
        caveats.push(
            "nodes show the capacity of this machine; only what pods can have of it (allocatable) is that of the declared sizes, \
             as the container runtime here cannot mount files over `/proc/meminfo` and `/sys/devices/system/node`, or \
             nobody has tried it (`KLAB_KIND_SIZES=full` does)"
                .to_owned(),
        );
    }
    let minor = config::cluster_image(lab, kind).kubernetes.map_or(0, |version| version.minor);
    if !session.info.cgroup_v2 && minor >= 35 {
        caveats.push(format!(
            "this machine has cgroup v1, which Kubernetes 1.{minor} refuses by default; klab allows it, \
             `kubernetes = \"1.34\"` needs no such thing"
        ));
    }
    if lab.pools.iter().any(|pool| {
        pool.machine.arch() != std::env::consts::ARCH.replace("x86_64", "amd64").replace("aarch64", "arm64")
    }) {
        caveats
            .push("a pool's size has another processor architecture; its nodes have that of this machine".to_owned());
    }
    let made = session.record().ok().flatten().is_some_and(|record| record.complete);
    if !made && let Ok(other) = session.runtime.all_nodes() {
        let nodes = other as u64 + new_nodes(lab);
        if let Some(limit) =
            number("/proc/sys/fs/inotify/max_user_instances").filter(|limit| *limit < INOTIFY_SAFE * nodes)
        {
            caveats.push(format!(
                "{limit} inotify instances are few for {nodes} nodes: `sudo sysctl fs.inotify.max_user_instances={}` makes sure",
                (INOTIFY_SAFE * nodes).max(1024)
            ));
        }
    }
    caveats
}

fn host(session: &Session) -> Host {
    match session.record() {
        Ok(Some(record)) => record.host,
        _ => session.runtime.host(&session.info),
    }
}

fn new_nodes(lab: &Lab) -> u64 {
    let workers: u32 = lab.pools.iter().filter(|pool| !pool.deferred).map(|pool| pool.nodes.value).sum();
    u64::from(lab.kind.control_planes.max(1) + workers)
}

fn need(session: &Session, lab: &Lab, kind: KindVersion, there: usize) -> Need {
    let nodes = new_nodes(lab);
    let control_planes = u64::from(lab.kind.control_planes.max(1));
    let all = session.runtime.all_nodes().unwrap_or(there) as u64;
    // What is there already has what it needs.
    let fresh = nodes.saturating_sub(there as u64);
    let absent = |reference: &String| session.runtime.image_id(reference).is_ok_and(|id| id.is_none());
    let new_images =
        if fresh == 0 { 0 } else { needed_images(lab, kind).iter().filter(|image| absent(image)).count() as u64 };
    Need {
        nodes: fresh,
        control_planes: if there == 0 { control_planes } else { 0 },
        workers: if there == 0 { nodes - control_planes } else { fresh },
        other_nodes: all,
        new_images,
    }
}

/// Behind a network, or in a machine of its own, the runtime sees other files than klab writes.
fn sharing_problem(session: &Session) -> Option<Error> {
    let host = environment::DOCKER_HOST.text().filter(|host| host.starts_with("tcp:") || host.starts_with("ssh:"))?;
    let message =
        format!("the container runtime is on another machine ({host}), where the files klab mounts into nodes are not");
    Some(Error::message(Code::ContainerRuntime, message).hint(format!(
        "unset DOCKER_HOST to use {} on this machine, or run klab on that one",
        session.runtime.program()
    )))
}

fn port_problem((address, protocol): (SocketAddr, String)) -> Option<Error> {
    let error = match protocol.as_str() {
        "TCP" => TcpListener::bind(address).err()?,
        "UDP" => UdpSocket::bind(address).err()?,
        _ => return None,
    };
    if error.kind() == std::io::ErrorKind::PermissionDenied {
        // The runtime has rights that klab has not.
        return None;
    }
    let port = address.port();
    let message = format!("{} port {port} of this machine cannot be used: {error}", protocol.to_lowercase());
    Some(
        Error::message(Code::PortInUse, message)
            .hint(format!("`ss -lp 'sport = :{port}'` shows who has it; or change it in `[kind]`")),
    )
}

fn resource_problems(machine: &Machine, need: &Need, root: &Path) -> Vec<Error> {
    let mut problems = Vec::new();
    if need.nodes == 0 {
        return problems;
    }
    let nodes = need.nodes + need.other_nodes;
    if let Some(limit) = machine.instances.filter(|limit| *limit < INOTIFY_LEAST * nodes) {
        let message =
            format!("{limit} inotify instances are too few for {nodes} nodes of kind: each takes up to {INOTIFY_SAFE}");
        problems.push(Error::message(Code::MachineTooSmall, message).hint(format!(
            "`sudo sysctl fs.inotify.max_user_instances={}`; a line in /etc/sysctl.d keeps it",
            (INOTIFY_SAFE * nodes).max(1024)
        )));
    }
    if let Some(limit) = machine.watches.filter(|limit| *limit < INOTIFY_WATCHES / 64) {
        let message = format!("{limit} inotify watches are too few for nodes of kind");
        problems.push(
            Error::message(Code::MachineTooSmall, message)
                .hint(format!("`sudo sysctl fs.inotify.max_user_watches={INOTIFY_WATCHES}`")),
        );
    }
    let memory = need.control_planes * CONTROL_PLANE_MEMORY + need.workers * WORKER_MEMORY;
    if let Some(available) = machine.available_memory.filter(|available| *available < memory) {
        let message = format!("the nodes take about {} MiB of memory, {} MiB are free", memory >> 20, available >> 20);
        problems.push(
            Error::message(Code::MachineTooSmall, message)
                .hint("end other programs or clusters (`kind get clusters`), or give the pools fewer nodes"),
        );
    }
    let disk = need.nodes * NODE_DISK + need.new_images * IMAGE_DISK;
    if let Some(available) = machine.available_disk.filter(|available| *available < disk) {
        let message = format!(
            "the nodes take about {} MiB of disk in {}, {} MiB are free",
            disk >> 20,
            root.display(),
            available >> 20
        );
        problems.push(
            Error::message(Code::MachineTooSmall, message).hint("`docker system prune` frees what no container uses"),
        );
    }
    problems
}

impl Machine {
    fn this(root: &Path) -> Self {
        Self {
            instances: number("/proc/sys/fs/inotify/max_user_instances"),
            watches: number("/proc/sys/fs/inotify/max_user_watches"),
            available_memory: std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_memory(&text)),
            available_disk: available_disk(root),
        }
    }
}

fn number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn available_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

fn available_disk(path: &Path) -> Option<u64> {
    // The folder itself may be root's; what is above it is on the same disk more often than not.
    let path = path.ancestors().find(|path| path.exists())?;
    let text = Command::new("df").args(["-P", "-k"]).arg(path).output(Duration::from_secs(10)).ok()?;
    text.lines().last()?.split_whitespace().nth(3)?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(machine: &Machine, need: &Need) -> Vec<String> {
        resource_problems(machine, need, Path::new("/var/lib/docker")).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_lacks_is_named_with_what_mends_it() {
        let need = Need { nodes: 4, control_planes: 1, workers: 3, other_nodes: 6, new_images: 1 };
        let enough = Machine {
            instances: Some(150),
            watches: Some(INOTIFY_WATCHES),
            available_memory: Some(900 << 20),
            available_disk: Some(4 << 30),
        };
        assert_eq!(words(&enough, &need), Vec::<String>::new());
        let little = Machine {
            instances: Some(128),
            watches: Some(8000),
            available_memory: Some(899 << 20),
            available_disk: Some((4 << 30) - 1),
        };
        let problems = resource_problems(&little, &need, Path::new("/var/lib/docker"));
        let starts = [
            "128 inotify instances are too few for 10 nodes",
            "8000 inotify watches",
            "the nodes take about 900 MiB of memory",
            "the nodes take about 4096 MiB of disk",
        ];
        for (problem, start) in problems.iter().zip(starts) {
            assert!(problem.to_string().starts_with(start), "{problem}");
            assert_eq!((problem.code, problem.hints.len()), (Code::MachineTooSmall, 1));
        }
        assert_eq!(problems.len(), starts.len());
        assert_eq!(
            words(&little, &Need { other_nodes: 10, ..Need::default() }),
            Vec::<String>::new(),
            "nothing new, nothing needed"
        );
        assert_eq!(words(&Machine::default(), &need), Vec::<String>::new(), "what is not known is not asked for");
    }

    #[test]
    fn port_in_use_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let error = port_problem((address, "TCP".to_owned())).unwrap();
        assert!(error.to_string().starts_with(&format!("tcp port {} of this machine", address.port())), "{error}");
        drop(listener);
        assert!(port_problem((address, "SCTP".to_owned())).is_none());
    }

    #[test]
    fn available_memory_is_read() {
        assert_eq!(available_memory("MemTotal: 10 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(available_memory("MemTotal: 10 kB\n"), None);
    }
}
