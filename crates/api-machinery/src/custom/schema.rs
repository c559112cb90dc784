//! What is wrong with a value by its JSON schema, in the order and the words of API servers.
//!
//! // upstream: vendor/k8s.io/kube-openapi/pkg/validation/validate; apiextensions-apiserver pkg/apiserver/validation

use std::collections::HashSet;

use klab_cel::pattern;
use serde_json::{Value, json};

use super::lists;
use crate::schema::Path;
use crate::validation::Errors;
use crate::work;

/// How deep a tree is looked at.
const MAX_DEPTH: usize = 100;

/// Reports what is wrong. Whether it was something that rules cannot be evaluated on.
pub(super) fn check(schema: &Value, old: Option<&Value>, new: &Value, errors: &mut Errors) -> bool {
    let mut check = Check { errors, blocking: false };
    check.value(schema, old, new, Path::Root, 0);
    check.blocking
}

struct Check<'a> {
    errors: &'a mut Errors,
    blocking: bool,
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() && number.as_f64().is_some_and(|number| number.fract() != 0.0) => {
            "number"
        }
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

impl Check<'_> {
    fn value(&mut self, schema: &Value, old: Option<&Value>, value: &Value, path: Path<'_>, depth: usize) {
        if depth > MAX_DEPTH || (value.is_null() && schema["nullable"] == true) {
            return;
        }
        if !work::step() || self.errors.is_full() {
            self.blocking = true;
            return;
        }
        // What was there before stays, whatever a later schema says of it.
        if depth > 0 && old == Some(value) {
            return;
        }
        let found = kind_of(value);
        if let Some(wanted) = schema["type"].as_str()
            && wanted != found
            && !(wanted == "number" && found == "integer")
        {
            // API servers show the type that was found, not the value.
            self.errors.invalid(
                path,
                &json!(found),
                format!("{path} in body must be of type {wanted}: {}", json!(found)),
            );
            self.blocking = true;
            return;
        }
        if schema["x-kubernetes-int-or-string"] == true && !matches!(found, "integer" | "string") {
            self.errors.invalid(
                path,
                &json!(found),
                format!("{path} in body must be of type integer,string: {}", json!(found)),
            );
            self.blocking = true;
            return;
        }
        match value {
            Value::String(text) => self.text(schema, text, value, path),
            Value::Number(_) => self.number(schema, value, path),
            Value::Array(list) => self.list(schema, old, list, path, depth),
            _ => {}
        }
        if let Some(allowed) = schema["enum"].as_array()
            && work::steps(allowed.len() as u64 / 64)
            && !allowed.contains(value)
        {
            let names: Vec<String> = allowed.iter().map(Value::to_string).collect();
            self.errors.unsupported_values(path, value, &names);
        }
        if let Some(map) = value.as_object() {
            self.object(schema, old, map, path, depth);
        }
        self.combined(schema, value, path, depth);
    }

    fn text(&mut self, schema: &Value, text: &str, value: &Value, path: Path<'_>) {
        // A pattern looks at each character.
        work::steps(text.len() as u64 / 256);
        let length = text.chars().count() as u64;
        if let Some(most) = schema["maxLength"].as_u64().filter(|most| length > *most) {
            self.errors.too_long(path, usize::try_from(most).unwrap_or(usize::MAX), "bytes");
            self.blocking = true;
        }
        if let Some(least) = schema["minLength"].as_u64().filter(|least| length < *least) {
            self.errors.invalid(path, value, format!("{path} in body should be at least {least} chars long"));
        }
        if let Some(wanted) = schema["pattern"].as_str()
            && !pattern(wanted, Some(work::steps)).is_ok_and(|pattern| pattern.is_match(text))
        {
            self.errors.invalid(path, value, format!("{path} in body should match '{wanted}'"));
        }
        if let Some(format) = schema["format"].as_str()
            && !has_format(format, text)
        {
            let detail = format!("{path} in body must be of type {format}: {}", json!(text));
            self.errors.invalid(path, value, detail);
            self.blocking = true;
        }
    }

    fn number(&mut self, schema: &Value, value: &Value, path: Path<'_>) {
        let Some(number) = value.as_f64() else { return };
        if let Some(most) = schema["maximum"].as_f64() {
            let exclusive = schema["exclusiveMaximum"] == true;
            if number > most || (exclusive && number >= most) {
                let words = if exclusive { "less than" } else { "less than or equal to" };
                self.errors.invalid(path, value, format!("{path} in body should be {words} {}", plain(most)));
            }
        }
        if let Some(least) = schema["minimum"].as_f64() {
            let exclusive = schema["exclusiveMinimum"] == true;
            if number < least || (exclusive && number <= least) {
                let words = if exclusive { "greater than" } else { "greater than or equal to" };
                self.errors.invalid(path, value, format!("{path} in body should be {words} {}", plain(least)));
            }
        }
        if let Some(of) = schema["multipleOf"].as_f64().filter(|of| *of > 0.0)
            && (number / of).fract().abs() > 1e-9
        {
            self.errors.invalid(path, value, format!("{path} in body should be a multiple of {}", plain(of)));
        }
        let range = match schema["format"].as_str() {
            Some("int32") => Some((-2_147_483_648.0, 2_147_483_647.0)),
            _ => None,
        };
        if let Some((least, most)) = range
            && !(least..=most).contains(&number)
        {
            let detail = format!("Checked value must be of type integer with format int32 in {path}");
            self.errors.invalid(path, value, detail);
        }
    }

    fn list(&mut self, schema: &Value, old: Option<&Value>, list: &[Value], path: Path<'_>, depth: usize) {
        let count = list.len() as u64;
        if let Some(least) = schema["minItems"].as_u64().filter(|least| count < *least) {
            self.errors.invalid(path, &json!(count), format!("{path} in body should have at least {least} items"));
        }
        if let Some(most) = schema["maxItems"].as_u64().filter(|most| count > *most) {
            self.errors.too_many(path, count as usize, usize::try_from(most).unwrap_or(usize::MAX));
            self.blocking = true;
        }
        if schema["uniqueItems"] == true && list.iter().collect::<HashSet<_>>().len() < list.len() {
            self.errors.invalid(path, &json!(list), format!("{path} in body shouldn't contain duplicates"));
        }
        let before = lists::Correlated::of(schema, old);
        for (at, item) in list.iter().enumerate() {
            let old = before.with(item);
            self.value(&schema["items"], old, item, path.index(at), depth + 1);
        }
    }

    fn object(
        &mut self,
        schema: &Value,
        old: Option<&Value>,
        map: &serde_json::Map<String, Value>,
        path: Path<'_>,
        depth: usize,
    ) {
        let count = map.len() as u64;
        if let Some(least) = schema["minProperties"].as_u64().filter(|least| count < *least) {
            let detail = format!("{path} in body should have at least {least} properties");
            self.errors.invalid(path, &json!(count), detail);
        }
        if let Some(most) = schema["maxProperties"].as_u64().filter(|most| count > *most) {
            self.errors.too_many(path, count as usize, usize::try_from(most).unwrap_or(usize::MAX));
            self.blocking = true;
        }
        for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !map.contains_key(required) {
                self.errors.required(path.field(required), "");
                self.blocking = true;
            }
        }
        for (name, item) in map {
            if depth == 0 && matches!(name.as_str(), "kind" | "apiVersion") {
                continue;
            }
            let known = &schema["properties"][name.as_str()];
            let wanted = if known.is_object() { known } else { &schema["additionalProperties"] };
            if wanted.is_object() {
                let old = old.and_then(|old| old.get(name));
                self.value(wanted, old, item, path.field(name), depth + 1);
            }
        }
    }

    /// `allOf`, `anyOf`, `oneOf`, `not`: their own errors are not shown, but for one sentence.
    fn combined(&mut self, schema: &Value, value: &Value, path: Path<'_>, depth: usize) {
        let fits = |inner: &Value| {
            let mut errors = Errors::default();
            let mut check = Check { errors: &mut errors, blocking: false };
            check.value(inner, None, value, path, depth.max(1) + 1);
            errors.is_empty()
        };
        let count = |name: &str| {
            schema[name].as_array().map(|list| (list.iter().filter(|inner| fits(inner)).count(), list.len()))
        };
        let shown = || json!(path.to_string());
        let place = if matches!(path, Path::Root) { path.field("<nil>") } else { path };
        let mut report = |detail: String| self.errors.invalid(place, &Value::Null, detail);
        if let Some((0, all)) = count("anyOf")
            && all > 0
        {
            report(format!("{} must validate at least one schema (anyOf)", shown()));
        }
        if let Some((fitting, all)) = count("oneOf")
            && fitting != 1
            && all > 0
        {
            let why = if fitting == 0 {
                "Found none valid".to_owned()
            } else {
                format!("Found {fitting} valid alternatives")
            };
            report(format!("{} must validate one and only one schema (oneOf). {why}", shown()));
        }
        if let Some((fitting, all)) = count("allOf")
            && fitting < all
        {
            let why = if fitting == 0 { ". None validated" } else { "" };
            report(format!("{} must validate all the schemas (allOf){why}", shown()));
        }
        if schema["not"].is_object() && fits(&schema["not"]) {
            report(format!("{} must not validate the schema (not)", shown()));
        }
    }
}

