//! Leases of nodes as they are when somebody looks.
//!
//! A kubelet renews its lease every ten seconds. No timer does that here: the time is worked out when a client reads the
//! lease.

use std::sync::Arc;

use jiff::SignedDuration;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{LEASES, NODES};
use klab_api_machinery::views::{Lease, metadata};
use serde_json::json;

use super::super::clock::later;
use super::super::cluster::{Cluster, Part, WriteOptions};
use super::super::control::HEARTBEAT_ANNOTATION;

const NAMESPACE: &str = "kube-node-lease";
/// How often a kubelet renews its lease, in seconds.
const PERIOD: i64 = 10;

/// Writes down how far the leases of all nodes are renewed.
pub(super) fn renew(cluster: &Cluster) {
    for object in cluster.list(LEASES, Some(NAMESPACE)).0 {
        let now = renewed(cluster, Arc::clone(&object)).value();
        if now != object.value() {
            let _written =
                cluster.modify(LEASES, Part::Main, NAMESPACE, &object.name, &WriteOptions::by("kubelet"), |lease| {
                    lease["spec"]["renewTime"] = now["spec"]["renewTime"].clone();
                });
        }
    }
}

/// A lease as the kubelet of its node has renewed it by now; every other object as it is.
pub(super) fn renewed(cluster: &Cluster, object: Arc<Object>) -> Arc<Object> {
    if object.resource != LEASES || &*object.namespace != NAMESPACE {
        return object;
    }
    let Some(node) = cluster.get(NODES, "", &object.name) else { return object };
    if metadata(&node.value()).annotations().get(HEARTBEAT_ANNOTATION) == Some("stopped") {
        return object;
    }
    let mut value = object.to_value();
    let Some(last) = Lease(&value).spec().renew_time() else { return object };
    let periods = cluster.now().duration_since(last).as_secs().div_euclid(PERIOD);
    if periods <= 0 {
        return object;
    }
    let time = later(last, SignedDuration::from_secs(periods.saturating_mul(PERIOD)));
    value["spec"]["renewTime"] = json!(time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string());
    Arc::new(Object::new(LEASES, object.resource_version, &value).managed_by(object.managed().cloned()))
}
