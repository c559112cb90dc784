//! The structure of a lab file: unknown keys, missing keys, wrong types, unknown values, numbers out of range.
//!
//! serde stops at the first of them. This walk compares the whole tree with the JSON Schema, reports everything, and takes
//! what is wrong out of the tree, so that what is left can still be read and judged.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Diagnostic, Diagnostics, did_you_mean};
use super::kubernetes;
use super::schema::SCHEMA;
use super::source::{Location, Source};
use crate::code::Code;
use crate::words::{quoted, quoted_choice};

/// Top-level tables in which something was taken out, so that rules that would judge what is missing hold back.
pub(super) type Broken = BTreeSet<String>;

/// Words of other tools for keys of the lab file.
const SYNONYMS: &[(&str, &str)] = &[
    ("count", "nodes"),
    ("node_count", "nodes"),
    ("nodecount", "nodes"),
    ("vm_size", "size"),
    ("node_vm_size", "size"),
    ("vmsize", "size"),
    ("instance_type", "size"),
    ("type", "kind"),
    ("selector", "node_selector"),
    ("topologyspreadconstraints", "topology_spread"),
    ("priorityclassname", "priority_class"),
    ("envfrom", "env_from"),
    ("resourceclaims", "resource_claims"),
    ("version", "kubernetes"),
    ("kubernetes_version", "kubernetes"),
    ("region", "location"),
    ("actions", "do"),
    ("file", "path"),
    ("description", "text"),
    ("exists", "exist"),
    ("taint", "tainted"),
    ("zone", "zones"),
    ("port", "ports"),
    ("pools", "pool"),
    ("workloads", "workload"),
    ("checks", "check"),
    ("steps", "step"),
    ("manifests", "manifest"),
    ("name", "lab"),
];

/// Words by which authors ask for a volume claim.
const OF_CLAIMS: [&str; 8] =
    ["volumes", "volume", "volume_mounts", "volumemounts", "pvc", "claim", "claims", "volume_claim_templates"];

/// Compares the tree with the schema. `templated` holds the results of strings that were one template expression as a
/// whole, by start offset: where a number or a boolean is wanted, they are read as one. `failed` holds the start offsets
/// of strings whose template could not be rendered; that has been reported.
pub(super) fn check<'i>(
    tree: &mut Spanned<DeTable<'i>>,
    templated: BTreeMap<usize, &'i str>,
    failed: &BTreeSet<usize>,
    source: &Arc<Source>,
    diagnostics: &mut Diagnostics,
) -> Broken {
    let mut walk = Walk { source, templated, failed, diagnostics, broken: Broken::new(), path: Vec::new() };
    let span = tree.span();
    walk.table(tree.get_mut(), span, &SCHEMA);
    if !tree.get_ref().keys().any(|key| key.get_ref() == "lab") {
        // The name has been missed already; without one the rest could not be read.
        let name = Spanned::new(0..0, DeValue::String("lab".into()));
        tree.get_mut().insert(Spanned::new(0..0, "lab".into()), name);
    }
    walk.broken
}

struct Walk<'a, 'i> {
    source: &'a Arc<Source>,
    templated: BTreeMap<usize, &'i str>,
    failed: &'a BTreeSet<usize>,
    diagnostics: &'a mut Diagnostics,
    broken: Broken,
    path: Vec<String>,
}

/// A list of numbers in quotes, without them; none where it is anything else, or a single string.
fn without_quotes(array: &toml::de::DeArray<'_>, schema: &Value) -> Option<String> {
    let is_number = |item: &Value| item["type"] == "integer" || item["type"] == "number";
    let wants_numbers = alternatives(&schema["items"]).into_iter().all(is_number);
    let texts: Option<Vec<&str>> = array.iter().map(|item| item.get_ref().as_str()).collect();
    let texts = texts.filter(|texts| texts.len() > 1 && wants_numbers)?;
    texts.iter().all(|text| text.parse::<i64>().is_ok()).then(|| format!("[{}]", texts.join(", ")))
}

/// Follows `$ref` and single-element `allOf`.
fn resolve(mut schema: &Value) -> &Value {
    loop {
        if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/definitions/")) {
            schema = &SCHEMA["definitions"][name];
        } else if let Some(Value::Array(all)) = schema.get("allOf") {
            let Some(first) = all.first() else { return schema };
            schema = first;
        } else {
            return schema;
        }
    }
}

