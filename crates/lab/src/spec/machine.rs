//! What a node of a given VM size offers: capacity, and what AKS leaves of it to pods.
//!
//! Sizes: Azure's documentation of virtual machine sizes. Reservations: "Resource reservations" of the AKS documentation
//! (Kubernetes 1.29 and newer). A real kubelet sees somewhat less memory than the size promises, because firmware and
//! kernel keep a part; klab takes the promised amount.

use std::sync::LazyLock;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What one node offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// VM size, if the machine is one of Azure's.
    pub size: Option<&'static VmSize>,
    /// Thousandths of a CPU.
    pub cpu_millis: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// GiB of the operating system's disk.
    pub os_disk_gib: u32,
    /// Whether the disk is the machine's own (`Ephemeral`) and not a managed one.
    pub os_disk_ephemeral: bool,
}

/// Resources of a node in the units of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeResources {
    /// Thousandths of a CPU.
    pub cpu_millis: u64,
    /// Bytes.
    pub memory: u64,
    /// Bytes.
    pub ephemeral_storage: u64,
    /// Number of pods.
    pub pods: u32,
    /// GPUs (`nvidia.com/gpu`).
    pub gpus: u32,
}

impl Machine {
    /// A machine of one of Azure's sizes.
    pub fn of_size(size: &'static VmSize) -> Self {
        Self {
            size: Some(size),
            cpu_millis: u64::from(size.cpus) * 1000,
            memory: size.memory_mib * MIB,
            os_disk_gib: default_os_disk_gib(u64::from(size.cpus)),
            os_disk_ephemeral: false,
        }
    }

    /// A machine of any CPU and memory.
    pub fn custom(cpu_millis: u64, memory: u64) -> Self {
        Self {
            size: None,
            cpu_millis,
            memory,
            os_disk_gib: default_os_disk_gib(cpu_millis / 1000),
            os_disk_ephemeral: false,
        }
    }

    /// Processor architecture as in the label `kubernetes.io/arch`.
    pub fn arch(&self) -> &'static str {
        self.size.map_or("amd64", |size| size.arch)
    }

    /// What the node has.
    pub fn capacity(&self, max_pods: u32) -> NodeResources {
        NodeResources {
            cpu_millis: self.cpu_millis,
            memory: self.memory,
            ephemeral_storage: filesystem_bytes(self.os_disk_gib),
            pods: max_pods,
            gpus: self.size.map_or(0, |size| size.gpus),
        }
    }

    /// What AKS leaves to pods: capacity without the reservations for kubelet and system.
    pub fn allocatable(&self, max_pods: u32) -> NodeResources {
        let capacity = self.capacity(max_pods);
        let reserved = reserved_memory(self.memory, max_pods) + EVICTION_THRESHOLD;
        NodeResources {
            cpu_millis: self.cpu_millis.saturating_sub(reserved_cpu_millis(self.cpu_millis)),
            memory: self.memory.saturating_sub(reserved),
            // The kubelet evicts below 10 % of free disk.
            ephemeral_storage: capacity.ephemeral_storage - capacity.ephemeral_storage / 10,
            ..capacity
        }
    }
}

/// Below this much free memory the kubelet evicts pods, so it is not theirs to ask for.
const EVICTION_THRESHOLD: u64 = 100 * MIB;

/// CPU that AKS keeps: 60m of the first core, 40m of the second, 20m of the next two, 10m of every further one. This gives
/// the documented 60, 100, 140, 180, 260, 420 and 740 for 1, 2, 4, 8, 16, 32 and 64 cores.
fn reserved_cpu_millis(cpu_millis: u64) -> u64 {
    match cpu_millis.div_ceil(1000) {
        0 => 0,
        1 => 60,
        2 => 100,
        3 => 120,
        cores => 140 + 10 * (cores - 4),
    }
}

/// Memory that AKS keeps: 20 MiB for every possible pod and 50 MiB, but at most a quarter.
fn reserved_memory(memory: u64, max_pods: u32) -> u64 {
    (20 * MIB * u64::from(max_pods) + 50 * MIB).min(memory / 4)
}

