//! Names of kernel parameters that pods set.

// upstream: pkg/apis/core/validation/validation.go validateSysctls (v1.36)

use std::collections::HashSet;

use super::{Errors, Place};
use crate::views::PodSpec;

const MAX_LENGTH: usize = 253;
/// What upstream's message shows of its pattern.
const PATTERN: &str = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
/// Parameters of the namespace that `hostIPC` shares.
const OF_IPC: [&str; 10] = [
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.shm",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.msg",
];

pub(super) fn check(spec: &Place<'_, PodSpec<'_>>, errors: &mut Errors) {
    let mut seen: HashSet<&str> = HashSet::new();
    for sysctl in spec.security_context().sysctls().each() {
        let name = sysctl.name();
        if name.is_empty() {
            errors.required(name, "");
        } else if !is_name(*name) {
            let message = format!("must have at most {MAX_LENGTH} characters and match regex {PATTERN}");
            errors.invalid_at(&name, message);
        } else if seen.contains(*name) {
            errors.duplicate_at(&name);
        }
        let dotted = name.replace('/', ".");
        if *spec.host_network() && dotted.starts_with("net.") {
            errors.invalid_at(&name, "may not be specified when 'hostNetwork' is true");
        } else if *spec.host_ipc() && (OF_IPC.contains(&&*dotted) || dotted.starts_with("fs.mqueue.")) {
            errors.invalid_at(&name, "may not be specified when 'hostIPC' is true");
        }
        seen.insert(*name);
    }
}

fn is_name(name: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= MAX_LENGTH
        && name.split(['.', '/']).all(|segment| {
            let bytes = segment.as_bytes();
            bytes.first().is_some_and(alphanumeric)
                && bytes.last().is_some_and(alphanumeric)
                && bytes.iter().all(|byte| alphanumeric(byte) || matches!(byte, b'-' | b'_'))
        })
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_of_parameters() {
        for good in ["kernel.shm_rmid_forced", "net/ipv4/tcp-x", "a"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["foo-", "bar..", "safe-and-unsafe._", "Bad.name", "", "x y"] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
