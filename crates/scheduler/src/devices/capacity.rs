//! Capacity of devices that several claims share: what a request consumes of it, and whether so much is left.

// upstream: staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go
// CmpRequestOverCapacity, calculateConsumedCapacity (v1.36)

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity};

use super::slice::{Counters, Device, amount};
use crate::quantity::Quantity;

/// What a request for these amounts consumes of a device.
pub(crate) fn consumed(device: &Device, requests: &BTreeMap<String, Quantity>) -> Counters {
    device.capacity.iter().map(|(name, capacity)| (name.clone(), of_one(requests.get(name), capacity))).collect()
}

/// Why a device cannot give what a request asks of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lack {
    /// It has no capacity of this name.
    Unknown(String),
    /// It does not give such an amount.
    Forbidden { name: String, wanted: Quantity },
    /// It has too little left.
    TooLittle { name: String, wanted: Quantity, left: Quantity, total: Quantity },
}

/// What a device lacks for a request, with what others consume of it already.
pub(crate) fn lack<'a>(
    device: &Device,
    requests: &BTreeMap<String, Quantity>,
    others: impl Iterator<Item = &'a Counters> + Clone,
) -> Option<Lack> {
    if let Some(name) = requests.keys().find(|name| !device.capacity.contains_key(*name)) {
        return Some(Lack::Unknown(name.clone()));
    }
    device.capacity.iter().find_map(|(name, capacity)| {
        let wanted = of_one(requests.get(name), capacity);
        let total = amount(&capacity.value);
        let mut left = total;
        others.clone().filter_map(|used| used.get(name)).for_each(|used| left -= *used);
        if !permitted(wanted, capacity.request_policy.as_ref()) {
            return Some(Lack::Forbidden { name: name.clone(), wanted });
        }
        (wanted > left).then(|| Lack::TooLittle { name: name.clone(), wanted, left, total })
    })
}

/// Whether a device has so much left, and would give just that, with what others consume of it already.
pub(crate) fn suffices<'a>(
    device: &Device,
    requests: &BTreeMap<String, Quantity>,
    others: impl Iterator<Item = &'a Counters> + Clone,
) -> bool {
    lack(device, requests, others).is_none()
}

fn of_one(requested: Option<&Quantity>, capacity: &DeviceCapacity) -> Quantity {
    let policy = capacity.request_policy.as_ref();
    let Some(&requested) = requested else {
        let default = policy.and_then(|policy| policy.default.as_ref());
        return amount(default.unwrap_or(&capacity.value));
    };
    let Some(policy) = policy else { return requested };
    match (&policy.valid_range, &policy.valid_values) {
        (Some(range), _) => in_range(requested, range),
        (_, Some(values)) => values.iter().map(amount).find(|value| requested <= *value).unwrap_or(requested),
        _ => requested,
    }
}

/// The next amount that a range allows.
fn in_range(requested: Quantity, range: &CapacityRequestPolicyRange) -> Quantity {
    let least = amount(&range.min);
    if requested < least {
        return least;
    }
    let Some(step) = range.step.as_ref().map(|step| amount(step).units()).filter(|step| *step > 0) else {
        return requested;
    };
    let above = requested.units().saturating_sub(least.units());
    let rest = above.checked_rem(step).unwrap_or(0);
    let missing = if rest == 0 { 0 } else { step.saturating_sub(rest) };
    Quantity::from_bytes(least.units().saturating_add(above).saturating_add(missing))
}

/// Whether a policy lets so much be asked for.
fn permitted(wanted: Quantity, policy: Option<&CapacityRequestPolicy>) -> bool {
    let Some(policy) = policy else { return true };
    if policy.default.as_ref().is_some_and(|default| amount(default) == wanted) {
        return true;
    }
    if let Some(range) = &policy.valid_range {
        let steps = range.step.as_ref().map(|step| amount(step).units()).filter(|step| *step > 0);
        let above = wanted.units().saturating_sub(amount(&range.min).units());
        return range.max.as_ref().is_none_or(|max| wanted <= amount(max))
            && steps.is_none_or(|step| above.checked_rem(step) == Some(0));
    }
    match policy.valid_values.as_deref() {
        None | Some([]) => true,
        Some(values) => values.iter().any(|value| amount(value) == wanted),
    }
}
