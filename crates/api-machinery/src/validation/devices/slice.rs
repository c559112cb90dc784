//! ResourceSlices.

// upstream: pkg/apis/resource/validation/validation.go validateResourceSliceSpec (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::super::volume_sources::driver;
use super::super::{Errors, Place};
use super::{common, device};
use crate::views::{ResourceSlice, ResourceSliceSpec};

const MAX_DEVICES: usize = 128;
/// Where devices have taints or consume counters.
const MAX_ADVANCED_DEVICES: usize = 64;
const MAX_COUNTER_SETS: usize = 8;

/// A ResourceSlice.
pub fn slice(value: &Value, errors: &mut Errors) {
    let spec = Place::<ResourceSliceSpec<'_>>::of_spec(value);
    let (pool, devices, sets) = (spec.pool(), spec.devices(), spec.shared_counters());
    let (count, generation) = (pool.resource_slice_count(), pool.generation());
    driver(&spec.driver(), errors);
    common::pool(&pool.name(), errors);
    if *count <= 0 {
        errors.invalid(count, &json!(*count), "must be greater than zero");
    }
    generation.within(0.., "must be greater than or equal to zero", errors);
    reach(&spec, errors);
    if sets.is_set() && devices.is_set() {
        errors.invalid(spec, &json!(""), "only one of `sharedCounters` or `devices` is allowed");
    }
    let is_advanced = devices.each().any(|one| !one.taints().is_empty() || !one.consumes_counters().is_empty());
    if devices.at_most(if is_advanced { MAX_ADVANCED_DEVICES } else { MAX_DEVICES }, errors) {
        let each = *spec.per_device_node_selection() == Some(true);
        devices.each().for_each(|one| device::device(&one, each, errors));
        common::distinct(&devices, |device| device.name().json.clone(), errors);
    }
    if sets.at_most(MAX_COUNTER_SETS, errors) {
        for set in sets.each() {
            set.name().needed_as(names::label, errors);
            common::counters(&set.counters(), errors);
        }
        common::distinct(&sets, |set| set.name().json.clone(), errors);
    }
}

/// Whose devices these are stays as it is.
pub fn slice_update(old: &Value, new: &Value, errors: &mut Errors) {
    let (old, new) = (Place::<ResourceSlice<'_>>::root(old), Place::<ResourceSlice<'_>>::root(new));
    let (old, new) = (old.spec(), new.spec());
    new.pool().name().stays(&old.pool().name(), errors);
    new.driver().stays(&old.driver(), errors);
    new.node_name().stays(&old.node_name(), errors);
}

/// On which nodes the devices can be used: said in one way.
fn reach(spec: &Place<'_, ResourceSliceSpec<'_>>, errors: &mut Errors) {
    let (name, selector) = (spec.node_name(), spec.node_selector());
    let mut ways = Vec::new();
    common::on_node(&name, "must be either unset or set to a non-empty string", &mut ways, errors);
    common::on_nodes(&selector, &mut ways, errors);
    if selector.is_set() && selector.node_selector_terms().len() != 1 {
        errors.invalid_at(&selector.node_selector_terms(), "must have exactly one node selector term");
    }
    common::is_true(&spec.all_nodes(), &mut ways, errors);
    common::is_true(&spec.per_device_node_selection(), &mut ways, errors);
    let rule = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    common::one_way(spec, &ways, rule, ", but multiple fields are set", errors);
}
