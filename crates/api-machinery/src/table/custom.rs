//! Tables of custom resources: the columns their definition asks for.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor/tableconvertor.go ConvertToTable (v1.36)

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use super::columns::Column;

/// One of `additionalPrinterColumns`.
#[derive(Debug, Clone)]
pub struct PrinterColumn {
    name: String,
    kind: String,
    format: String,
    priority: u8,
    /// Field names of the `jsonPath`; only plain paths are followed.
    path: Vec<String>,
}

impl PrinterColumn {
    pub(crate) fn column(&self) -> Column<'_> {
        Column { name: &self.name, kind: &self.kind, format: &self.format, priority: self.priority }
    }
}

/// The columns of a custom kind; Name and Age where its definition names none.
pub fn printer_columns(definition: &Value, version: &str) -> Vec<PrinterColumn> {
    let mut versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let version = versions.find(|known| known["name"] == version).unwrap_or(&Value::Null);
    let mut columns = vec![PrinterColumn {
        name: "Name".to_owned(),
        kind: "string".to_owned(),
        format: "name".to_owned(),
        priority: 0,
        path: vec!["metadata".to_owned(), "name".to_owned()],
    }];
    match version["additionalPrinterColumns"].as_array() {
        Some(wanted) if !wanted.is_empty() => columns.extend(wanted.iter().map(|column| {
            let text = |field: &str| column[field].as_str().unwrap_or_default().to_owned();
            PrinterColumn {
                name: text("name"),
                kind: text("type"),
                format: text("format"),
                priority: u8::try_from(column["priority"].as_i64().unwrap_or_default()).unwrap_or(1),
                path: path(&text("jsonPath")),
            }
        })),
        _ => columns.push(PrinterColumn {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            priority: 0,
            path: vec!["metadata".to_owned(), "creationTimestamp".to_owned()],
        }),
    }
    columns
}

/// `.spec.size`, `.metadata.labels['a.b']`, `.spec.list[0]`
fn path(text: &str) -> Vec<String> {
    let (mut parts, mut part, mut bracket) = (Vec::new(), String::new(), false);
    let mut end = |part: &mut String| {
        if !part.is_empty() {
            parts.push(std::mem::take(part));
        }
    };
    for character in text.chars() {
        match character {
            '.' if !bracket => end(&mut part),
            '[' | ']' => {
                end(&mut part);
                bracket = character == '[';
            }
            '\'' | '"' if bracket => {}
            '\\' => {}
            other => part.push(other),
        }
    }
    end(&mut part);
    parts
}

pub(super) fn cells(columns: &[PrinterColumn], object: &Value, now: Timestamp) -> Vec<Value> {
    columns
        .iter()
        .map(|column| {
            let found = column.path.iter().fold(object, |value, part| match part.parse::<usize>() {
                Ok(index) if value.is_array() => &value[index],
                _ => &value[part.as_str()],
            });
            match (column.kind.as_str(), found) {
                (_, Value::Null) => Value::Null,
                ("date", value) => json!(age::since(value, now)),
                ("string", Value::String(text)) => json!(text),
                ("string", other) => json!(other.to_string()),
                (_, other) => other.clone(),
            }
        })
        .collect()
}
