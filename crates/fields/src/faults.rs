//! What is wrong with an applied configuration, in the words of structured-merge-diff.

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/typed/validate.go, helpers.go (v1.36)

use std::collections::HashSet;

use klab_api_machinery::go_text::{go_syntax, go_text, go_type};
use klab_api_machinery::texts::Texts;
use klab_api_machinery::work;
use serde_json::Value;

use super::fields::write_element;
use super::place::{Expected, Keys, Kind, Place};

/// Paths longer than this are not looked at: no real object nests that deep.
const MAX_PATH_LENGTH: usize = 10_000;

/// The faults of a configuration.
pub(crate) fn faults(config: &Value, place: Place<'_>) -> Vec<String> {
    let mut found = Texts::default();
    check(config, place, &mut String::new(), &mut found);
    found.into_list()
}

fn check(value: &Value, place: Place<'_>, path: &mut String, found: &mut Texts) {
    if value.is_null() || path.len() > MAX_PATH_LENGTH || found.is_full() || !work::step() {
        return;
    }
    let length = path.len();
    let expected = match (place.expected(), value) {
        // A part of a schema may be an object, a list of them, or a boolean.
        (Expected::Anything, Value::Object(_)) if place.is_closed() => Expected::Map,
        (expected, _) => expected,
    };
    let fault = match (expected, value) {
        (Expected::Anything, _)
        | (Expected::Numeric, Value::Number(_))
        | (Expected::String, Value::String(_))
        | (Expected::Boolean, Value::Bool(_))
        | (Expected::Scalar, Value::Bool(_) | Value::Number(_) | Value::String(_)) => return,
        (Expected::Map, Value::Object(map)) => {
            for (name, inner) in map {
                path.push('.');
                path.push_str(name);
                let is_known = !place.is_closed() || place.declares(name);
                if is_known {
                    check(inner, place.field(name), path, found);
                } else {
                    found.push(format_args!("{path}: field not declared in schema"));
                }
                path.truncate(length);
                if !is_known {
                    // Upstream looks no further here.
                    return;
                }
            }
            return;
        }
        (Expected::List, Value::Array(list)) => return check_list(list, value, place, path, found),
        (Expected::Numeric, other) => format!("expected numeric (int or float), got {}", go_type(other)),
        (Expected::String, other) => {
            format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(other))
        }
        (Expected::Boolean, other) => format!("expected boolean, got &{{{}}}", go_text(other)),
        (Expected::Scalar, other) => format!("expected any scalar, got &{{{}}}", go_text(other)),
        (Expected::Map, other) => format!("expected map, got &{{{}}}", go_text(other)),
        (Expected::List, other) => format!("expected list, got &{{{}}}", go_text(other)),
    };
    found.push(format_args!("{path}: {fault}"));
}

fn check_list(list: &[Value], value: &Value, place: Place<'_>, path: &mut String, found: &mut Texts) {
    let kind = place.kind(value);
    let length = path.len();
    let mut seen = HashSet::new();
    for (at, entry) in list.iter().enumerate() {
        let element = match &kind {
            Kind::Keyed(keys) => keyed(entry, place, *keys),
            Kind::Set => of_set(entry),
            Kind::Map | Kind::Whole => Ok(format!("i:{at}")),
        };
        let element = match element {
            Ok(element) => element,
            Err(fault) => {
                found.push(format_args!("{path}: element {at}: {fault}"));
                return;
            }
        };
        write_element(path, &element);
        if !seen.insert(element) {
            let key = path[length..].to_owned();
            found.push(format_args!("{}: duplicate entries for key {key}", &path[..length]));
        }
        check(entry, place.entry(), path, found);
        path.truncate(length);
    }
}

fn keyed(entry: &Value, place: Place<'_>, keys: Keys<'_>) -> Result<String, String> {
    match entry {
        Value::Null => Err("associative list with keys may not have a null element".to_owned()),
        Value::Object(_) => {
            let element = place.element(entry, keys);
            if element == "k:{}" {
                let names: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
                return Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                    names.join(" ")
                ));
            }
            Ok(element)
        }
        _ => Err("associative list with keys may not have non-map elements".to_owned()),
    }
}

