//! What a node of a given VM size offers: capacity, and what AKS leaves of it to pods.

/// A machine as the scheduler sees it, before the reservations of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// VM size, if the machine is one of Azure's.
    pub size: Option<&'static str>,
    /// Thousandths of a CPU.
    pub cpu_millis: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// GiB of the operating system's disk.
    pub os_disk_gib: u32,
    /// Whether the disk is the machine's own (`Ephemeral`) and not a managed one.
    pub os_disk_ephemeral: bool,
    /// GPUs of the machine.
    pub gpus: u32,
    /// Processor architecture as in the label `kubernetes.io/arch`.
    pub arch: &'static str,
}
