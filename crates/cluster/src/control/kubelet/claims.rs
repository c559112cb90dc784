//! What a kubelet asks of the resource claims of a pod before it starts a container: that they have devices, and that
//! these are kept for the pod.

// upstream: pkg/kubelet/cm/dra/manager.go PrepareResources (v1.36)

use klab_api_machinery::resource::RESOURCE_CLAIMS;
use klab_api_machinery::views::{Pod, ResourceClaim};

use super::super::plane::Plane;
use super::super::view::PodInfo;

/// Why the devices of a pod cannot be made ready.
pub(super) fn unprepared(plane: &Plane, pod: &PodInfo, value: Pod<'_>) -> Option<String> {
    let (namespace, uid) = (&*pod.object.namespace, &*pod.object.uid);
    value.spec().resource_claims().find_map(|wanted| {
        let status = value.status().resource_claim_statuses().named(wanted.name());
        let name = match (wanted.resource_claim_name(), status) {
            (Some(name), _) => name,
            // One that is not needed has no name.
            (None, Some(status)) => status.resource_claim_name()?,
            (None, None) => {
                let (pod, own) = (&pod.object.name, wanted.name());
                return Some(format!(
                    "prepare ResourceClaim {own}: pod \"{namespace}/{pod}\": ResourceClaim not created yet"
                ));
            }
        };
        let Some(claim) = plane.cluster.get(RESOURCE_CLAIMS, namespace, name) else {
            return Some(format!("fetch ResourceClaim {name}: resourceclaims.resource.k8s.io \"{name}\" not found"));
        };
        let value = claim.value();
        let status = ResourceClaim(&value).status();
        if !status.reserved_for().any(|consumer| consumer.uid() == uid) {
            let (pod, own) = (&pod.object.name, &claim.uid);
            return Some(format!("pod {pod} ({uid}) is not allowed to use ResourceClaim {name} ({own})"));
        }
        (!status.allocation().is_set()).then(|| format!("ResourceClaim {name} is not allocated"))
    })
}
