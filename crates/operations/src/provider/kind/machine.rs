//! The size of a node on kind: what the kubelet is shown in place of this machine, and what it keeps from pods.
//!
//! A kubelet reads its capacity from `/proc/meminfo` and `/sys/devices/system/node`. Both are replaced by generated files
//! that are mounted into the node, so that it reports the pool's size, larger than this machine if need be: several
//! NUMA nodes repeat the CPUs that there are. `system-reserved` then takes away what AKS takes, so that allocatable is
//! what AKS leaves. Nothing here limits what pods really use.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use klab_lab::spec::Pool;

/// How much of a machine's size can be shown to the kubelet here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Emulation {
    /// Capacity and allocatable, of any size.
    Full,
    /// Allocatable only, and not more than this machine has: everything else is reserved.
    Shrink,
}

/// The machine that runs the containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its CPUs.
    pub cpus: u32,
    /// Its memory in bytes.
    pub memory: u64,
    /// Which sizes it can show.
    pub emulation: Emulation,
}

/// What a node is to report, and the settings of its kubelet for that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizing {
    /// Whole CPUs of the node.
    pub cpus: u32,
    /// Bytes of the node's memory, a multiple of 1 KiB.
    pub memory: u64,
    /// Thousandths of a CPU for pods.
    pub allocatable_cpu_millis: u64,
    /// Bytes for pods.
    pub allocatable_memory: u64,
    /// Greatest number of pods.
    pub max_pods: u32,
    /// Whether generated files show the capacity.
    pub files: bool,
}

impl Sizing {
    /// The size of a pool's nodes on a host.
    ///
    /// # Errors
    /// In words, when the host can only shrink and is smaller than the pool's nodes.
    pub fn of(pool: &Pool, host: &Host) -> Result<Self, String> {
        let wanted = pool.machine.allocatable(pool.max_pods);
        let (cpus, memory) = match host.emulation {
            // A part of a CPU cannot be shown: the rest of it is reserved.
            Emulation::Full => {
                (u32::try_from(pool.machine.cpu_millis.div_ceil(1000)).unwrap_or(u32::MAX).max(1), pool.machine.memory)
            }
            Emulation::Shrink => (host.cpus, host.memory),
        };
        let memory = memory & !1023;
        let cpu_millis = u64::from(cpus) * 1000;
        if wanted.cpu_millis > cpu_millis || (wanted.memory & !1023) > memory {
            return Err(format!(
                "pool `{}` wants {}m CPU and {} MiB for pods on each node, this machine has {cpu_millis}m and {} MiB",
                pool.name.value,
                wanted.cpu_millis,
                wanted.memory >> 20,
                memory >> 20
            ));
        }
        Ok(Self {
            cpus,
            memory,
            allocatable_cpu_millis: wanted.cpu_millis,
            allocatable_memory: wanted.memory & !1023,
            max_pods: pool.max_pods,
            files: host.emulation == Emulation::Full,
        })
    }

    /// The value of the kubelet's `system-reserved`.
    ///
    /// kind sets `evictionHard` without `memory.available`, so nothing else is taken off the capacity.
    pub fn system_reserved(&self) -> String {
        let cpu = u64::from(self.cpus) * 1000 - self.allocatable_cpu_millis;
        let memory = (self.memory - self.allocatable_memory) >> 10;
        format!("cpu={cpu}m,memory={memory}Ki")
    }
}

/// Where the generated memory information is mounted.
pub const MEMINFO: &str = "/proc/meminfo";
/// Where the generated CPUs are mounted.
pub const NODE_DIRECTORY: &str = "/sys/devices/system/node";

