//! Between the versions of autoscalers and the groups of events.

use serde_json::{Value, json};

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

/// From core/v1 to events.k8s.io/v1.
pub(super) fn event_to_grouped(value: &mut Value) {
    rename(value, EVENT_FIELDS.iter().map(|(core, grouped)| (*core, *grouped)));
}

/// From events.k8s.io/v1 to core/v1.
pub(super) fn event_from_grouped(value: &mut Value) {
    rename(value, EVENT_FIELDS.iter().map(|(core, grouped)| (*grouped, *core)));
}

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

/// From autoscaling/v2 to v1.
pub(super) fn autoscaler_to_v1(value: &mut Value) {
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

/// From autoscaling/v1 to v2.
pub(super) fn autoscaler_from_v1(value: &mut Value) {
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