/// Size of the managed disk that AKS takes by number of CPUs.
fn default_os_disk_gib(cpus: u64) -> u32 {
    match cpus {
        0..=7 => 128,
        8..=15 => 256,
        16..=63 => 512,
        _ => 1024,
    }
}

/// What the file system of a disk of this size offers: 129886128Ki of 128 GiB, as AKS nodes report.
fn filesystem_bytes(disk_gib: u32) -> u64 {
    u64::from(disk_gib) * (129_886_128 * 1024 / 128)
}

/// A VM size of Azure.
#[derive(Debug, PartialEq, Eq)]
pub struct VmSize {
    /// The name, such as `Standard_B2ms`.
    pub name: String,
    /// The series it belongs to, such as `Dsv5`.
    pub family: &'static str,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// GPUs.
    pub gpus: u32,
    /// Processor architecture as in the label `kubernetes.io/arch`.
    pub arch: &'static str,
}

impl VmSize {
    /// The size of this name; case does not matter, as in Azure.
    pub fn find(name: &str) -> Option<&'static Self> {
        SIZES.iter().find(|size| size.name.eq_ignore_ascii_case(name))
    }

    /// All sizes that klab knows.
    pub fn all() -> &'static [Self] {
        &SIZES
    }

    /// The sizes most like a name that klab does not know: of the same series letters where klab has any, because an `NC` is a
    /// machine with GPUs and a `D` is none; else of all.
    pub fn nearest(name: &str) -> Vec<&'static Self> {
        let wanted = name.to_lowercase();
        let likeness = |size: &Self| strsim::jaro_winkler(&series(&wanted), &series(&size.name.to_lowercase()));
        let alike = |one: &Self| letters(&one.name) == letters(name);
        let mut near: Vec<&Self> = SIZES.iter().filter(|size| alike(size)).collect();
        if near.is_empty() {
            near = SIZES.iter().collect();
        }
        near.sort_by(|one, other| likeness(other).total_cmp(&likeness(one)));
        near
    }
}

/// A size without the `Standard_` that all of them begin with, however it is written.
fn series(name: &str) -> String {
    let (first, rest) = name.split_once('_').unwrap_or(("", name));
    let is_prefix = strsim::osa_distance(&first.to_lowercase(), "standard") <= 2;
    if is_prefix { rest.to_owned() } else { name.to_owned() }
}

/// The letters that a size's series begins with: `NC` of `Standard_NC6s_v3`.
fn letters(name: &str) -> String {
    series(name).chars().take_while(char::is_ascii_alphabetic).collect::<String>().to_uppercase()
}