/// `/proc/meminfo` of a machine of that size.
pub fn meminfo(memory: u64) -> String {
    let total = memory >> 10;
    // What an idle node uses; a very small one still has something free.
    let used = (200 << 10).min(total / 4);
    let mut text = String::new();
    for (name, value) in [
        ("MemTotal", total),
        ("MemFree", total - used),
        ("MemAvailable", total - used),
        ("Buffers", 0),
        ("Cached", 0),
        ("SwapCached", 0),
        ("Active", used),
        ("Inactive", 0),
        ("SwapTotal", 0),
        ("SwapFree", 0),
    ] {
        let _ = writeln!(text, "{:<15} {value:>8} kB", format!("{name}:"));
    }
    for name in ["HugePages_Total", "HugePages_Free", "HugePages_Rsvd", "HugePages_Surp"] {
        let _ = writeln!(text, "{:<15} {:>8}", format!("{name}:"), 0);
    }
    let _ = writeln!(text, "{:<15} {:>8} kB", "Hugepagesize:", 2048);
    text
}

/// The files of `/sys/devices/system/node` on a machine with that many CPUs, by path, when the host has CPUs of these ids.
///
/// Only the host's own CPU ids may be named, else the kubelet dies setting its cpuset; so NUMA nodes repeat them.
pub fn node_directory(cpus: u32, memory: u64, host_ids: &[u32]) -> Vec<(String, String)> {
    let host_ids = if host_ids.is_empty() { &[0] } else { host_ids };
    let host_cpus = u32::try_from(host_ids.len()).unwrap_or(u32::MAX);
    let nodes = cpus.div_ceil(host_cpus).max(1);
    let mut files = Vec::new();
    let all = range(nodes);
    for name in ["has_cpu", "has_memory", "has_normal_memory", "online", "possible"] {
        files.push((name.to_owned(), format!("{all}\n")));
    }
    let share = (memory >> 10) / u64::from(nodes);
    for node in 0..nodes {
        let mut here = host_ids[..host_cpus.min(cpus - node * host_cpus).max(1) as usize].to_vec();
        here.sort_unstable();
        let folder = format!("node{node}");
        let list: Vec<String> = here.iter().map(u32::to_string).collect();
        files.push((format!("{folder}/cpulist"), format!("{}\n", list.join(","))));
        files.push((format!("{folder}/meminfo"), format!("Node {node} MemTotal: {share:>15} kB\n")));
        let distances: Vec<_> = (0..nodes).map(|other| if other == node { "10" } else { "20" }).collect();
        files.push((format!("{folder}/distance"), format!("{}\n", distances.join(" "))));
        for cpu in &here {
            files.push((format!("{folder}/cpu{cpu}/topology/core_id"), format!("{cpu}\n")));
            files.push((format!("{folder}/cpu{cpu}/topology/physical_package_id"), format!("{node}\n")));
        }
    }
    files
}

