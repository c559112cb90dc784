//! HorizontalPodAutoscalers: what they scale, by which metrics, and how fast.

// upstream: pkg/apis/autoscaling/validation/validation.go (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::field::{entries, supported, text};
use super::{Errors, container};
use crate::schema::Path;
use klab_scheduler::quantity::Quantity;

const MAX_PERIOD: i64 = 1800;
const MAX_WINDOW: i64 = 3600;
/// The types of metrics, with their fields, in the order in which upstream looks at them.
const METRICS: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// A new autoscaler.
pub fn create(value: &Value, errors: &mut Errors) {
    check(value, true, errors);
}

/// A changed one. The version of what it scales is looked at only where it changes.
pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let (before, after) = (&old["spec"]["scaleTargetRef"], &new["spec"]["scaleTargetRef"]);
    let same = ["apiVersion", "kind"].iter().all(|field| before[*field] == after[*field]);
    check(new, !same, errors);
}

fn check(value: &Value, is_new_target: bool, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    let (low, high) = (spec["minReplicas"].as_i64(), spec["maxReplicas"].as_i64().unwrap_or_default());
    if low.is_some_and(|low| low < 1) {
        errors.invalid(path.field("minReplicas"), &spec["minReplicas"], "must be greater than or equal to 1");
    }
    let place = path.field("maxReplicas");
    if high == 0 {
        errors.required(place, "must be set and greater than 0");
    } else if high < 0 {
        errors.invalid(place, &spec["maxReplicas"], "must be greater than or equal to 1");
    }
    if low.is_some_and(|low| high < low) {
        errors.invalid(place, &json!(high), "must be greater than or equal to `minReplicas`");
    }
    let target = &spec["scaleTargetRef"];
    let place = path.field("scaleTargetRef");
    reference(target, &place, errors);
    if is_new_target {
        let of_core = target["kind"] == "ReplicationController";
        version(target, of_core, &place, errors);
    }
    let list = path.field("metrics");
    for (at, one) in entries(spec, "metrics") {
        metric(one, &list.index(at), errors);
    }
    let of_zero = |(_, metric): (usize, &Value)| matches!(text(metric, "type"), "Object" | "External");
    if low == Some(0) && !entries(spec, "metrics").any(of_zero) {
        errors
            .forbidden(list, "must specify at least one Object or External metric to support scaling to zero replicas");
    }
    let place = path.field("behavior");
    for direction in ["scaleUp", "scaleDown"] {
        if spec["behavior"][direction].is_object() {
            rules(&spec["behavior"][direction], &place.field(direction), errors);
        }
    }
}

fn reference(target: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in ["kind", "name"] {
        if text(target, field).is_empty() {
            errors.required(path.field(field), "");
        }
        for fault in names::path_segment(text(target, field)) {
            errors.invalid(path.field(field), &target[field], fault);
        }
    }
}

/// The version of an object, which is of a group where there is none in the core group that would do.
fn version(target: &Value, of_core: bool, path: &Path<'_>, errors: &mut Errors) {
    let version = text(target, "apiVersion");
    let has_group = version.split_once('/').is_some_and(|(group, _)| !group.is_empty());
    let fault = if version.matches('/').count() > 1 {
        format!("unexpected GroupVersion string: {version}")
    } else if has_group || of_core {
        return;
    } else {
        "apiVersion must specify API group".to_owned()
    };
    errors.invalid(path.field("apiVersion"), &json!(version), fault);
}

fn metric(metric: &Value, path: &Path<'_>, errors: &mut Errors) {
    let kind = text(metric, "type");
    let known = METRICS.iter().find(|(name, _)| *name == kind);
    if kind.is_empty() {
        errors.required(path.field("type"), "must specify a metric source type");
    }
    if known.is_none() {
        errors.unsupported(path.field("type"), &json!(kind), &TYPES);
    }
    let given: Vec<&str> = METRICS.iter().map(|(_, field)| *field).filter(|field| metric[*field].is_object()).collect();
    if let Some(first) = given.first() {
        source(first, &metric[*first], &path.field(first), errors);
    }
    let Some((_, wanted)) = known else { return errors.unsupported(path.field("type"), &json!(kind), &TYPES) };
    if !given.contains(wanted) {
        errors.required(path.field(wanted), "must populate information for the given metric source");
    }
    if given.len() != 1 {
        for other in given.iter().filter(|field| *field != wanted) {
            errors.forbidden(path.field(other), "must populate the given metric source only");
        }
    }
}

