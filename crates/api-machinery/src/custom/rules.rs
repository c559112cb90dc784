//! `x-kubernetes-validations` of a version: compiled once, evaluated for every object.
//!
//! // upstream: apiextensions-apiserver pkg/apiserver/schema/cel/validation.go, compilation.go

use std::collections::BTreeMap;
use std::sync::Arc;

use klab_cel::{Bindings, Budget, Declaration, Environment, Failure, Program, Shape, Type};
use serde_json::Value;

use super::declaration::declare;
use super::lists;
use crate::schema::Path;
use crate::validation::Errors;
use crate::work;

/// Longest text of a message.
const MAX_MESSAGE_LENGTH: usize = 5 * 1024;

/// The rules of a schema and of the schemas in it, without those that have none.
#[derive(Debug, Default)]
pub(super) struct Rules {
    own: Vec<Rule>,
    declaration: Option<Declaration>,
    /// What decides how entries of a list go together: its type and its keys.
    schema: Value,
    properties: BTreeMap<String, Rules>,
    items: Option<Box<Rules>>,
    values: Option<Box<Rules>>,
}

/// A compiled rule.
#[derive(Debug)]
pub(super) struct Rule {
    pub text: String,
    pub program: Result<Program, String>,
    pub message: Option<Result<Program, String>>,
    static_message: String,
    reason: String,
    field_path: String,
    pub(super) uses_old: bool,
    optional_old: bool,
}

impl Rule {
    /// Compiles a rule of `x-kubernetes-validations`; the error is upstream's.
    pub(super) fn compile(rule: &Value, declaration: &Declaration) -> Self {
        let text = |name: &str| rule[name].as_str().unwrap_or_default().to_owned();
        let optional_old = rule["optionalOldSelf"] == true;
        let old = if optional_old {
            Declaration::simple(Type::Optional(Arc::new(declaration.to_type())))
        } else {
            declaration.clone()
        };
        let environment =
            Environment::new().metered(work::steps).variable("self", declaration.clone()).variable("oldSelf", old);
        let source = text("rule");
        // It is read, its types are checked, and its cost is estimated.
        work::steps(source.len() as u64);
        let program =
            environment.compile(&source).map_err(|error| format!("compilation failed: {error}")).and_then(|program| {
                if *program.output() == Type::Bool {
                    Ok(program)
                } else {
                    Err("cel expression must evaluate to a bool".to_owned())
                }
            });
        let message_source = text("messageExpression");
        let message = (!message_source.trim().is_empty()).then(|| {
            let program = environment
                .compile(&message_source)
                .map_err(|error| format!("messageExpression compilation failed: {error}"))?;
            if *program.output() == Type::String {
                Ok(program)
            } else {
                Err("messageExpression must evaluate to a string".to_owned())
            }
        });
        let uses_old = program.as_ref().is_ok_and(|program| program.names("oldSelf"));
        Self {
            text: source,
            program,
            message,
            static_message: text("message").trim().to_owned(),
            reason: text("reason"),
            field_path: text("fieldPath"),
            uses_old,
            optional_old,
        }
    }

    /// How errors of evaluation name it.
    fn described(&self) -> &str {
        if self.static_message.is_empty() { &self.text } else { &self.static_message }
    }

    /// What a violation is described by, where no expression does.
    fn fallback(&self) -> String {
        if self.static_message.is_empty() {
            format!("failed rule: {}", self.text.trim())
        } else {
            self.static_message.clone()
        }
    }
}

impl Rules {
    /// The rules of a version's schema.
    pub(super) fn compile(schema: &Value) -> Self {
        Self::of(schema, true, "selfType", 0).unwrap_or_default()
    }

