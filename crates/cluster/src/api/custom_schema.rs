//! Checks custom resources against the schema of their definition: types, required fields, and limits.

use serde_json::{Value, json};

use super::super::resource::Resource;
use super::super::status::Status;

/// How deep a tree is looked at.
const DEEPEST: usize = 60;

struct Fault {
    field: String,
    reason: &'static str,
    message: String,
}

/// 422 with everything that is wrong.
pub(super) fn check(row: &Resource, schema: &Value, value: &Value) -> Result<(), Status> {
    let mut faults = Vec::new();
    look(&mut faults, schema, value, "", 0);
    if faults.is_empty() {
        return Ok(());
    }
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    let texts: Vec<String> = faults.iter().map(|fault| format!("{}: {}", fault.field, fault.message)).collect();
    let text = if let [text] = texts.as_slice() { text.clone() } else { format!("[{}]", texts.join(", ")) };
    let causes: Vec<Value> = faults
        .iter()
        .map(|fault| json!({"reason": fault.reason, "message": fault.message, "field": fault.field}))
        .collect();
    Err(Status {
        details: json!({"name": name, "group": row.group, "kind": row.kind, "causes": causes}),
        ..Status::new(422, "Invalid", format!("{} \"{name}\" is invalid: {text}", row.kind))
    })
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn look(faults: &mut Vec<Fault>, schema: &Value, value: &Value, path: &str, depth: usize) {
    if depth > DEEPEST || (value.is_null() && schema["nullable"] == true) {
        return;
    }
    let mut invalid = |shown: &Value, why: String| {
        let message = format!("Invalid value: {shown}: {path} in body {why}");
        faults.push(Fault { field: path.to_owned(), reason: "FieldValueInvalid", message });
    };
    let found = kind_of(value);
    if let Some(wanted) = schema["type"].as_str() {
        let either = schema["x-kubernetes-int-or-string"] == true && matches!(found, "integer" | "string");
        if wanted != found && !(wanted == "number" && found == "integer") && !either {
            // API servers show the type that was found, not the value.
            return invalid(&json!(found), format!("must be of type {wanted}: {}", json!(found)));
        }
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        let mut names: Vec<String> = allowed.iter().map(Value::to_string).collect();
        names.sort();
        let message = format!("Unsupported value: {value}: supported values: {}", names.join(", "));
        faults.push(Fault { field: path.to_owned(), reason: "FieldValueNotSupported", message });
        return;
    }
    if let Some(number) = value.as_f64() {
        if let Some(least) = schema["minimum"].as_f64()
            && (number < least || (number <= least && schema["exclusiveMinimum"] == true))
        {
            invalid(value, format!("should be greater than or equal to {}", schema["minimum"]));
        }
        if let Some(most) = schema["maximum"].as_f64()
            && (number > most || (number >= most && schema["exclusiveMaximum"] == true))
        {
            invalid(value, format!("should be less than or equal to {}", schema["maximum"]));
        }
    }
    if let Some(text) = value.as_str() {
        let length = text.chars().count() as u64;
        if schema["minLength"].as_u64().is_some_and(|least| length < least) {
            invalid(value, format!("should be at least {} chars long", schema["minLength"]));
        }
        if schema["maxLength"].as_u64().is_some_and(|most| length > most) {
            invalid(value, format!("should be at most {} chars long", schema["maxLength"]));
        }
    }
    if let Some(list) = value.as_array() {
        if schema["minItems"].as_u64().is_some_and(|least| (list.len() as u64) < least) {
            invalid(&json!(list.len()), format!("should have at least {} items", schema["minItems"]));
        }
        if schema["maxItems"].as_u64().is_some_and(|most| (list.len() as u64) > most) {
            invalid(&json!(list.len()), format!("should have at most {} items", schema["maxItems"]));
        }
        for (at, item) in list.iter().enumerate() {
            look(faults, &schema["items"], item, &format!("{path}[{at}]"), depth + 1);
        }
    }
    let Some(map) = value.as_object() else { return };
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !map.contains_key(required) {
            faults.push(Fault {
                field: below(required),
                reason: "FieldValueRequired",
                message: "Required value".to_owned(),
            });
        }
    }
    for (name, item) in map {
        if depth == 0 && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            continue;
        }
        let known = &schema["properties"][name.as_str()];
        let wanted = if known.is_object() { known } else { &schema["additionalProperties"] };
        if wanted.is_object() {
            look(faults, wanted, item, &below(name), depth + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::resource::CONFIG_MAPS;
    use super::*;

    fn message(value: &Value) -> String {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["size"],
            "properties": {"size": {"type": "integer", "minimum": 1}, "color": {"enum": ["red", "blue"]}}}}});
        check(CONFIG_MAPS.row(), &schema, value).map_or_else(|status| status.message, |()| String::new())
    }

    #[test]
    fn faults_are_described_as_api_servers_do() {
        assert_eq!(message(&json!({"metadata": {"name": "a"}, "spec": {"size": 2}})), "");
        assert_eq!(
            message(&json!({"metadata": {"name": "a"}, "spec": {"size": "big"}})),
            "ConfigMap \"a\" is invalid: spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\""
        );
        assert_eq!(
            message(&json!({"metadata": {"name": "a"}, "spec": {"color": "pink"}})),
            "ConfigMap \"a\" is invalid: [spec.size: Required value, spec.color: Unsupported value: \"pink\": supported values: \"blue\", \"red\"]"
        );
        assert_eq!(
            message(&json!({"metadata": {"name": "a"}, "spec": {"size": 0}})),
            "ConfigMap \"a\" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"
        );
    }
}
