//! ResourceSlices as the allocator reads them: the devices of a pool, or part of them, and where they can be used.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use foldhash::{HashMap, HashMapExt};
use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::api::resource::v1::{
    Counter, Device as ApiDevice, DeviceAttribute, DeviceCapacity, DeviceTaint, ResourceSlice,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::language::{DeviceFacts, DeviceSelector};
use crate::node_info::NodeSpec;
use crate::node_selector::NodeSelectorTerm;
use crate::quantity::Quantity;

/// Expressions whose results are remembered per slice.
const MEMO_LIMIT: usize = 64;

/// An amount; what cannot be read, which validation keeps out, counts as none.
pub(super) fn amount(quantity: &ApiQuantity) -> Quantity {
    Quantity::parse(&quantity.0).unwrap_or_default()
}

/// The driver and the pool of a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PoolId {
    pub(crate) driver: Arc<str>,
    pub(crate) pool: Arc<str>,
}

/// On which nodes devices can be used.
#[derive(Debug, Clone)]
pub(crate) enum Reach {
    /// On the node of that name.
    Node(Arc<str>),
    /// On nodes that one of the terms matches; as given, and as read. `None` where it cannot be read.
    Selected(NodeSelector, Option<Vec<NodeSelectorTerm>>),
    /// On all nodes.
    Everywhere,
    /// Nothing is said that this scheduler knows.
    Unknown,
}

impl Reach {
    fn of(node: Option<&String>, all: Option<bool>, selector: Option<&NodeSelector>) -> Self {
        if let Some(node) = node.filter(|node| !node.is_empty()) {
            return Self::Node(Arc::from(node.as_str()));
        }
        if all == Some(true) {
            return Self::Everywhere;
        }
        match selector {
            None => Self::Unknown,
            Some(selector) => {
                let terms = selector.node_selector_terms.iter().map(NodeSelectorTerm::from_api);
                Self::Selected(selector.clone(), terms.collect::<Result<_, _>>().ok())
            }
        }
    }

    /// Whether a node is among them.
    pub(crate) fn covers(&self, node: &NodeSpec) -> bool {
        match self {
            Self::Node(name) => *name == node.name,
            Self::Everywhere => true,
            Self::Selected(_, terms) => terms.iter().flatten().any(|term| term.matches(&node.labels, &node.name)),
            Self::Unknown => false,
        }
    }
}

/// Counters by name.
pub(crate) type Counters = BTreeMap<String, Quantity>;

fn counters(of: &BTreeMap<String, Counter>) -> Counters {
    of.iter().map(|(name, counter)| (name.clone(), amount(&counter.value))).collect()
}

/// A device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) name: Arc<str>,
    pub(crate) attributes: BTreeMap<String, DeviceAttribute>,
    pub(crate) capacity: BTreeMap<String, DeviceCapacity>,
    pub(crate) taints: Vec<DeviceTaint>,
    /// What it consumes of the pool's counter sets, by set.
    pub(crate) consumes: Vec<(String, Counters)>,
    /// Where it can be used, if its slice leaves that to its devices.
    pub(crate) reach: Reach,
    /// Whether several claims may share it.
    pub(crate) multiple: bool,
    pub(crate) binds_to_node: bool,
    pub(crate) binding_conditions: Option<Vec<String>>,
    pub(crate) binding_failure_conditions: Option<Vec<String>>,
}

impl Device {
    fn of(device: &ApiDevice) -> Self {
        Self {
            name: Arc::from(device.name.as_str()),
            attributes: device.attributes.clone().unwrap_or_default(),
            capacity: device.capacity.clone().unwrap_or_default(),
            taints: device.taints.clone().unwrap_or_default(),
            consumes: device
                .consumes_counters
                .iter()
                .flatten()
                .map(|one| (one.counter_set.clone(), counters(&one.counters)))
                .collect(),
            reach: Reach::of(device.node_name.as_ref(), device.all_nodes, device.node_selector.as_ref()),
            multiple: device.allow_multiple_allocations == Some(true),
            binds_to_node: device.binds_to_node == Some(true),
            binding_conditions: device.binding_conditions.clone(),
            binding_failure_conditions: device.binding_failure_conditions.clone(),
        }
    }
}

/// Results of one expression for the devices of a slice; `None` where it was not asked yet.
type Results = Vec<Option<Result<bool, String>>>;

/// A slice of a pool.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) name: Arc<str>,
    pub(crate) pool: PoolId,
    pub(crate) generation: i64,
    /// How many slices the pool has.
    pub(crate) count: i64,
    pub(crate) reach: Reach,
    /// Whether each device says itself where it can be used.
    pub(crate) per_device: bool,
    pub(crate) devices: Vec<Device>,
    pub(crate) counter_sets: Vec<(String, Counters)>,
    /// What expressions said of the devices; they always say the same.
    memo: Mutex<HashMap<Arc<str>, Results>>,
}

impl Slice {
    pub(crate) fn of(slice: &ResourceSlice) -> Self {
        let spec = &slice.spec;
        Self {
            name: Arc::from(slice.metadata.name.as_deref().unwrap_or_default()),
            pool: PoolId { driver: Arc::from(spec.driver.as_str()), pool: Arc::from(spec.pool.name.as_str()) },
            generation: spec.pool.generation,
            count: spec.pool.resource_slice_count,
            reach: Reach::of(spec.node_name.as_ref(), spec.all_nodes, spec.node_selector.as_ref()),
            per_device: spec.per_device_node_selection == Some(true),
            devices: spec.devices.iter().flatten().map(Device::of).collect(),
            counter_sets: spec
                .shared_counters
                .iter()
                .flatten()
                .map(|set| (set.name.clone(), counters(&set.counters)))
                .collect(),
            memo: Mutex::new(HashMap::new()),
        }
    }

    /// The node to which alone these devices belong.
    pub(crate) fn local_to(&self) -> Option<&Arc<str>> {
        match &self.reach {
            Reach::Node(node) if self.counter_sets.is_empty() => Some(node),
            _ => None,
        }
    }

    /// Whether an expression selects a device of this slice.
    pub(crate) fn selected(
        &self,
        device: usize,
        expression: &Arc<str>,
        selector: &dyn DeviceSelector,
    ) -> Result<bool, String> {
        let Some(entry) = self.devices.get(device) else { return Ok(false) };
        if let Ok(memo) = self.memo.lock()
            && let Some(Some(known)) = memo.get(expression).and_then(|results| results.get(device))
        {
            return known.clone();
        }
        let result = selector.selects(&DeviceFacts {
            driver: &self.pool.driver,
            multiple: entry.multiple,
            attributes: &entry.attributes,
            capacity: &entry.capacity,
        });
        // Who finds the memory poisoned asks again each time.
        if let Ok(mut memo) = self.memo.lock() {
            if memo.len() >= MEMO_LIMIT && !memo.contains_key(expression) {
                memo.clear();
            }
            let results = memo.entry(Arc::clone(expression)).or_insert_with(|| vec![None; self.devices.len()]);
            if let Some(place) = results.get_mut(device) {
                *place = Some(result.clone());
            }
        }
        result
    }
}
