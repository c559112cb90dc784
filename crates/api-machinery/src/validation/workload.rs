//! Workloads that keep pods running, but for StatefulSets.

// upstream: pkg/apis/apps/validation/validation.go ValidateDeployment, ValidateDaemonSet (v1.36)

use serde_json::{Value, json};

use super::place::Texts;
use super::{Errors, Place, metadata, pod};
use crate::views::{
    DaemonSetSpec, Deployment, LabelSelector, PodTemplateSpec, ReplicaSetSpec, ReplicationControllerSpec,
    RollingUpdateDaemonSet, RollingUpdateDeployment,
};

pub fn deployment(value: &Value, errors: &mut Errors) {
    let deployment = Place::<Deployment<'_>>::root(value);
    let spec = deployment.spec();
    spec.replicas().not_negative(errors);
    selector(&spec.selector(), "empty selector is invalid for deployment", errors);
    template(&spec.selector(), &spec.template(), "ReplicaSet", errors);
    let strategy = spec.strategy();
    match *strategy.type_() {
        "Recreate" => {
            if strategy.rolling_update().is_set() {
                let fault = "may not be specified when strategy `type` is 'Recreate'";
                errors.forbidden(strategy.rolling_update(), fault);
            }
        }
        "RollingUpdate" => rolling(&strategy.rolling_update(), errors),
        _ => errors.unsupported_at(&strategy.type_(), &["Recreate", "RollingUpdate"]),
    }
    spec.min_ready_seconds().not_negative(errors);
    spec.revision_history_limit().not_negative(errors);
    let deadline = spec.progress_deadline_seconds();
    deadline.not_negative(errors);
    if deadline.is_some_and(|deadline| deadline <= *spec.min_ready_seconds()) {
        errors.invalid_at(&deadline, "must be greater than minReadySeconds");
    }
}

pub fn replica_set(value: &Value, errors: &mut Errors) {
    let spec = Place::<ReplicaSetSpec<'_>>::of_spec(value);
    spec.replicas().not_negative(errors);
    spec.min_ready_seconds().not_negative(errors);
    selector(&spec.selector(), "empty selector is invalid for deployment", errors);
    template(&spec.selector(), &spec.template(), "ReplicaSet", errors);
}

pub(crate) fn replication_controller(value: &Value, errors: &mut Errors) {
    let spec = Place::<ReplicationControllerSpec<'_>>::of_spec(value);
    spec.replicas().not_negative(errors);
    spec.selector().needed(errors);
    if spec.template().is_set() {
        let selector = json!({ "matchLabels": spec.selector().json });
        let selector = Place::new(spec.selector().path, &selector);
        template(&selector, &spec.template(), "ReplicationController", errors);
    } else {
        errors.required(spec.template(), "");
    }
}

pub fn daemon_set(value: &Value, errors: &mut Errors) {
    let spec = Place::<DaemonSetSpec<'_>>::of_spec(value);
    selector(&spec.selector(), "empty selector is invalid for daemonset", errors);
    template(&spec.selector(), &spec.template(), "DaemonSet", errors);
    spec.min_ready_seconds().not_negative(errors);
    let strategy = spec.update_strategy();
    match *strategy.type_() {
        "OnDelete" => {}
        "RollingUpdate" => daemons_in_turn(&strategy.rolling_update(), errors),
        _ => errors.unsupported_at(&strategy.type_(), &["RollingUpdate", "OnDelete"]),
    }
    spec.revision_history_limit().not_negative(errors);
}

/// Either the old daemon of a node goes before the new one comes, or after.
// upstream: pkg/apis/apps/validation/validation.go ValidateRollingUpdateDaemonSet (v1.36)
fn daemons_in_turn(rolling: &Place<'_, RollingUpdateDaemonSet<'_>>, errors: &mut Errors) {
    let counts = [rolling.max_unavailable(), rolling.max_surge()];
    let [away, more] = counts.map(|count| int_or_percent(&count, errors).unwrap_or_default() != 0);
    for count in &counts {
        at_most_all(count, errors);
    }
    let [before, after] = counts;
    if away && more {
        errors.invalid_at(&after, "may not be set when maxUnavailable is non-zero");
    } else if !away && !more {
        errors.required(before, "cannot be 0 when maxSurge is 0");
    }
}

