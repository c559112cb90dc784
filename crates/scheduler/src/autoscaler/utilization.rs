//! How full a node is: the share of its CPU or memory that its pods request.

// upstream: cluster-autoscaler/simulator/utilization/info.go Calculate (v1.36)

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::drain::is_overdue;
use super::profile::Profile;
use crate::node_info::NodeSpec;
use crate::owner::is_of_daemon_set;
use crate::resources::{PodResources, Resources};

/// The resource that a node with GPUs is judged by.
const GPU: &str = "nvidia.com/gpu";

/// How full a node is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Utilization {
    /// The share of its CPU.
    pub cpu: f64,
    /// The share of its memory.
    pub memory: f64,
    /// The share of its GPUs, which alone counts where it has any.
    pub gpu: Option<f64>,
}

impl Utilization {
    /// That of a node with these pods. A node without CPU or memory has none.
    pub(super) fn of(node: &NodeSpec, pods: &[&Pod], profile: &Profile, now: Timestamp) -> Option<Self> {
        let (mut asked, mut daemons) = (Resources::default(), Resources::default());
        for pod in pods {
            let Ok(resources) = PodResources::of(pod) else { continue };
            if profile.ignores_daemon_sets && is_of_daemon_set(pod) {
                daemons.add(&resources.requests);
            } else if !is_overdue(pod, now) {
                asked.add(&resources.requests);
            }
        }
        let share = |name: &str| {
            let offered = node.allocatable.get(name) - daemons.get(name);
            (offered > 0).then(|| asked.get(name) as f64 / offered as f64)
        };
        let gpu = (node.allocatable.get(GPU) > 0).then(|| share(GPU).unwrap_or_default());
        if gpu.is_some() {
            return Some(Self { cpu: 0.0, memory: 0.0, gpu });
        }
        Some(Self { cpu: share("cpu")?, memory: share("memory")?, gpu: None })
    }

    /// The greatest share, by which a node is judged, and the resource that it is of.
    pub fn greatest(&self) -> (f64, &'static str) {
        match self.gpu {
            Some(gpu) => (gpu, GPU),
            None if self.cpu > self.memory => (self.cpu, "cpu"),
            None => (self.memory, "memory"),
        }
    }
}

impl fmt::Display for Utilization {
    /// As the event `ScaleDown` shows it: CPU, memory, GPUs, devices, the resource that counts, its share.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (share, resource) = self.greatest();
        write!(f, "{{{} {} {} 0 {resource} {share}}}", self.cpu, self.memory, self.gpu.unwrap_or_default())
    }
}
