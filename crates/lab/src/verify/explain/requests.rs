//! What a pod's requests are made of: the fields that add up to a total, and those to lower.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::amounts::amount;
use klab_scheduler::quantity::Quantity;

/// A field of a pod that requests a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// `spec.resources`.
    Pod,
    /// A container, by its place and name.
    Container(usize, String),
    /// An init container, by its place and name.
    Init(usize, String),
}

/// A request to lower, in base units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lowered {
    pub(super) holder: Holder,
    pub(super) from: i64,
    pub(super) to: i64,
}

fn of(requests: Option<&BTreeMap<String, ApiQuantity>>, resource: &str) -> Option<i64> {
    let text = requests?.get(resource)?;
    Quantity::parse(&text.0).ok().map(|amount| amount.base_units(resource))
}

fn of_container(container: &Container, resource: &str) -> i64 {
    let resources = container.resources.as_ref();
    of(resources.and_then(|resources| resources.requests.as_ref()), resource).unwrap_or(0)
}

/// What the pod's RuntimeClass adds.
pub(super) fn overhead(pod: &Pod, resource: &str) -> i64 {
    of(pod.spec.as_ref().and_then(|spec| spec.overhead.as_ref()), resource).unwrap_or(0)
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// The fields to lower so that the pod as a whole requests this much of a resource.
// upstream: staging/src/k8s.io/component-helpers/resource/helpers.go PodRequests (v1.36)
pub(super) fn lowered(pod: &Pod, resource: &str, total: i64) -> Option<Vec<Lowered>> {
    let spec = pod.spec.as_ref()?;
    let limit = total - overhead(pod, resource);
    if limit <= 0 {
        return None;
    }
    let of_pod = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    if let Some(from) = of(of_pod, resource) {
        return Some(vec![Lowered { holder: Holder::Pod, from, to: limit }]);
    }
    let mut all: Vec<(Holder, bool, i64)> = Vec::new();
    for (at, container) in spec.init_containers.iter().flatten().enumerate() {
        let holder = Holder::Init(at, container.name.clone());
        all.push((holder, is_sidecar(container), of_container(container, resource)));
    }
    for (at, container) in spec.containers.iter().enumerate() {
        all.push((Holder::Container(at, container.name.clone()), true, of_container(container, resource)));
    }
    let before = all.clone();
    // What runs at once: the containers and the sidecars.
    let at_once: i64 = all.iter().filter(|(_, stays, _)| *stays).map(|(.., amount)| amount).sum();
    if at_once > limit {
        let (.., greatest) = all.iter_mut().filter(|(_, stays, _)| *stays).max_by_key(|(.., amount)| *amount)?;
        *greatest -= at_once - limit;
        if *greatest <= 0 {
            return None;
        }
    }
    // What runs before: an init container beside the sidecars that began earlier.
    let mut sidecars = 0;
    for (holder, stays, amount) in &mut all {
        match (holder, *stays) {
            (Holder::Init(..), true) => sidecars += *amount,
            (Holder::Init(..), false) if *amount + sidecars > limit => {
                *amount = limit - sidecars;
                if *amount <= 0 {
                    return None;
                }
            }
            _ => {}
        }
    }
    let changed = before.into_iter().zip(all).filter(|((.., from), (.., to))| from != to);
    Some(changed.map(|((holder, _, from), (.., to))| Lowered { holder, from, to }).collect())
}

/// Lowers the requests of a pod; false where that cannot be done.
pub(super) fn lower(pod: &mut Pod, resource: &str, total: i64) -> bool {
    let Some(changes) = lowered(pod, resource, total).filter(|changes| !changes.is_empty()) else { return false };
    let Some(spec) = pod.spec.as_mut() else { return false };
    for change in changes {
        let requests = match &change.holder {
            Holder::Pod => spec.resources.as_mut().and_then(|resources| resources.requests.as_mut()),
            Holder::Container(at, _) => {
                let container = spec.containers.get_mut(*at);
                container.and_then(|container| container.resources.as_mut()?.requests.as_mut())
            }
            Holder::Init(at, _) => {
                let container = spec.init_containers.as_mut().and_then(|list| list.get_mut(*at));
                container.and_then(|container| container.resources.as_mut()?.requests.as_mut())
            }
        };
        let Some(requests) = requests else { return false };
        let quantity = Quantity::of_resource(resource, change.to);
        requests.insert(resource.to_owned(), ApiQuantity(quantity.to_string()));
    }
    true
}

/// Where a total comes from, where that is not the sum of what containers ask for: ` by the init container prep`.
pub(super) fn origin(pod: &Pod, resource: &str) -> String {
    let Some(spec) = pod.spec.as_ref() else { return String::new() };
    let overhead = overhead(pod, resource);
    let containers: i64 = spec.containers.iter().map(|container| of_container(container, resource)).sum();
    let init = spec.init_containers.iter().flatten().filter(|container| !is_sidecar(container));
    let greatest = init.map(|container| (of_container(container, resource), container.name.as_str())).max();
    let mut parts = Vec::new();
    if let Some((asked, name)) = greatest.filter(|(asked, _)| *asked > containers) {
        parts.push(format!("{} by the init container {name}", amount(resource, asked)));
    } else if overhead > 0 {
        parts.push(format!("{} by containers", amount(resource, containers)));
    }
    if overhead > 0 {
        parts.push(format!("{} added by the RuntimeClass", amount(resource, overhead)));
    }
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}