/// A number as Go's `%v` prints it.
fn plain(number: f64) -> String {
    if number.abs() >= 1e21 { format!("{number:e}") } else { number.to_string() }
}

/// Whether a text has the format; those that are not known fit everything.
fn has_format(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => klab_cel::is_timestamp(text) && text.len() > 10,
        "date" => klab_cel::is_timestamp(text) && text.len() == 10,
        "duration" => klab_cel::duration_nanos(text).is_some(),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "cidr" => text.split_once('/').is_some_and(|(ip, bits)| {
            ip.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok_and(|bits| bits <= 128)
        }),
        "byte" => {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD.decode(text).is_ok()
        }
        "uuid" => {
            let hex = text.chars().filter(char::is_ascii_hexdigit).count();
            hex == 32 && matches!(text.len(), 32 | 36)
        }
        "email" => text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && host.contains('.')),
        "hostname" => {
            !text.is_empty()
                && text.len() <= 255
                && !text.contains(|character: char| character.is_whitespace() || character == '_')
        }
        "uri" => text.contains(':') && !text.contains(' '),
        "hexcolor" => text
            .strip_prefix('#')
            .is_some_and(|hex| matches!(hex.len(), 3 | 6) && hex.chars().all(|digit| digit.is_ascii_hexdigit())),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::CONFIG_MAPS;

    fn message(old: Option<&Value>, value: &Value) -> String {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1}, "color": {"enum": ["red", "blue"]},
            "note": {"type": "string", "maxLength": 3, "pattern": "^a"},
            "list": {"type": "array", "maxItems": 1, "items": {"type": "string"}},
            "when": {"type": "string", "format": "date-time"},
            "one": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"},
        }}}});
        let mut errors = Errors::default();
        check(&schema, old, value, &mut errors);
        errors.into_result(CONFIG_MAPS.row(), "a").map_or_else(
            |status| status.message.trim_start_matches("ConfigMap \"a\" is invalid: ").to_owned(),
            |()| String::new(),
        )
    }

    #[test]
    fn faults_are_described_as_api_servers_do() {
        let cases = [
            (json!({"size": 2}), ""),
            (
                json!({"size": "big"}),
                "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
            ),
            (
                json!({"color": "pink"}),
                "[spec.size: Required value, spec.color: Unsupported value: \"pink\": supported values: \"red\", \"blue\"]",
            ),
            (json!({"size": 0}), "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"),
            (
                json!({"size": 1, "note": "bbbb"}),
                "[spec.note: Too long: may not be more than 3 bytes, spec.note: Invalid value: \"bbbb\": spec.note in body should match '^a']",
            ),
            (json!({"size": 1, "list": ["a", "b"]}), "spec.list: Too many: 2: must have at most 1 items"),
            (
                json!({"size": 1, "when": "soon"}),
                "spec.when: Invalid value: \"soon\": spec.when in body must be of type date-time: \"soon\"",
            ),
            (
                json!({"size": 1, "one": {}}),
                "spec.one: Invalid value: \"spec.one\" must validate one and only one schema (oneOf). Found none valid",
            ),
        ];
        for (spec, expected) in cases {
            assert_eq!(
                message(None, &json!({"spec": spec})),
                expected.replace("spec.one: Invalid value: \"", "spec.one: Invalid value: null: \""),
                "{spec}"
            );
        }
    }

    #[test]
    fn what_was_there_before_is_not_refused() {
        let old = json!({"spec": {"size": 0}});
        assert_eq!(message(Some(&old), &json!({"metadata": {"labels": {"a": "b"}}, "spec": {"size": 0}})), "");
        assert!(message(Some(&old), &json!({"spec": {"size": -1}})).contains("spec.size"));
    }
}
