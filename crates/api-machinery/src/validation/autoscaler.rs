//! HorizontalPodAutoscalers: what they scale, by which metrics, and how fast.

// upstream: pkg/apis/autoscaling/validation/validation.go (v1.36)

use klab_cel::names;
use klab_scheduler::quantity::Quantity;
use serde_json::{Value, json};

use super::{Errors, Place, container};
use crate::views::{
    ContainerResourceMetricSource, CrossVersionObjectReference, HPAScalingRules, HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec, MetricSpec, MetricTarget, ObjectMetricSource,
};

const MAX_PERIOD: i64 = 1800;
const MAX_WINDOW: i64 = 3600;
const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// A new autoscaler.
pub fn create(value: &Value, errors: &mut Errors) {
    check(value, true, errors);
}

/// A changed one. The version of what it scales is looked at only where it changes.
pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let target = |value| HorizontalPodAutoscaler(value).spec().scale_target_ref();
    let (had, has) = (target(old), target(new));
    check(new, (had.api_version(), had.kind()) != (has.api_version(), has.kind()), errors);
}

fn check(value: &Value, is_new_target: bool, errors: &mut Errors) {
    let spec = Place::<HorizontalPodAutoscalerSpec<'_>>::of_spec(value);
    let (low, high) = (spec.min_replicas(), spec.max_replicas());
    low.within(1.., "must be greater than or equal to 1", errors);
    if *high == 0 {
        errors.required(high, "must be set and greater than 0");
    } else {
        high.within(1.., "must be greater than or equal to 1", errors);
    }
    if low.is_some_and(|low| *high < low) {
        errors.invalid(high, &json!(*high), "must be greater than or equal to `minReplicas`");
    }
    let target = spec.scale_target_ref();
    reference(&target, errors);
    if is_new_target {
        version(&target, *target.kind() == "ReplicationController", errors);
    }
    let metrics = spec.metrics();
    metrics.each().for_each(|one| metric(&one, errors));
    let scales_from_zero = |metric: Place<'_, MetricSpec<'_>>| matches!(*metric.type_(), "Object" | "External");
    if *low == Some(0) && !metrics.each().any(scales_from_zero) {
        let fault = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(&metrics, fault);
    }
    let behavior = spec.behavior();
    for direction in [behavior.scale_up(), behavior.scale_down()].iter().filter(|direction| direction.is_set()) {
        rules(direction, errors);
    }
}

fn reference(target: &Place<'_, CrossVersionObjectReference<'_>>, errors: &mut Errors) {
    target.kind().needed_as(names::path_segment, errors);
    target.name().needed_as(names::path_segment, errors);
}

/// The version of an object, which is of a group where there is none in the core group that would do.
fn version(target: &Place<'_, CrossVersionObjectReference<'_>>, of_core: bool, errors: &mut Errors) {
    let version = target.api_version();
    let has_group = version.split_once('/').is_some_and(|(group, _)| !group.is_empty());
    if version.matches('/').count() > 1 {
        errors.invalid_text(&version, format!("unexpected GroupVersion string: {}", *version));
    } else if !has_group && !of_core {
        errors.invalid_text(&version, "apiVersion must specify API group");
    }
}

fn metric(metric: &Place<'_, MetricSpec<'_>>, errors: &mut Errors) {
    let kind = metric.type_();
    // In the order in which upstream looks at them.
    let sources = [
        ("Object", metric.object().cast::<&Value>()),
        ("External", metric.external().cast()),
        ("Pods", metric.pods().cast()),
        ("Resource", metric.resource().cast()),
        ("ContainerResource", metric.container_resource().cast()),
    ];
    kind.needed_for("must specify a metric source type", errors);
    kind.one_of(&TYPES, errors);
    let given = || sources.iter().filter(|(_, source)| source.is_set());
    if let Some((name, first)) = given().next() {
        source(name, first, errors);
    }
    let Some((_, wanted)) = sources.iter().find(|(name, _)| *name == *kind) else {
        // As upstream, which looks twice.
        return kind.one_of(&TYPES, errors);
    };
    if !wanted.is_set() {
        errors.required(wanted, "must populate information for the given metric source");
    }
    if given().count() != 1 {
        for (_, other) in given().filter(|(name, _)| *name != *kind) {
            errors.forbidden(other, "must populate the given metric source only");
        }
    }
}

