//! What a kubelet refuses to run: pods that came to its node past the scheduler.

// upstream: pkg/kubelet/lifecycle/predicate.go Admit, generalFilter (v1.36)
// upstream: pkg/kubelet/sysctl/allowlist.go Admit (v1.36)
// upstream: pkg/kubelet/eviction/eviction_manager.go Admit (v1.36)

use k8s_openapi::api::core::v1::PodSpec;
use klab_api_machinery::validation::pod::is_mirror;
use klab_api_machinery::value::{integer, items, text, tolerates};
use klab_scheduler::HostPort;
use klab_scheduler::node_selector::RequiredNodeAffinity;
use klab_scheduler::typed::Typed;
use serde_json::Value;

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
    pub(super) fn rejection(&self, pod: &PodInfo, value: &Value, node: &NodeInfo) -> Option<Rejection> {
        if is_mirror(value) {
            return None;
        }
        let spec = &value["spec"];
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
                let untolerated =
                    node.taints.iter().filter(|taint| taint["effect"] == "NoExecute").any(|taint| {
                        !items(&spec["tolerations"]).iter().any(|toleration| tolerates(toleration, taint))
                    });
                untolerated.then(|| failed("TaintToleration", "node(s) had taints that the pod didn't tolerate"))
            })
    }

    fn port_is_taken(&self, pod: &PodInfo, value: &Value) -> bool {
        let wanted = host_ports(value);
        !wanted.is_empty()
            && self.view.pods_on(&pod.node).iter().any(|other| {
                let taken = other.object.uid != pod.object.uid && other.started.is_some() && !other.finished();
                taken
                    && host_ports(&other.object.value())
                        .iter()
                        .any(|port| wanted.iter().any(|wanted| wanted.conflicts_with(port)))
            })
    }
}

fn forbidden_sysctl(spec: &Value) -> Option<Rejection> {
    let named =
        items(&spec["securityContext"]["sysctls"]).iter().map(|sysctl| text(sysctl, &["name"]).replace('/', "."));
    for name in named {
        if !SAFE_SYSCTLS.contains(&name.as_str()) {
            return Some(rejection("SysctlForbidden", format!("forbidden sysctl: \"{name}\" not allowlisted")));
        }
        let host = if name.starts_with("net.") { "hostNetwork" } else { "hostIPC" };
        if spec[host] == true {
            let kind = if host == "hostIPC" { "ipc" } else { "net" };
            let message = format!("forbidden sysctl: \"{name}\" not allowed with host {kind} enabled");
            return Some(rejection("SysctlForbidden", message));
        }
    }
    None
}

fn wrong_system(pod: &Value, node: &NodeInfo) -> Option<Rejection> {
    let has = node.object.label("kubernetes.io/os").unwrap_or("linux");
    let labelled = text(pod, &["metadata", "labels", "kubernetes.io/os"]);
    if !labelled.is_empty() && labelled != has {
        let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
        return Some(rejection("PodOSSelectorNodeLabelDoesNotMatch", message));
    }
    let asked = text(pod, &["spec", "os", "name"]);
    if !asked.is_empty() && asked != has {
        return Some(rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"));
    }
    None
}

fn affine(spec: &Value, node: &NodeInfo) -> bool {
    if spec["nodeSelector"].is_null() && spec["affinity"]["nodeAffinity"].is_null() {
        return true;
    }
    let Ok(spec) = PodSpec::from_value(spec) else { return true };
    let Ok(required) = RequiredNodeAffinity::from_api(&spec) else { return true };
    let labels = serde_json::from_value(node.object.value()["metadata"]["labels"].clone()).unwrap_or_default();
    required.matches(&labels, &node.object.name)
}

fn host_ports(pod: &Value) -> Vec<HostPort> {
    let containers = items(&pod["spec"]["containers"]).iter().chain(items(&pod["spec"]["initContainers"]));
    let ports = containers.flat_map(|container| items(&container["ports"]));
    ports
        .filter_map(|port| {
            let number = integer(port, &["hostPort"]).filter(|number| *number > 0)?;
            let or = |field: &str, otherwise: &str| {
                let given = text(port, &[field]);
                if given.is_empty() { otherwise.to_owned() } else { given.to_owned() }
            };
            Some(HostPort {
                ip: or("hostIP", "0.0.0.0"),
                protocol: or("protocol", "TCP"),
                port: i32::try_from(number).ok()?,
            })
        })
        .collect()
}
