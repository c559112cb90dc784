//! What the parts of a cluster write down: Leases, ControllerRevisions, Events.

// upstream: pkg/apis/coordination/validation/validation.go ValidateLeaseSpec (v1.36)
// upstream: pkg/apis/apps/validation/validation.go ValidateControllerRevisionCreate (v1.36)
// upstream: pkg/apis/core/validation/events.go legacyValidateEvent (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::{Errors, Place};
use crate::views::{ControllerRevision, Event, LeaseSpec, ObjectReference};

const STRATEGY: &str = "OldestEmulationVersion";
const MAX_NAME_LENGTH: usize = 128;
const MAX_NOTE_LENGTH: usize = 1024;

/// A Lease.
pub fn lease(value: &Value, errors: &mut Errors) {
    let spec = Place::<LeaseSpec<'_>>::of_spec(value);
    spec.lease_duration_seconds().within(1.., "must be greater than 0", errors);
    spec.lease_transitions().not_negative(errors);
    let (strategy, holder) = (spec.strategy(), spec.preferred_holder());
    // Upstream names the field twice.
    let twice = strategy.called(strategy.path.field("strategy"));
    if strategy.text().contains('/') {
        twice.check(names::qualified, errors);
    } else {
        twice.supported(&[STRATEGY], errors);
    }
    if !holder.text().is_empty() && strategy.text().is_empty() {
        errors.forbidden(holder, "may only be specified if `strategy` is defined");
    }
}

/// A new ControllerRevision.
pub fn revision(value: &Value, errors: &mut Errors) {
    let revision = Place::<ControllerRevision<'_>>::root(value);
    revision.revision().not_negative(errors);
    match revision.data().json {
        Value::Null => errors.required(revision.data(), "data is mandatory"),
        Value::Object(_) => {}
        _ => errors.required(revision.data(), "data must be a valid JSON object"),
    }
}

/// What a revision is of stays.
pub(crate) fn revision_update(old: &Value, new: &Value, errors: &mut Errors) {
    let (old, new) = (ControllerRevision(old), Place::<ControllerRevision<'_>>::root(new));
    new.revision().not_negative(errors);
    if old.data() != *new.data() {
        let shown = format!("{{\"Raw\":{},\"Object\":null}}", *new.data());
        errors.invalid_as(new.data(), &shown, "field is immutable");
    }
}

/// An Event: with a moment of its own it is one of the newer kind, which says more.
pub fn event(value: &Value, errors: &mut Errors) {
    let event = Place::<Event<'_>>::root(value);
    let (metadata, object) = (event.metadata(), event.involved_object());
    let (own, of) = (*metadata.namespace(), object.namespace());
    let is_new = event.event_time().is_set();
    let agrees = match (*of, is_new) {
        ("", false) => matches!(own, "" | "default"),
        ("", true) => matches!(own, "default" | "kube-system"),
        (of, false) => own == of,
        (_, true) => true,
    };
    if !agrees {
        errors.invalid_text(&of, "does not match event.namespace");
    }
    if is_new {
        event.reporting_component().needed(errors);
        event.reporting_component().check(names::qualified, errors);
        let names = [event.reporting_instance(), event.action(), event.reason()];
        let each = names.iter().map(|name| (name, MAX_NAME_LENGTH));
        for (text, most) in each.chain([(&event.message(), MAX_NOTE_LENGTH)]) {
            if most == MAX_NAME_LENGTH {
                text.needed(errors);
            }
            if text.len() > most {
                errors.invalid(text, &json!(""), format!("can have at most {most} characters"));
            }
        }
    }
    errors.faults(&"namespace", own, names::subdomain);
}

/// What an Event must be that comes by way of the group events.k8s.io, beyond what every Event must be.
// upstream: pkg/apis/core/validation/events.go ValidateEventCreate, ValidateEventUpdate (v1.36)
pub fn grouped_event(old: Option<&Value>, new: &Value, errors: &mut Errors) {
    // The group calls this one so.
    errors.rename("reportingComponent", "reportingController");
    let new = Place::<Event<'_>>::root(new);
    let Some(old) = old.map(Place::<Event<'_>>::root) else { return new_event(&new, errors) };
    if old.series().json != new.series().json {
        series(&new, errors);
    }
    for (_, (field, has)) in in_go(&old).into_iter().zip(in_go(&new)).filter(|(had, has)| had != has) {
        errors.invalid_as(field, &has, "field is immutable");
    }
}

fn new_event(event: &Place<'_, Event<'_>>, errors: &mut Errors) {
    series(event, errors);
    if !event.event_time().is_set() {
        errors.required(event.event_time(), "");
    }
    let kind = event.type_();
    if !matches!(*kind, "Normal" | "Warning") {
        errors.invalid(kind, &json!(""), format!("has invalid value: {}", *kind));
    }
    let (first, last, count, source) = (event.first_timestamp(), event.last_timestamp(), event.count(), event.source());
    let has_source = !source.component().is_empty() || !source.host().is_empty();
    for (field, is_set) in
        [(first.path, first.is_set()), (last.path, last.is_set()), (count.path, *count != 0), (source.path, has_source)]
    {
        if is_set {
            errors.invalid(field, &json!(""), "needs to be unset");
        }
    }
}

fn series(event: &Place<'_, Event<'_>>, errors: &mut Errors) {
    let series = event.series();
    if series.is_set() && *series.count() < 2 {
        errors.invalid(series.count(), &json!(""), "should be at least 2");
    }
    if series.is_set() && !series.last_observed_time().is_set() {
        errors.required(series.last_observed_time(), "");
    }
}

/// The fields of an Event that stay, as the group calls them and as Go's JSON shows them, whose structs have other names than
/// what is sent.
fn in_go(event: &Place<'_, Event<'_>>) -> [(&'static str, String); 14] {
    let text = |text: &str| json!(text).to_string();
    let parts = |parts: &[(&str, &str)]| {
        let shown = parts.iter().map(|(name, value)| format!("\"{name}\":{}", text(value)));
        format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
    };
    let reference = |object: &Place<'_, ObjectReference<'_>>| {
        parts(&[
            ("Kind", *object.kind()),
            ("Namespace", *object.namespace()),
            ("Name", *object.name()),
            ("UID", *object.uid()),
            ("APIVersion", *object.api_version()),
            ("ResourceVersion", *object.resource_version()),
            ("FieldPath", *object.field_path()),
        ])
    };
    let (source, related, reason) = (event.source(), event.related(), text(*event.reason()));
    [
        ("involvedObject", reference(&event.involved_object())),
        ("reason", reason.clone()),
        ("message", text(*event.message())),
        ("source", parts(&[("Component", *source.component()), ("Host", *source.host())])),
        ("firstTimestamp", event.first_timestamp().json.to_string()),
        ("lastTimestamp", event.last_timestamp().json.to_string()),
        ("count", json!(*event.count()).to_string()),
        // As upstream, which looks twice.
        ("reason", reason),
        ("type", text(*event.type_())),
        ("eventTime", event.event_time().json.to_string()),
        ("action", text(*event.action())),
        // A reference that points to nothing is none, but for the one that must be there.
        ("related", if related.is_set() { reference(&related) } else { "null".to_owned() }),
        ("reportingController", text(*event.reporting_component())),
        ("reportingInstance", text(*event.reporting_instance())),
    ]
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