/// The alternatives of a schema, each with references resolved.
fn alternatives(schema: &Value) -> Vec<&Value> {
    let schema = resolve(schema);
    match schema.get("anyOf") {
        Some(Value::Array(any)) => any.iter().flat_map(alternatives).collect(),
        _ => vec![schema],
    }
}

/// Words of an enumeration, if the schema is one.
fn words(schema: &Value) -> Option<Vec<&str>> {
    if let Some(Value::Array(values)) = schema.get("enum") {
        return values.iter().map(Value::as_str).collect();
    }
    let Some(Value::Array(one)) = schema.get("oneOf") else { return None };
    let mut words = Vec::new();
    for variant in one {
        match (variant.get("const"), variant.get("enum")) {
            (Some(Value::String(word)), _) => words.push(word.as_str()),
            (_, Some(Value::Array(values))) => words.extend(values.iter().filter_map(Value::as_str)),
            _ => return None,
        }
    }
    Some(words)
}

fn accepts(schema: &Value, value: &DeValue<'_>) -> bool {
    if schema.as_bool() == Some(true) {
        return true;
    }
    match schema["type"].as_str() {
        Some("string") => value.is_str(),
        Some("integer") => value.is_integer(),
        Some("number") => value.is_integer() || value.is_float(),
        Some("boolean") => value.is_bool(),
        Some("array") => value.is_array(),
        Some("object") => value.is_table(),
        _ => words(schema).is_none() || value.is_str(),
    }
}

fn expected(schema: &Value) -> &'static str {
    match schema["type"].as_str() {
        Some("integer") => "a whole number",
        Some("number") => "a number",
        Some("boolean") => "true or false",
        Some("array") => "an array",
        Some("object") => "a table",
        _ => "a string",
    }
}

