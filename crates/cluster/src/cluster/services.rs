//! The addresses and node ports of Services.

use std::net::Ipv4Addr;

use serde_json::Value;

use super::transaction::Transaction;
use crate::defaults::{Addresses, Ranges};
use crate::ip_range::IpRange;
use crate::object::Object;
use crate::resource::{SERVICE_CIDRS, SERVICES};
use crate::validation::Errors;

/// Gives a Service addresses and ports that no other has. Those in use are given back for a new Service, to be kept
/// once it is stored.
pub(crate) fn allocate_addresses(
    transaction: &mut Transaction<'_>,
    replaced: Option<(&Object, &Value)>,
    service: &mut Value,
    errors: &mut Errors,
) -> Option<Addresses> {
    let ranges = transaction.ranges_for(replaced.map(|(_, old)| old), service);
    let Some((current, old)) = replaced else {
        let mut addresses = transaction.state.addresses.take().unwrap_or_else(|| transaction.addresses_in_use(None));
        let random = &mut transaction.state.random;
        addresses.allocate(service, &ranges, errors, || random.next());
        return Some(addresses);
    };
    if old["spec"] != service["spec"] {
        keep_allocated(old, service);
        let mut addresses = transaction.addresses_in_use(Some(current));
        let random = &mut transaction.state.random;
        addresses.allocate(service, &ranges, errors, || random.next());
        transaction.state.addresses = None;
    }
    None
}

impl Transaction<'_> {
    /// Where a Service may have its address from. What the cluster's own parts ask for, and what a Service has already, is
    /// not looked at.
    fn ranges_for(&self, old: Option<&Value>, service: &Value) -> Ranges {
        let mut ranges = Ranges::default();
        for range in self.state.store.list(SERVICE_CIDRS, None).filter(|range| !range.deleting) {
            let value = range.value();
            let mut conditions = value["status"]["conditions"].as_array().into_iter().flatten();
            if conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True") {
                ranges.added.extend(IpRange::all_in(&value).into_iter().filter(|range| range.first.is_ipv4()));
            }
        }
        let wanted = service["spec"]["clusterIP"].as_str().unwrap_or_default();
        let is_kept = old.is_some_and(|old| old["spec"]["clusterIP"] == *wanted);
        if self.options.client && !is_kept && !matches!(wanted, "" | "None") {
            ranges.all.extend(&ranges.added);
            ranges.all.extend(Addresses::range().parse::<IpRange>());
            // The Service of the API server has an address of the cluster's own range, whatever that is.
            let own = self.state.store.get(SERVICES, "default", "kubernetes").map(|service| service.value());
            let own = own.and_then(|own| own["spec"]["clusterIP"].as_str()?.parse::<Ipv4Addr>().ok());
            ranges.all.extend(own.map(|own| {
                let [first, second, ..] = own.octets();
                IpRange { first: Ipv4Addr::new(first, second, 0, 0).into(), length: 16 }
            }));
        }
        ranges
    }

    fn addresses_in_use(&self, without: Option<&Object>) -> Addresses {
        let mut addresses = Addresses::default();
        for service in self.state.store.list(SERVICES, None) {
            if without.is_none_or(|without| without.uid != service.uid) {
                addresses.note(&service.value());
            }
        }
        addresses
    }
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
