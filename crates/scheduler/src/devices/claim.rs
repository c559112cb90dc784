//! ResourceClaims as the allocator reads them: what they ask for, what they were given, and to whom they are reserved.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::resource::v1::{
    AllocationResult, DeviceClaimConfiguration, DeviceConstraint, DeviceRequest, DeviceSelector, DeviceToleration,
    ResourceClaim, ResourceClaimSpec, ResourceClaimStatus,
};

use super::slice::amount;
use crate::node_selector::NodeSelectorTerm;
use crate::owner::controller;
use crate::quantity::Quantity;

/// How many devices a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// An exact number.
    Exactly(i64),
    /// All that match.
    All,
    /// One that this scheduler does not know.
    Unknown,
}

/// A request, or one of its alternatives.
#[derive(Debug)]
pub(crate) struct Choice {
    /// The request's name, or the alternative's.
    pub(crate) name: String,
    pub(crate) class: String,
    /// Expressions; `None` for a selector of another kind.
    pub(crate) selectors: Vec<Option<Arc<str>>>,
    pub(crate) mode: Mode,
    pub(crate) tolerations: Option<Vec<DeviceToleration>>,
    pub(crate) admin: bool,
    /// What it asks of each capacity.
    pub(crate) capacity: BTreeMap<String, Quantity>,
}

/// A request for devices.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) name: String,
    /// Whether the choices are alternatives, the first being preferred.
    pub(crate) alternatives: bool,
    pub(crate) choices: Vec<Choice>,
}

impl Request {
    fn of(request: &DeviceRequest) -> Self {
        let choices = match &request.exactly {
            Some(exactly) => vec![Choice {
                name: request.name.clone(),
                class: exactly.device_class_name.clone(),
                selectors: selectors(exactly.selectors.as_deref()),
                mode: mode(exactly.allocation_mode.as_deref(), exactly.count),
                tolerations: exactly.tolerations.clone(),
                admin: exactly.admin_access == Some(true),
                capacity: capacity(exactly.capacity.as_ref().and_then(|capacity| capacity.requests.as_ref())),
            }],
            None => request
                .first_available
                .iter()
                .flatten()
                .map(|sub| Choice {
                    name: sub.name.clone(),
                    class: sub.device_class_name.clone(),
                    selectors: selectors(sub.selectors.as_deref()),
                    mode: mode(sub.allocation_mode.as_deref(), sub.count),
                    tolerations: sub.tolerations.clone(),
                    admin: false,
                    capacity: capacity(sub.capacity.as_ref().and_then(|capacity| capacity.requests.as_ref())),
                })
                .collect(),
        };
        Self { name: request.name.clone(), alternatives: request.exactly.is_none(), choices }
    }

    /// How results refer to the request, if this choice was taken.
    pub(crate) fn reference(&self, choice: usize) -> String {
        match self.choices.get(choice) {
            Some(choice) if self.alternatives => format!("{}/{}", self.name, choice.name),
            _ => self.name.clone(),
        }
    }
}

fn selectors(selectors: Option<&[DeviceSelector]>) -> Vec<Option<Arc<str>>> {
    let expression = |selector: &DeviceSelector| selector.cel.as_ref().map(|cel| Arc::from(cel.expression.as_str()));
    selectors.into_iter().flatten().map(expression).collect()
}

fn mode(mode: Option<&str>, count: Option<i64>) -> Mode {
    match mode {
        None | Some("" | "ExactCount") => Mode::Exactly(count.unwrap_or(1)),
        Some("All") => Mode::All,
        Some(_) => Mode::Unknown,
    }
}

fn capacity(
    requests: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>,
) -> BTreeMap<String, Quantity> {
    requests.into_iter().flatten().map(|(name, quantity)| (name.clone(), amount(quantity))).collect()
}

/// What a claim asks for. Claims that ask for the same share it.
#[derive(Debug)]
pub(crate) struct ClaimSpec {
    /// No two that differ have the same.
    pub(crate) id: u64,
    pub(crate) requests: Vec<Request>,
    pub(crate) constraints: Vec<DeviceConstraint>,
    pub(crate) config: Vec<DeviceClaimConfiguration>,
}

