//! Objects that no store holds, as lists show them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::cluster::Cluster;
use super::super::object::Object;
use super::super::registry;
use super::super::resource::{NAMESPACES, ResourceId};
use super::builtin;

/// The objects of a kind that no store holds; none for nearly all kinds.
pub(super) fn unstored(cluster: &Cluster, resource: ResourceId) -> Vec<Arc<Object>> {
    let Some(make) = registry::of(resource).built_in else { return Vec::new() };
    // As old as the cluster, where they do not say otherwise.
    let since = cluster.get(NAMESPACES, "", "kube-system").map(|namespace| namespace.value());
    let since = since.map_or(Value::Null, |namespace| namespace["metadata"]["creationTimestamp"].clone());
    make(cluster)
        .into_iter()
        .map(|mut value| {
            if value["metadata"]["creationTimestamp"].is_null() {
                value["metadata"]["creationTimestamp"] = since.clone();
            }
            value["metadata"]["resourceVersion"] = json!("1");
            let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            value["metadata"]["uid"] = json!(builtin::uid(resource, &name));
            Arc::new(Object::new(resource, 1, &value))
        })
        .collect()
}