    fn of(schema: &Value, resource: bool, name: &str, depth: usize) -> Option<Self> {
        if depth > 100 || !schema.is_object() {
            return None;
        }
        let embedded = |inner: &Value| inner["x-kubernetes-embedded-resource"] == true;
        let inner = |inner: &Value, part: &str| {
            Self::of(inner, embedded(inner), &format!("{name}.{part}"), depth.saturating_add(1))
        };
        let properties: BTreeMap<String, Self> = schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(key, below)| Some((key.clone(), inner(below, key)?)))
            .collect();
        let items = inner(&schema["items"], "@idx").map(Box::new);
        let values = inner(&schema["additionalProperties"], "@elem").map(Box::new);
        let given = schema["x-kubernetes-validations"].as_array().map(Vec::as_slice).unwrap_or_default();
        let declaration = if given.is_empty() { None } else { declare(schema, resource, name) };
        let own: Vec<Rule> = match &declaration {
            Some(declaration) => given
                .iter()
                .filter(|rule| rule["rule"].as_str().is_some_and(|text| !text.trim().is_empty()))
                .map(|rule| Rule::compile(rule, declaration))
                .collect(),
            None => Vec::new(),
        };
        if own.is_empty() && properties.is_empty() && items.is_none() && values.is_none() {
            return None;
        }
        let mut kept = Value::Object(serde_json::Map::new());
        for key in ["type", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"] {
            if let Some(value) = schema.get(key) {
                kept[key] = value.clone();
            }
        }
        Some(Self { own, declaration, schema: kept, properties, items, values })
    }

    /// Whether there are none at all.
    pub(super) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.properties.is_empty() && self.items.is_none() && self.values.is_none()
    }

    /// Reports what the rules refuse.
    pub(super) fn evaluate(&self, old: Option<&Value>, new: &Value, budget: &mut Budget, errors: &mut Errors) {
        self.at(Path::Root, old, new, budget, errors);
    }

    /// False when nothing may be evaluated any more.
    fn at(&self, path: Path<'_>, old: Option<&Value>, new: &Value, budget: &mut Budget, errors: &mut Errors) -> bool {
        if new.is_null() {
            return true;
        }
        if !self.own.is_empty() && !self.own_rules(path, old, new, budget, errors) {
            return false;
        }
        match new {
            Value::Object(map) => {
                for (name, inner) in map {
                    let (rules, path) = match (self.properties.get(name), &self.values) {
                        (Some(rules), _) => (rules, path.field(name)),
                        (None, Some(rules)) => (rules.as_ref(), path.key(name)),
                        (None, None) => continue,
                    };
                    let old = old.and_then(|old| old.get(name));
                    if !rules.at(path, old, inner, budget, errors) {
                        return false;
                    }
                }
            }
            Value::Array(list) => {
                let Some(rules) = &self.items else { return true };
                let before = lists::Correlated::of(&self.schema, old);
                for (at, inner) in list.iter().enumerate() {
                    let old = before.with(inner);
                    if !rules.at(path.index(at), old, inner, budget, errors) {
                        return false;
                    }
                }
            }
            _ => {}
        }
        true
    }

    fn own_rules(
        &self,
        path: Path<'_>,
        old: Option<&Value>,
        new: &Value,
        budget: &mut Budget,
        errors: &mut Errors,
    ) -> bool {
        let Some(declaration) = &self.declaration else { return true };
        let old = old.filter(|old| !old.is_null());
        let kind = self.schema["type"].as_str().unwrap_or_default();
        let field = if matches!(path, Path::Root) { "<nil>".to_owned() } else { path.to_string() };
        let field = field.as_str();
        let this = declaration.value(new);
        let before = old.map(|old| declaration.value(old));
        for rule in &self.own {
            let program = match &rule.program {
                Ok(program) => program,
                Err(error) => {
                    errors.invalid(field, &kind.into(), format!("rule compile error: {error}"));
                    continue;
                }
            };
            if rule.uses_old && before.is_none() && !rule.optional_old {
                continue;
            }
            let was = match (&before, rule.optional_old) {
                (Some(before), false) => before.clone(),
                (before, _) => klab_cel::Value::Optional(before.clone().map(Arc::new)),
            };
            let bindings = Bindings(vec![("self", this.clone()), ("oldSelf", was)]);
            let mut own = Budget::of(klab_cel::PER_CALL_LIMIT.min(budget.limit.saturating_sub(budget.spent)));
            let outcome = program.evaluate(&bindings, &mut own);
            budget.spent = budget.spent.saturating_add(own.spent);
            match outcome {
                Ok(klab_cel::Value::Bool(true)) => {}
                Ok(_) => {
                    // What was there before and was not changed is not refused, but for rules about changes.
                    if !rule.uses_old && old == Some(new) {
                        continue;
                    }
                    self.violated(rule, field, new, &bindings, budget, errors);
                }
                Err(Failure::OutOfBudget) if budget.spent >= budget.limit => {
                    let why =
                        "validation failed due to running out of cost budget, no further validation rules will be run";
                    errors.invalid(field, &kind.into(), why);
                    return false;
                }
                Err(failure) => {
                    let described = rule.described();
                    let text = failure.to_string();
                    let detail = if text.starts_with("no such overload") {
                        format!(
                            "'{text}': call arguments did not match a supported operator, function or macro signature for rule: {described}"
                        )
                    } else if failure == Failure::OutOfBudget {
                        format!(
                            "'{text}': no further validation rules will be run due to call cost exceeds limit for rule: {described}"
                        )
                    } else {
                        format!("{text} evaluating rule: {described}")
                    };
                    errors.invalid(field, &kind.into(), detail);
                    if failure == Failure::OutOfBudget {
                        return false;
                    }
                }
            }
        }
        true
    }

    fn violated(
        &self,
        rule: &Rule,
        field: &str,
        new: &Value,
        bindings: &Bindings,
        budget: &mut Budget,
        errors: &mut Errors,
    ) {
        let mut detail = rule.fallback();
        if let Some(Ok(program)) = &rule.message {
            let mut own = Budget::of(klab_cel::PER_CALL_LIMIT.min(budget.limit.saturating_sub(budget.spent)));
            let text = program.evaluate(bindings, &mut own).ok();
            budget.spent = budget.spent.saturating_add(own.spent);
            let text = text.as_ref().and_then(klab_cel::Value::as_str).map(str::trim);
            if let Some(text) = text
                && !text.is_empty()
                && !text.contains(['\n', '\r'])
                && text.len() <= MAX_MESSAGE_LENGTH
            {
                text.clone_into(&mut detail);
            }
        }
        let place = match (field, rule.field_path.as_str()) {
            (_, "") => field.to_owned(),
            ("<nil>", path) => path.trim_start_matches('.').to_owned(),
            (_, path) if path.starts_with('.') || path.starts_with('[') => format!("{field}{path}"),
            (_, path) => format!("{field}.{path}"),
        };
        let whole = matches!(self.declaration.as_ref().map(|declared| &declared.shape), Some(Shape::Simple(_)));
        match rule.reason.as_str() {
            "FieldValueForbidden" => errors.forbidden(place, detail),
            "FieldValueRequired" => errors.required(place, &detail),
            "FieldValueDuplicate" => errors.duplicate(place, new),
            _ if whole => errors.invalid(place, new, detail),
            _ => errors.invalid_without(place, &detail),
        }
    }
}
