//! Events of the cluster's own parts: there are more of them than all other objects together, so that they are written as
//! text at once, in the form in which the rules for what clients send would leave them.

use std::sync::Arc;

use klab_api_machinery::managed_fields::ManagedFields;
use klab_api_machinery::object::Object;
use klab_api_machinery::part::Part;
use klab_api_machinery::resource::{EVENTS, RESOURCE_QUOTAS};
use klab_api_machinery::status::Status;
use klab_api_machinery::value::time_text;
use klab_api_machinery::views::metadata;
use serde::Serialize;
use serde_json::{Value, json};

use super::capacity::has_room;
use super::decode::decode;
use super::stages::namespace_accepts;
use super::write::create;
use crate::transaction::Transaction;
use klab_fields::track;

/// A core event, in the order in which API servers write its fields.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewEvent<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) action: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<i64>,
    pub(crate) event_time: Option<&'a str>,
    pub(crate) first_timestamp: Option<&'a str>,
    pub(crate) involved_object: &'a Value,
    pub(crate) last_timestamp: Option<&'a str>,
    pub(crate) message: &'a str,
    pub(crate) reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) related: Option<&'a Value>,
    pub(crate) reporting_component: &'a str,
    pub(crate) reporting_instance: &'a str,
    pub(crate) source: EventSource<'a>,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub(crate) kind: &'a str,
}

/// Who wrote an event, in the older of its two forms.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct EventSource<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) component: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) host: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    resource_version: &'a str,
    creation_timestamp: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Whole<'a> {
    kind: &'a str,
    api_version: &'a str,
    metadata: Metadata<'a>,
    #[serde(flatten)]
    event: &'a NewEvent<'a>,
}

/// Who manages the fields of a new event.
fn managers(event: &NewEvent<'_>, manager: &str, now: &str) -> String {
    let is_there = |text: Option<&str>| text.is_some_and(|text| !text.is_empty());
    let fields = [
        ("action", is_there(event.action)),
        ("count", event.count.is_some_and(|count| count != 0)),
        ("eventTime", event.event_time.is_some()),
        ("firstTimestamp", event.first_timestamp.is_some()),
        ("involvedObject", event.involved_object.as_object().is_some_and(|object| !object.is_empty())),
        ("lastTimestamp", event.last_timestamp.is_some()),
        ("message", !event.message.is_empty()),
        ("reason", !event.reason.is_empty()),
        ("related", event.related.is_some()),
        ("reportingComponent", !event.reporting_component.is_empty()),
        ("reportingInstance", !event.reporting_instance.is_empty()),
    ];
    let mut owned: Vec<String> =
        fields.iter().filter(|(_, is_there)| *is_there).map(|(field, _)| format!("\"f:{field}\":{{}}")).collect();
    let source = [("component", event.source.component), ("host", event.source.host)];
    let source: Vec<String> =
        source.iter().filter(|(_, text)| !text.is_empty()).map(|(field, _)| format!("\"f:{field}\":{{}}")).collect();
    if !source.is_empty() {
        owned.push(format!("\"f:source\":{{{}}}", source.join(",")));
    }
    if !event.kind.is_empty() {
        owned.push("\"f:type\":{}".to_owned());
    }
    format!(
        r#"[{{"manager":{},"operation":"Update","apiVersion":"v1","time":"{now}","fieldsType":"FieldsV1","fieldsV1":{{{}}}}}]"#,
        json!(manager),
        owned.join(",")
    )
}

pub(crate) fn create_event(
    transaction: &mut Transaction<'_>,
    namespace: &str,
    name: &str,
    event: &NewEvent<'_>,
) -> Result<Arc<Object>, Status> {
    if transaction.state.store.list(RESOURCE_QUOTAS, Some(namespace)).next().is_some() {
        // Quotas count events, too: this one takes the way of all objects.
        let mut value = serde_json::to_value(event).unwrap_or_default();
        value["metadata"] = json!({ "name": name, "namespace": namespace });
        return create(transaction, EVENTS, namespace, value);
    }
    namespace_accepts(transaction, EVENTS, namespace, name)?;
    if transaction.state.store.get(EVENTS, namespace, name).is_some() {
        return Err(Status::already_exists(EVENTS.row(), name));
    }
    has_room(transaction, EVENTS, name)?;
    let uid = transaction.state.random.uid();
    let version = transaction.state.store.next_version();
    let row = EVENTS.row();
    let whole = Whole {
        kind: row.kind,
        api_version: &row.api_version(),
        metadata: Metadata {
            name,
            namespace,
            uid: &uid,
            resource_version: &version.to_string(),
            creation_timestamp: &time_text(transaction.now),
        },
        event,
    };
    // Strings and trees of strings always serialise.
    let text = serde_json::to_vec(&whole).unwrap_or_default();
    debug_assert!(is_canonical(transaction, &text), "{}", String::from_utf8_lossy(&text));
    let managed = ManagedFields::of(&managers(event, transaction.options.called(), &time_text(transaction.now)));
    debug_assert_eq!(Some(&managed), managers_of(transaction, &text).as_ref(), "{}", String::from_utf8_lossy(&text));
    Ok(transaction.store(Arc::new(Object::of_text(EVENTS, namespace, name, &uid, version, &text, Some(managed)))))
}

/// Who manages a new event by the rules for what clients send.
fn managers_of(transaction: &Transaction<'_>, text: &[u8]) -> Option<ManagedFields> {
    let mut value: Value = serde_json::from_slice(text).ok()?;
    track(None, &mut value, &transaction.writer(EVENTS, Part::Main)).and_then(|managed| managed.kept(EVENTS))
}

/// Whether the rules for what clients send would leave an event as it is.
fn is_canonical(transaction: &mut Transaction<'_>, text: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(text) else { return false };
    let version = metadata(&value).resource_version().parse().ok();
    let mut decoded = value.clone();
    decode(transaction, EVENTS, &mut decoded).is_ok()
        && decoded == value
        && Object::new(EVENTS, version.unwrap_or_default(), &value).json == *text
}
