//! What was found for claims, as it is written into their status.

// upstream: staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go
// Allocate, createNodeSelector (v1.36)

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::api::resource::v1::{
    AllocationResult, DeviceAllocationConfiguration, DeviceAllocationResult, DeviceRequestAllocationResult,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::allocator::{Found, Pick};
use super::claim::Claim;
use super::inventory::Devices;
use super::slice::Reach;
use crate::hash::fnv64_mixed;

/// What each claim is given.
pub(crate) fn results(
    devices: &Devices,
    node: &str,
    claims: &[std::sync::Arc<Claim>],
    found: &Found<'_>,
) -> Vec<AllocationResult> {
    let each = claims.iter().zip(&found.picks).zip(&found.chosen);
    each.map(|((claim, picks), chosen)| {
        let results: Vec<_> = picks.iter().enumerate().map(|(at, pick)| result(claim, at, pick)).collect();
        let config = config(devices, claim, chosen);
        AllocationResult {
            allocation_timestamp: None,
            devices: Some(DeviceAllocationResult {
                config: (!config.is_empty()).then_some(config),
                results: (!results.is_empty()).then_some(results),
            }),
            node_selector: node_selector(picks, node),
        }
    })
    .collect()
}

fn result(claim: &Claim, at: usize, pick: &Pick<'_>) -> DeviceRequestAllocationResult {
    let request = &claim.spec.requests[pick.request];
    let choice = &request.choices[pick.choice];
    let consumed = pick.consumed.as_ref().filter(|consumed| !consumed.is_empty());
    DeviceRequestAllocationResult {
        admin_access: choice.admin.then_some(true),
        binding_conditions: pick.device.binding_conditions.clone(),
        binding_failure_conditions: pick.device.binding_failure_conditions.clone(),
        consumed_capacity: consumed.map(|consumed| {
            consumed.iter().map(|(name, amount)| (name.clone(), ApiQuantity::from(*amount))).collect::<BTreeMap<_, _>>()
        }),
        device: pick.device.name.to_string(),
        driver: pick.slice.pool.driver.to_string(),
        pool: pick.slice.pool.pool.to_string(),
        request: request.reference(pick.choice),
        share_id: pick.device.multiple.then(|| share_id(claim, at, pick)),
        tolerations: choice.tolerations.clone().filter(|tolerations| !tolerations.is_empty()),
    }
}

/// A name for one share of a device. No two claims have the same; asked again, it is the same.
fn share_id(claim: &Claim, at: usize, pick: &Pick<'_>) -> String {
    let at = at.to_string();
    let device = [claim.uid.as_str(), &at, &pick.slice.pool.driver, &pick.slice.pool.pool, &pick.device.name];
    let high = fnv64_mixed(&device);
    let low = fnv64_mixed(&[&at, &pick.device.name, claim.uid.as_str()]);
    let (variant, node) = ((low >> 48) & 0x3fff | 0x8000, low & 0xffff_ffff_ffff);
    format!("{:08x}-{:04x}-4{:03x}-{variant:04x}-{node:012x}", high >> 32, (high >> 16) & 0xffff, high & 0xfff)
}

/// The configuration of the classes, each once, then that of the claim.
fn config(devices: &Devices, claim: &Claim, chosen: &[usize]) -> Vec<DeviceAllocationConfiguration> {
    let mut all: Vec<DeviceAllocationConfiguration> = Vec::new();
    let mut of_class = BTreeMap::new();
    for (request, &choice) in claim.spec.requests.iter().zip(chosen) {
        let Some(class) = request.choices.get(choice).and_then(|choice| devices.class(&choice.class)) else { continue };
        let reference = request.reference(choice);
        let range = of_class.entry(class.name.as_str()).or_insert_with(|| {
            let start = all.len();
            all.extend(class.config.iter().map(|config| DeviceAllocationConfiguration {
                opaque: config.opaque.clone(),
                requests: Some(Vec::new()),
                source: "FromClass".to_owned(),
            }));
            start..all.len()
        });
        for config in all.get_mut(range.clone()).into_iter().flatten() {
            config.requests.get_or_insert_default().push(reference.clone());
        }
    }
    for config in &claim.spec.config {
        let own = DeviceAllocationConfiguration {
            opaque: config.opaque.clone(),
            requests: config.requests.clone(),
            source: "FromClaim".to_owned(),
        };
        let Some(wanted) = config.requests.as_ref().filter(|requests| !requests.is_empty()) else {
            all.push(own);
            continue;
        };
        for (request, &choice) in claim.spec.requests.iter().zip(chosen) {
            if wanted.contains(&request.name) || wanted.contains(&request.reference(choice)) {
                all.push(own.clone());
            }
        }
    }
    all
}

/// Where the devices can be used; everywhere if `None`.
fn node_selector(picks: &[Pick<'_>], node: &str) -> Option<NodeSelector> {
    let mut all = NodeSelectorTerm::default();
    for pick in picks {
        let reach = if pick.slice.per_device { &pick.device.reach } else { &pick.slice.reach };
        if matches!(reach, Reach::Node(_)) || pick.device.binds_to_node {
            let name = NodeSelectorRequirement {
                key: "metadata.name".to_owned(),
                operator: "In".to_owned(),
                values: Some(vec![node.to_owned()]),
            };
            let term = NodeSelectorTerm { match_expressions: None, match_fields: Some(vec![name]) };
            return Some(NodeSelector { node_selector_terms: vec![term] });
        }
        if let Reach::Selected(selector, _) = reach {
            for term in &selector.node_selector_terms {
                add(&mut all.match_fields, term.match_fields.as_deref());
                add(&mut all.match_expressions, term.match_expressions.as_deref());
            }
        }
    }
    let any = all.match_fields.is_some() || all.match_expressions.is_some();
    any.then(|| NodeSelector { node_selector_terms: vec![all] })
}

fn add(all: &mut Option<Vec<NodeSelectorRequirement>>, more: Option<&[NodeSelectorRequirement]>) {
    for requirement in more.into_iter().flatten() {
        let all = all.get_or_insert_default();
        if !all.contains(requirement) {
            all.push(requirement.clone());
        }
    }
}
