//! What is wrong with a CustomResourceDefinition: its names and versions, its schemas, the rules in them and their cost.
//!
//! // upstream: apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinition

use klab_cel::{MAX_REQUEST, pattern};
use serde_json::Value;

use super::declaration::declare;
use super::rules::Rule;
use crate::validation::{Errors, webhook};
use crate::work;

/// Most that one rule may be estimated to cost.
const RULE_LIMIT: u64 = 10_000_000;
/// Most that all rules of a schema may be estimated to cost.
const SCHEMA_LIMIT: u64 = 100_000_000;
/// How deep a schema is looked at.
const MAX_DEPTH: usize = 60;

const REASONS: &[&str] = &["FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired", "FieldValueDuplicate"];

/// Reports what is wrong with a definition and its name: it is called after what it defines.
pub fn check_object(definition: &Value, errors: &mut Errors) {
    let (spec, name) = (&definition["spec"], &definition["metadata"]["name"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if text(name) != format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"])) {
        errors.invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group");
    }
    check(definition, errors);
}

/// Reports what is wrong.
fn check(definition: &Value, errors: &mut Errors) {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let storing = versions.iter().filter(|version| version["storage"] == true).count();
    if storing != 1 && !versions.is_empty() {
        let shown = Value::from(versions.iter().map(|version| version["name"].clone()).collect::<Vec<_>>());
        errors.invalid("spec.versions", &shown, "must have exactly one version marked as storage version");
    }
    let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
    let first = versions.first().map(schema).unwrap_or_default();
    // Where all versions have one schema, errors name it as the old form of definitions did.
    let one = versions.iter().all(|version| schema(version) == first);
    for (at, version) in versions.iter().enumerate() {
        if one && at > 0 {
            break;
        }
        let path = if one {
            "spec.validation.openAPIV3Schema".to_owned()
        } else {
            format!("spec.versions[{at}].schema.openAPIV3Schema")
        };
        let schema = schema(version);
        if !schema.is_object() {
            errors.required(format!("spec.versions[{at}].schema.openAPIV3Schema"), "schemas are required");
            continue;
        }
        check_schema(&schema, &path, errors);
    }
    if spec["conversion"].is_object() {
        let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
        let mut established = conditions.filter(|one| one["type"] == "Established" && one["status"] == "True");
        webhook::conversion(&spec["conversion"], established.next().is_some(), errors);
    }
    stored_versions(definition, versions, errors);
}

/// Versions in which objects may still be stored have to stay.
///
/// // upstream: ValidateCustomResourceDefinitionStoredVersions
fn stored_versions(definition: &Value, versions: &[Value], errors: &mut Errors) {
    let stored = definition["status"]["storedVersions"].as_array().into_iter().flatten();
    for (at, version) in stored.enumerate() {
        if versions.iter().any(|known| known["name"] == *version) {
            continue;
        }
        let name = version.as_str().unwrap_or_default();
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until \
             a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        );
        errors.invalid(format!("status.storedVersions[{at}]"), version, detail);
    }
}

fn check_schema(schema: &Value, path: &str, errors: &mut Errors) {
    let mut walk = Walk { errors: Errors::default(), cel: Errors::default(), total: 0, expensive: Vec::new() };
    if !has_type(schema) {
        walk.errors.required(format!("{path}.type"), "must not be empty at the root");
    } else if schema["type"] != "object" {
        walk.errors.invalid(format!("{path}.type"), &schema["type"], "must be object at the root");
    }
    walk.schema(
        schema,
        path,
        &Place { root: true, cardinality: Some(1), uncorrelated: None, name: "selfType".to_owned() },
        0,
    );
    errors.extend(&walk.errors);
    if walk.errors.is_empty() {
        errors.extend(&walk.cel);
        if walk.total > SCHEMA_LIMIT {
            walk.expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            for (path, _) in walk.expensive.iter().take(4) {
                errors.forbidden(
                    path,
                    "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
                );
            }
            let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
            errors.forbidden(path, exceeds(name, walk.total, SCHEMA_LIMIT));
        }
    }
}

