//! What the parts of a cluster write down: Leases, ControllerRevisions, Events.

// upstream: pkg/apis/coordination/validation/validation.go ValidateLeaseSpec (v1.36)
// upstream: pkg/apis/apps/validation/validation.go ValidateControllerRevisionCreate (v1.36)
// upstream: pkg/apis/core/validation/events.go legacyValidateEvent (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::Errors;
use super::field::{not_negative, text};
use crate::schema::Path;

const STRATEGY: &str = "OldestEmulationVersion";
const MAX_NAME_LENGTH: usize = 128;
const MAX_NOTE_LENGTH: usize = 1024;

/// A Lease.
pub fn lease(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    let duration = &spec["leaseDurationSeconds"];
    if duration.as_i64().is_some_and(|seconds| seconds <= 0) {
        errors.invalid(path.field("leaseDurationSeconds"), duration, "must be greater than 0");
    }
    not_negative(&spec["leaseTransitions"], &path.field("leaseTransitions"), errors);
    if let Some(strategy) = spec["strategy"].as_str() {
        let place = path.field("strategy");
        // Upstream names the field twice.
        let place = place.field("strategy");
        if strategy.contains('/') {
            for fault in names::qualified(strategy) {
                errors.invalid(place, &spec["strategy"], fault);
            }
        } else if strategy != STRATEGY {
            errors.unsupported(place, &spec["strategy"], &[STRATEGY]);
        }
    }
    if !text(spec, "preferredHolder").is_empty() && text(spec, "strategy").is_empty() {
        errors.forbidden(path.field("preferredHolder"), "may only be specified if `strategy` is defined");
    }
}

/// A new ControllerRevision.
pub fn revision(value: &Value, errors: &mut Errors) {
    not_negative(&value["revision"], &Path::Root.field("revision"), errors);
    match &value["data"] {
        Value::Null => errors.required("data", "data is mandatory"),
        Value::Object(_) => {}
        _ => errors.required("data", "data must be a valid JSON object"),
    }
}

/// What a revision is of stays.
pub(crate) fn revision_update(old: &Value, new: &Value, errors: &mut Errors) {
    not_negative(&new["revision"], &Path::Root.field("revision"), errors);
    if old["data"] != new["data"] {
        errors.invalid_as("data", &format!("{{\"Raw\":{},\"Object\":null}}", new["data"]), "field is immutable");
    }
}

/// An Event: with a moment of its own it is one of the newer kind, which says more.
pub fn event(value: &Value, errors: &mut Errors) {
    let own = text(&value["metadata"], "namespace");
    let of = text(&value["involvedObject"], "namespace");
    let is_new = !value["eventTime"].is_null();
    let agrees = match (of, is_new) {
        ("", false) => matches!(own, "" | "default"),
        ("", true) => matches!(own, "default" | "kube-system"),
        (_, false) => own == of,
        (_, true) => true,
    };
    if !agrees {
        errors.invalid("involvedObject.namespace", &json!(of), "does not match event.namespace");
    }
    if is_new {
        let reporter = text(value, "reportingComponent");
        if reporter.is_empty() {
            errors.required("reportingComponent", "");
        }
        for fault in names::qualified(reporter) {
            errors.invalid("reportingComponent", &json!(reporter), fault);
        }
        for (field, most) in [
            ("reportingInstance", MAX_NAME_LENGTH),
            ("action", MAX_NAME_LENGTH),
            ("reason", MAX_NAME_LENGTH),
            ("message", MAX_NOTE_LENGTH),
        ] {
            let given = text(value, field);
            if given.is_empty() && field != "message" {
                errors.required(field, "");
            }
            if given.len() > most {
                errors.invalid(field, &json!(""), format!("can have at most {most} characters"));
            }
        }
    }
    for fault in names::subdomain(own) {
        errors.invalid("namespace", &json!(own), fault);
    }
}

