//! Devices and the claims for them, as a snapshot holds them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use klab_scheduler::SelectorLanguage;

/// What was read of devices.
#[derive(Clone, Debug, Default)]
pub struct DeviceObjects {
    /// Classes.
    pub classes: Vec<Arc<DeviceClass>>,
    /// What drivers publish.
    pub slices: Vec<Arc<ResourceSlice>>,
    /// Claims.
    pub claims: Vec<Arc<ResourceClaim>>,
    /// What claims of pods are made from.
    pub templates: Vec<Arc<ResourceClaimTemplate>>,
    /// The language of device selectors.
    pub language: Option<Arc<dyn SelectorLanguage>>,
}

impl DeviceObjects {
    /// Whether pods have claims, or wait with requests for resources that may be devices: then these objects are worth reading.
    pub fn are_asked_for(pods: &[Arc<Pod>]) -> bool {
        let extended = |container: &Container| {
            let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
            requests.is_some_and(|requests| requests.keys().any(|name| name.contains('/')))
        };
        pods.iter().filter_map(|pod| pod.spec.as_ref()).any(|spec| {
            let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
            spec.resource_claims.is_some() || (spec.node_name.is_none() && containers.any(extended))
        })
    }

    /// Whether pods without a node have claims, for which they may wait before a scheduler looks at them.
    pub fn are_awaited(pods: &[Arc<Pod>]) -> bool {
        let waits =
            |spec: &&k8s_openapi::api::core::v1::PodSpec| spec.node_name.is_none() && spec.resource_claims.is_some();
        pods.iter().filter_map(|pod| pod.spec.as_ref()).any(|spec| waits(&spec))
    }

    /// What a pod waits for that is not there: a claim, or what one is made from. No scheduler looks at the pod before.
    pub(crate) fn lacking(&self, pod: &Pod) -> Option<String> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
        let claims = pod.spec.as_ref()?.resource_claims.as_deref()?;
        let is_template = |name: &str| {
            let of_name = |it: &&Arc<ResourceClaimTemplate>| it.metadata.name.as_deref() == Some(name);
            self.templates.iter().filter(of_name).any(|it| it.metadata.namespace.as_deref() == Some(namespace))
        };
        claims.iter().find_map(|claim| match (&claim.resource_claim_name, &claim.resource_claim_template_name) {
            (Some(name), _) if self.claim(namespace, name).is_none() => {
                Some(format!("there is no resource claim {name}"))
            }
            (None, Some(name)) if !is_template(name) => Some(format!("there is no resource claim template {name}")),
            _ => None,
        })
    }

    /// A claim by its name.
    pub(crate) fn claim(&self, namespace: &str, name: &str) -> Option<&Arc<ResourceClaim>> {
        let is_it = |claim: &&Arc<ResourceClaim>| {
            claim.metadata.name.as_deref() == Some(name) && claim.metadata.namespace.as_deref() == Some(namespace)
        };
        self.claims.iter().find(is_it)
    }
}