/// Ids in the kernel's notation: `0-3,8,10-11`.
fn ids(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// The ids a pool's nodes show. Pods of a node are kept to the CPUs it shows, so pools that are smaller than the host begin
/// at different ones.
fn shown_ids(pool: &str, host: &Host) -> Vec<u32> {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let mut ids = ids(&online);
    if ids.is_empty() {
        ids = (0..host.cpus).collect();
    }
    // The container runtime may have fewer than the machine.
    ids.truncate(host.cpus.max(1) as usize);
    let start = pool.bytes().map(usize::from).sum::<usize>() % ids.len().max(1);
    ids.rotate_left(start);
    ids
}

/// `0`, or `0-3`, as the kernel lists ids.
fn range(count: u32) -> String {
    if count <= 1 { "0".to_owned() } else { format!("0-{}", count - 1) }
}

/// Name of the memory file in a pool's folder.
pub const MEMINFO_FILE: &str = "meminfo";
/// Name of the CPU folder in a pool's folder.
pub const NODE_FOLDER: &str = "node";

/// Writes the files of a pool's size into `folder`. Running nodes see the change: the files and folders that are mounted
/// stay the same ones, only what is in them changes.
///
/// # Errors
/// When the file system refuses.
pub fn write(folder: &Path, sizing: &Sizing, host: &Host) -> io::Result<()> {
    let node_folder = folder.join(NODE_FOLDER);
    std::fs::create_dir_all(&node_folder)?;
    std::fs::write(folder.join(MEMINFO_FILE), meminfo(sizing.memory))?;
    for entry in std::fs::read_dir(&node_folder)? {
        let path = entry?.path();
        if path.is_dir() {
            std::fs::remove_dir_all(&path)?;
        }
    }
    let pool = folder.file_name().unwrap_or_default().to_string_lossy();
    for (name, text) in node_directory(sizing.cpus, sizing.memory, &shown_ids(&pool, host)) {
        let path = node_folder.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPUs as the kubelet counts them: the CPU folders of all node folders.
    fn counted(files: &[(String, String)]) -> usize {
        files.iter().filter(|(path, _)| path.ends_with("/topology/core_id")).count()
    }

    #[test]
    fn cpus_are_the_wanted_ones_and_only_ids_of_the_host_appear() {
        for host in [1, 2, 3, 8, 64] {
            for cpus in [1, 2, 3, 4, 16, 31, 96] {
                let files = node_directory(cpus, 8 << 30, &(0..host).collect::<Vec<_>>());
                assert_eq!(counted(&files), cpus as usize, "{cpus} on {host}");
                for (path, _) in &files {
                    let id = path.split("/cpu").nth(1).and_then(|rest| rest.split('/').next());
                    if let Some(id) = id.and_then(|id| id.parse::<u32>().ok()) {
                        assert!(id < host, "{path} on {host}");
                    }
                }
            }
        }
    }

    #[test]
    fn ids_are_those_that_are_online_and_pools_begin_at_different_ones() {
        assert_eq!(ids("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(ids(""), Vec::<u32>::new());
        let files = node_directory(3, 8 << 30, &[2, 4]);
        let lists: Vec<_> = files.iter().filter(|(path, _)| path.ends_with("/cpulist")).map(|(_, text)| text).collect();
        assert_eq!(lists, ["2,4\n", "2\n"]);
        assert!(files.iter().any(|(path, _)| path == "node0/cpu4/topology/core_id"));
        let host = Host { cpus: 2, memory: 0, emulation: Emulation::Full };
        let (one, other) = (shown_ids("a", &host), shown_ids("b", &host));
        assert!(one.len() == other.len() && one.len() <= 2, "{one:?}");
        assert!(one.len() == 1 || one[0] != other[0], "{one:?} {other:?}");
    }

    #[test]
    fn memory_information_has_the_lines_that_kubelets_read() {
        let text = meminfo(8 << 30);
        assert!(text.starts_with("MemTotal:        8388608 kB\n"), "{text}");
        assert!(text.contains("SwapTotal:             0 kB\n"), "{text}");
        for size in [0, 1 << 20, 512 << 30] {
            assert!(meminfo(size).lines().count() > 10, "{size}");
        }
    }

    #[test]
    fn files_are_rewritten_without_replacing_what_is_mounted() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let host = Host { cpus: 2, memory: 16 << 30, emulation: Emulation::Full };
        let sizing = |cpus| Sizing {
            cpus,
            memory: 8 << 30,
            allocatable_cpu_millis: 1900,
            allocatable_memory: 6 << 30,
            max_pods: 110,
            files: true,
        };
        write(folder.path(), &sizing(31), &host).unwrap();
        let inodes =
            || [MEMINFO_FILE, NODE_FOLDER].map(|name| std::fs::metadata(folder.path().join(name)).unwrap().ino());
        let before = inodes();
        assert!(folder.path().join("node/node15/cpulist").is_file());
        write(folder.path(), &sizing(2), &host).unwrap();
        assert_eq!(inodes(), before);
        assert!(!folder.path().join("node/node1").exists());
    }

    #[test]
    fn reservation_is_the_difference_of_capacity_and_allocatable() {
        let sizing = Sizing {
            cpus: 2,
            memory: 8 << 30,
            allocatable_cpu_millis: 1900,
            allocatable_memory: (6 << 30) - (100 << 20),
            max_pods: 250,
            files: true,
        };
        assert_eq!(sizing.system_reserved(), "cpu=100m,memory=2199552Ki");
    }
}
