//! Tables: what `kubectl get` prints, made on the server.

mod age;
mod columns;
mod core;
mod custom;
mod other;
mod pods;
mod workloads;

use std::fmt::Write;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::columns::{Column, columns};
use super::cluster::Cluster;
use super::object::Object;
use super::resource::{self, ResourceId};

/// What a row carries besides its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Included {
    /// The object's metadata.
    Metadata,
    /// The whole object.
    Object,
    /// Nothing.
    None,
}

/// A Table as JSON text. `metadata` is the list metadata, already JSON; `with_columns` is false for all but the first
/// event of a watch.
pub fn document(
    cluster: &Cluster,
    resource: ResourceId,
    metadata: &str,
    objects: &[&Object],
    included: Included,
    with_columns: bool,
    now: Timestamp,
) -> String {
    let custom = resource.row().custom.then(|| custom::printer_columns(cluster, resource));
    let mut text = format!("{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata}");
    text.push_str(",\"columnDefinitions\":");
    if with_columns {
        text.push('[');
        match &custom {
            Some(columns) => write_columns(&mut text, columns.iter().map(custom::PrinterColumn::column)),
            None => write_columns(&mut text, columns(resource)),
        }
        text.push(']');
    } else {
        text.push_str("null");
    }
    text.push_str(",\"rows\":[");
    for (at, object) in objects.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        let value = object.value();
        let cells = match &custom {
            Some(columns) => custom::cells(columns, &value, now),
            None => cells(resource, &value, now),
        };
        let _ = write!(text, "{{\"cells\":{},\"object\":", Value::Array(cells));
        match included {
            Included::None => text.push_str("null"),
            Included::Object => text.push_str(&String::from_utf8_lossy(&super::api::object_text(resource, object))),
            Included::Metadata => {
                text.push_str("{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":");
                text.push_str(super::api::metadata_text(object));
                text.push('}');
            }
        }
        text.push('}');
    }
    text.push_str("]}");
    text
}

/// The Table of a Scale.
pub fn scale(scale: &Value, now: Timestamp) -> String {
    let row = Row { object: scale, now };
    let metadata = format!("{{\"resourceVersion\":{}}}", scale["metadata"]["resourceVersion"]);
    let columns = ["Name:name", "Desired:integer", "Available:integer", "Age"];
    let cells = json!([row.name(), row.number("spec.replicas"), row.number("status.replicas"), row.age()]);
    let object = json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": scale["metadata"],
    });
    small(&metadata, &columns, &[(cells, object)])
}

/// The Table of the metrics API, whose objects print as name and age only. Items are namespace, name, JSON text.
pub fn metrics(items: &[(String, String, String)], now: Timestamp) -> String {
    let rows: Vec<(Value, Value)> = items
        .iter()
        .map(|(_, _, text)| {
            let object: Value = serde_json::from_str(text).unwrap_or_default();
            let row = Row { object: &object, now };
            let cells = json!([row.name(), row.age()]);
            let object = json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"],
            });
            (cells, object)
        })
        .collect();
    small("{}", &["Name:name", "Age"], &rows)
}

fn small(metadata: &str, columns: &[&str], rows: &[(Value, Value)]) -> String {
    let mut text = format!(
        "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata},\"columnDefinitions\":["
    );
    write_columns(&mut text, columns.iter().map(|column| columns::column(column)));
    text.push_str("],\"rows\":[");
    for (at, (cells, object)) in rows.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        let _ = write!(text, "{{\"cells\":{cells},\"object\":{object}}}");
    }
    text.push_str("]}");
    text
}

fn write_columns<'a>(text: &mut String, columns: impl Iterator<Item = Column<'a>>) {
    for (at, column) in columns.enumerate() {
        if at > 0 {
            text.push(',');
        }
        let _ = write!(
            text,
            "{{\"name\":{},\"type\":\"{}\",\"format\":\"{}\",\"description\":\"\",\"priority\":{}}}",
            json!(column.name),
            column.kind,
            column.format,
            column.priority
        );
    }
}