/// What an Event must be that comes by way of the group events.k8s.io, beyond what every Event must be.
// upstream: pkg/apis/core/validation/events.go ValidateEventCreate, ValidateEventUpdate (v1.36)
pub fn grouped_event(old: Option<&Value>, new: &Value, errors: &mut Errors) {
    // The group calls this one so.
    errors.rename("reportingComponent", "reportingController");
    let Some(old) = old else { return new_event(new, errors) };
    if old["series"] != new["series"] {
        series(new, errors);
    }
    for (field, called, parts) in [
        ("involvedObject", "involvedObject", REFERENCE),
        ("reason", "reason", TEXT),
        ("message", "message", TEXT),
        ("source", "source", SOURCE),
        ("firstTimestamp", "firstTimestamp", OTHER),
        ("lastTimestamp", "lastTimestamp", OTHER),
        ("count", "count", COUNT),
        ("reason", "reason", TEXT),
        ("type", "type", TEXT),
        ("eventTime", "eventTime", OTHER),
        ("action", "action", TEXT),
        ("related", "related", REFERENCE),
        ("reportingComponent", "reportingController", TEXT),
        ("reportingInstance", "reportingInstance", TEXT),
    ] {
        let (had, given) = (in_go(&old[field], parts), in_go(&new[field], parts));
        // A reference that points to nothing is none, but for the one that must be there.
        let absent =
            |value: &Value, shown: String| if field == "related" && value.is_null() { "null".into() } else { shown };
        let (had, given) = (absent(&old[field], had), absent(&new[field], given));
        if had != given {
            errors.invalid_as(called, &given, "field is immutable");
        }
    }
}

fn new_event(value: &Value, errors: &mut Errors) {
    series(value, errors);
    if value["eventTime"].is_null() {
        errors.required("eventTime", "");
    }
    let kind = text(value, "type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid("type", &json!(""), format!("has invalid value: {kind}"));
    }
    let source = &value["source"];
    for (field, is_set) in [
        ("firstTimestamp", !value["firstTimestamp"].is_null()),
        ("lastTimestamp", !value["lastTimestamp"].is_null()),
        ("count", value["count"].as_i64().unwrap_or_default() != 0),
        ("source", !text(source, "component").is_empty() || !text(source, "host").is_empty()),
    ] {
        if is_set {
            errors.invalid(field, &json!(""), "needs to be unset");
        }
    }
}

fn series(value: &Value, errors: &mut Errors) {
    let series = &value["series"];
    if series.is_null() {
        return;
    }
    if series["count"].as_i64().unwrap_or_default() < 2 {
        errors.invalid("series.count", &json!(""), "should be at least 2");
    }
    if series["lastObservedTime"].is_null() {
        errors.required("series.lastObservedTime", "");
    }
}

/// How a field is written in Go: with these parts, or as it is.
type Parts = &'static [(&'static str, &'static str)];

const TEXT: Parts = &[("", "\"\"")];
const COUNT: Parts = &[("", "0")];
const OTHER: Parts = &[("", "null")];
const SOURCE: Parts = &[("Component", "component"), ("Host", "host")];
const REFERENCE: Parts = &[
    ("Kind", "kind"),
    ("Namespace", "namespace"),
    ("Name", "name"),
    ("UID", "uid"),
    ("APIVersion", "apiVersion"),
    ("ResourceVersion", "resourceVersion"),
    ("FieldPath", "fieldPath"),
];

