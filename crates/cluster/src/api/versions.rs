//! Second versions and second groups of stored kinds: autoscaling/v1, events.k8s.io.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::object::Object;
use super::super::resource::{GROUPED_EVENTS, HORIZONTAL_POD_AUTOSCALERS_V1, ResourceId};

/// An object's JSON text as `resource` serves it.
pub(crate) fn text(resource: ResourceId, object: &Object) -> Bytes {
    if resource == object.resource {
        return object.json.clone();
    }
    let value = served(resource, object.to_value());
    // Through an object again, for the order of fields.
    Object::new(resource, object.resource_version, &value).json
}

/// From the stored form to the one `resource` serves.
pub(super) fn served(resource: ResourceId, mut value: Value) -> Value {
    match resource {
        GROUPED_EVENTS => rename(&mut value, EVENT_FIELDS.iter().map(|(core, grouped)| (*core, *grouped))),
        HORIZONTAL_POD_AUTOSCALERS_V1 => autoscaler_to_v1(&mut value),
        _ => {}
    }
    set_type(resource, &mut value);
    value
}

/// From the form `resource` serves to the stored one.
pub(super) fn stored(resource: ResourceId, mut value: Value) -> Value {
    match resource {
        GROUPED_EVENTS => rename(&mut value, EVENT_FIELDS.iter().map(|(core, grouped)| (*grouped, *core))),
        HORIZONTAL_POD_AUTOSCALERS_V1 => autoscaler_from_v1(&mut value),
        _ => {}
    }
    set_type(resource.row().stored_as.unwrap_or(resource), &mut value);
    value
}

fn set_type(resource: ResourceId, value: &mut Value) {
    let row = resource.row();
    value["kind"] = json!(row.kind);
    value["apiVersion"] = json!(row.api_version());
}

/// Fields of an Event: core/v1, events.k8s.io/v1.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

fn rename(value: &mut Value, fields: impl Iterator<Item = (&'static str, &'static str)>) {
    let Some(map) = value.as_object_mut() else { return };
    for (from, to) in fields {
        if let Some(found) = map.remove(from) {
            map.insert(to.to_owned(), found);
        }
    }
}

/// The one metric v1 knows is its own field; others are kept in an annotation, as API servers do.
const METRICS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/metrics";

fn is_plain_cpu(metric: &Value) -> bool {
    metric["type"] == "Resource"
        && metric["resource"]["name"] == "cpu"
        && !metric["resource"]["target"]["averageUtilization"].is_null()
}

fn take(value: &mut Value, field: &str) -> Option<Value> {
    value.as_object_mut()?.remove(field)
}

fn autoscaler_to_v1(value: &mut Value) {
    if let Some(Value::Array(metrics)) = take(&mut value["spec"], "metrics") {
        let (cpu, others): (Vec<Value>, Vec<Value>) = metrics.into_iter().partition(is_plain_cpu);
        if let Some(cpu) = cpu.first() {
            value["spec"]["targetCPUUtilizationPercentage"] = cpu["resource"]["target"]["averageUtilization"].clone();
        }
        if !others.is_empty() {
            value["metadata"]["annotations"][METRICS_ANNOTATION] = json!(Value::Array(others).to_string());
        }
    }
    if value["status"].is_object() {
        if let Some(Value::Array(metrics)) = take(&mut value["status"], "currentMetrics") {
            let used = metrics.iter().map(|metric| &metric["resource"]["current"]["averageUtilization"]);
            if let Some(used) = used.into_iter().find(|used| !used.is_null()) {
                value["status"]["currentCPUUtilizationPercentage"] = used.clone();
            }
        }
        let _ = take(&mut value["status"], "conditions");
    }
}

fn autoscaler_from_v1(value: &mut Value) {
    let mut metrics = Vec::new();
    if value["spec"].is_object()
        && let Some(percent) = take(&mut value["spec"], "targetCPUUtilizationPercentage")
    {
        metrics.push(json!({
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}},
        }));
    }
    if value["metadata"]["annotations"].is_object()
        && let Some(Value::String(text)) = take(&mut value["metadata"]["annotations"], METRICS_ANNOTATION)
        && let Ok(Value::Array(others)) = serde_json::from_str(&text)
    {
        metrics.extend(others);
    }
    if !metrics.is_empty() {
        value["spec"]["metrics"] = Value::Array(metrics);
    }
    if value["status"].is_object() {
        let _ = take(&mut value["status"], "currentCPUUtilizationPercentage");
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::resource::HORIZONTAL_POD_AUTOSCALERS;
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
