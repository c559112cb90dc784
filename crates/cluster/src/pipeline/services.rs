//! The addresses and node ports of Services.

use klab_api_machinery::defaults::{Addresses, Ranges};
use klab_api_machinery::ip_range::IpRange;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{SERVICE_CIDRS, SERVICES};
use serde_json::Value;

use super::draft::Draft;
use crate::transaction::Transaction;

/// Gives a Service addresses and ports that no other has.
pub(super) fn allocate_addresses(transaction: &mut Transaction<'_>, draft: &mut Draft<'_>) {
    let replaced = draft.replaced;
    let Draft { new: service, errors, addresses: kept, .. } = draft;
    let ranges = ranges_for(transaction, replaced.map(|(_, old)| old), service);
    let Some((current, old)) = replaced else {
        let mut addresses = transaction.state.addresses.take().unwrap_or_else(|| addresses_in_use(transaction, None));
        let random = &mut transaction.state.random;
        addresses.allocate(service, &ranges, errors, || random.next());
        *kept = Some(addresses);
        return;
    };
    if old["spec"] != service["spec"] {
        keep_allocated(old, service);
        let mut addresses = addresses_in_use(transaction, Some(current));
        let random = &mut transaction.state.random;
        addresses.allocate(service, &ranges, errors, || random.next());
        transaction.state.addresses = None;
    }
}

/// The name of the range that every cluster begins with.
pub(crate) const SERVICE_CIDR: &str = "kubernetes";
/// That range: AKS and kind both have a /16.
pub(crate) const RANGE: &str = "10.0.0.0/16";
/// The same on kind.
pub(crate) const KIND_RANGE: &str = "10.96.0.0/16";

/// Where a Service may have its address from. What the cluster's own parts ask for, and what a Service has already, is
/// not looked at.
// upstream: pkg/registry/core/service/ipallocator/cidrallocator.go syncAllocators (v1.36)
fn ranges_for(transaction: &Transaction<'_>, old: Option<&Value>, service: &Value) -> Ranges {
    let mut ranges = Ranges::default();
    let mut is_there = false;
    for range in transaction.state.store.list(SERVICE_CIDRS, None) {
        is_there = true;
        let value = range.value();
        let mut conditions = value["status"]["conditions"].as_array().into_iter().flatten();
        let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
        if !range.deleting && conditions.any(is_ready) {
            ranges.ready.extend(IpRange::all_in(&value).into_iter().filter(|range| range.first.is_ipv4()));
        }
    }
    if !is_there {
        // The cluster does not have its first objects yet.
        ranges.ready.extend(RANGE.parse::<IpRange>());
    }
    let wanted = service["spec"]["clusterIP"].as_str().unwrap_or_default();
    let is_kept = old.is_some_and(|old| old["spec"]["clusterIP"] == *wanted);
    ranges.is_asked = transaction.options.client && !is_kept;
    ranges
}

fn addresses_in_use(transaction: &Transaction<'_>, without: Option<&Object>) -> Addresses {
    let mut addresses = Addresses::default();
    for service in transaction.state.store.list(SERVICES, None) {
        if without.is_none_or(|without| without.uid != service.uid) {
            addresses.note(&service.value());
        }
    }
    addresses
}

/// A Service that is updated without naming its addresses and node ports keeps them.
fn keep_allocated(old: &Value, new: &mut Value) {
    if new["spec"]["type"] == "ExternalName" {
        return;
    }
    if new["spec"]["clusterIP"].as_str().is_none_or(str::is_empty) && old["spec"]["clusterIP"].is_string() {
        new["spec"]["clusterIP"] = old["spec"]["clusterIP"].clone();
    }
    if !matches!(new["spec"]["type"].as_str(), Some("NodePort" | "LoadBalancer")) {
        return;
    }
    for port in new["spec"]["ports"].as_array_mut().into_iter().flatten() {
        let before = old["spec"]["ports"].as_array().into_iter().flatten();
        let same = |one: &&Value| one["port"] == port["port"] && one["protocol"] == port["protocol"];
        if let Some(before) = before.into_iter().find(same)
            && port["nodePort"].is_null()
            && !before["nodePort"].is_null()
        {
            port["nodePort"] = before["nodePort"].clone();
        }
    }
}