/// A value as Go's JSON shows it, whose structs have other names than what is sent.
fn in_go(value: &Value, parts: Parts) -> String {
    if let [("", absent)] = parts {
        return if value.is_null() { (*absent).to_owned() } else { value.to_string() };
    }
    let shown = parts.iter().map(|(name, field)| format!("\"{name}\":{}", json!(text(value, field))));
    format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_the_group_say_when_and_stay_what_they_are() {
        let good = json!({
            "metadata": { "namespace": "a" }, "involvedObject": { "kind": "Pod", "namespace": "a", "name": "web" },
            "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": "Seen", "action": "See",
            "reportingComponent": "example.com/seer", "reportingInstance": "seer-0",
        });
        let found = |old: Option<&Value>, change: Value| {
            let mut new = good.clone();
            for (field, value) in change.as_object().into_iter().flatten() {
                new[field] = value.clone();
            }
            Errors::found(|errors| {
                event(&new, errors);
                grouped_event(old, &new, errors);
            })
        };
        assert_eq!(found(None, json!({})), [""; 0]);
        assert_eq!(
            found(
                None,
                json!({
                    "type": "Odd", "count": 3, "source": { "component": "seer" }, "series": { "count": 1 },
                    "firstTimestamp": "2026-01-01T00:00:00Z", "reportingComponent": "",
                })
            )[2..],
            [
                format!("reportingController: Invalid value: \"\": {}", names::qualified("")[1]),
                "series.count: Invalid value: \"\": should be at least 2".to_owned(),
                "series.lastObservedTime: Required value".to_owned(),
                "type: Invalid value: \"\": has invalid value: Odd".to_owned(),
                "firstTimestamp: Invalid value: \"\": needs to be unset".to_owned(),
                "count: Invalid value: \"\": needs to be unset".to_owned(),
                "source: Invalid value: \"\": needs to be unset".to_owned(),
            ]
        );
        assert_eq!(found(None, json!({ "eventTime": null })), ["eventTime: Required value"]);
        let series = json!({ "series": { "count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z" } });
        assert_eq!(found(Some(&good), series), [""; 0]);
        assert_eq!(
            found(Some(&good), json!({ "type": "Warning", "related": { "kind": "Node", "name": "n" } })),
            [
                "type: Invalid value: \"Warning\": field is immutable".to_owned(),
                concat!(
                    r#"related: Invalid value: {"Kind":"Node","Namespace":"","Name":"n","UID":"","APIVersion":"","#,
                    r#""ResourceVersion":"","FieldPath":""}: field is immutable"#
                )
                .to_owned(),
            ]
        );
    }

    fn faults(check: fn(&Value, &mut Errors), value: &Value) -> Vec<String> {
        Errors::found(|errors| check(value, errors))
    }

    #[test]
    fn leases() {
        let of = |spec: Value| faults(lease, &json!({ "spec": spec }));
        assert_eq!(
            of(json!({ "leaseDurationSeconds": 15, "leaseTransitions": 0, "strategy": "a.example/b" })),
            [""; 0]
        );
        assert_eq!(
            of(json!({ "leaseDurationSeconds": 0, "leaseTransitions": -1 })),
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ]
        );
        assert_eq!(
            of(json!({ "preferredHolder": "a" })),
            ["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"]
        );
        assert_eq!(
            of(json!({ "strategy": "x" })),
            ["spec.strategy.strategy: Unsupported value: \"x\": supported values: \"OldestEmulationVersion\""]
        );
    }

    #[test]
    fn revisions_have_data_that_stays() {
        assert_eq!(faults(revision, &json!({ "data": {}, "revision": 1 })), [""; 0]);
        assert_eq!(
            faults(revision, &json!({ "revision": -1 })),
            [
                "revision: Invalid value: -1: must be greater than or equal to 0",
                "data: Required value: data is mandatory"
            ]
        );
        assert_eq!(
            faults(revision, &json!({ "data": [] })),
            ["data: Required value: data must be a valid JSON object"]
        );
        let mut errors = Errors::default();
        revision_update(&json!({ "data": {} }), &json!({ "data": { "a": 1 } }), &mut errors);
        assert_eq!(errors.texts(), ["data: Invalid value: {\"Raw\":{\"a\":1},\"Object\":null}: field is immutable"]);
    }

    #[test]
    fn events_are_of_objects_of_their_namespace() {
        let of = |own: &str, object: &str| json!({ "metadata": { "namespace": own }, "involvedObject": { "namespace": object } });
        for (own, object, good) in [("default", "", true), ("a", "a", true), ("a", "b", false), ("a", "", false)] {
            assert_eq!(faults(event, &of(own, object)).is_empty(), good, "{own} {object}");
        }
        let mut newer = of("a", "a");
        newer["eventTime"] = json!("2026-01-01T00:00:00.000000Z");
        newer["action"] = json!("a".repeat(129));
        assert_eq!(
            faults(event, &newer),
            [
                "reportingComponent: Required value".to_owned(),
                "reportingComponent: Invalid value: \"\": name part must be non-empty".to_owned(),
                format!("reportingComponent: Invalid value: \"\": {}", names::qualified("")[1]),
                "reportingInstance: Required value".to_owned(),
                "action: Invalid value: \"\": can have at most 128 characters".to_owned(),
                "reason: Required value".to_owned(),
            ]
        );
    }
}
