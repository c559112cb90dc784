//! Tables as documents: columns and rows as JSON text.

use std::fmt::Write;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::columns::{self, Column, columns};
use super::custom;
use super::row::Row;
use crate::object::Object;

/// How the objects of a kind are printed.
pub enum Printer {
    /// Its columns, and the cells of an object.
    Fixed(&'static str, fn(&Row<'_>) -> Vec<Value>),
    /// The columns that a definition names.
    Custom(Vec<custom::PrinterColumn>),
}

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
    printer: &Printer,
    metadata: &str,
    objects: &[&Object],
    included: Included,
    whole: impl Fn(&Object) -> Bytes,
    with_columns: bool,
    now: Timestamp,
) -> String {
    let mut text = format!("{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata}");
    text.push_str(",\"columnDefinitions\":");
    if with_columns {
        text.push('[');
        match printer {
            Printer::Fixed(specification, _) => write_columns(&mut text, columns(specification)),
            Printer::Custom(columns) => {
                write_columns(&mut text, columns.iter().map(custom::PrinterColumn::column));
            }
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
        let cells = match printer {
            Printer::Fixed(_, cells) => cells(&Row { object: &value, now }),
            Printer::Custom(columns) => custom::cells(columns, &value, now),
        };
        let _ = write!(text, "{{\"cells\":{},\"object\":", Value::Array(cells));
        match included {
            Included::None => text.push_str("null"),
            Included::Object => text.push_str(&String::from_utf8_lossy(&whole(object))),
            Included::Metadata => {
                text.push_str("{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":");
                text.push_str(&object.metadata_text());
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
