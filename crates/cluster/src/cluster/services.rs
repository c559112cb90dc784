//! The addresses and node ports of Services.

use serde_json::Value;

use super::transaction::Transaction;
use crate::defaults::Addresses;
use crate::object::Object;
use crate::resource::SERVICES;
use crate::validation::Errors;

/// Gives a Service addresses and ports that no other has. Those in use are given back for a new Service, to be kept
/// once it is stored.
pub(crate) fn allocate_addresses(
    transaction: &mut Transaction<'_>,
    replaced: Option<(&Object, &Value)>,
    service: &mut Value,
    errors: &mut Errors,
) -> Option<Addresses> {
    let Some((current, old)) = replaced else {
        let mut addresses = transaction.state.addresses.take().unwrap_or_else(|| transaction.addresses_in_use(None));
        let random = &mut transaction.state.random;
        addresses.allocate(service, errors, || random.next());
        return Some(addresses);
    };
    if old["spec"] != service["spec"] {
        keep_allocated(old, service);
        let mut addresses = transaction.addresses_in_use(Some(current));
        let random = &mut transaction.state.random;
        addresses.allocate(service, errors, || random.next());
        transaction.state.addresses = None;
    }
    None
}

impl Transaction<'_> {
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
