//! What a pod asks for, from its JSON: the sums quota, LimitRanges and validation look at, and the QoS class.

// upstream: pkg/apis/core/helper/qos/qos.go ComputePodQOS (v1.36)

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use klab_scheduler::quantity::Quantity;
use klab_scheduler::typed::Typed;
use serde_json::{Value, json};

use crate::views::{self, Container, Entries, ResourceRequirements};

/// Amounts by resource name.
pub type Amounts = BTreeMap<String, Quantity>;

/// The quantities of a map like `requests`.
pub fn amounts(map: Entries<'_, &Value>) -> Amounts {
    map.iter().filter_map(|(name, amount)| Some((name.to_owned(), Quantity::parse(amount.as_str()?).ok()?))).collect()
}

/// Adds amounts.
pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        match total.get_mut(name) {
            Some(have) => *have += *amount,
            None => {
                total.insert(name.clone(), *amount);
            }
        }
    }
}

/// Keeps the larger amount of each.
fn raise(total: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        match total.get_mut(name) {
            Some(have) if *have >= *amount => {}
            Some(have) => *have = *amount,
            None => {
                total.insert(name.clone(), *amount);
            }
        }
    }
}

/// What the whole pod has in `requests` or `limits`: the containers together, or the hungriest moment of its start
/// (init containers run one after the other, sidecars stay), plus overhead. Amounts set for the pod as a whole win.
pub fn pod_total(pod: &Value, which: &str) -> Amounts {
    let spec = views::Pod(pod).spec();
    let of = |resources: ResourceRequirements<'_>| {
        amounts(if which == "limits" { resources.limits() } else { resources.requests() })
    };
    let mut total = Amounts::new();
    for container in spec.containers() {
        add(&mut total, &of(container.resources()));
    }
    let mut sidecars = Amounts::new();
    let mut starting = Amounts::new();
    for container in spec.init_containers() {
        let mut own = of(container.resources());
        if container.restart_policy() == Some("Always") {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            own = sidecars.clone();
        } else {
            add(&mut own, &sidecars);
        }
        raise(&mut starting, &own);
    }
    raise(&mut total, &starting);
    total.extend(of(spec.resources()));
    for (name, amount) in amounts(spec.overhead()) {
        if which == "requests" || total.contains_key(&name) {
            *total.entry(name).or_default() += amount;
        }
    }
    total
}

/// The QoS class of a pod: `Guaranteed` when every container limits cpu and memory and requests just that,
/// `BestEffort` when none says anything about them, else `Burstable`.
pub fn quality_of_service(pod: &Value) -> &'static str {
    let spec = views::Pod(pod).spec();
    let basic = |map: Entries<'_, &Value>| -> Amounts {
        let mut found = amounts(map);
        found.retain(|name, amount| matches!(name.as_str(), "cpu" | "memory") && !amount.is_zero());
        found
    };
    let whole = spec.resources();
    let (mut any, mut guaranteed) = (false, true);
    let holders: Vec<ResourceRequirements<'_>> =
        if basic(whole.requests()).is_empty() && basic(whole.limits()).is_empty() {
            spec.init_containers().chain(spec.containers()).map(Container::resources).collect()
        } else {
            vec![whole]
        };
    for resources in holders {
        let (requests, limits) = (basic(resources.requests()), basic(resources.limits()));
        any |= !requests.is_empty() || !limits.is_empty();
        guaranteed &=
            limits.len() == 2 && limits.iter().all(|(name, limit)| requests.get(name).unwrap_or(limit) == limit);
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// A pod of which nothing is known but the resources of its containers, and its own; none if these cannot be read.
pub(crate) fn container_amounts(spec: &Value) -> Option<Pod> {
    let amounts = |list: &str| -> Vec<Value> {
        let containers = spec[list].as_array().into_iter().flatten();
        let keep =
            |one: &Value| json!({ "name": "", "resources": one["resources"], "restartPolicy": one["restartPolicy"] });
        containers.map(keep).collect()
    };
    let spec = json!({
        "containers": amounts("containers"), "initContainers": amounts("initContainers"),
        "resources": spec["resources"],
    });
    Pod::from_json(json!({ "spec": spec }).to_string().as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(resources: &[Value]) -> Value {
        let containers: Vec<Value> = resources.iter().map(|one| json!({ "resources": one })).collect();
        json!({ "spec": { "containers": containers } })
    }

    #[test]
    fn classes_of_service() {
        let full =
            json!({ "limits": { "cpu": "1", "memory": "1Gi" }, "requests": { "cpu": "1000m", "memory": "1Gi" } });
        assert_eq!(quality_of_service(&pod(&[json!({})])), "BestEffort");
        assert_eq!(quality_of_service(&pod(std::slice::from_ref(&full))), "Guaranteed");
        assert_eq!(quality_of_service(&pod(&[full, json!({})])), "Burstable");
        assert_eq!(quality_of_service(&pod(&[json!({ "requests": { "cpu": "0" } })])), "BestEffort");
    }

    #[test]
    fn init_containers_count_for_their_peak() {
        let value = json!({ "spec": {
            "containers": [{ "resources": { "requests": { "cpu": "100m" } } }],
            "initContainers": [
                { "restartPolicy": "Always", "resources": { "requests": { "cpu": "50m" } } },
                { "resources": { "requests": { "cpu": "1" } } },
            ],
            "overhead": { "cpu": "10m" },
        } });
        assert_eq!(pod_total(&value, "requests")["cpu"].to_string(), "1060m");
    }
}