/// A selector, once set, stays.
pub(crate) fn same_selector(old: &Value, new: &Value, errors: &mut Errors) {
    // Deployments, ReplicaSets and DaemonSets have it at the same place.
    let (old, new) = (Place::<Deployment<'_>>::root(old), Place::<Deployment<'_>>::root(new));
    new.spec().selector().stays(&old.spec().selector(), errors);
}

/// The selector of a workload.
pub fn selector(selector: &Place<'_, LabelSelector<'_>>, empty: &str, errors: &mut Errors) {
    if !selector.is_set() {
        return errors.required(selector, "");
    }
    metadata::selector(selector, errors);
    if selector.match_labels().is_empty() && selector.match_expressions().is_empty() {
        errors.invalid_at(selector, empty);
    }
}

/// The template of a workload of a kind, as upstream names it.
pub fn template(
    selector: &Place<'_, LabelSelector<'_>>,
    template: &Place<'_, PodTemplateSpec<'_>>,
    kind: &str,
    errors: &mut Errors,
) {
    let (metadata, pod) = (template.metadata(), template.spec());
    if selector.is_set() && !matches(selector, *metadata.labels()) {
        errors.invalid_at(&metadata.labels(), "`selector` does not match template `labels`");
    }
    pod::template(template, errors);
    if *pod.restart_policy() != "Always" {
        errors.unsupported_at(&pod.restart_policy(), &["Always"]);
    }
    if pod.active_deadline_seconds().is_set() {
        let fault = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden(pod.active_deadline_seconds(), fault);
    }
}

fn matches(selector: &Place<'_, LabelSelector<'_>>, labels: Texts<'_>) -> bool {
    selector.match_labels().iter().all(|(key, value)| labels.get(key) == Some(value))
        && selector.match_expressions().each().all(|term| {
            let value = labels.get(*term.key());
            let listed = value.is_some_and(|value| term.values().each().any(|one| *one == value));
            match *term.operator() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

/// `maxUnavailable` and `maxSurge`.
fn rolling(rolling: &Place<'_, RollingUpdateDeployment<'_>>, errors: &mut Errors) {
    let unavailable = rolling.max_unavailable();
    let counts = [&unavailable, &rolling.max_surge()].map(|count| int_or_percent(count, errors));
    if counts == [Some(0), Some(0)] {
        errors.invalid_at(&unavailable, "may not be 0 when `maxSurge` is 0");
    }
    at_most_all(&unavailable, errors);
}

/// A percentage is of what there is.
pub(super) fn at_most_all(value: &Place<'_, &Value>, errors: &mut Errors) {
    if percent(value.text()).is_some_and(|percent| percent > 100) {
        errors.invalid_at(value, "must not be greater than 100%");
    }
}

fn percent(text: &str) -> Option<i64> {
    text.strip_suffix('%')?.parse().ok().filter(|percent| *percent >= 0)
}

/// A count or a percentage; its number if it is one.
pub fn int_or_percent(value: &Place<'_, &Value>, errors: &mut Errors) -> Option<i64> {
    match value.json {
        Value::String(text) => {
            let number = percent(text);
            if number.is_none() {
                errors.invalid_at(value, "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')");
            }
            number
        }
        Value::Number(_) => {
            value.not_negative(errors);
            value.as_i64()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Path;

    #[test]
    fn daemons_go_before_or_after_their_successors() {
        let faults = |away: Value, more: Value| {
            let mut errors = Errors::default();
            let rolling = json!({ "maxUnavailable": away, "maxSurge": more });
            daemons_in_turn(&Place::new(Path::Root.field("r"), &rolling), &mut errors);
            errors.texts()
        };
        assert_eq!(faults(json!(1), json!(0)), [""; 0]);
        assert_eq!(faults(json!(0), json!("20%")), [""; 0]);
        assert_eq!(faults(json!(0), json!(0)), ["r.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"]);
        assert_eq!(
            faults(json!("5%"), json!(1)),
            ["r.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"]
        );
        assert_eq!(
            faults(json!("105%"), json!(0)),
            ["r.maxUnavailable: Invalid value: \"105%\": must not be greater than 100%"]
        );
    }
}