/// `estimated rule cost exceeds budget by factor of …`
fn exceeds(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

fn has_type(schema: &Value) -> bool {
    schema["type"].as_str().is_some_and(|text| !text.is_empty())
        || schema["x-kubernetes-int-or-string"] == true
        || schema["x-kubernetes-preserve-unknown-fields"] == true
}

struct Walk {
    errors: Errors,
    /// Errors of rules, which are of no use while the schema itself is wrong.
    cel: Errors,
    total: u64,
    expensive: Vec<(String, u64)>,
}

/// Where in the schema of a version a schema stands.
#[derive(Clone)]
struct Place {
    root: bool,
    /// How many values of it an object can have; `None` for as many as a request can hold.
    cardinality: Option<u64>,
    /// The list around it whose entries nothing identifies.
    uncorrelated: Option<String>,
    name: String,
}

impl Walk {
    fn schema(&mut self, schema: &Value, path: &str, place: &Place, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        let most = |limit: &str| match (schema["type"].as_str(), limit) {
            (Some("array"), _) => schema["maxItems"].as_u64(),
            (Some("object"), _) if schema["additionalProperties"].is_object() => schema["maxProperties"].as_u64(),
            _ => Some(1),
        };
        let below = |name: &str, uncorrelated: Option<String>| Place {
            root: false,
            cardinality: place.cardinality.zip(most("")).map(|(one, other)| one.saturating_mul(other)),
            uncorrelated: uncorrelated.or_else(|| place.uncorrelated.clone()),
            name: format!("{}.{name}", place.name),
        };
        if schema["additionalProperties"].is_object()
            && schema["properties"].as_object().is_some_and(|map| !map.is_empty())
        {
            let detail = "additionalProperties and properties are mutual exclusive";
            self.errors.forbidden(format!("{path}.additionalProperties"), detail);
        }
        if schema["uniqueItems"] == true {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.errors.forbidden(format!("{path}.uniqueItems"), detail);
        }
        if let Some(Err(fault)) =
            schema["pattern"].as_str().filter(|text| !text.is_empty()).map(|text| pattern(text, Some(work::steps)))
        {
            // upstream: apiextensions-apiserver pkg/apiserver/schema/validation.go validateNestedValueValidation
            let detail = format!("must be a valid regular expression, but isn't: {fault}");
            self.errors.invalid(format!("{path}.pattern"), &schema["pattern"], detail);
        }
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.properties[{name}]");
            if !has_type(inner) {
                self.errors.required(format!("{path}.type"), "must not be empty for specified object fields");
            }
            self.schema(inner, &path, &below(name, None), depth + 1);
        }
        let values = &schema["additionalProperties"];
        if values.is_object() {
            self.schema(values, &format!("{path}.additionalProperties"), &below("@elem", None), depth + 1);
        }
        let items = &schema["items"];
        if items.is_object() {
            if !has_type(items) {
                self.errors.required(format!("{path}.items.type"), "must not be empty for specified array items");
            }
            let uncorrelated = (schema["x-kubernetes-list-type"] != "map").then(|| path.to_owned());
            self.schema(items, &format!("{path}.items"), &below("@idx", uncorrelated), depth + 1);
        } else if schema["type"] == "array" {
            self.errors.required(format!("{path}.items"), "must be specified");
        }
        self.rules(schema, path, place);
    }

    fn rules(&mut self, schema: &Value, path: &str, place: &Place) {
        let Some(rules) = schema["x-kubernetes-validations"].as_array().filter(|rules| !rules.is_empty()) else {
            return;
        };
        let before = self.errors.len();
        for (at, rule) in rules.iter().enumerate() {
            self.form(rule, schema, &format!("{path}.x-kubernetes-validations[{at}]"));
        }
        if self.errors.len() > before {
            return;
        }
        let resource = place.root || schema["x-kubernetes-embedded-resource"] == true;
        let Some(declaration) = declare(schema, resource, &place.name) else { return };
        // As many as fit into a request, where nothing else says how many there can be.
        let cardinality = place
            .cardinality
            .unwrap_or_else(|| MAX_REQUEST.checked_div(declaration.min_size.saturating_add(1)).unwrap_or(1));
        for (at, rule) in rules.iter().enumerate() {
            let path = format!("{path}.x-kubernetes-validations[{at}]");
            let compiled = Rule::compile(rule, &declaration);
            match &compiled.program {
                Ok(program) => {
                    let cost = program.cost().max.saturating_mul(cardinality);
                    self.cost(format!("{path}.rule"), "estimated rule cost", cost);
                }
                Err(error) => self.cel.invalid_as(format!("{path}.rule"), &shown(rule), error),
            }
            match &compiled.message {
                Some(Ok(program)) if compiled.program.is_ok() => {
                    let name = "estimated messageExpression cost";
                    self.cost(format!("{path}.messageExpression"), name, program.cost().max);
                }
                Some(Err(error)) if compiled.program.is_ok() => {
                    self.cel.invalid_as(format!("{path}.messageExpression"), &shown(rule), error);
                }
                _ => {}
            }
            if compiled.uses_old {
                if let Some(list) = &place.uncorrelated {
                    let detail =
                        format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
                    self.cel.invalid(format!("{path}.rule"), &rule["rule"], detail);
                }
            } else if compiled.program.is_ok() && !rule["optionalOldSelf"].is_null() {
                let detail = "may not be set if oldSelf is not used in rule";
                self.cel.invalid(format!("{path}.optionalOldSelf"), &rule["optionalOldSelf"], detail);
            }
        }
    }

    fn cost(&mut self, path: String, name: &str, cost: u64) {
        if cost > RULE_LIMIT {
            self.cel.forbidden(&path, exceeds(name, cost, RULE_LIMIT));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_LIMIT / 100 {
            self.expensive.push((path, cost));
        }
    }

    /// What can be said of a rule without compiling it.
    fn form(&mut self, rule: &Value, schema: &Value, path: &str) {
        let text = |name: &str| rule[name].as_str().unwrap_or_default();
        let broken = |text: &str| text.contains(['\n', '\r']);
        let (source, message) = (text("rule").trim(), text("message"));
        let errors = &mut self.errors;
        if source.is_empty() {
            errors.required(format!("{path}.rule"), "rule is not specified");
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.invalid(format!("{path}.message"), &rule["message"], "must be non-empty if specified");
        } else if broken(message.trim()) {
            errors.invalid(format!("{path}.message"), &rule["message"], "must not contain line breaks");
        } else if broken(source) && message.trim().is_empty() {
            errors.required(format!("{path}.message"), "message must be specified if rule contains line breaks");
        }
        let expression = text("messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            errors.required(format!("{path}.messageExpression"), "messageExpression must be non-empty if specified");
        }
        if !rule["reason"].is_null() && !REASONS.contains(&text("reason")) {
            let mut sorted = REASONS.to_vec();
            sorted.sort_unstable();
            errors.unsupported(format!("{path}.reason"), &rule["reason"], &sorted);
        }
        let field = text("fieldPath");
        if !field.is_empty() && field.trim().is_empty() {
            errors.invalid(format!("{path}.fieldPath"), &rule["fieldPath"], "must be non-empty if specified");
        }
        if broken(field) {
            errors.invalid(format!("{path}.fieldPath"), &rule["fieldPath"], "must not contain line breaks");
        }
        if !field.is_empty() && !leads_somewhere(schema, field) {
            errors.invalid(format!("{path}.fieldPath"), &rule["fieldPath"], "must be a valid path");
        }
    }
}

/// Whether a path of a rule leads to a field of the schema.
fn leads_somewhere(schema: &Value, path: &str) -> bool {
    let mut schema = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix("['") {
            let Some((inner, after)) = after.split_once("']") else { return false };
            (name, rest) = (inner, after);
        } else if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let Some((inner, after)) = after.split_at_checked(end) else { return false };
            (name, rest) = (inner, after);
        } else {
            return false;
        }
        let known = &schema["properties"][name];
        schema = if known.is_object() { known } else { &schema["additionalProperties"] };
        if !schema.is_object() {
            return false;
        }
    }
    true
}