fn of_set(entry: &Value) -> Result<String, String> {
    Err(match entry {
        Value::Object(_) => "associative list without keys has an element that's a map type",
        Value::Array(_) => "not supported: associative list with lists as elements",
        Value::Null => "associative list without keys has an element that's an explicit null",
        _ => return Ok(format!("v:{entry}")),
    }
    .to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::place::Root;
    use super::*;

    /// upstream: typed/validate_test.go, apply_test.go TestDuplicatesInAssociativeLists; texts as kubectl shows them.
    #[test]
    fn faults_are_told_where_they_are() {
        let root = Root::new("apps/v1", "Deployment", None);
        let env = |list: Value| json!([{ "name": "nginx", "env": list }]);
        let inside = r#".spec.template.spec.containers[name="nginx"]"#;
        for (containers, wanted) in [
            (env(json!([{ "name": "A", "value": "1" }])), None),
            (env(json!([{ "name": "A" }, { "name": "A" }])), Some(".env: duplicate entries for key [name=\"A\"]")),
            (
                env(json!([{ "name": "A", "value": 8080 }])),
                Some(".env[name=\"A\"].value: expected string, got &value.valueUnstructured{Value:8080}"),
            ),
            (env(json!({ "A": "1" })), Some(".env: expected list, got &{map[A:1]}")),
            (json!([{ "name": "nginx", "imag": "x" }]), Some(".imag: field not declared in schema")),
            (json!([{ "name": "nginx", "stdin": "yes" }]), Some(".stdin: expected boolean, got &{yes}")),
            (
                json!([{ "name": "nginx", "args": ["a", true] }]),
                Some(".args[1]: expected string, got &value.valueUnstructured{Value:true}"),
            ),
            (
                json!([{ "name": "nginx", "resources": { "limits": { "cpu": [1] } } }]),
                Some(".resources.limits.cpu: expected any scalar, got &{[1]}"),
            ),
            (
                json!([{ "name": "nginx", "ports": [{ "containerPort": 80 }, { "containerPort": 80, "protocol": "TCP" }] }]),
                Some(".ports: duplicate entries for key [containerPort=80,protocol=\"TCP\"]"),
            ),
        ] {
            let config = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
            let wanted: Vec<String> = wanted.iter().map(|wanted| format!("{inside}{wanted}")).collect();
            assert_eq!(faults(&config, root.place()), wanted, "{config}");
        }
        let config =
            json!({ "spec": { "replicas": "3", "template": { "spec": { "containers": [{ "image": "x" }, 1] } } } });
        assert_eq!(
            faults(&config, root.place()),
            [
                ".spec.replicas: expected numeric (int or float), got string",
                ".spec.template.spec.containers: element 0: associative list with keys has an element that omits all key fields [\"name\"] (and doesn't have default values for any key fields)",
            ]
        );
    }

    #[test]
    fn schemas_of_custom_resources_say_what_is_expected() {
        let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
            "size": { "type": "integer" },
            "port": { "x-kubernetes-int-or-string": true },
            "parts": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
                "items": { "type": "object", "properties": { "id": { "type": "string" } } },
            },
            "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            "rules": { "x-kubernetes-preserve-unknown-fields": true },
            "rows": { "type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {
                "type": "object", "properties": { "a": { "type": "string" } } } },
        } } } });
        let root = Root::new("shop.example.com/v1", "Widget", Some(&schema));
        let of = |spec: Value| faults(&json!({ "metadata": { "name": "w" }, "spec": spec }), root.place());
        assert!(
            of(json!({ "size": 1, "port": "http", "parts": [{ "id": "a" }], "free": { "a": [{ "b": 1 }] } }))
                .is_empty()
        );
        // A schema that keeps unknown fields keeps them at every level below it.
        let kept = json!([{ "a": "x", "b": [{ "c": 1 }] }]);
        assert!(of(json!({ "rules": kept, "rows": kept })).is_empty());
        let unknown = json!({ "parts": [{ "id": "a", "b": 1 }] });
        assert_eq!(of(unknown), [".spec.parts[id=\"a\"].b: field not declared in schema"]);
        let wrong = json!({ "size": "1", "port": {}, "parts": [{ "id": "a" }, { "id": "a" }, { "id": 5 }] });
        assert_eq!(
            of(wrong),
            [
                ".spec.parts: duplicate entries for key [id=\"a\"]",
                ".spec.parts[id=5].id: expected string, got &value.valueUnstructured{Value:5}",
                ".spec.port: expected any scalar, got &{map[]}",
                ".spec.size: expected numeric (int or float), got string",
            ]
        );
    }
}
