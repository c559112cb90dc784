//! What a kubelet refuses to run: pods that came to its node past the scheduler.

// upstream: pkg/kubelet/lifecycle/predicate.go Admit, generalFilter (v1.36)
// upstream: pkg/kubelet/sysctl/allowlist.go Admit (v1.36)
// upstream: pkg/kubelet/eviction/eviction_manager.go Admit (v1.36)

use k8s_openapi::api::core::v1;
use klab_api_machinery::views::{Container, Pod, PodSpec};
use klab_scheduler::HostPort;
use klab_scheduler::node_selector::RequiredNodeAffinity;
use klab_scheduler::typed::Typed;

use super::super::plane::Plane;
use super::super::view::{NodeInfo, PodInfo};
use super::pressure;

/// Kernel parameters of its own that a pod may set.
const SAFE_SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

/// Why a kubelet does not take a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rejection {
    pub(super) reason: String,
    pub(super) message: String,
}

fn rejection(reason: &str, message: impl Into<String>) -> Rejection {
    Rejection { reason: reason.to_owned(), message: message.into() }
}

impl Plane {
    /// Why the kubelet of a node does not take a pod, if it does not.
    pub(super) fn rejection(&self, pod: &PodInfo, value: Pod<'_>, node: &NodeInfo) -> Option<Rejection> {
        if value.is_mirror() {
            return None;
        }
        let spec = value.spec();
        let under = pressure::rejects(value, node).map(|message| rejection("Evicted", message));
        under
            .or_else(|| forbidden_sysctl(spec))
            .or_else(|| wrong_system(value, node))
            .or_else(|| {
                let shortage = self.shortage(pod, value)?;
                Some(rejection(&format!("OutOf{}", shortage.resource), shortage.message))
            })
            .or_else(|| {
                let failed = |name: &str, why: &str| rejection(name, format!("Predicate {name} failed: {why}"));
                if !affine(spec, node) {
                    return Some(failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector"));
                }
                if self.port_is_taken(pod, value) {
                    return Some(failed("NodePorts", "node(s) didn't have free ports for the requested pod ports"));
                }
                let is_untolerated = |taint| !spec.tolerations().any(|toleration| toleration.tolerates(taint));
                node.evicting_taints()
                    .any(is_untolerated)
                    .then(|| failed("TaintToleration", "node(s) had taints that the pod didn't tolerate"))
            })
    }

    fn port_is_taken(&self, pod: &PodInfo, value: Pod<'_>) -> bool {
        let wanted = host_ports(value);
        !wanted.is_empty()
            && self.view.pods_on(&pod.node).iter().any(|other| {
                let taken = other.object.uid != pod.object.uid && other.started.is_some() && !other.finished();
                taken
                    && host_ports(Pod(&other.object.value()))
                        .iter()
                        .any(|port| wanted.iter().any(|wanted| wanted.conflicts_with(port)))
            })
    }
}

fn forbidden_sysctl(spec: PodSpec<'_>) -> Option<Rejection> {
    for name in spec.security_context().sysctls().map(|sysctl| sysctl.name().replace('/', ".")) {
        if !SAFE_SYSCTLS.contains(&name.as_str()) {
            return Some(rejection("SysctlForbidden", format!("forbidden sysctl: \"{name}\" not allowlisted")));
        }
        let (kind, shares) =
            if name.starts_with("net.") { ("net", spec.host_network()) } else { ("ipc", spec.host_ipc()) };
        if shares {
            let message = format!("forbidden sysctl: \"{name}\" not allowed with host {kind} enabled");
            return Some(rejection("SysctlForbidden", message));
        }
    }
    None
}

fn wrong_system(pod: Pod<'_>, node: &NodeInfo) -> Option<Rejection> {
    let has = node.object.label("kubernetes.io/os").unwrap_or("linux");
    let labelled = pod.metadata().labels().get("kubernetes.io/os").unwrap_or_default();
    if !labelled.is_empty() && labelled != has {
        let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
        return Some(rejection("PodOSSelectorNodeLabelDoesNotMatch", message));
    }
    let asked = pod.spec().os().name();
    if !asked.is_empty() && asked != has {
        return Some(rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"));
    }
    None
}

fn affine(spec: PodSpec<'_>, node: &NodeInfo) -> bool {
    if spec.node_selector().is_empty() && !spec.affinity().node_affinity().is_set() {
        return true;
    }
    let Ok(spec) = v1::PodSpec::from_value(spec.0) else { return true };
    let Ok(required) = RequiredNodeAffinity::from_api(&spec) else { return true };
    let labels = node.object.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    required.matches(&labels, &node.object.name)
}

fn host_ports(pod: Pod<'_>) -> Vec<HostPort> {
    let or = |given: &str, otherwise: &str| (if given.is_empty() { otherwise } else { given }).to_owned();
    let containers = pod.spec().containers().chain(pod.spec().init_containers());
    let ports = containers.flat_map(Container::ports).filter(|port| port.host_port() > 0);
    ports
        .filter_map(|port| {
            let number = i32::try_from(port.host_port()).ok()?;
            Some(HostPort { ip: or(port.host_ip(), "0.0.0.0"), protocol: or(port.protocol(), "TCP"), port: number })
        })
        .collect()
}
