//! Events of the cluster's own parts: there are more of them than all other objects together, so that they are written as
//! text at once, in the form in which the rules for what clients send would leave them.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::{Cluster, WriteOptions, time_text};
use crate::cluster::Transaction;
use crate::object::Object;
use crate::resource::{EVENTS, RESOURCE_QUOTAS};
use crate::status::Status;

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

impl Cluster {
    /// Creates an event.
    ///
    /// # Errors
    /// The Status an API server would answer with.
    pub(crate) fn create_event(
        &self,
        namespace: &str,
        name: &str,
        event: &NewEvent<'_>,
        options: &WriteOptions<'_>,
    ) -> Result<Arc<Object>, Status> {
        self.transact(options, |transaction| transaction.create_event(namespace, name, event))
    }
}

impl Transaction<'_> {
    fn create_event(&mut self, namespace: &str, name: &str, event: &NewEvent<'_>) -> Result<Arc<Object>, Status> {
        if self.state.store.list(RESOURCE_QUOTAS, Some(namespace)).next().is_some() {
            // Quotas count events, too: this one takes the way of all objects.
            let mut value = serde_json::to_value(event).unwrap_or_default();
            value["metadata"] = json!({ "name": name, "namespace": namespace });
            return self.create(EVENTS, namespace, value);
        }
        self.namespace_accepts(EVENTS, namespace, name)?;
        if self.state.store.get(EVENTS, namespace, name).is_some() {
            return Err(Status::already_exists(EVENTS.row(), name));
        }
        self.has_room(EVENTS, name)?;
        let uid = self.state.random.uid();
        let version = self.state.store.next_version();
        let row = EVENTS.row();
        let whole = Whole {
            kind: row.kind,
            api_version: &row.api_version(),
            metadata: Metadata {
                name,
                namespace,
                uid: &uid,
                resource_version: &version.to_string(),
                creation_timestamp: &time_text(self.now),
            },
            event,
        };
        // Strings and trees of strings always serialise.
        let text = serde_json::to_vec(&whole).unwrap_or_default();
        debug_assert!(self.is_canonical(&text), "{}", String::from_utf8_lossy(&text));
        Ok(self.store(Object::of_text(EVENTS, namespace, name, &uid, version, &text)))
    }

    /// Whether the rules for what clients send would leave an event as it is.
    fn is_canonical(&mut self, text: &[u8]) -> bool {
        let Ok(value) = serde_json::from_slice::<Value>(text) else { return false };
        let version = value["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        let mut decoded = value.clone();
        self.decode(EVENTS, &mut decoded).is_ok()
            && decoded == value
            && *Object::new(EVENTS, version.unwrap_or_default(), &value).json == *text
    }
}
