//! What pods on a node hold of its resources, as its kubelet counts it: what has been allocated, not what is asked for.

use k8s_openapi::api::core::v1;
use klab_api_machinery::views::{Container, Pod};
use klab_scheduler::typed::Typed;
use klab_scheduler::{PodResources, Resources};
use serde_json::Value;

use super::super::plane::Plane;
use super::super::view::PodInfo;

/// What a pod requests; `None` for a pod whose amounts cannot be read, which the API does not let in.
pub(super) fn requested(pod: &Value) -> Option<Resources> {
    let pod = v1::Pod::from_value(pod).ok()?;
    Some(PodResources::of(&pod).ok()?.requests)
}

/// What a pod that runs has been given: its requests, but for those of a resize that has not been allowed.
// upstream: pkg/kubelet/allocation/allocation_manager.go updatePodFromAllocation (v1.36)
fn allocated(pod: Pod<'_>) -> Option<Resources> {
    let mut given = pod.0.clone();
    let status = pod.status();
    for (containers, statuses) in
        [("containers", status.container_statuses()), ("initContainers", status.init_container_statuses())]
    {
        for container in given["spec"][containers].as_array_mut().into_iter().flatten() {
            let status = statuses.clone().named(Container(container).name());
            if let Some(allocated) =
                status.map(|status| &status.0["allocatedResources"]).filter(|have| have.is_object())
            {
                container["resources"]["requests"] = allocated.clone();
            }
        }
    }
    requested(&given)
}

/// Why a pod does not fit beside the others on its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shortage {
    pub(super) resource: String,
    pub(super) message: String,
}

impl Plane {
    /// The first resource of which a node has too little for what a pod is to have beside the others that the node has
    /// taken.
    // upstream: pkg/scheduler/framework/plugins/noderesources/fit.go Fits (v1.36)
    pub(super) fn shortage(&self, pod: &PodInfo, value: Pod<'_>) -> Option<Shortage> {
        let usage = self.scheduler_cache.usage(&pod.node)?;
        let names = ["cpu", "memory", "ephemeral-storage"];
        let scalars = usage.allocatable.scalars.iter().map(|(name, _)| name.as_ref());
        let over = |name: &str| usage.requested.get(name) > usage.allocatable.get(name);
        // The scheduler counts at least as much as the kubelet.
        if usage.pods <= usage.allowed_pods && !names.into_iter().chain(scalars.clone()).any(over) {
            return None;
        }
        let wanted = requested(value.0)?;
        let (mut used, mut pods) = (Resources::default(), 0);
        for other in self.view.pods_on(&pod.node) {
            if other.object.uid != pod.object.uid && other.started.is_some() && !other.finished() {
                pods += 1;
                used.add(&allocated(Pod(&other.object.value())).unwrap_or_default());
            }
        }
        let short = |resource: &str, wanted: i64, used: i64, capacity: i64| {
            (wanted > 0 && wanted > capacity - used).then(|| Shortage {
                resource: resource.to_owned(),
                message: format!(
                    "Node didn't have enough resource: {resource}, requested: {wanted}, used: {used}, capacity: {capacity}"
                ),
            })
        };
        short("pods", 1, pods, usage.allowed_pods).or_else(|| {
            names
                .into_iter()
                .chain(scalars)
                .find_map(|name| short(name, wanted.get(name), used.get(name), usage.allocatable.get(name)))
        })
    }
}
