//! Extended resources that are devices: what a pod requests of them becomes a claim where a node has no such resource.

// upstream: pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go preFilterExtendedResources,
// filterExtendedResources, createRequestsAndMappings (v1.36)
// upstream: pkg/scheduler/framework/plugins/dynamicresources/extended/extendedresourcecache.go (v1.36)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, ContainerExtendedResourceRequest, Pod};
use k8s_openapi::api::resource::v1::{
    DeviceClaim, DeviceRequest, ExactDeviceRequest, ResourceClaim, ResourceClaimSpec,
};

use super::claim::{Claim, ClaimSpec};
use super::inventory::Devices;
use super::resource_name::may_be_devices;
use crate::node_info::NodeSpec;
use crate::pod_info::namespace_of;
use crate::quantity::Quantity;

/// The name of the claim until it exists.
const UNNAMED: &str = "<extended-resources>";

/// What a pod requests of resources that are devices.
#[derive(Debug)]
pub(crate) struct Extended {
    pod: Pod,
    /// Resource and class.
    resources: BTreeMap<String, String>,
    all: Arc<ExtendedClaim>,
}

/// The claim for some of the resources, with what each container asks for.
#[derive(Debug)]
pub(crate) struct ExtendedClaim {
    pub(crate) claim: Arc<Claim>,
    pub(crate) spec: ResourceClaimSpec,
    pub(crate) mappings: Vec<ContainerExtendedResourceRequest>,
}

impl Extended {
    /// Those of a pod, as classes are now.
    pub(crate) fn of(devices: &Devices, pod: &Pod) -> Option<Self> {
        let spec = pod.spec.as_ref()?;
        let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        let names = containers.flat_map(|container| requests(container).keys()).filter(|name| may_be_devices(name));
        let mut resources = BTreeMap::new();
        for name in names {
            if let Some(class) = devices.class_of_resource(name) {
                resources.insert(name.clone(), class.to_owned());
            }
        }
        let all = Arc::new(claim(pod, &resources)?);
        Some(Self { pod: pod.clone(), resources, all })
    }

    /// The claim for a node: for what it does not have itself. `None` if it has all.
    pub(crate) fn claim_for(&self, node: &NodeSpec) -> Option<Arc<ExtendedClaim>> {
        let lacks = |name: &&String| node.allocatable.scalar(name) == 0;
        if self.resources.keys().all(|name| lacks(&name)) {
            return Some(Arc::clone(&self.all));
        }
        let of_devices = self.resources.iter().filter(|(name, _)| lacks(name));
        let of_devices = of_devices.map(|(name, class)| (name.clone(), class.clone())).collect();
        claim(&self.pod, &of_devices).map(Arc::new)
    }
}

fn requests(container: &Container) -> &BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity> {
    static NONE: BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity> = BTreeMap::new();
    container.resources.as_ref().and_then(|resources| resources.requests.as_ref()).unwrap_or(&NONE)
}

/// The claim of a pod for these resources; `None` if no container asks for any.
fn claim(pod: &Pod, resources: &BTreeMap<String, String>) -> Option<ExtendedClaim> {
    let spec = pod.spec.as_ref()?;
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let containers: Vec<&Container> = init.iter().chain(&spec.containers).collect();
    // Those that end before others start may have the same devices.
    let is_short = |at: usize| at < init.len() && containers[at].restart_policy.as_deref() != Some("Always");
    let (mut all, mut mappings) = (Vec::new(), Vec::new());
    for (resource, class) in resources {
        let mut of_long: Vec<Option<(String, i64)>> = vec![None; containers.len()];
        let mut long_mappings = Vec::new();
        for at in (0..containers.len()).filter(|at| !is_short(*at)) {
            let (request, found) = request(at, containers[at], resource, &[]);
            long_mappings.extend(found);
            of_long[at] = request;
        }
        let mut greatest: Option<(String, i64)> = None;
        let mut short_names = BTreeSet::new();
        let mut short_mappings: Vec<ContainerExtendedResourceRequest> = Vec::new();
        for at in (0..containers.len()).filter(|at| is_short(*at)) {
            let (request, found) = request(at, containers[at], resource, &of_long[at..]);
            if let Some((name, count)) = request {
                short_names.insert(name.clone());
                if greatest.as_ref().is_none_or(|(_, most)| *most < count) {
                    greatest = Some((name, count));
                }
            }
            short_mappings.extend(found);
        }
        if let Some((name, _)) = &greatest {
            for mapping in short_mappings.iter_mut().filter(|mapping| short_names.contains(&mapping.request_name)) {
                mapping.request_name.clone_from(name);
            }
        }
        let requests = greatest.into_iter().chain(of_long.into_iter().flatten());
        all.extend(requests.map(|(name, count)| DeviceRequest {
            name,
            exactly: Some(ExactDeviceRequest {
                allocation_mode: Some("ExactCount".to_owned()),
                count: Some(count),
                device_class_name: class.clone(),
                ..ExactDeviceRequest::default()
            }),
            first_available: None,
        }));
        mappings.extend(long_mappings);
        mappings.extend(short_mappings);
    }
    if all.is_empty() {
        return None;
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    let spec = ResourceClaimSpec { devices: Some(DeviceClaim { requests: Some(all), ..DeviceClaim::default() }) };
    let mut object = ResourceClaim { spec: spec.clone(), ..ResourceClaim::default() };
    object.metadata.namespace = Some(namespace_of(pod).to_owned());
    object.metadata.name = Some(UNNAMED.to_owned());
    object.metadata.uid.clone_from(&pod.metadata.uid);
    let claim = Arc::new(Claim::of(&object, Arc::new(ClaimSpec::of(&spec, 0))));
    Some(ExtendedClaim { claim, spec, mappings })
}

/// What a container asks for beyond what `reusable` requests bring, by name and number; and by which requests it is met.
fn request(
    at: usize,
    container: &Container,
    resource: &str,
    reusable: &[Option<(String, i64)>],
) -> (Option<(String, i64)>, Vec<ContainerExtendedResourceRequest>) {
    let mut mappings = Vec::new();
    let quantity = requests(container).get(resource).and_then(|amount| Quantity::parse(&amount.0).ok());
    let Some(wanted) = quantity.map(Quantity::units).filter(|wanted| *wanted > 0) else { return (None, mappings) };
    let mapping = |name: &str| ContainerExtendedResourceRequest {
        container_name: container.name.clone(),
        request_name: name.to_owned(),
        resource_name: resource.to_owned(),
    };
    let mut sum = 0_i64;
    for (name, count) in reusable.iter().flatten() {
        sum = sum.saturating_add(*count);
        mappings.push(mapping(name));
        if sum >= wanted {
            return (None, mappings);
        }
    }
    let index = requests(container).keys().position(|name| name == resource).unwrap_or(0);
    let name = format!("container-{at}-request-{index}");
    mappings.push(mapping(&name));
    (Some((name, wanted.saturating_sub(sum))), mappings)
}
