//! Custom resources with every form of a schema, through every route, and read back.

use serde_json::{Value, json};

use super::place::{APPLY, JSON, MERGE, OPERATIONS, Place};

/// Each form of a schema with a value that it keeps whole.
fn forms() -> Vec<(&'static str, Value, Value)> {
    let open = |mut schema: Value| {
        schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
        schema
    };
    let rows = json!([{ "key": "a", "deep": { "b": [{ "c": 1 }, [2], "x"] } }, { "other": null }]);
    let of_rows = json!([{ "key": "a", "deep": { "b": [{ "c": 1 }, [2], "x"] } }, { "other": 1.5 }]);
    let text = json!({ "type": "string" });
    let row =
        json!({ "type": "object", "properties": { "key": text, "n": { "type": "integer" } }, "required": ["key"] });
    let list = |items: &Value, more: Value| {
        let mut schema = json!({ "type": "array", "items": items });
        for (name, value) in more.as_object().into_iter().flatten() {
            schema[name] = value.clone();
        }
        schema
    };
    let keyed = json!({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"] });
    let two = json!([{ "key": "b", "n": 1 }, { "key": "a" }]);
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "labels": { "a": "b" } }, "spec": { "x": [{ "y": 1 }] } });
    vec![
        ("untyped", open(json!({})), of_rows.clone()),
        ("untyped-map", open(json!({})), json!({ "rows": of_rows, "n": 0, "t": "", "no": false })),
        ("untyped-nulls", open(json!({ "nullable": true })), json!({ "rows": rows })),
        ("object", open(json!({ "type": "object" })), json!({ "rows": of_rows })),
        (
            "object-known",
            open(json!({ "type": "object", "properties": { "key": text } })),
            json!({ "key": "a", "rows": of_rows }),
        ),
        ("array", open(list(&json!({ "type": "object" }), json!({}))), of_rows.clone()),
        ("array-known", open(list(&row, json!({}))), json!([{ "key": "a", "rows": of_rows }])),
        ("array-of-open", list(&open(json!({ "type": "object" })), json!({})), of_rows.clone()),
        ("array-of-lists", list(&list(&text, json!({})), json!({})), json!([["a"], []])),
        ("list", list(&row, json!({})), two.clone()),
        ("list-atomic", list(&row, json!({ "x-kubernetes-list-type": "atomic" })), two.clone()),
        ("list-set", list(&text, json!({ "x-kubernetes-list-type": "set" })), json!(["b", "a"])),
        ("list-map", list(&row, keyed.clone()), two.clone()),
        ("list-map-open", list(&open(row.clone()), keyed), json!([{ "key": "a", "rows": of_rows }])),
        ("map", json!({ "type": "object", "additionalProperties": text }), json!({ "a": "b", "c.d/e": "" })),
        (
            "map-of-rows",
            json!({ "type": "object", "additionalProperties": row }),
            json!({ "a": { "key": "k", "n": 2 } }),
        ),
        ("map-of-open", json!({ "type": "object", "additionalProperties": open(json!({})) }), json!({ "a": of_rows })),
        (
            "map-of-lists",
            json!({ "type": "object", "additionalProperties": list(&row, json!({})) }),
            json!({ "a": two }),
        ),
        (
            "map-atomic",
            json!({ "type": "object", "x-kubernetes-map-type": "atomic", "properties": { "a": text, "b": text } }),
            json!({ "a": "1" }),
        ),
        ("number-or-text", json!({ "x-kubernetes-int-or-string": true }), json!("80%")),
        ("number-or-text-number", json!({ "x-kubernetes-int-or-string": true }), json!(80)),
        ("embedded", open(json!({ "type": "object", "x-kubernetes-embedded-resource": true })), pod.clone()),
        (
            "embedded-list",
            list(&open(json!({ "type": "object", "x-kubernetes-embedded-resource": true })), json!({})),
            json!([pod]),
        ),
        ("nullable", json!({ "type": "string", "nullable": true }), Value::Null),
        ("nullable-list", list(&json!({ "type": "string", "nullable": true }), json!({})), json!(["a", null])),
        ("integer", json!({ "type": "integer", "format": "int64" }), json!(9_007_199_254_740_993_i64)),
        ("number", json!({ "type": "number" }), json!(1.25)),
        ("whole-number", json!({ "type": "number" }), json!(2)),
        ("boolean", json!({ "type": "boolean" }), json!(false)),
        ("date-time", json!({ "type": "string", "format": "date-time" }), json!("2026-06-01T08:00:00.5+02:00")),
        ("byte", json!({ "type": "string", "format": "byte" }), json!("YQ==")),
        ("enum", json!({ "type": "string", "enum": ["", "a"] }), json!("")),
        ("empty", json!({ "type": "object", "properties": { "a": text } }), json!({})),
    ]
}

