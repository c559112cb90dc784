//! Between the versions of autoscalers and the groups of events.

use serde_json::{Map, Value, json};

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

/// What v1 has no field for is kept in annotations, as API servers do.
// upstream: pkg/apis/autoscaling/annotations.go, pkg/apis/autoscaling/v1/conversion.go (v1.36)
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// The one metric v1 knows is its own field.
fn is_plain_cpu(metric: &Value) -> bool {
    metric["type"] == "Resource"
        && metric["resource"]["name"] == "cpu"
        && !metric["resource"]["target"]["averageUtilization"].is_null()
}

fn take(value: &mut Value, field: &str) -> Option<Value> {
    value.as_object_mut()?.remove(field)
}

/// Takes an annotation whose value is JSON; one that is something else goes, too.
fn take_annotation(value: &mut Value, name: &str) -> Option<Value> {
    let text = take(value.get_mut("metadata")?.get_mut("annotations")?, name)?;
    serde_json::from_str(text.as_str()?).ok()
}

/// Sets a field of a part of a body that is not checked yet: a part of another type stays as it is.
fn put(value: &mut Value, part: &str, field: &str, content: Value) {
    let Some(value) = value.as_object_mut() else { return };
    if let Some(part) = value.entry(part).or_insert_with(|| json!({})).as_object_mut() {
        part.insert(field.to_owned(), content);
    }
}

fn annotate(value: &mut Value, name: &str, content: &Value) {
    value["metadata"]["annotations"][name] = json!(content.to_string());
}

/// From autoscaling/v2 to v1.
pub(super) fn autoscaler_to_v1(value: &mut Value) {
    for name in [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR] {
        let _ = take_annotation(value, name);
    }
    if let Some(Value::Array(metrics)) = value.get_mut("spec").and_then(|spec| take(spec, "metrics")) {
        let (cpu, others): (Vec<Value>, Vec<Value>) = metrics.into_iter().partition(is_plain_cpu);
        if let Some(cpu) = cpu.first() {
            value["spec"]["targetCPUUtilizationPercentage"] = cpu["resource"]["target"]["averageUtilization"].clone();
        }
        if !others.is_empty() {
            let others = others.into_iter().map(|metric| flat(metric, "target")).collect();
            annotate(value, METRICS, &Value::Array(others));
        }
    }
    if let Some(behavior) = value.get_mut("spec").and_then(|spec| take(spec, "behavior")) {
        annotate(value, BEHAVIOR, &self::behavior(&behavior, true));
    }
    let status = |value: &mut Value, field: &str| match value.get_mut("status").and_then(|it| take(it, field)) {
        Some(Value::Array(list)) if !list.is_empty() => Some(list),
        _ => None,
    };
    if let Some(metrics) = status(value, "currentMetrics") {
        let cpu = metrics.iter().filter(|metric| metric["resource"]["name"] == "cpu");
        let mut used = cpu.map(|metric| &metric["resource"]["current"]["averageUtilization"]);
        if let Some(used) = used.rfind(|used| !used.is_null()) {
            value["status"]["currentCPUUtilizationPercentage"] = used.clone();
        }
        let metrics = metrics.into_iter().map(|metric| flat(metric, "current")).collect();
        annotate(value, CURRENT_METRICS, &Value::Array(metrics));
    }
    if let Some(conditions) = status(value, "conditions") {
        annotate(value, CONDITIONS, &Value::Array(conditions));
    }
}

/// From autoscaling/v1 to v2.
pub(super) fn autoscaler_from_v1(value: &mut Value) {
    let mut metrics = match take_annotation(value, METRICS) {
        Some(Value::Array(others)) => others.into_iter().map(|metric| nested(metric, "target")).collect(),
        _ => Vec::new(),
    };
    if let Some(percent) = value.get_mut("spec").and_then(|spec| take(spec, "targetCPUUtilizationPercentage")) {
        metrics.push(json!({
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}},
        }));
    }
    if !metrics.is_empty() {
        put(value, "spec", "metrics", Value::Array(metrics));
    }
    if let Some(behavior) = take_annotation(value, BEHAVIOR).filter(Value::is_object) {
        put(value, "spec", "behavior", self::behavior(&behavior, false));
    }
    let used = value.get_mut("status").and_then(|status| take(status, "currentCPUUtilizationPercentage"));
    if let Some(Value::Array(metrics)) = take_annotation(value, CURRENT_METRICS) {
        let metrics = metrics.into_iter().map(|metric| nested(metric, "current")).collect();
        put(value, "status", "currentMetrics", Value::Array(metrics));
    } else if let Some(used) = used {
        let cpu = json!({ "name": "cpu", "current": { "averageUtilization": used } });
        put(value, "status", "currentMetrics", json!([{ "type": "Resource", "resource": cpu }]));
    }
    if let Some(conditions) = take_annotation(value, CONDITIONS).filter(Value::is_array) {
        put(value, "status", "conditions", conditions);
    }
}

/// A metric of a resource as v1 has it: `target.averageUtilization` is `targetAverageUtilization`.
fn flat(mut metric: Value, field: &str) -> Value {
    if let Some(resource) = metric.get_mut("resource")
        && let Some(Value::Object(inside)) = take(resource, field)
    {
        for (name, content) in inside {
            if name != "type" {
                resource[format!("{field}{}", capitalised(&name))] = content;
            }
        }
    }
    metric
}