/// Series whose memory grows with their CPUs: family, name before and after the number, GiB per CPU, architecture, CPUs.
type Series = (&'static str, &'static str, &'static str, u64, &'static str, &'static [u32]);

const TO_64: &[u32] = &[2, 4, 8, 16, 32, 48, 64];
const TO_96: &[u32] = &[2, 4, 8, 16, 32, 48, 64, 96];
const TO_128: &[u32] = &[2, 4, 8, 16, 32, 48, 64, 96, 128];

const SERIES: &[Series] = &[
    ("Dv3", "D", "_v3", 4, "amd64", TO_64),
    ("Dsv3", "D", "s_v3", 4, "amd64", TO_64),
    ("Dv4", "D", "_v4", 4, "amd64", TO_64),
    ("Dsv4", "D", "s_v4", 4, "amd64", TO_64),
    ("Ddsv4", "D", "ds_v4", 4, "amd64", TO_64),
    ("Dasv4", "D", "as_v4", 4, "amd64", TO_96),
    ("Dv5", "D", "_v5", 4, "amd64", TO_96),
    ("Dsv5", "D", "s_v5", 4, "amd64", TO_96),
    ("Ddsv5", "D", "ds_v5", 4, "amd64", TO_96),
    ("Dasv5", "D", "as_v5", 4, "amd64", TO_96),
    ("Dadsv5", "D", "ads_v5", 4, "amd64", TO_96),
    ("Dlsv5", "D", "ls_v5", 2, "amd64", TO_96),
    ("Dldsv5", "D", "lds_v5", 2, "amd64", TO_96),
    ("Dplsv5", "D", "pls_v5", 2, "arm64", TO_64),
    ("Dpldsv5", "D", "plds_v5", 2, "arm64", TO_64),
    ("Dpsv5", "D", "ps_v5", 4, "arm64", TO_64),
    ("Dpdsv5", "D", "pds_v5", 4, "arm64", TO_64),
    ("Dsv6", "D", "s_v6", 4, "amd64", TO_128),
    ("Ddsv6", "D", "ds_v6", 4, "amd64", TO_128),
    ("Dasv6", "D", "as_v6", 4, "amd64", TO_96),
    ("Dadsv6", "D", "ads_v6", 4, "amd64", TO_96),
    ("Dlsv6", "D", "ls_v6", 2, "amd64", TO_128),
    ("Dldsv6", "D", "lds_v6", 2, "amd64", TO_128),
    ("Dalsv6", "D", "als_v6", 2, "amd64", TO_96),
    ("Daldsv6", "D", "alds_v6", 2, "amd64", TO_96),
    ("Dplsv6", "D", "pls_v6", 2, "arm64", TO_96),
    ("Dpldsv6", "D", "plds_v6", 2, "arm64", TO_96),
    ("Dpsv6", "D", "ps_v6", 4, "arm64", TO_96),
    ("Dpdsv6", "D", "pds_v6", 4, "arm64", TO_96),
    ("Esv3", "E", "s_v3", 8, "amd64", &[2, 4, 8, 16, 20, 32, 48]),
    ("Esv4", "E", "s_v4", 8, "amd64", &[2, 4, 8, 16, 20, 32, 48]),
    ("Easv4", "E", "as_v4", 8, "amd64", &[2, 4, 8, 16, 20, 32, 48, 64]),
    ("Esv5", "E", "s_v5", 8, "amd64", &[2, 4, 8, 16, 20, 32, 48, 64]),
    ("Edsv5", "E", "ds_v5", 8, "amd64", &[2, 4, 8, 16, 20, 32, 48, 64]),
    ("Easv5", "E", "as_v5", 8, "amd64", &[2, 4, 8, 16, 20, 32, 48, 64]),
    ("Eadsv5", "E", "ads_v5", 8, "amd64", &[2, 4, 8, 16, 20, 32, 48, 64]),
    ("Epsv5", "E", "ps_v5", 8, "arm64", &[2, 4, 8, 16, 20]),
    ("Esv6", "E", "s_v6", 8, "amd64", &[2, 4, 8, 16, 20, 32, 48, 64]),
    ("Fsv2", "F", "s_v2", 2, "amd64", &[2, 4, 8, 16, 32, 48, 64, 72]),
];

/// Sizes of their own: family, name, CPUs, MiB of memory, GPUs, architecture.
const SINGLE: &[(&str, &str, u32, u64, u32, &str)] = &[
    ("B", "B1s", 1, 1024, 0, "amd64"),
    ("B", "B1ms", 1, 2048, 0, "amd64"),
    ("B", "B2s", 2, 4096, 0, "amd64"),
    ("B", "B2ms", 2, 8192, 0, "amd64"),
    ("B", "B4ms", 4, 16384, 0, "amd64"),
    ("B", "B8ms", 8, 32768, 0, "amd64"),
    ("B", "B12ms", 12, 49152, 0, "amd64"),
    ("B", "B16ms", 16, 65536, 0, "amd64"),
    ("B", "B20ms", 20, 81920, 0, "amd64"),
    ("Bsv2", "B2ts_v2", 2, 1024, 0, "amd64"),
    ("Bsv2", "B2ls_v2", 2, 4096, 0, "amd64"),
    ("Bsv2", "B2s_v2", 2, 8192, 0, "amd64"),
    ("Bsv2", "B4ls_v2", 4, 8192, 0, "amd64"),
    ("Bsv2", "B4s_v2", 4, 16384, 0, "amd64"),
    ("Bsv2", "B8ls_v2", 8, 16384, 0, "amd64"),
    ("Bsv2", "B8s_v2", 8, 32768, 0, "amd64"),
    ("Bsv2", "B16ls_v2", 16, 32768, 0, "amd64"),
    ("Bsv2", "B16s_v2", 16, 65536, 0, "amd64"),
    ("Bsv2", "B32ls_v2", 32, 65536, 0, "amd64"),
    ("Bsv2", "B32s_v2", 32, 131_072, 0, "amd64"),
    ("Basv2", "B2ats_v2", 2, 1024, 0, "amd64"),
    ("Basv2", "B2als_v2", 2, 4096, 0, "amd64"),
    ("Basv2", "B2as_v2", 2, 8192, 0, "amd64"),
    ("Basv2", "B4als_v2", 4, 8192, 0, "amd64"),
    ("Basv2", "B4as_v2", 4, 16384, 0, "amd64"),
    ("Basv2", "B8als_v2", 8, 16384, 0, "amd64"),
    ("Basv2", "B8as_v2", 8, 32768, 0, "amd64"),
    ("Basv2", "B16als_v2", 16, 32768, 0, "amd64"),
    ("Basv2", "B16as_v2", 16, 65536, 0, "amd64"),
    ("Bpsv2", "B2pts_v2", 2, 1024, 0, "arm64"),
    ("Bpsv2", "B2pls_v2", 2, 4096, 0, "arm64"),
    ("Bpsv2", "B2ps_v2", 2, 8192, 0, "arm64"),
    ("Bpsv2", "B4pls_v2", 4, 8192, 0, "arm64"),
    ("Bpsv2", "B4ps_v2", 4, 16384, 0, "arm64"),
    ("Bpsv2", "B8ps_v2", 8, 32768, 0, "arm64"),
    ("Bpsv2", "B16ps_v2", 16, 65536, 0, "arm64"),
    ("Av2", "A2_v2", 2, 4096, 0, "amd64"),
    ("Av2", "A4_v2", 4, 8192, 0, "amd64"),
    ("Av2", "A8_v2", 8, 16384, 0, "amd64"),
    ("Av2", "A2m_v2", 2, 16384, 0, "amd64"),
    ("Av2", "A4m_v2", 4, 32768, 0, "amd64"),
    ("Av2", "A8m_v2", 8, 65536, 0, "amd64"),
    ("DSv2", "DS1_v2", 1, 3584, 0, "amd64"),
    ("DSv2", "DS2_v2", 2, 7168, 0, "amd64"),
    ("DSv2", "DS3_v2", 4, 14336, 0, "amd64"),
    ("DSv2", "DS4_v2", 8, 28672, 0, "amd64"),
    ("DSv2", "DS5_v2", 16, 57344, 0, "amd64"),
    ("DSv2", "DS11_v2", 2, 14336, 0, "amd64"),
    ("DSv2", "DS12_v2", 4, 28672, 0, "amd64"),
    ("DSv2", "DS13_v2", 8, 57344, 0, "amd64"),
    ("DSv2", "DS14_v2", 16, 114_688, 0, "amd64"),
    ("DSv2", "DS15_v2", 20, 143_360, 0, "amd64"),
    ("Dv2", "D1_v2", 1, 3584, 0, "amd64"),
    ("Dv2", "D2_v2", 2, 7168, 0, "amd64"),
    ("Dv2", "D3_v2", 4, 14336, 0, "amd64"),
    ("Dv2", "D4_v2", 8, 28672, 0, "amd64"),
    ("Dv2", "D5_v2", 16, 57344, 0, "amd64"),
    ("Esv3", "E64s_v3", 64, 442_368, 0, "amd64"),
    ("Esv4", "E64s_v4", 64, 516_096, 0, "amd64"),
    ("NCasT4v3", "NC4as_T4_v3", 4, 28672, 1, "amd64"),
    ("NCasT4v3", "NC8as_T4_v3", 8, 57344, 1, "amd64"),
    ("NCasT4v3", "NC16as_T4_v3", 16, 112_640, 1, "amd64"),
    ("NCasT4v3", "NC64as_T4_v3", 64, 450_560, 4, "amd64"),
    ("NCadsA100v4", "NC24ads_A100_v4", 24, 225_280, 1, "amd64"),
    ("NCadsA100v4", "NC48ads_A100_v4", 48, 450_560, 2, "amd64"),
    ("NCadsA100v4", "NC96ads_A100_v4", 96, 901_120, 4, "amd64"),
    ("NCadsH100v5", "NC40ads_H100_v5", 40, 327_680, 1, "amd64"),
    ("NCadsH100v5", "NC80adis_H100_v5", 80, 655_360, 2, "amd64"),
    ("NVadsA10v5", "NV36ads_A10_v5", 36, 450_560, 1, "amd64"),
    ("NVadsA10v5", "NV72ads_A10_v5", 72, 901_120, 2, "amd64"),
];

static SIZES: LazyLock<Vec<VmSize>> = LazyLock::new(|| {
    let series = SERIES.iter().flat_map(|&(family, before, after, gib_per_cpu, arch, cpus)| {
        cpus.iter().map(move |&cpus| VmSize {
            name: format!("Standard_{before}{cpus}{after}"),
            family,
            cpus,
            memory_mib: u64::from(cpus) * gib_per_cpu * (GIB / MIB),
            gpus: 0,
            arch,
        })
    });
    let single = SINGLE.iter().map(|&(family, name, cpus, memory_mib, gpus, arch)| VmSize {
        name: format!("Standard_{name}"),
        family,
        cpus,
        memory_mib,
        gpus,
        arch,
    });
    series.chain(single).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_reservations_are_those_of_the_documentation() {
        for (cores, reserved) in [(1, 60), (2, 100), (4, 140), (8, 180), (16, 260), (32, 420), (64, 740)] {
            assert_eq!(reserved_cpu_millis(cores * 1000), reserved, "{cores} cores");
        }
    }

    #[test]
    fn memory_reservations_are_those_of_the_documentation() {
        // 250 pods: a quarter; 30 pods: 20 MiB each and 50 MiB.
        for (name, max_pods, allocatable) in [
            ("Standard_B2ms", 250, 6 * GIB - 100 * MIB),
            ("Standard_B2ms", 30, 8 * GIB - 750 * MIB),
            ("Standard_D4s_v5", 250, 12 * GIB - 100 * MIB),
            ("Standard_D8s_v5", 250, 32 * GIB - 5150 * MIB),
        ] {
            let machine = Machine::of_size(VmSize::find(name).unwrap());
            assert_eq!(machine.allocatable(max_pods).memory, allocatable, "{name} with {max_pods} pods");
        }
    }

    #[test]
    fn a_b2ms_is_what_aks_reports() {
        let machine = Machine::of_size(VmSize::find("standard_b2MS").unwrap());
        let (capacity, allocatable) = (machine.capacity(250), machine.allocatable(250));
        assert_eq!((capacity.cpu_millis, allocatable.cpu_millis), (2000, 1900));
        assert_eq!(capacity.memory, 8 * GIB);
        assert_eq!(capacity.ephemeral_storage, 129_886_128 * 1024);
        assert_eq!(allocatable.pods, 250);
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = SIZES.iter().map(|size| &size.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), SIZES.len());
    }

    #[test]
    fn reservations_never_exceed_the_machine() {
        for memory in [0, 1, MIB, 64 * MIB, GIB] {
            assert!(Machine::custom(10, memory).allocatable(250).memory <= memory);
            assert_eq!(Machine::custom(10, memory).allocatable(250).cpu_millis, 0);
        }
    }
}
