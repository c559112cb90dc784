//! Tables: what `kubectl get` prints, made on the server.

mod age;
mod columns;
mod core;
mod custom;
mod other;
mod pods;
mod row;
mod workloads;

use std::fmt::Write;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::columns::{Column, columns};
use self::row::Row;
use super::api::versions;
use super::cluster::Cluster;
use super::object::Object;
use super::resource::{self, ResourceId};

/// What a row carries besides its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Included {
    /// The object's metadata.
    Metadata,
    /// The whole object.
    Object,
    /// Nothing.
    None,
}

/// A Table as JSON text. `metadata` is the list metadata, already JSON; `with_columns` is false for all but the first
/// event of a watch.
pub(crate) fn document(
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
            Included::Object => text.push_str(&String::from_utf8_lossy(&versions::text(resource, object))),
            Included::Metadata => {
                text.push_str("{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":");
                text.push_str(object.metadata_text());
                text.push('}');
            }
        }
        text.push('}');
    }
    text.push_str("]}");
    text
}

/// The Table of a Scale.
pub(crate) fn scale(scale: &Value, now: Timestamp) -> String {
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
pub(crate) fn metrics(items: &[(String, String, String)], now: Timestamp) -> String {
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

#[cfg(test)]
mod tests;