/// The way back of [`flat`].
fn nested(mut metric: Value, field: &str) -> Value {
    if let Some(resource) =
        metric.get_mut("resource").filter(|resource| resource.is_object() && resource[field].is_null())
    {
        let mut inside = json!({});
        for name in ["averageUtilization", "averageValue"] {
            if let Some(content) = take(resource, &format!("{field}{}", capitalised(name))) {
                if field == "target" {
                    let kind = if name == "averageValue" { "AverageValue" } else { "Utilization" };
                    inside["type"] = json!(kind);
                }
                inside[name] = content;
            }
        }
        resource[field] = inside;
    }
    metric
}

/// Fields of Kubernetes' internal type for the rules of one direction, which the annotation shows, and of v2.
const RULES: &[(&str, &str)] = &[
    ("StabilizationWindowSeconds", "stabilizationWindowSeconds"),
    ("SelectPolicy", "selectPolicy"),
    ("Policies", "policies"),
    ("Tolerance", "tolerance"),
];
const POLICY: &[(&str, &str)] = &[("Type", "type"), ("Value", "value"), ("PeriodSeconds", "periodSeconds")];
const DIRECTIONS: &[(&str, &str)] = &[("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown")];

/// The rules by which an autoscaler scales, with the fields of Kubernetes' internal type, also those that say nothing, or with those
/// of v2.
fn behavior(of: &Value, is_internal: bool) -> Value {
    let renamed = |fields: &[(&str, &str)], from: &Value| -> Map<String, Value> {
        let pairs = fields
            .iter()
            .map(|(internal, external)| if is_internal { (internal, external) } else { (external, internal) });
        let pairs = pairs.filter(|(_, had)| is_internal || !from[**had].is_null());
        pairs.map(|(name, had)| ((*name).to_owned(), from[*had].clone())).collect()
    };
    let mut all = renamed(DIRECTIONS, of);
    for direction in all.values_mut().filter(|direction| !direction.is_null()) {
        let mut rules = renamed(RULES, direction);
        if let Some(Value::Array(policies)) = rules.get_mut(if is_internal { "Policies" } else { "policies" }) {
            for policy in policies {
                *policy = Value::Object(renamed(POLICY, policy));
            }
        }
        *direction = Value::Object(rules);
    }
    Value::Object(all)
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{served, stored};
    use crate::resource::{GROUPED_EVENTS, HORIZONTAL_POD_AUTOSCALERS, HORIZONTAL_POD_AUTOSCALERS_V1};

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
    fn what_v1_has_no_field_for_is_kept_in_annotations() {
        let stored_value = json!({
            "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2",
            "metadata": {"name": "web", "annotations": {"own": "yes"}},
            "spec": {
                "maxReplicas": 4,
                "metrics": [
                    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
                    {"type": "Pods", "pods": {"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "10"}}},
                ],
                "behavior": {"scaleDown": {
                    "selectPolicy": "Max", "stabilizationWindowSeconds": 60,
                    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}],
                }},
            },
            "status": {
                "currentReplicas": 2,
                "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 7, "averageValue": "3m"}}}],
                "conditions": [{"type": "AbleToScale", "status": "True"}],
            },
        });
        let v1 = served(HORIZONTAL_POD_AUTOSCALERS_V1, stored_value.clone());
        assert_eq!(v1["spec"], json!({"maxReplicas": 4}));
        assert_eq!(v1["status"], json!({"currentReplicas": 2, "currentCPUUtilizationPercentage": 7}));
        let annotations = &v1["metadata"]["annotations"];
        assert!(annotations[METRICS].as_str().unwrap().contains(r#""targetAverageValue":"1Gi""#), "{annotations}");
        assert!(
            annotations[CURRENT_METRICS].as_str().unwrap().contains(r#""currentAverageValue":"3m""#),
            "{annotations}"
        );
        assert!(annotations[BEHAVIOR].as_str().unwrap().contains(r#""ScaleUp":null"#), "{annotations}");
        assert_eq!(stored(HORIZONTAL_POD_AUTOSCALERS_V1, v1), stored_value);
    }

    #[test]
    fn annotations_that_are_none_of_ours_go_and_do_no_harm() {
        let v1 = json!({
            "metadata": {"annotations": {(METRICS): "{", (BEHAVIOR): "[1]", (CONDITIONS): 7, (CURRENT_METRICS): r#"[1, {"resource": 1}]"#}},
            "spec": {"maxReplicas": 1},
        });
        let value = stored(HORIZONTAL_POD_AUTOSCALERS_V1, v1);
        assert_eq!((&value["metadata"]["annotations"], &value["spec"]), (&json!({}), &json!({"maxReplicas": 1})));
        assert_eq!(value["status"], json!({ "currentMetrics": [1, { "resource": 1 }] }), "validation says the rest");
        let other = json!({ "metadata": { "annotations": { (METRICS): "[1]" } }, "spec": "text" });
        assert_eq!(stored(HORIZONTAL_POD_AUTOSCALERS_V1, other)["spec"], "text");
    }

    #[test]
    fn events_have_two_groups() {
        let event = json!({"metadata": {"name": "e"}, "involvedObject": {"name": "big"}, "message": "m"});
        let grouped = served(GROUPED_EVENTS, event);
        assert_eq!(grouped["regarding"]["name"], "big");
        assert_eq!((&grouped["note"], &grouped["message"]), (&json!("m"), &Value::Null));
    }
}
