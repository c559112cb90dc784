//! Templates in the strings of a lab file: `{{ vars.image }}`.
//!
//! Variables come first, in file order, each seeing those before it; then pools, which see the variables; then all other
//! strings, which see both. Errors point into the lab file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tera::{Context, ErrorKind, Kwargs, State, Tera};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Diagnostic, Diagnostics, did_you_mean};
use super::lab::LoadOptions;
use super::provider::Provider;
use super::source::Source;
use super::structure::list;

/// The results of all templates in a lab file.
#[derive(Default)]
pub(super) struct Rendered {
    /// Result by start offset of the string.
    pub strings: BTreeMap<usize, String>,
    /// Start offsets of strings that were one `{{ … }}` as a whole.
    pub whole: BTreeSet<usize>,
    /// Start offsets of strings that could not be rendered.
    pub failed: BTreeSet<usize>,
    /// The variables that apply.
    pub vars: Map<String, Value>,
    /// The provider that applies.
    pub provider: Provider,
}

impl Rendered {
    /// Puts the results in the place of the templates.
    pub(super) fn substitute<'i>(&'i self, tree: &mut Spanned<DeTable<'i>>) {
        fn visit<'i>(strings: &'i BTreeMap<usize, String>, value: &mut Spanned<DeValue<'i>>) {
            let start = value.span().start;
            match value.get_mut() {
                DeValue::String(text) => {
                    if let Some(result) = strings.get(&start) {
                        *text = result.as_str().into();
                    }
                }
                DeValue::Array(items) => items.iter_mut().for_each(|item| visit(strings, item)),
                DeValue::Table(table) => table.iter_mut().for_each(|(_, item)| visit(strings, item)),
                _ => {}
            }
        }
        tree.get_mut().iter_mut().for_each(|(_, value)| visit(&self.strings, value));
    }
}

/// A Tera engine with klab's filters.
pub fn engine() -> Tera {
    let mut tera = Tera::default();
    // JSON is YAML: whatever the value, it arrives as it is, be it `off`, `1.20`, quotes or line ends.
    tera.register_filter("json", |value: &tera::Value, _: Kwargs, _: &State| {
        serde_json::to_string(value).map_err(|error| tera::Error::message(error.to_string()))
    });
    tera
}

/// Whether a string has anything for Tera in it.
fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|open| text.contains(open))
}

/// Renders every string of the tree that is a template.
pub(super) fn render(
    tree: &Spanned<DeTable<'_>>,
    options: &LoadOptions,
    source: &Arc<Source>,
    diagnostics: &mut Diagnostics,
) -> Rendered {
    let root = tree.get_ref();
    let text = |name: &str| get(root, name).and_then(|value| value.get_ref().as_str());
    let provider = options.provider.or_else(|| text("provider")?.parse().ok()).unwrap_or_default();
    let mut context = Context::new();
    context.insert("lab", &text("lab").unwrap_or_default());
    context.insert("provider", provider.as_str());
    context.insert("vars", &json!({}));
    context.insert("pool", &json!({}));
    let mut pass =
        Pass { tera: engine(), context, source, diagnostics, rendered: Rendered { provider, ..Rendered::default() } };
    if let Some(DeValue::Table(table)) = get(root, "vars").map(Spanned::get_ref) {
        pass.variables(table, options);
    } else {
        pass.overrides(&BTreeMap::new(), options);
    }
    if let Some(value) = get(root, "pool") {
        pass.value(value);
        let pools = pass.json(value.get_ref());
        pass.context.insert("pool", &pools);
    }
    for (key, value) in root {
        if !matches!(key.get_ref().as_ref(), "lab" | "provider" | "vars" | "pool") {
            pass.value(value);
        }
    }
    pass.rendered
}

fn get<'t, 'i>(table: &'t DeTable<'i>, name: &str) -> Option<&'t Spanned<DeValue<'i>>> {
    table.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)
}