fn source(kind: &str, source: &Value, path: &Path<'_>, errors: &mut Errors) {
    if kind == "object" {
        let place = path.field("describedObject");
        reference(&source["describedObject"], &place, errors);
        version(&source["describedObject"], true, &place, errors);
    }
    if matches!(kind, "object" | "external" | "pods") {
        let place = path.field("metric");
        let name = text(&source["metric"], "name");
        if name.is_empty() {
            errors.required(place.field("name"), "must specify a metric name");
        }
        for fault in names::path_segment(name) {
            errors.invalid(place.field("name"), &json!(name), fault);
        }
    } else if text(source, "name").is_empty() {
        errors.required(path.field("name"), "must specify a resource name");
    } else if kind == "containerResource" {
        container::resource_name(text(source, "name"), &path.field("name"), errors);
    }
    if kind == "containerResource" {
        let place = path.field("container");
        if text(source, "container").is_empty() {
            errors.required(place, "must specify a container");
        } else {
            for fault in names::label(text(source, "container")) {
                errors.invalid(place, &source["container"], fault);
            }
        }
    }
    let place = path.field("target");
    target(&source["target"], &place, errors);
    needed(kind, &source["target"], &place, errors);
}

fn target(target: &Value, path: &Path<'_>, errors: &mut Errors) {
    let kind = text(target, "type");
    if kind.is_empty() {
        errors.required(path.field("type"), "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        errors.invalid(path.field("type"), &json!(kind), "must be either Utilization, Value, or AverageValue");
    }
    for field in ["value", "averageValue"] {
        let amount = target[field].as_str().and_then(|text| Quantity::parse(text).ok());
        if amount.is_some_and(|amount| amount.is_zero() || amount.is_negative()) {
            errors.invalid(path.field(field), &target[field], "must be positive");
        }
    }
    if target["averageUtilization"].as_i64().is_some_and(|percent| percent < 1) {
        errors.invalid(path.field("averageUtilization"), &target["averageUtilization"], "must be greater than 0");
    }
}

/// Which amounts a target has to have, and which not together.
fn needed(kind: &str, target: &Value, path: &Path<'_>, errors: &mut Errors) {
    let has = |field: &str| !target[field].is_null();
    let (first, missing, text) = match kind {
        "object" => ("value", "averageValue", "must set either a target value or averageValue"),
        "external" => ("value", "averageValue", "must set either a target value for metric or a per-pod target"),
        "pods" => ("averageValue", "averageValue", "must specify a positive target averageValue"),
        _ => ("averageUtilization", "averageUtilization", "must set either a target raw value or a target utilization"),
    };
    if !has(first) && !has("averageValue") {
        errors.required(path.field(missing), text);
    }
    let (field, text) = match kind {
        "external" => ("value", "may not set both a target value for metric and a per-pod target"),
        "resource" | "containerResource" => {
            ("averageValue", "may not set both a target raw value and a target utilization")
        }
        _ => return,
    };
    if has(first) && has("averageValue") {
        errors.forbidden(path.field(field), text);
    }
}

fn rules(rules: &Value, path: &Path<'_>, errors: &mut Errors) {
    let window = &rules["stabilizationWindowSeconds"];
    let fault = match window.as_i64() {
        Some(..0) => Some("must be greater than or equal to zero".to_owned()),
        Some(seconds) if seconds > MAX_WINDOW => Some(format!("must be less than or equal to {MAX_WINDOW}")),
        _ => None,
    };
    if let Some(fault) = fault {
        errors.invalid(path.field("stabilizationWindowSeconds"), window, fault);
    }
    supported(&rules["selectPolicy"], &path.field("selectPolicy"), &["Disabled", "Max", "Min"], errors);
    let list = path.field("policies");
    if entries(rules, "policies").next().is_none() {
        errors.required(list, "must specify at least one Policy");
    }
    for (at, policy) in entries(rules, "policies") {
        let path = list.index(at);
        supported(&json!(text(policy, "type")), &path.field("type"), &["Percent", "Pods"], errors);
        for field in ["value", "periodSeconds"] {
            let number = policy[field].as_i64().unwrap_or_default();
            if number <= 0 {
                errors.invalid(path.field(field), &json!(number), "must be greater than zero");
            }
            if field == "periodSeconds" && number > MAX_PERIOD {
                let fault = format!("must be less than or equal to {MAX_PERIOD}");
                errors.invalid(path.field(field), &json!(number), fault);
            }
        }
    }
    let tolerance = &rules["tolerance"];
    if tolerance.as_str().and_then(|text| Quantity::parse(text).ok()).is_some_and(Quantity::is_negative) {
        errors.invalid(path.field("tolerance"), tolerance, "must be greater than or equal to 0");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(change: &Value) -> Vec<String> {
        let mut spec = json!({
            "minReplicas": 1, "maxReplicas": 5, "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
        });
        for (field, value) in change.as_object().into_iter().flatten() {
            spec[field.as_str()] = value.clone();
        }
        Errors::found(|errors| create(&json!({ "spec": spec }), errors))
    }

    #[test]
    fn metrics_have_one_source_and_a_target() {
        let cpu = |target: Value| json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } });
        for (metric, wanted) in [
            (cpu(json!({ "type": "Utilization", "averageUtilization": 70 })), vec![]),
            (
                cpu(json!({ "type": "Utilization", "averageUtilization": 0 })),
                vec![".resource.target.averageUtilization: Invalid value: 0: must be greater than 0"],
            ),
            (
                cpu(json!({ "type": "AverageValue", "averageUtilization": 70, "averageValue": "1" })),
                vec![
                    ".resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization",
                ],
            ),
            (
                json!({ "type": "Resource" }),
                vec![".resource: Required value: must populate information for the given metric source"],
            ),
            (
                json!({ "type": "Pods", "pods": { "metric": { "name": "" }, "target": { "type": "AverageValue", "averageValue": "-1" } } }),
                vec![
                    ".pods.metric.name: Required value: must specify a metric name",
                    ".pods.target.averageValue: Invalid value: \"-1\": must be positive",
                ],
            ),
            (
                json!({ "type": "External", "external": { "metric": { "name": "m" }, "target": { "type": "Value" } } }),
                vec![
                    ".external.target.averageValue: Required value: must set either a target value for metric or a per-pod target",
                ],
            ),
        ] {
            let wanted: Vec<String> = wanted.iter().map(|fault| format!("spec.metrics[0]{fault}")).collect();
            assert_eq!(faults(&json!({ "metrics": [metric] })), wanted, "{metric}");
        }
    }

    #[test]
    fn what_is_scaled_how_far_and_how_fast() {
        for (change, wanted) in [
            (json!({}), vec![]),
            (
                json!({ "minReplicas": 6 }),
                vec!["maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`"],
            ),
            (
                json!({ "maxReplicas": -1 }),
                vec![
                    "maxReplicas: Invalid value: -1: must be greater than or equal to 1",
                    "maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
                ],
            ),
            (json!({ "scaleTargetRef": { "kind": "ReplicationController", "name": "web" } }), vec![]),
            (
                json!({ "scaleTargetRef": { "kind": "Deployment", "name": "" } }),
                vec![
                    "scaleTargetRef.name: Required value",
                    "scaleTargetRef.apiVersion: Invalid value: \"\": apiVersion must specify API group",
                ],
            ),
            (
                json!({ "behavior": { "scaleDown": { "stabilizationWindowSeconds": 3601, "policies": [{ "type": "x", "value": 0, "periodSeconds": 1801 }] } } }),
                vec![
                    "behavior.scaleDown.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600",
                    "behavior.scaleDown.policies[0].type: Unsupported value: \"x\": supported values: \"Percent\", \"Pods\"",
                    "behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero",
                    "behavior.scaleDown.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
                ],
            ),
        ] {
            let wanted: Vec<String> = wanted.iter().map(|fault| format!("spec.{fault}")).collect();
            assert_eq!(faults(&change), wanted, "{change}");
        }
    }
}
