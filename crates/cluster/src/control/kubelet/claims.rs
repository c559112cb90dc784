//! What a kubelet asks of the resource claims of a pod before it starts a container: that they have devices, and that
//! these are kept for the pod.

// upstream: pkg/kubelet/cm/dra/manager.go PrepareResources (v1.36)

use klab_api_machinery::resource::RESOURCE_CLAIMS;
use klab_api_machinery::value::{items, text};
use serde_json::Value;

use super::super::plane::Plane;
use super::super::view::PodInfo;

/// Why the devices of a pod cannot be made ready.
pub(super) fn unprepared(plane: &Plane, pod: &PodInfo, value: &Value) -> Option<String> {
    let (namespace, uid) = (&*pod.object.namespace, &*pod.object.uid);
    let made = items(&value["status"]["resourceClaimStatuses"]);
    items(&value["spec"]["resourceClaims"]).iter().find_map(|wanted| {
        let status = made.iter().find(|status| status["name"] == wanted["name"]);
        let name = match (wanted["resourceClaimName"].as_str(), status) {
            (Some(name), _) => name,
            // One that is not needed has no name.
            (None, Some(status)) => status["resourceClaimName"].as_str()?,
            (None, None) => {
                let (pod, own) = (&pod.object.name, text(wanted, &["name"]));
                return Some(format!(
                    "prepare ResourceClaim {own}: pod \"{namespace}/{pod}\": ResourceClaim not created yet"
                ));
            }
        };
        let Some(claim) = plane.cluster.get(RESOURCE_CLAIMS, namespace, name) else {
            return Some(format!("fetch ResourceClaim {name}: resourceclaims.resource.k8s.io \"{name}\" not found"));
        };
        let status = &claim.value()["status"];
        let reserved = items(&status["reservedFor"]).iter().any(|consumer| consumer["uid"] == *uid);
        if !reserved {
            let (pod, own) = (&pod.object.name, &claim.uid);
            return Some(format!("pod {pod} ({uid}) is not allowed to use ResourceClaim {name} ({own})"));
        }
        status["allocation"].is_null().then(|| format!("ResourceClaim {name} is not allocated"))
    })
}
