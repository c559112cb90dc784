//! Objects that no store holds, as lists show them.

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{
    API_SERVICES, FLOW_SCHEMAS, IP_ADDRESSES, NAMESPACES, PRIORITY_LEVEL_CONFIGURATIONS, ResourceId,
};
use serde_json::{Value, json};

use super::super::cluster::Cluster;
use crate::builtin;
use crate::cluster::group_versions;

/// The objects of a kind that no store holds; none for nearly all kinds.
pub(super) fn unstored(cluster: &Cluster, resource: ResourceId) -> Vec<Arc<Object>> {
    let made = match resource {
        API_SERVICES => builtin::api_services(&group_versions(cluster)),
        FLOW_SCHEMAS => builtin::flow_schemas(),
        IP_ADDRESSES => cluster.read(builtin::ip_addresses),
        PRIORITY_LEVEL_CONFIGURATIONS => builtin::priority_levels(),
        _ => return Vec::new(),
    };
    // As old as the cluster, where they do not say otherwise.
    let since = cluster.get(NAMESPACES, "", "kube-system").map(|namespace| namespace.value());
    let since = since.map_or(Value::Null, |namespace| namespace["metadata"]["creationTimestamp"].clone());
    made.into_iter()
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
