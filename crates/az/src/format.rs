//! The output formats of az: json, jsonc, yaml, yamlc, table, tsv, none.

use serde_json::{Map, Value};

use crate::query::Found;
use crate::refusal::Refusal;

/// A row of a table: titles and cells.
pub type Row = Vec<(String, Value)>;

/// How a command of az shows its result as a table, where that is not column by column.
pub type Transformer = fn(&Value) -> Vec<Row>;

/// Keys that az leaves out of tables.
const SKIPPED: [&str; 3] = ["id", "type", "etag"];

/// Writes a result. `None` is a command that has none.
///
/// # Errors
/// When it cannot be shown as a table.
pub fn write(
    format: &str,
    result: &Value,
    query: Option<&Found>,
    transformer: Option<Transformer>,
) -> Result<String, Refusal> {
    let value = query.map_or(result, |found| &found.value);
    let order = query.and_then(|found| found.order.as_deref());
    match format {
        "none" => Ok(String::new()),
        "yaml" | "yamlc" => serde_saphyr::to_string(value).map_err(|error| Refusal::new(error.to_string())),
        "tsv" => Ok(tsv(value, order)),
        "table" => table(value, order, transformer.filter(|_| query.is_none())),
        _ => {
            serde_json::to_string_pretty(value).map(|text| text + "\n").map_err(|error| Refusal::new(error.to_string()))
        }
    }
}

/// The entries of an object in the order in which they are shown.
fn entries<'v>(object: &'v Map<String, Value>, order: Option<&[String]>) -> Vec<(&'v String, &'v Value)> {
    let mut entries: Vec<_> = object.iter().collect();
    if let Some(order) = order {
        let place = |key: &String| order.iter().position(|known| known == key).unwrap_or(usize::MAX);
        entries.sort_by_key(|(key, _)| place(key));
    }
    entries
}

fn table(value: &Value, order: Option<&[String]>, transformer: Option<Transformer>) -> Result<String, Refusal> {
    let rows: Vec<Row> = match (transformer, value) {
        (Some(transformer), value) => transformer(value).into_iter().map(shown).collect(),
        (None, Value::Array(items)) => items.iter().map(|item| row(item, order)).collect(),
        (None, value) => vec![row(value, order)],
    };
    if rows.is_empty() {
        return Ok(String::new());
    }
    let mut titles: Vec<&String> = Vec::new();
    for (title, _) in rows.iter().flatten() {
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    if titles.is_empty() {
        let message = "Table output unavailable. Use the --query option to specify an appropriate query. Use --debug for more info.";
        return Err(Refusal::new(message));
    }
    let cell = |row: &Row, title: &String| {
        row.iter().find(|(known, _)| known == title).map_or_else(String::new, |(_, value)| scalar(value))
    };
    let mut lines: Vec<Vec<String>> = vec![titles.iter().map(|title| (*title).clone()).collect(), Vec::new()];
    lines.extend(rows.iter().map(|row| titles.iter().map(|title| cell(row, title)).collect()));
    // The library that az uses keeps two columns free beside a title.
    let width = |column: usize| {
        let cells = lines.iter().skip(2).filter_map(|line| line.get(column)).map(|cell| cell.chars().count());
        cells.max().unwrap_or_default().max(titles[column].chars().count() + 2)
    };
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    lines[1] = widths.iter().map(|width| "-".repeat(*width)).collect();
    let line = |cells: &Vec<String>| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    Ok(lines.iter().map(line).collect())
}

/// A row without what a table cannot show, its titles with a capital first.
fn shown(row: Row) -> Row {
    let visible = row.into_iter().filter(|(_, value)| !(value.is_null() || value.is_array() || value.is_object()));
    visible.map(|(title, value)| (capital_first(&title), value)).collect()
}

fn row(item: &Value, order: Option<&[String]>) -> Row {
    match item {
        Value::Object(object) => {
            let visible = entries(object, order).into_iter().filter(|(key, _)| !SKIPPED.contains(&key.as_str()));
            shown(visible.map(|(key, value)| (key.clone(), value.clone())).collect())
        }
        Value::Array(values) => {
            let numbered = values.iter().enumerate();
            numbered.map(|(index, value)| (format!("Column{}", index.saturating_add(1)), value.clone())).collect()
        }
        value => vec![("Result".to_owned(), value.clone())],
    }
}

/// `Free` for `free`.
pub fn capital_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

/// A value as Python writes it, in which az is written.
fn scalar(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

fn tsv(value: &Value, order: Option<&[String]>) -> String {
    let field = |value: &Value| match value {
        Value::Null => "None".to_owned(),
        Value::Array(items) => items.len().to_string(),
        Value::Object(_) => String::new(),
        value => scalar(value),
    };
    let line = |item: &Value| match item {
        Value::Object(object) => {
            entries(object, order).iter().map(|(_, value)| field(value)).collect::<Vec<_>>().join("\t")
        }
        Value::Array(items) => items.iter().map(field).collect::<Vec<_>>().join("\t"),
        Value::Bool(truth) => truth.to_string(),
        value => field(value),
    };
    let items = match value {
        Value::Array(items) => items.as_slice(),
        value => std::slice::from_ref(value),
    };
    items.iter().map(|item| line(item) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::search;
    use serde_json::json;

    fn written(format: &str, value: &Value, query: Option<&str>) -> String {
        let found = query.map(|expression| search(expression, value).unwrap());
        write(format, value, found.as_ref(), None).unwrap()
    }

    #[test]
    fn tables_are_laid_out_as_those_of_az() {
        let pools = json!([
            { "name": "nodepool1", "count": 2, "id": "/x", "labels": {}, "scaling": true, "none": null },
            { "name": "extra", "count": 10, "id": "/y", "labels": {}, "scaling": false, "none": 1 },
        ]);
        assert_eq!(
            written("table", &pools, None),
            "Count    Name       Scaling    None\n\
             -------  ---------  ---------  ------\n\
             2        nodepool1  True\n\
             10       extra      False      1\n"
        );
        assert_eq!(
            written("table", &pools, Some("[].{Pool:name, Count:count}")),
            "Pool       Count\n---------  -------\nnodepool1  2\nextra      10\n"
        );
        assert_eq!(
            written("table", &pools, Some("[].[name, count]")),
            "Column1    Column2\n---------  ---------\nnodepool1  2\nextra      10\n"
        );
        assert_eq!(written("table", &pools, Some("[].name")), "Result\n---------\nnodepool1\nextra\n");
        assert_eq!(written("table", &json!([]), None), "");
    }

    #[test]
    fn values_are_written_for_scripts() {
        let document = json!({ "b": "two", "a": 1, "list": [1, 2], "map": {}, "none": null, "yes": true });
        for (query, expected) in [
            (None, "1\ttwo\t2\t\tNone\tTrue\n"),
            (Some("b"), "two\n"),
            (Some("yes"), "true\n"),
            (Some("list"), "1\n2\n"),
            (Some("[b, a]"), "two\n1\n"),
            (Some("{b:b, a:a}"), "two\t1\n"),
            (Some("none"), "None\n"),
        ] {
            assert_eq!(written("tsv", &document, query), expected, "{query:?}");
        }
        assert_eq!(written("json", &json!({ "b": [], "a": "ä" }), None), "{\n  \"a\": \"ä\",\n  \"b\": []\n}\n");
        assert_eq!(written("none", &document, None), "");
        let yaml = written("yaml", &json!({ "a": { "b": ["1.36"] } }), None);
        assert_eq!(yaml.trim_end(), "a:\n  b:\n  - \"1.36\"");
    }
}
