//! Limits of what a process uses.

use rustix::process::{Resource, Rlimit, setrlimit};

/// Most that a process uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Seconds of processor.
    pub processor: u64,
    /// Bytes of memory that it writes to.
    pub memory: u64,
    /// Bytes of a file that it writes.
    pub file: u64,
    /// Files that are open at a time.
    pub files: u64,
    /// Threads of its user; none where klab's own user runs it, who has others.
    pub threads: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { processor: 20, memory: 1 << 30, file: 16 << 20, files: 64, threads: None }
    }
}

/// Sets them for this process and what it becomes.
pub(super) fn set(limits: &Limits) -> std::io::Result<()> {
    let most = [
        (Resource::Cpu, Some(limits.processor)),
        (Resource::Data, Some(limits.memory)),
        (Resource::Fsize, Some(limits.file)),
        (Resource::Nofile, Some(limits.files)),
        (Resource::Core, Some(0)),
        (Resource::Nproc, limits.threads),
    ];
    for (resource, most) in most {
        if let Some(most) = most {
            setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
        }
    }
    Ok(())
}
