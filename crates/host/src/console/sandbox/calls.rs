//! System calls: no process beside this one, no socket but TCP to somewhere, no signal to others.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use super::missing_feature::{Layer, MissingFeature};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls that kubectl does not make, and by which it would reach other processes, sockets without an address, the kernel.
const NEVER: &[i64] = &[
    libc::SYS_listen,
    libc::SYS_socketpair,
    libc::SYS_execveat,
    libc::SYS_memfd_create,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_tkill,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Rings make calls that no filter sees.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// The bit that marks the numbers of x32, under which calls of x86_64 are made again.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// Puts the filters up.
pub(super) fn close() -> Vec<MissingFeature> {
    let Err(reason) = put_up() else { return Vec::new() };
    vec![MissingFeature { wall: Layer::Calls, reason }]
}

fn put_up() -> Result<(), String> {
    let failure = |error: &dyn std::fmt::Display| format!("system calls cannot be filtered: {error}");
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| failure(&error))?;
    // A C library for which `clone3` does not exist makes threads by `clone`, whose flags can be looked at.
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    for (rules, errno) in [(refused().map_err(|error| failure(&error))?, libc::EPERM), (unknown, libc::ENOSYS)] {
        let action = SeccompAction::Errno(errno.unsigned_abs());
        let filter = SeccompFilter::new(everywhere(rules), SeccompAction::Allow, action, architecture);
        let program: BpfProgram = filter.and_then(TryInto::try_into).map_err(|error| failure(&error))?;
        apply_filter(&program).map_err(|error| failure(&error))?;
    }
    Ok(())
}

/// What is refused, each call by its number; a rule is met where all its conditions are, and no rules are always met.
fn refused() -> Result<Rules, seccompiler::BackendError> {
    let own = u64::from(std::process::id());
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    let mut rules: Rules = NEVER.iter().map(|call| (*call, Vec::new())).collect();
    #[cfg(target_arch = "x86_64")]
    for call in [libc::SYS_fork, libc::SYS_vfork] {
        rules.insert(call, Vec::new());
    }
    // A new process; threads are none.
    rules.insert(libc::SYS_clone, vec![rule([argument(0, SeccompCmpOp::MaskedEq(thread), 0)?])?]);
    // Signals to others. The number of this process stays when it becomes another program.
    for call in [libc::SYS_kill, libc::SYS_tgkill] {
        rules.insert(call, vec![rule([argument(0, SeccompCmpOp::Ne, own)?])?]);
    }
    let (inet, inet6) = (libc::AF_INET.unsigned_abs().into(), libc::AF_INET6.unsigned_abs().into());
    let stream = u64::from(libc::SOCK_STREAM.unsigned_abs());
    // Bits above the lowest four say how the descriptor behaves.
    let mut sockets = vec![rule([argument(0, SeccompCmpOp::Ne, inet)?, argument(0, SeccompCmpOp::Ne, inet6)?])?];
    for kind in (0..16).filter(|kind| *kind != stream) {
        sockets.push(rule([argument(1, SeccompCmpOp::MaskedEq(0xf), kind)?])?);
    }
    rules.insert(libc::SYS_socket, sockets);
    Ok(rules)
}

fn rule<const N: usize>(conditions: [SeccompCondition; N]) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(conditions.into())
}

fn argument(number: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(number, SeccompCmpArgLen::Dword, operator, value)
}

#[cfg(target_arch = "x86_64")]
fn everywhere(rules: Rules) -> Rules {
    let again: Rules = rules.iter().map(|(call, rules)| (call | X32, rules.clone())).collect();
    rules.into_iter().chain(again).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn everywhere(rules: Rules) -> Rules {
    rules
}
