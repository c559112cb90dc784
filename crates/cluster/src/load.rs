//! What containers use of what they request: a workload whose object says so has a load, which its pods share among themselves.

use std::collections::HashMap;
use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{DEPLOYMENTS, PODS, STATEFUL_SETS};
use klab_api_machinery::value::selects;
use klab_api_machinery::views::{Container, Deployment, Entries, ObjectMeta, Pod};
use klab_scheduler::quantity::Quantity;
use klab_scheduler::selector::Selector;
use serde_json::Value;

use crate::cluster::Cluster;

/// The annotation of a Deployment or StatefulSet: CPU that all its pods together want to use, in percent of what one requests.
const LOAD: &str = "klab.dev/load";

/// The CPU that each of this many pods wants to use, as a share of its request; none where the object does not say.
pub(crate) fn share(scaled: ObjectMeta<'_>, pods: usize) -> Option<f64> {
    let percent: f64 = scaled.annotations().get(LOAD)?.strip_suffix('%')?.parse().ok()?;
    (percent >= 0.0).then(|| percent / 100.0 / pods.max(1) as f64)
}

/// How much of a resource a container requests, or may use: `resources` are its requests, or its limits.
pub(crate) fn amount(resources: Entries<'_, &Value>, resource: &str) -> Option<f64> {
    Quantity::parse(resources.get(resource)?.as_str()?).ok().map(Quantity::as_f64)
}

/// What a container uses of a resource that wants to use this much: no more than its limit.
pub(crate) fn within_limit(container: Container<'_>, resource: &str, wanted: f64) -> f64 {
    let limit = amount(container.resources().limits(), resource).filter(|limit| *limit > 0.0);
    limit.map_or(wanted, |limit| wanted.min(limit))
}

/// The share of each pod whose workload says what its pods have to do, by uid.
pub(crate) fn shares(cluster: &Cluster, namespace: Option<&str>) -> HashMap<Box<str>, f64> {
    let mut shares = HashMap::new();
    let mut pods: Option<Vec<Arc<Object>>> = None;
    for scaled in [DEPLOYMENTS, STATEFUL_SETS].into_iter().flat_map(|kind| cluster.list(kind, namespace).0) {
        let value = scaled.value();
        // StatefulSets have the same fields.
        let value = Deployment(&value);
        if value.metadata().annotations().get(LOAD).is_none() {
            continue;
        }
        let selector = Selector::from_json(value.spec().selector().0);
        let all = pods.get_or_insert_with(|| cluster.list(PODS, namespace).0);
        let is_ready = |pod: &&Arc<Object>| {
            pod.namespace == scaled.namespace
                && selects(&selector, pod)
                && Pod(&pod.value()).status().conditions().is_true("Ready")
        };
        let own: Vec<&Arc<Object>> = all.iter().filter(is_ready).collect();
        if let Some(share) = share(value.metadata(), own.len()) {
            shares.extend(own.iter().map(|pod| (pod.uid.clone(), share)));
        }
    }
    shares
}