fn found(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

impl<'i> Walk<'_, 'i> {
    fn at(&self, span: &Range<usize>) -> Location {
        self.source.at(span.clone())
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        if let Some(table) = self.path.first() {
            self.broken.insert(table.clone());
            // A whole entry is gone, and its name with it.
            if self.path.len() <= 2 {
                self.broken.insert(format!("{table}.*"));
            }
        }
        self.diagnostics.push(diagnostic);
    }

    /// What the diagnostics call the place: `pool.extra.nodes`, `step[0].name`.
    fn path(&self) -> String {
        shown(&self.path)
    }

    /// Whether the value may stay in the tree.
    fn value(&mut self, value: &mut Spanned<DeValue<'i>>, schema: &Value) -> bool {
        let span = value.span();
        if self.failed.contains(&span.start) {
            self.broken.extend(self.path.first().cloned());
            return false;
        }
        let choices = alternatives(schema);
        self.read_template_result(value, &choices);
        let Some(schema) = choices.iter().copied().find(|choice| accepts(choice, value.get_ref())) else {
            self.wrong_type(value, &choices);
            return false;
        };
        if let Some(name) = schema["x-kubernetes"].as_str() {
            let problems = kubernetes::problems(value, name, self.source);
            let fine = problems.is_empty();
            for problem in problems {
                self.report(problem);
            }
            return fine;
        }
        match value.get_mut() {
            DeValue::Table(table) => self.table(table, span, schema),
            DeValue::Array(array) => {
                if let Some(instead) = without_quotes(array, schema) {
                    let message = format!("`{}` must be a list of whole numbers", self.path());
                    let diagnostic =
                        Diagnostic::error(Code::WrongType, message).at(&self.at(&span), "these are strings");
                    self.report(diagnostic.patch("leave the quotes out", &self.at(&span), instead));
                    return false;
                }
                let mut keep = Vec::new();
                for (index, item) in array.iter_mut().enumerate() {
                    self.path.push(index.to_string());
                    keep.push(self.value(item, &schema["items"]));
                    self.path.pop();
                }
                let mut keep = keep.into_iter();
                let mut kept = toml::de::DeArray::new();
                for item in std::mem::replace(array, toml::de::DeArray::new()) {
                    if keep.next() == Some(true) {
                        kept.push(item);
                    }
                }
                *array = kept;
                true
            }
            DeValue::String(text) => match words(schema) {
                Some(words) if !words.contains(&text.as_ref()) => {
                    let mut diagnostic =
                        Diagnostic::error(Code::UnknownValue, format!("`{}` cannot be `{text}`", self.path()))
                            .at(&self.at(&span), format!("expected {}", quoted_choice(&words)));
                    let meant = did_you_mean(text, words).map(str::to_owned);
                    if let Some(word) = &meant {
                        diagnostic = diagnostic.patch("did you mean", &self.at(&span), format!("\"{word}\""));
                    }
                    self.report(diagnostic);
                    // Read on with what was meant: what depends on it is judged as if it were written so.
                    let Some(meant) = meant else { return false };
                    *text = meant.into();
                    true
                }
                _ => true,
            },
            DeValue::Integer(number) => {
                let number = i128::from_str_radix(number.as_str(), number.radix()).ok();
                self.in_range(number, &span, schema)
            }
            _ => true,
        }
    }

    fn in_range(&mut self, number: Option<i128>, span: &Range<usize>, schema: &Value) -> bool {
        let bound = |name: &str| schema[name].as_i64().map(i128::from);
        let (low, high) = (bound("minimum"), bound("maximum"));
        // Every whole number of the file fits 32 bits, seeds excepted, which have no bounds in the schema.
        let high = high.or_else(|| low.map(|_| i128::from(u32::MAX)));
        let fits = number.is_some_and(|number| {
            low.is_none_or(|low| number >= low)
                && high.is_none_or(|high| number <= high)
                && i64::try_from(number).is_ok()
        });
        if !fits {
            let wanted = match (low, high) {
                (Some(low), Some(high)) if high == i128::from(u32::MAX) => format!("must be {low} or more"),
                (Some(low), Some(high)) => format!("must be from {low} to {high}"),
                (Some(low), None) => format!("must be {low} or more"),
                _ => "the number is too large".to_owned(),
            };
            let message = format!("`{}` is out of range", self.path());
            self.report(Diagnostic::error(Code::OutOfRange, message).at(&self.at(span), wanted));
        }
        fits
    }

    /// Reads the result of `"{{ … }}"` as a number or a boolean where one is wanted and a string is not.
    fn read_template_result(&self, value: &mut Spanned<DeValue<'i>>, choices: &[&Value]) {
        let Some(text) = self.templated.get(&value.span().start) else { return };
        if choices.iter().any(|choice| accepts(choice, value.get_ref())) {
            return;
        }
        let Ok(parsed) = DeValue::parse(text.trim()) else { return };
        if choices.iter().any(|choice| accepts(choice, parsed.get_ref())) {
            *value.get_mut() = parsed.into_inner();
        }
    }

    /// Whether the table has all that it needs.
    fn table(&mut self, table: &mut DeTable<'i>, span: Range<usize>, schema: &Value) -> bool {
        let mut drop = Vec::new();
        let empty = serde_json::Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&empty);
        let others = schema.get("additionalProperties").filter(|other| other.as_bool() != Some(false));
        for (key, value) in table.iter_mut() {
            let name = key.get_ref().as_ref();
            self.path.push(name.to_owned());
            match properties.get(name).or(others) {
                Some(schema) => {
                    if !self.value(value, schema) {
                        drop.push(key.clone());
                    }
                }
                None if properties.is_empty() && others.is_none() => {}
                None => {
                    self.unknown_key(&key.span(), name, properties);
                    drop.push(key.clone());
                }
            }
            self.path.pop();
        }
        if let Some(Value::Array(required)) = schema.get("required") {
            for name in required.iter().filter_map(Value::as_str) {
                let given = table.keys().any(|key| key.get_ref() == name);
                if !given {
                    self.missing_key(&span, name, properties);
                }
            }
        }
        for key in drop {
            table.remove(&key);
        }
        let Some(Value::Array(required)) = schema.get("required") else { return true };
        let has = |name: &Value| table.keys().any(|key| name.as_str() == Some(key.get_ref()));
        required.iter().all(has)
    }

    fn unknown_key(&mut self, span: &Range<usize>, name: &str, properties: &serde_json::Map<String, Value>) {
        let parent = shown(&self.path[..self.path.len() - 1]);
        let place = if parent.is_empty() { "a lab".to_owned() } else { format!("`{parent}`") };
        let mut diagnostic = Diagnostic::error(Code::UnknownKey, format!("{place} has no key `{name}`"))
            .at(&self.at(span), "klab does not know this key");
        let normal = name.replace('-', "_").to_lowercase();
        let synonym = SYNONYMS
            .iter()
            .filter(|(other, _)| *other == normal)
            .map(|(_, key)| *key)
            .find(|key| properties.contains_key(*key));
        if self.path.first().is_some_and(|table| table == "workload") && OF_CLAIMS.contains(&normal.as_str()) {
            diagnostic = diagnostic.help(
                "write the PersistentVolumeClaim in a `[[manifest]]`, and mount it here by its name: \
                 `mounts = { \"/data\" = \"claim/NAME\" }`; in a StatefulSet `\"claim-template/1Gi\"` makes a claim for each pod",
            );
        } else if let Some(key) = did_you_mean(name, properties.keys().map(String::as_str)).or(synonym) {
            let what = properties[key]["description"].as_str().unwrap_or_default();
            diagnostic = diagnostic.patch("did you mean", &self.at(span), key);
            if let Some(sentence) = what.split_inclusive(". ").next().filter(|sentence| !sentence.is_empty()) {
                diagnostic = diagnostic.note(format!("`{key}`: {}", sentence.trim()));
            }
        } else {
            let keys: Vec<_> = properties.keys().map(String::as_str).collect();
            diagnostic = diagnostic.help(format!("the keys here are {}", quoted(&keys)));
        }
        self.report(diagnostic);
    }

    fn missing_key(&mut self, span: &Range<usize>, name: &str, properties: &serde_json::Map<String, Value>) {
        let place = if self.path.is_empty() { "the lab".to_owned() } else { format!("`{}`", self.path()) };
        let what = properties.get(name).and_then(|schema| schema["description"].as_str()).unwrap_or_default();
        // The table of a whole file spans all of it; its first line is enough.
        let line = self.source.line(span.start);
        let span = span.start..span.end.min(self.source.line_span(line).end).max(span.start);
        self.path.push(name.to_owned());
        self.report(
            Diagnostic::error(Code::MissingKey, format!("{place} needs the key `{name}`"))
                .at(&self.at(&span), format!("`{name}` is missing"))
                .help(format!("`{name}`: {what}")),
        );
        self.path.pop();
    }

    fn wrong_type(&mut self, value: &Spanned<DeValue<'_>>, choices: &[&Value]) {
        let span = value.span();
        let at = self.at(&span);
        let mut wanted: Vec<_> = choices.iter().map(|choice| expected(choice)).collect();
        wanted.dedup();
        let wanted = wanted.join(" or ");
        let found = found(value.get_ref());
        let mut diagnostic = Diagnostic::error(Code::WrongType, format!("`{}` must be {wanted}", self.path()))
            .at(&at, format!("this is {found}"));
        let written = self.source.text().get(span.clone()).unwrap_or_default();
        let wants = |name: &str| choices.iter().any(|choice| choice["type"] == name);
        let name =
            self.path.iter().filter(|part| part.parse::<usize>().is_err()).cloned().collect::<Vec<_>>().join(".");
        diagnostic = match value.get_ref() {
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) if wants("string") => {
                diagnostic.patch("put it in quotes", &at, format!("\"{written}\""))
            }
            DeValue::String(text) if (wants("integer") || wants("number")) && text.parse::<i64>().is_ok() => {
                diagnostic.patch("leave the quotes out", &at, text.as_ref())
            }
            DeValue::String(text) if wants("boolean") && matches!(text.as_ref(), "true" | "false") => {
                diagnostic.patch("leave the quotes out", &at, text.as_ref())
            }
            DeValue::Table(_) if wants("array") && written.starts_with('[') => {
                diagnostic.patch("one of a list has two brackets", &at, format!("[[{name}]]"))
            }
            // The header `[manifest.web]` makes `manifest` a table: its place is a word of the header.
            DeValue::Table(_) if wants("array") && !written.starts_with('{') => {
                diagnostic.help(format!("each one starts with `[[{name}]]`"))
            }
            DeValue::String(_) | DeValue::Table(_) if wants("array") => {
                diagnostic.patch("write a list", &at, format!("[{written}]"))
            }
            DeValue::Array(_) if wants("object") && written.starts_with("[[") => {
                diagnostic.patch("a table has one bracket", &at, format!("[{name}]"))
            }
            _ => diagnostic,
        };
        self.report(diagnostic);
    }
}

fn shown(path: &[String]) -> String {
    let mut text = String::new();
    for part in path {
        match (part.parse::<usize>(), text.is_empty()) {
            (Ok(_), _) => text.extend(["[", part, "]"]),
            (Err(_), true) => text.push_str(part),
            (Err(_), false) => text.extend([".", part]),
        }
    }
    text
}