/// A rule as Go shows it.
fn shown(rule: &Value) -> String {
    let text = |name: &str| Value::from(rule[name].as_str().unwrap_or_default()).to_string();
    let shown = format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        rule["reason"],
        text("fieldPath"),
        rule["optionalOldSelf"]
    );
    shown.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::CUSTOM_RESOURCE_DEFINITIONS;

    fn refusal(spec: Value) -> String {
        let definition = json!({"metadata": {"name": "bads.example.com"}, "spec": {"versions": [{"name": "v1", "served": true,
            "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}]}});
        let mut errors = Errors::default();
        check(&definition, &mut errors);
        errors
            .into_result(CUSTOM_RESOURCE_DEFINITIONS.row(), "bads.example.com")
            .map_or_else(|status| status.message, |()| String::new())
    }

    fn with_rule(rule: Value) -> String {
        refusal(json!({"type": "object", "x-kubernetes-validations": [rule], "properties": {
            "items": {"type": "array", "items": {"type": "string"}}, "num": {"type": "integer"},
            "few": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 5}},
        }}))
    }

    #[test]
    fn rules_are_compiled_and_their_cost_is_limited() {
        assert_eq!(with_rule(json!({"rule": "self.num > 0 && self.few.all(x, x.startsWith('a'))"})), "");
        assert!(with_rule(json!({"rule": "self.num + 1"})).ends_with("cel expression must evaluate to a bool"));
        assert!(with_rule(json!({"rule": "self.nope == 1"})).contains("undefined field 'nope'"));
        let costly = with_rule(json!({"rule": "self.items.all(i, self.items.all(j, i == j || i.contains(j)))"}));
        assert_eq!(costly.matches("more than 100x").count(), 2, "{costly}");
        assert!(costly.contains("contributed to estimated rule cost total"), "{costly}");
        assert!(
            with_rule(json!({"rule": "self.num > 0", "message": "a\nb"})).ends_with("must not contain line breaks")
        );
        assert!(with_rule(json!({"rule": "self.num > 0", "fieldPath": ".nope"})).ends_with("must be a valid path"));
    }

    #[test]
    fn patterns_compile() {
        let with = |pattern: &str| refusal(json!({"type": "string", "pattern": pattern}));
        for good in ["", "^[a-z]{1,63}$", "^{.*}$", "a{,3}", "[^[\\]&&]+", r"^\Qa.b\E$", r"^\d+$", "^a{1000}$"] {
            assert_eq!(with(good), "", "{good}");
        }
        for bad in ["(((a{1000}){1000}){1000})", "(a{100}){11}", "a{1001}", "(", "[a", "*", "a**", r"\y", "(?=a)"] {
            let told = with(bad);
            assert!(told.contains(".pattern: Invalid value: "), "{bad}: {told}");
            assert!(
                told.contains("must be a valid regular expression, but isn't: error parsing regexp: "),
                "{bad}: {told}"
            );
        }
    }

    #[test]
    fn schemas_say_what_everything_is() {
        assert!(
            refusal(json!({"properties": {"a": {"type": "string"}}}))
                .contains("must not be empty for specified object fields")
        );
        assert!(refusal(json!({"type": "array", "items": {}})).contains("must not be empty for specified array items"));
    }
}
