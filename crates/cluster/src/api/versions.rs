//! Second versions and second groups of stored kinds: autoscaling/v1, events.k8s.io.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::cluster::Cluster;
use super::super::object::Object;
use super::super::registry;
use super::super::resource::ResourceId;

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
    written(resource, object, &served(resource, object.to_value()))
}

/// An object in another form, with its managers. Through an object again, for the order of fields.
fn written(resource: ResourceId, object: &Object, value: &Value) -> Bytes {
    Object::new(resource, object.resource_version, value).managed_by(object.managed().cloned()).served()
}

/// From the stored form to the one `resource` serves.
pub(super) fn served(resource: ResourceId, mut value: Value) -> Value {
    if let Some(conversion) = registry::of(resource).conversion {
        (conversion.serve)(&mut value);
    }
    set_type(resource, &mut value);
    value
}

/// From the form `resource` serves to the stored one. Custom resources become it when they are decoded.
pub(super) fn stored(resource: ResourceId, mut value: Value) -> Value {
    if resource.row().custom {
        return value;
    }
    if let Some(conversion) = registry::of(resource).conversion {
        (conversion.store)(&mut value);
    }
    set_type(resource.row().stored_as.unwrap_or(resource), &mut value);
    value
}

fn set_type(resource: ResourceId, value: &mut Value) {
    let row = resource.row();
    value["kind"] = json!(row.kind);
    value["apiVersion"] = json!(row.api_version());
}

#[cfg(test)]
mod tests {
    use super::super::super::resource::{GROUPED_EVENTS, HORIZONTAL_POD_AUTOSCALERS, HORIZONTAL_POD_AUTOSCALERS_V1};
    use super::*;

    #[test]
    fn an_autoscaler_survives_the_way_through_v1() {
        let stored_value = json!({
            "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2", "metadata": {"name": "web"},
            "spec": {"maxReplicas": 4, "metrics": [{"type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]},
        });
        let v1 = served(HORIZONTAL_POD_AUTOSCALERS_V1, stored_value.clone());
        assert_eq!(v1["apiVersion"], "autoscaling/v1");
        assert_eq!(v1["spec"], json!({"maxReplicas": 4, "targetCPUUtilizationPercentage": 50}));
        assert_eq!(stored(HORIZONTAL_POD_AUTOSCALERS_V1, v1), stored_value);
        assert_eq!(served(HORIZONTAL_POD_AUTOSCALERS, stored_value.clone()), stored_value);
    }

    #[test]
    fn events_have_two_groups() {
        let event = json!({"metadata": {"name": "e"}, "involvedObject": {"name": "big"}, "message": "m"});
        let grouped = served(GROUPED_EVENTS, event);
        assert_eq!(grouped["regarding"]["name"], "big");
        assert_eq!((&grouped["note"], &grouped["message"]), (&json!("m"), &Value::Null));
    }
}
