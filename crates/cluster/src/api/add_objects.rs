//! Objects that a cluster begins with: made by the rules for what clients send, and with the status they come with.

use klab_api_machinery::registry::{self, InitialStatus};
use klab_api_machinery::resource::{CUSTOM_RESOURCE_DEFINITIONS, ResourceId};
use klab_api_machinery::status::Status;
use serde_json::{Value, json};

use super::super::cluster::{Cluster, Part, WriteOptions};
use super::custom;
use klab_fields::Patch;

/// Makes an object that names its kind, of the fixed table or of a CustomResourceDefinition of this cluster, and writes
/// its status. Says what was made, as `Deployment/web`; nothing when it is there already.
///
/// # Errors
/// The Status an API server would answer with.
pub(crate) fn add_objects(cluster: &Cluster, object: &Value) -> Result<Option<String>, Status> {
    let resource = resource_of(cluster, object)?;
    let kind = resource.row().kind;
    let namespace = match object["metadata"]["namespace"].as_str() {
        _ if !resource.row().namespaced => "",
        Some(namespace) => namespace,
        None => "default",
    };
    let value = registry::stored(resource, object.clone());
    let stored = resource.row().stored_as.unwrap_or(resource);
    let options = WriteOptions { served: resource.row().custom.then_some(resource), ..WriteOptions::by("klab") };
    let made = match cluster.create(stored, namespace, value, &options) {
        Ok(made) => made,
        Err(status) if status.reason == "AlreadyExists" => return Ok(None),
        Err(status) => return Err(status),
    };
    if stored == CUSTOM_RESOURCE_DEFINITIONS {
        custom::establish(cluster, &made.name)?;
    } else {
        write_status(cluster, stored, namespace, &made.name, &object["status"])?;
    }
    Ok(Some(format!("{kind}/{}", made.name)))
}

/// The resource that an object names.
///
/// # Errors
/// Where the cluster does not serve it.
pub(crate) fn resource_of(cluster: &Cluster, object: &Value) -> Result<ResourceId, Status> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    cluster.resource_of_kind(version, kind).ok_or_else(|| {
        Status::bad_request(format!("there is a {kind} of {version} among the objects, which is not served"))
    })
}

/// New objects have no status but that of nodes, which register with theirs.
fn write_status(
    cluster: &Cluster,
    resource: ResourceId,
    namespace: &str,
    name: &str,
    status: &Value,
) -> Result<(), Status> {
    if status.is_null()
        || registry::of(resource).initial_status == InitialStatus::AsGiven
        || !cluster.has_status(resource)
    {
        return Ok(());
    }
    let options = WriteOptions { served: resource.row().custom.then_some(resource), ..WriteOptions::by("klab") };
    let patch = Patch::Merge(json!({ "status": status }));
    cluster.patch(resource, Part::Status, namespace, name, patch, &options).map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::clock::SteppedClock;
    use klab_api_machinery::resource::{HORIZONTAL_POD_AUTOSCALERS, PODS};

    fn cluster() -> Cluster {
        Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 7)
    }

    fn definition() -> Value {
        let properties = json!({ "spec": { "type": "object", "properties": { "size": { "type": "integer" } } },
            "status": { "type": "object", "properties": { "ready": { "type": "boolean" } } } });
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": "planters.garden.example" },
            "spec": {
                "group": "garden.example", "scope": "Namespaced", "names": { "kind": "Planter", "plural": "planters" },
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                    "schema": { "openAPIV3Schema": { "type": "object", "properties": properties } },
                }],
            },
        })
    }

    fn planter(size: Value) -> Value {
        json!({
            "apiVersion": "garden.example/v1", "kind": "Planter", "metadata": { "name": "big" },
            "spec": { "size": size }, "status": { "ready": true },
        })
    }

    #[test]
    fn a_kind_is_served_once_its_definition_is_there() {
        let cluster = cluster();
        assert_eq!(add_objects(&cluster, &planter(json!(3))).unwrap_err().code, 400);
        assert!(add_objects(&cluster, &definition()).unwrap().is_some());
        let stored = cluster.get(CUSTOM_RESOURCE_DEFINITIONS, "", "planters.garden.example").unwrap().value();
        assert_eq!(stored["status"]["conditions"][1]["type"], "Established");

        assert_eq!(add_objects(&cluster, &planter(json!(3))).unwrap().as_deref(), Some("Planter/big"));
        assert_eq!(add_objects(&cluster, &planter(json!(4))).unwrap(), None, "it is there already");
        let id = cluster.resource_of_kind("garden.example/v1", "Planter").unwrap();
        let big = cluster.get(id, "default", "big").unwrap().value();
        assert_eq!((&big["spec"]["size"], &big["status"]["ready"]), (&json!(3), &json!(true)));
    }

    #[test]
    fn an_object_that_does_not_fit_its_definition_is_refused() {
        let cluster = cluster();
        add_objects(&cluster, &definition()).unwrap();
        assert_eq!(add_objects(&cluster, &planter(json!("three"))).unwrap_err().code, 422);
    }

    #[test]
    fn a_pod_has_the_status_it_came_with() {
        let cluster = cluster();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "done" },
            "spec": { "containers": [{ "name": "main", "image": "x" }] }, "status": { "phase": "Succeeded" },
        });
        add_objects(&cluster, &pod).unwrap();
        assert_eq!(cluster.get(PODS, "default", "done").unwrap().value()["status"]["phase"], "Succeeded");
    }

    #[test]
    fn an_object_of_a_second_version_is_stored_as_the_first() {
        let cluster = cluster();
        let autoscaler = json!({
            "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "web" },
            "spec": { "maxReplicas": 3, "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" } },
        });
        add_objects(&cluster, &autoscaler).unwrap();
        assert!(cluster.get(HORIZONTAL_POD_AUTOSCALERS, "default", "web").is_some());
    }
}