/// The cells of a built-in kind, in the order of its columns.
fn cells(resource: ResourceId, object: &Value, now: Timestamp) -> Vec<Value> {
    let row = Row { object, now };
    match resource {
        resource::PODS => pods::pod(&row),
        resource::NODES => core::node(&row),
        resource::NAMESPACES => core::namespace(&row),
        resource::SERVICES => core::service(&row),
        resource::ENDPOINTS => core::endpoints(&row),
        resource::ENDPOINT_SLICES => core::endpoint_slice(&row),
        resource::CONFIG_MAPS => core::config_map(&row),
        resource::SECRETS => core::secret(&row),
        resource::EVENTS | resource::GROUPED_EVENTS => core::event(&row),
        resource::RESOURCE_QUOTAS => core::resource_quota(&row),
        resource::PERSISTENT_VOLUMES => core::volume(&row),
        resource::PERSISTENT_VOLUME_CLAIMS => core::volume_claim(&row),
        resource::POD_TEMPLATES => core::pod_template(&row),
        resource::DEPLOYMENTS => workloads::deployment(&row),
        resource::REPLICA_SETS | resource::REPLICATION_CONTROLLERS => workloads::replica_set(&row),
        resource::STATEFUL_SETS => workloads::stateful_set(&row),
        resource::DAEMON_SETS => workloads::daemon_set(&row),
        resource::CONTROLLER_REVISIONS => workloads::controller_revision(&row),
        resource::JOBS => workloads::job(&row),
        resource::CRON_JOBS => workloads::cron_job(&row),
        resource::HORIZONTAL_POD_AUTOSCALERS | resource::HORIZONTAL_POD_AUTOSCALERS_V1 => {
            workloads::horizontal_pod_autoscaler(&row)
        }
        resource::POD_DISRUPTION_BUDGETS => workloads::pod_disruption_budget(&row),
        resource::PRIORITY_CLASSES => workloads::priority_class(&row),
        _ => other::cells(resource, &row),
    }
}

/// One object on its way to be cells.
struct Row<'a> {
    object: &'a Value,
    now: Timestamp,
}

impl<'a> Row<'a> {
    /// The value at a path like `spec.nodeName`.
    fn at(&self, path: &str) -> &'a Value {
        path.split('.').fold(self.object, |value, field| &value[field])
    }

    fn text(&self, path: &str) -> &'a str {
        self.at(path).as_str().unwrap_or_default()
    }

    /// The text at a path, or `otherwise` when there is none.
    fn text_or(&self, path: &str, otherwise: &str) -> Value {
        let text = self.text(path);
        json!(if text.is_empty() { otherwise } else { text })
    }

    fn number(&self, path: &str) -> i64 {
        self.at(path).as_i64().unwrap_or_default()
    }

    fn list(&self, path: &str) -> &'a [Value] {
        self.at(path).as_array().map_or(&[], Vec::as_slice)
    }

    fn name(&self) -> Value {
        json!(self.text("metadata.name"))
    }

    fn age(&self) -> Value {
        json!(age::since(self.at("metadata.creationTimestamp"), self.now))
    }

    fn created(&self) -> Value {
        self.at("metadata.creationTimestamp").clone()
    }
}

/// `a,b`, in order.
fn names<'a>(list: &'a [Value], field: &str) -> String {
    list.iter().map(|item| item[field].as_str().unwrap_or_default()).collect::<Vec<&'a str>>().join(",")
}

/// `k=v,…` sorted, `<none>` when empty.
fn labels(map: &Value) -> String {
    let mut pairs: Vec<String> = map
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.sort();
    none_if_empty(pairs.join(","))
}

/// A LabelSelector as text.
fn label_selector(selector: &Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        parts.push(format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        parts.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    parts.sort();
    none_if_empty(parts.join(","))
}

fn none_if_empty(text: String) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text }
}

/// The text of a number or string (IntOrString), `otherwise` when there is none.
fn scalar(value: &Value, otherwise: &str) -> Value {
    match value {
        Value::Null => json!(otherwise),
        Value::String(text) => json!(text),
        other => json!(other.to_string()),
    }
}

#[cfg(test)]
mod tests;
