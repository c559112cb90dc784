//! Second versions and second groups of stored kinds: autoscaling/v1, events.k8s.io.

use bytes::Bytes;
use klab_api_machinery::object::Object;
use klab_api_machinery::registry;
use klab_api_machinery::resource::ResourceId;
use serde_json::Value;

use super::super::cluster::Cluster;

/// An object's JSON text as `resource` serves it.
pub(crate) fn text(cluster: &Cluster, resource: ResourceId, object: &Object) -> Bytes {
    if resource.row().custom {
        // What a webhook converts has been converted before.
        let served = cluster.definition(resource).and_then(|definition| definition.served(resource, object));
        return served.map_or_else(|| object.served(), |value| written(resource, object, &value));
    }
    if resource == object.resource {
        return object.served();
    }
    written(resource, object, &registry::served(resource, object.to_value()))
}

/// An object in another form, with its managers. Through an object again, for the order of fields.
fn written(resource: ResourceId, object: &Object, value: &Value) -> Bytes {
    Object::new(resource, object.resource_version, value).managed_by(object.managed().cloned()).served()
}