/// Entries in file order.
fn in_order<'t, 'i>(table: &'t DeTable<'i>) -> Vec<(&'t str, Range<usize>, &'t Spanned<DeValue<'i>>)> {
    let mut entries: Vec<_> = table.iter().map(|(key, value)| (key.get_ref().as_ref(), key.span(), value)).collect();
    entries.sort_by_key(|(_, span, _)| span.start);
    entries
}

struct Pass<'a> {
    tera: Tera,
    context: Context,
    source: &'a Arc<Source>,
    diagnostics: &'a mut Diagnostics,
    rendered: Rendered,
}

impl Pass<'_> {
    fn variables(&mut self, table: &DeTable<'_>, options: &LoadOptions) {
        let provider_table = |name: &str| Provider::ALL.iter().any(|provider| provider.as_str() == name);
        let is_overlay = |name: &str, value: &Spanned<DeValue<'_>>| provider_table(name) && value.get_ref().is_table();
        let mut declared = BTreeMap::new();
        for (name, span, value) in in_order(table) {
            if is_overlay(name, value) {
                continue;
            }
            declared.insert(name.to_owned(), span);
            self.variable(name, value);
        }
        for (name, _, value) in in_order(table) {
            let DeValue::Table(overlay) = value.get_ref() else { continue };
            if !is_overlay(name, value) {
                continue;
            }
            for (variable, span, value) in in_order(overlay) {
                if !declared.contains_key(variable) {
                    let at = self.source.at(span.clone());
                    let mut diagnostic = Diagnostic::error(
                        "unknown-variable",
                        format!("`vars.{name}.{variable}` overrides a variable that `[vars]` does not have"),
                    )
                    .at(&at, "no such variable");
                    diagnostic = match did_you_mean(variable, declared.keys().map(String::as_str)) {
                        Some(similar) => diagnostic.patch("did you mean", &at, similar),
                        None => diagnostic.help(format!("give it a value for all providers: `[vars] {variable} = …`")),
                    };
                    self.diagnostics.push(diagnostic);
                }
                if name == self.rendered.provider.as_str() {
                    self.variable(variable, value);
                } else {
                    self.value(value);
                }
            }
        }
        self.overrides(&declared, options);
    }

    fn variable(&mut self, name: &str, value: &Spanned<DeValue<'_>>) {
        self.value(value);
        let value = self.json(value.get_ref());
        self.rendered.vars.insert(name.to_owned(), value);
        self.context.insert("vars", &self.rendered.vars);
    }

    /// Takes over `--var NAME=VALUE`, with the type that the variable has in the file.
    fn overrides(&mut self, declared: &BTreeMap<String, Range<usize>>, options: &LoadOptions) {
        for (name, text) in &options.vars {
            let Some(span) = declared.get(name) else {
                let mut diagnostic = Diagnostic::error(
                    "unknown-variable",
                    format!("`--var {name}=…` sets a variable that the lab does not have"),
                );
                diagnostic = match did_you_mean(name, declared.keys().map(String::as_str)) {
                    Some(similar) => diagnostic.help(format!("did you mean `--var {similar}={text}`?")),
                    None if declared.is_empty() => diagnostic.help("the lab has no `[vars]`"),
                    None => {
                        let names: Vec<_> = declared.keys().map(String::as_str).collect();
                        diagnostic.help(format!("the variables of the lab are {}", list(&names)))
                    }
                };
                self.diagnostics.push(diagnostic);
                continue;
            };
            let value = match &self.rendered.vars[name] {
                Value::Number(number) if number.is_i64() => text.parse::<i64>().ok().map(Value::from),
                Value::Number(_) => text.parse::<f64>().ok().map(Value::from),
                Value::Bool(_) => text.parse::<bool>().ok().map(Value::from),
                Value::String(_) => Some(Value::from(text.as_str())),
                _ => None,
            };
            if let Some(value) = value {
                self.rendered.vars.insert(name.clone(), value);
                self.context.insert("vars", &self.rendered.vars);
            } else {
                let kind = match &self.rendered.vars[name] {
                    Value::Number(_) => "a number",
                    Value::Bool(_) => "true or false",
                    _ => "a list or a table, which the command line cannot set",
                };
                self.diagnostics.push(
                    Diagnostic::error("wrong-variable", format!("`--var {name}={text}` does not fit the variable"))
                        .at(&self.source.at(span.clone()), format!("this is {kind}")),
                );
            }
        }
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>) {
        match value.get_ref() {
            DeValue::String(text) if is_template(text) => self.string(text, value.span()),
            DeValue::Array(items) => items.iter().for_each(|item| self.value(item)),
            DeValue::Table(table) => table.iter().for_each(|(_, item)| self.value(item)),
            _ => {}
        }
    }

    fn string(&mut self, text: &str, span: Range<usize>) {
        match self.tera.render_str(text, &self.context, false) {
            Ok(result) => {
                let trimmed = text.trim();
                let inner = trimmed.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
                if inner.is_some_and(|inner| !inner.contains("{{")) {
                    self.rendered.whole.insert(span.start);
                }
                self.rendered.strings.insert(span.start, result);
            }
            Err(error) => {
                self.rendered.failed.insert(span.start);
                let written = &self.source.text()[span.clone()];
                let report = problem(&error);
                // Without escapes the text stands in the file as it is; else the whole string has to do.
                let place = report.span.clone().zip(written.find(text)).map(|(within, start)| {
                    let start = span.start + start;
                    start + within.start..start + within.end
                });
                let mut diagnostic = Diagnostic::error("template", report.message)
                    .at(&self.source.at(place.unwrap_or(span)), report.label);
                for note in report.notes {
                    diagnostic = diagnostic.note(note);
                }
                self.diagnostics.push(diagnostic);
            }
        }
    }

    /// A value of the file with the results of its templates, for the context of later ones.
    fn json(&self, value: &DeValue<'_>) -> Value {
        self.json_at(value, usize::MAX)
    }

    fn json_at(&self, value: &DeValue<'_>, start: usize) -> Value {
        match value {
            DeValue::String(text) => {
                let text = self.rendered.strings.get(&start).map_or(text.as_ref(), String::as_str);
                Value::from(text)
            }
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Null, Value::from)
            }
            DeValue::Float(number) => number.as_str().parse::<f64>().map_or(Value::Null, Value::from),
            DeValue::Boolean(value) => Value::from(*value),
            DeValue::Datetime(value) => Value::from(value.to_string()),
            DeValue::Array(items) => items.iter().map(|item| self.json_at(item.get_ref(), item.span().start)).collect(),
            DeValue::Table(table) => table
                .iter()
                .map(|(key, item)| (key.get_ref().to_string(), self.json_at(item.get_ref(), item.span().start)))
                .collect::<Map<_, _>>()
                .into(),
        }
    }
}

