//! The addresses and node ports of Services.

use klab_api_machinery::defaults::{Addresses, Ranges};
use klab_api_machinery::ip_range::IpRange;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{SERVICE_CIDRS, SERVICES};
use klab_api_machinery::views::{Service, ServiceCIDR, ServicePort};
use serde_json::{Value, json};

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
    if Service(old).spec() != Service(service).spec() {
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
        if !range.deleting && ServiceCIDR(&value).status().conditions().is_true("Ready") {
            ranges.ready.extend(IpRange::all_in(&value).into_iter().filter(|range| range.first.is_ipv4()));
        }
    }
    if !is_there {
        // The cluster does not have its first objects yet.
        ranges.ready.extend(RANGE.parse::<IpRange>());
    }
    let is_kept = old.is_some_and(|old| Service(old).spec().cluster_ip() == Service(service).spec().cluster_ip());
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
    let (had, spec) = (Service(old).spec(), Service(new).spec());
    let has_node_ports = ["NodePort", "LoadBalancer"].contains(&spec.type_());
    if spec.type_() == "ExternalName" {
        return;
    }
    if spec.cluster_ip().is_empty() && !had.cluster_ip().is_empty() {
        new["spec"]["clusterIP"] = json!(had.cluster_ip());
    }
    for port in new["spec"]["ports"].as_array_mut().into_iter().flatten().filter(|_| has_node_ports) {
        let own = ServicePort(port);
        let before = had.ports().find(|one| one.port() == own.port() && one.protocol() == own.protocol());
        let before = before.map_or(0, ServicePort::node_port);
        if own.node_port() == 0 && before != 0 {
            port["nodePort"] = json!(before);
        }
    }
}