fn source(kind: &str, source: &Place<'_, &Value>, errors: &mut Errors) {
    // Each source has some of the fields of these two.
    let (of_object, of_container) =
        (source.cast::<ObjectMetricSource<'_>>(), source.cast::<ContainerResourceMetricSource<'_>>());
    if kind == "Object" {
        reference(&of_object.described_object(), errors);
        version(&of_object.described_object(), true, errors);
    }
    let (metric, name) = (of_object.metric(), of_container.name());
    if matches!(kind, "Object" | "External" | "Pods") {
        metric.name().needed_for("must specify a metric name", errors);
        metric.name().check_if_set(names::path_segment, errors);
    } else if name.is_empty() {
        errors.required(name, "must specify a resource name");
    } else if kind == "ContainerResource" {
        container::resource_name(*name, &name.path, errors);
    }
    if kind == "ContainerResource" {
        let container = of_container.container();
        container.needed_for("must specify a container", errors);
        container.check_if_set(names::label, errors);
    }
    target(&of_object.target(), errors);
    needed(kind, &of_object.target(), errors);
}

fn target(target: &Place<'_, MetricTarget<'_>>, errors: &mut Errors) {
    let kind = target.type_();
    kind.needed_for("must specify a metric target type", errors);
    if !matches!(*kind, "Utilization" | "Value" | "AverageValue") {
        errors.invalid_text(&kind, "must be either Utilization, Value, or AverageValue");
    }
    for amount in [target.value(), target.average_value()] {
        if Quantity::parse(amount.text()).is_ok_and(|amount| amount.is_zero() || amount.is_negative()) {
            errors.invalid_at(&amount, "must be positive");
        }
    }
    target.average_utilization().within(1.., "must be greater than 0", errors);
}

/// Which amounts a target has to have, and which not together.
fn needed(kind: &str, target: &Place<'_, MetricTarget<'_>>, errors: &mut Errors) {
    let (value, average) = (target.value(), target.average_value());
    let percent = target.average_utilization().cast::<&Value>();
    let (first, missing, text) = match kind {
        "Object" => (&value, &average, "must set either a target value or averageValue"),
        "External" => (&value, &average, "must set either a target value for metric or a per-pod target"),
        "Pods" => (&average, &average, "must specify a positive target averageValue"),
        _ => (&percent, &percent, "must set either a target raw value or a target utilization"),
    };
    if !first.is_set() && !average.is_set() {
        errors.required(missing, text);
    }
    let (place, text) = match kind {
        "External" => (&value, "may not set both a target value for metric and a per-pod target"),
        "Resource" | "ContainerResource" => (&average, "may not set both a target raw value and a target utilization"),
        _ => return,
    };
    if first.is_set() && average.is_set() {
        errors.forbidden(place, text);
    }
}

fn rules(rules: &Place<'_, HPAScalingRules<'_>>, errors: &mut Errors) {
    let window = rules.stabilization_window_seconds();
    window.within(0.., "must be greater than or equal to zero", errors);
    window.within(..=MAX_WINDOW, "must be less than or equal to 3600", errors);
    rules.select_policy().supported(&["Disabled", "Max", "Min"], errors);
    rules.policies().needed_for("must specify at least one Policy", errors);
    for policy in rules.policies().each() {
        let (value, period) = (policy.value(), policy.period_seconds());
        policy.type_().one_of(&["Percent", "Pods"], errors);
        for number in [&value, &period].into_iter().filter(|number| ***number <= 0) {
            errors.invalid(number, &json!(**number), "must be greater than zero");
        }
        period.within(..=MAX_PERIOD, "must be less than or equal to 1800", errors);
    }
    let tolerance = rules.tolerance();
    if Quantity::parse(tolerance.text()).is_ok_and(Quantity::is_negative) {
        errors.invalid_at(&tolerance, "must be greater than or equal to 0");
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
