//! The claims of a pod: found by their names, or why the pod has to wait for them.

// upstream: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go foreachPodResourceClaim (v1.36)
// upstream: staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/resourceclaim.go Name, IsForPod (v1.36)

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::claim::Claim;
use super::extended::Extended;
use super::inventory::Devices;
use crate::pod_info::namespace_of;

/// The claims of a pod.
#[derive(Debug)]
pub(crate) struct PodClaims {
    pub(crate) pod_uid: String,
    /// All, in the pod's order.
    pub(crate) all: Vec<Arc<Claim>>,
    /// Those that have no devices yet.
    pub(crate) pending: Vec<Arc<Claim>>,
    /// What it requests of resources that are devices.
    pub(crate) extended: Option<Extended>,
}

impl PodClaims {
    /// Whether a pod may have claims; said without looking for them.
    pub(crate) fn are_possible(devices: &Devices, pod: &Pod) -> bool {
        let Some(spec) = pod.spec.as_ref() else { return false };
        let requests = |container: &Container| {
            let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
            requests.is_some_and(|requests| requests.keys().any(|name| name.contains('/')))
        };
        spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty())
            || (devices.has_classes() && spec.init_containers.iter().flatten().chain(&spec.containers).any(requests))
    }

    /// The claims of a pod; `None` if it has none.
    ///
    /// # Errors
    /// What the pod waits for.
    pub(crate) fn of(devices: &Devices, pod: &Pod) -> Result<Option<Self>, String> {
        let namespace = namespace_of(pod);
        let pod_uid = pod.metadata.uid.clone().unwrap_or_default();
        let mut all = Vec::new();
        for (name, made) in names(pod)? {
            let claim = devices.claim(namespace, &name);
            let claim = claim.ok_or_else(|| format!("resourceclaim.resource.k8s.io \"{name}\" not found"))?;
            if claim.terminating {
                return Err(format!("resourceclaim \"{name}\" is being deleted"));
            }
            if made && claim.owner.as_deref() != Some(pod_uid.as_str()) {
                let pod = pod.metadata.name.as_deref().unwrap_or_default();
                return Err(format!(
                    "ResourceClaim {namespace}/{name} was not created for Pod {namespace}/{pod} (Pod is not owner)"
                ));
            }
            all.push(Arc::clone(claim));
        }
        let extended = Extended::of(devices, pod);
        if all.is_empty() && extended.is_none() {
            return Ok(None);
        }
        let pending = all.iter().filter(|claim| claim.allocation.is_none()).cloned().collect();
        Ok(Some(Self { pod_uid, all, pending, extended }))
    }
}

/// The names of a pod's claims, and whether each was made for the pod.
fn names(pod: &Pod) -> Result<Vec<(String, bool)>, String> {
    let wanted = pod.spec.as_ref().and_then(|spec| spec.resource_claims.as_ref()).into_iter().flatten();
    let made = pod.status.as_ref().and_then(|status| status.resource_claim_statuses.as_ref());
    let mut names = Vec::new();
    for claim in wanted {
        if let Some(name) = &claim.resource_claim_name {
            names.push((name.clone(), false));
            continue;
        }
        let status = made.into_iter().flatten().find(|status| status.name == claim.name);
        let Some(status) = status else {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            return Err(format!("pod \"{}/{name}\": ResourceClaim not created yet", namespace_of(pod)));
        };
        // None was made on purpose: there is nothing to wait for.
        names.extend(status.resource_claim_name.clone().map(|name| (name, true)));
    }
    Ok(names)
}

/// The names of a pod's claims as far as they are known.
pub(crate) fn known_names(pod: &Pod) -> Vec<String> {
    let wanted = pod.spec.as_ref().and_then(|spec| spec.resource_claims.as_ref()).into_iter().flatten();
    let made = pod.status.as_ref().and_then(|status| status.resource_claim_statuses.as_ref());
    let name = |claim: &k8s_openapi::api::core::v1::PodResourceClaim| {
        claim.resource_claim_name.clone().or_else(|| {
            let status = made.into_iter().flatten().find(|status| status.name == claim.name);
            status.and_then(|status| status.resource_claim_name.clone())
        })
    };
    wanted.filter_map(name).collect()
}