#[test]
fn custom_resources_keep_what_every_form_of_a_schema_allows() {
    let place = Place::new();
    let forms = forms();
    let properties: serde_json::Map<_, _> =
        forms.iter().map(|(name, schema, _)| ((*name).to_owned(), schema.clone())).collect();
    let schema = json!({ "type": "object", "properties": properties });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "shapes.labs.example" },
        "spec": { "group": "labs.example", "scope": "Namespaced", "names": { "plural": "shapes", "kind": "Shape" }, "versions": [{
            "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
            "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": schema, "status": schema } } },
        }] },
    });
    let answer = place.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", JSON, &definition);
    assert_eq!(answer.code, 201, "{}", answer.value);
    let collection = "/apis/labs.example/v1/namespaces/default/shapes";
    let object = |name: &str, part: &str, fields: &Value| {
        let mut object = json!({ "apiVersion": "labs.example/v1", "kind": "Shape", "metadata": { "name": name } });
        object[part] = fields.clone();
        object
    };
    let mut faults = Vec::new();
    for (at, (form, _, value)) in forms.iter().enumerate() {
        let fields = json!({ *form: value });
        for (number, (route, part, how)) in ROUTES
            .iter()
            .flat_map(|(route, part)| ["Strict", "Warn", "Ignore"].map(|how| (*route, *part, how)))
            .enumerate()
        {
            let name = format!("a{at}-{number}");
            let uri = format!("{collection}/{name}");
            let below = if part == "status" { "/status" } else { "" };
            let query = format!("fieldValidation={how}");
            if route != "create" && route != "apply new" {
                let made = place.ask("POST", collection, JSON, &object(&name, "spec", &json!({})));
                assert_eq!(made.code, 201, "{}", made.value);
            }
            let body = object(&name, part, &fields);
            let answer = match route {
                "create" => place.ask("POST", &format!("{collection}?{query}"), JSON, &body),
                "update" => {
                    let mut now = place.ask("GET", &uri, JSON, &Value::Null).value;
                    now[part] = fields.clone();
                    place.ask("PUT", &format!("{uri}{below}?{query}"), JSON, &now)
                }
                // A null takes a field out of what a merge patch is for.
                "merge" if has_null(value) => continue,
                "merge" => place.ask("PATCH", &format!("{uri}{below}?{query}"), MERGE, &json!({ part: fields })),
                "operations" => {
                    let operations = json!([{ "op": "add", "path": format!("/{part}"), "value": fields }]);
                    place.ask("PATCH", &format!("{uri}{below}?{query}"), OPERATIONS, &operations)
                }
                _ => place.ask("PATCH", &format!("{uri}{below}?{query}&fieldManager=fuzz&force=true"), APPLY, &body),
            };
            let found = place.ask("GET", &uri, JSON, &Value::Null).value;
            let same = found[part] == fields;
            if answer.code > 201 || !same || answer.warnings.iter().any(|warning| warning.contains("unknown")) {
                faults.push(format!(
                    "{form} {route} {part} {how}: {} {} {:?}: {}",
                    answer.code, answer.value["message"], answer.warnings, found[part]
                ));
            }
            if same {
                let again = place.ask("PUT", &format!("{uri}{below}?fieldValidation=Strict"), JSON, &found);
                if again.code != 200
                    || again.value["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]
                {
                    faults.push(format!("{form} {route} {part} {how}: sent again: {} {}", again.code, again.value));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Ways to write a part of a custom resource.
const ROUTES: &[(&str, &str)] = &[
    ("create", "spec"),
    ("update", "spec"),
    ("merge", "spec"),
    ("operations", "spec"),
    ("apply new", "spec"),
    ("apply", "spec"),
    ("update", "status"),
    ("merge", "status"),
    ("operations", "status"),
    ("apply", "status"),
];

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().any(has_null),
        Value::Array(list) => list.iter().any(has_null),
        _ => false,
    }
}