/// An error of Tera in klab's words.
pub(crate) struct Problem {
    /// One line.
    pub message: String,
    /// What to say at the place.
    pub label: String,
    /// Byte span in the template, where Tera names one.
    pub span: Option<Range<usize>>,
    /// The template it happened in, where Tera names one.
    pub template: Option<String>,
    /// Further facts.
    pub notes: Vec<String>,
}

/// Takes an error of Tera apart.
pub(crate) fn problem(error: &tera::Error) -> Problem {
    let plain = |message: String| Problem { message, label: String::new(), span: None, template: None, notes: vec![] };
    match error.kind() {
        ErrorKind::SyntaxError(report) | ErrorKind::RenderingError(report) => {
            let mut lines = report.message().lines().map(str::trim).filter(|line| !line.is_empty());
            let label = lines.next().unwrap_or_default().trim_end_matches('.').to_owned();
            let what = if matches!(error.kind(), ErrorKind::SyntaxError(_)) { "parsed" } else { "rendered" };
            Problem {
                message: format!("the template cannot be {what}"),
                label,
                span: Some(report.span().range.clone()),
                template: Some(report.filename().to_owned()),
                notes: lines.map(str::to_owned).collect(),
            }
        }
        _ => plain(format!("the template cannot be rendered: {error}")),
    }
}
