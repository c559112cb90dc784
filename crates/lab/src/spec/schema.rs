//! The JSON Schema of the lab file, made from the raw types. Editors read it, and so does [`super::structure`].

use std::sync::LazyLock;

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, transform_subschemas};
use serde_json::{Value, json};

use super::raw;

/// The schema as klab itself uses it.
pub(super) static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    // Draft 7 is what the TOML language servers know.
    let settings = SchemaSettings::draft07().with_transform(RecursiveTransform(without_null));
    let mut schema = settings.into_generator().into_root_schema_for::<raw::Lab>();
    schema.insert("$id".to_owned(), json!("https://klab.dev/schema/lab.schema.json"));
    schema.to_value()
});

/// The schema for editors, as it is committed in `schema/lab.schema.json`.
pub fn schema() -> String {
    let mut schema = Schema::try_from(SCHEMA.clone()).unwrap_or_default();
    with_templates(&mut schema);
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

/// TOML has no null: an optional key is left out. So `null` is taken out of types and alternatives.
fn without_null(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(alternatives)) = object.get_mut("anyOf") {
        alternatives.retain(|alternative| alternative != &json!({ "type": "null" }));
        if let [only] = alternatives.as_slice() {
            let only = only.clone();
            object.remove("anyOf");
            if object.is_empty() {
                if let Value::Object(only) = only {
                    *object = only;
                }
            } else {
                object.insert("allOf".to_owned(), json!([only]));
            }
        }
    }
    object.remove("default");
    if object.get("format").is_some_and(|format| format.as_str().is_some_and(|name| name.starts_with("uint"))) {
        object.remove("format");
    }
}

/// Numbers and booleans may also come from a template, `"{{ vars.replicas }}"`.
fn with_templates(schema: &mut Schema) {
    // First what is inside: what is added below is not to be changed again.
    transform_subschemas(&mut with_templates, schema);
    let Some(object) = schema.as_object_mut() else { return };
    let scalar = |name: &Value| matches!(name.as_str(), Some("integer" | "number" | "boolean"));
    if !object.get("type").is_some_and(scalar) {
        return;
    }
    let mut plain = serde_json::Map::new();
    for key in ["type", "minimum", "maximum"] {
        if let Some(value) = object.remove(key) {
            plain.insert(key.to_owned(), value);
        }
    }
    object.insert("anyOf".to_owned(), json!([plain, { "type": "string", "pattern": r"^\s*\{\{.*\}\}\s*$" }]));
}