impl ClaimSpec {
    pub(crate) fn of(spec: &ResourceClaimSpec, id: u64) -> Self {
        let devices = spec.devices.as_ref();
        Self {
            id,
            requests: devices.and_then(|it| it.requests.as_ref()).into_iter().flatten().map(Request::of).collect(),
            constraints: devices.and_then(|it| it.constraints.clone()).unwrap_or_default(),
            config: devices.and_then(|it| it.config.clone()).unwrap_or_default(),
        }
    }
}

/// What a claim was given.
#[derive(Debug, Clone)]
pub(crate) struct Allocation {
    pub(crate) result: AllocationResult,
    /// Where it can be used; everywhere if not said. Terms that cannot be read match nothing.
    pub(crate) terms: Option<Vec<NodeSelectorTerm>>,
}

impl Allocation {
    fn of(result: &AllocationResult) -> Self {
        let selector = result.node_selector.as_ref();
        let terms = selector.map(|selector| {
            selector.node_selector_terms.iter().filter_map(|term| NodeSelectorTerm::from_api(term).ok()).collect()
        });
        Self { result: result.clone(), terms }
    }
}

/// A claim.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) uid: String,
    pub(crate) spec: Arc<ClaimSpec>,
    pub(crate) allocation: Option<Allocation>,
    /// The UIDs of those it is reserved for.
    pub(crate) reserved_for: Vec<String>,
    /// The names of the pods among them.
    pub(crate) pods: Vec<String>,
    pub(crate) terminating: bool,
    /// Whether a driver said that its devices will not get ready.
    pub(crate) failed: bool,
    /// Whether no pod waits any more for its devices to get ready.
    pub(crate) given_up: bool,
    /// The UID of its controller.
    pub(crate) owner: Option<String>,
}

impl Claim {
    pub(crate) fn of(claim: &ResourceClaim, spec: Arc<ClaimSpec>) -> Self {
        let metadata = &claim.metadata;
        let status = claim.status.as_ref();
        Self {
            namespace: Arc::from(metadata.namespace.as_deref().unwrap_or("default")),
            name: Arc::from(metadata.name.as_deref().unwrap_or_default()),
            uid: metadata.uid.clone().unwrap_or_default(),
            spec,
            allocation: status.and_then(|status| status.allocation.as_ref()).map(Allocation::of),
            reserved_for: status
                .and_then(|status| status.reserved_for.as_ref())
                .into_iter()
                .flatten()
                .map(|consumer| consumer.uid.clone())
                .collect(),
            pods: status
                .and_then(|status| status.reserved_for.as_ref())
                .into_iter()
                .flatten()
                .filter(|consumer| consumer.resource == "pods")
                .map(|consumer| consumer.name.clone())
                .collect(),
            terminating: metadata.deletion_timestamp.is_some(),
            failed: status.is_some_and(binding_failed),
            given_up: false,
            owner: controller(metadata).map(|owner| owner.uid.clone()),
        }
    }

    /// Whether other devices are to be found for it, where that can be done.
    pub(crate) fn is_of_no_use(&self) -> bool {
        self.failed || self.given_up
    }

    /// Namespace and name, as messages name it.
    pub(crate) fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// Whether a driver said of a device that it will not get ready to be bound.
///
/// upstream: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go isClaimReadyForBinding (v1.36)
fn binding_failed(status: &ResourceClaimStatus) -> bool {
    let results = status.allocation.as_ref().and_then(|allocation| allocation.devices.as_ref()?.results.as_ref());
    for result in results.into_iter().flatten() {
        if result.binding_conditions.as_ref().is_none_or(Vec::is_empty) {
            continue;
        }
        let mut devices = status.devices.iter().flatten();
        let device =
            devices.find(|it| it.driver == result.driver && it.pool == result.pool && it.device == result.device);
        // Those behind one that is not ready yet are not looked at.
        let Some(device) = device else { return false };
        let is_true = |kind: &String| {
            let mut conditions = device.conditions.iter().flatten();
            conditions.any(|condition| condition.type_ == *kind && condition.status == "True")
        };
        if result.binding_failure_conditions.iter().flatten().any(is_true) {
            return true;
        }
        if !result.binding_conditions.iter().flatten().all(is_true) {
            return false;
        }
    }
    false
}
