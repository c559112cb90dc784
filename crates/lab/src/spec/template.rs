//! Templates in the strings of a lab file: `{{ vars.image }}`.
//!
//! Variables come first, in file order, each seeing those before it; then pools, which see the variables; then all other
//! strings, which see both. Errors point into the lab file.

mod limited;
mod tags;

pub use limited::Limited;

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
use crate::code::Code;
use crate::words::quoted;

/// Most variables: each sees all those before it.
const MAX_VARIABLES: usize = 1_000;

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
    tera.register_filter("json", json_filter);
    tera
}

/// What the `json` filter says of an undefined value; the place of the value is found afterwards.
const NOT_DEFINED: &str = "is not defined";

fn json_filter(value: &tera::Value, _: Kwargs, _: &State<'_>) -> tera::TeraResult<String> {
    json(value)
}

/// JSON is YAML: whatever the value, it arrives as it is, be it `off`, `1.20`, quotes or line ends.
fn json(value: &tera::Value) -> tera::TeraResult<String> {
    if value.is_undefined() {
        // Tera hands undefined values to filters; a misspelt name must not become `null`.
        return Err(tera::Error::message(NOT_DEFINED));
    }
    let json = serde_json::to_string(value).map_err(|error| tera::Error::message(error.to_string()))?;
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        // What JSON takes as it is and YAML does not take, or takes for a line end. All of it is inside strings.
        match character {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                text.extend(["\\u", &format!("{:04x}", u32::from(character))]);
            }
            character => text.push(character),
        }
    }
    Ok(text)
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
    let mut pass = Pass {
        tera: Limited::new(engine()),
        context,
        source,
        diagnostics,
        rendered: Rendered { provider, ..Rendered::default() },
    };
    if let Some(DeValue::Table(table)) = get(root, "vars").map(Spanned::get_ref) {
        pass.variables(table, options);
    } else {
        pass.unknown_overrides(&BTreeMap::new(), options);
    }
    if let Some(value) = get(root, "pool") {
        pass.value(value);
        let pools = pass.json(value);
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
    tera: Limited,
    context: Context,
    source: &'a Arc<Source>,
    diagnostics: &'a mut Diagnostics,
    rendered: Rendered,
}

impl Pass<'_> {
    /// Every variable in file order, with the value that applies: from the command line, else from the provider's table,
    /// else from `[vars]`. So variables made from others see the values that apply, too.
    fn variables(&mut self, table: &DeTable<'_>, options: &LoadOptions) {
        let overlay_of = |name: &str, value: &Spanned<DeValue<'_>>| {
            value.get_ref().is_table() && Provider::ALL.iter().any(|provider| provider.as_str() == name)
        };
        let (overlays, variables): (Vec<_>, Vec<_>) =
            in_order(table).into_iter().partition(|(name, _, value)| overlay_of(name, value));
        if let Some((_, span, _)) = variables.get(MAX_VARIABLES) {
            let message = format!("the lab has {} variables", variables.len());
            self.diagnostics.push(
                Diagnostic::error(Code::TooMany, message)
                    .at(&self.source.at(span.clone()), format!("a lab may have {MAX_VARIABLES}; here it has more")),
            );
            return;
        }
        let declared: BTreeMap<_, _> =
            variables.iter().map(|(name, span, _)| ((*name).to_owned(), span.clone())).collect();
        let mut known = tera::Map::new();
        let mut chosen = BTreeMap::new();
        for (provider, _, overlay) in overlays {
            let DeValue::Table(overlay) = overlay.get_ref() else { continue };
            for (name, span, value) in in_order(overlay) {
                if !declared.contains_key(name) {
                    self.not_declared(provider, name, span, &declared);
                } else if provider == self.rendered.provider.as_str() {
                    chosen.insert(name, value);
                }
            }
        }
        for (name, _, value) in variables {
            let given = options.vars.iter().rev().find(|(given, _)| given == name).map(|(_, text)| text);
            self.value(value);
            let mut result = self.json(value);
            if let Some(value) = chosen.get(name) {
                self.value(value);
                result = self.json(value);
            }
            if let Some(text) = given
                && let Some(value) = self.of_command_line(name, text, &result, &declared[name])
            {
                result = value;
            }
            known.insert(name.to_owned().into(), tera::Value::from_serializable(&result));
            self.context.insert_value("vars", known.clone().into());
            self.rendered.vars.insert(name.to_owned(), result);
        }
        self.unknown_overrides(&declared, options);
    }

    fn not_declared(
        &mut self,
        provider: &str,
        name: &str,
        span: Range<usize>,
        declared: &BTreeMap<String, Range<usize>>,
    ) {
        let at = self.source.at(span);
        let message = format!("`vars.{provider}.{name}` overrides a variable that `[vars]` does not have");
        let diagnostic = Diagnostic::error(Code::UnknownVariable, message).at(&at, "no such variable");
        self.diagnostics.push(match did_you_mean(name, declared.keys().map(String::as_str)) {
            Some(similar) => diagnostic.patch("did you mean", &at, similar),
            None => diagnostic.help(format!("give it a value for all providers: `[vars] {name} = …`")),
        });
    }

    /// The value of `--var NAME=TEXT`, with the type that the variable has in the file.
    fn of_command_line(&mut self, name: &str, text: &str, current: &Value, declared: &Range<usize>) -> Option<Value> {
        let value = match current {
            Value::Number(number) if number.is_i64() => text.parse::<i64>().ok().map(Value::from),
            Value::Number(_) => text.parse::<f64>().ok().map(Value::from),
            Value::Bool(_) => text.parse::<bool>().ok().map(Value::from),
            Value::String(_) => Some(Value::from(text)),
            _ => None,
        };
        if value.is_none() {
            let kind = match current {
                Value::Number(_) => "a number",
                Value::Bool(_) => "true or false",
                _ => "a list or a table, which the command line cannot set",
            };
            self.diagnostics.push(
                Diagnostic::error(Code::WrongVariable, format!("`--var {name}={text}` does not fit the variable"))
                    .at(&self.source.at(declared.clone()), format!("this is {kind}")),
            );
        }
        value
    }

    fn unknown_overrides(&mut self, declared: &BTreeMap<String, Range<usize>>, options: &LoadOptions) {
        for (name, text) in options.vars.iter().filter(|(name, _)| !declared.contains_key(name)) {
            let message = format!("`--var {name}=…` sets a variable that the lab does not have");
            let diagnostic = Diagnostic::error(Code::UnknownVariable, message);
            self.diagnostics.push(match did_you_mean(name, declared.keys().map(String::as_str)) {
                Some(similar) => diagnostic.help(format!("did you mean `--var {similar}={text}`?")),
                None if declared.is_empty() => diagnostic.help("the lab has no `[vars]`"),
                None => {
                    let names: Vec<_> = declared.keys().map(String::as_str).collect();
                    diagnostic.help(format!("the variables of the lab are {}", quoted(&names)))
                }
            });
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
        match self.tera.render(text, &self.context) {
            Ok(result) => {
                let trimmed = text.trim();
                let inner = trimmed.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
                if inner.is_some_and(|inner| !inner.contains("{{")) {
                    self.rendered.whole.insert(span.start);
                }
                self.rendered.strings.insert(span.start, result);
            }
            Err(report) => {
                self.rendered.failed.insert(span.start);
                let written = &self.source.text()[span.clone()];
                // Without escapes the text stands in the file as it is; else the whole string has to do.
                let place = report.span.clone().zip(written.find(text)).map(|(within, start)| {
                    let start = span.start + start;
                    start + within.start..start + within.end
                });
                let mut diagnostic = Diagnostic::error(Code::Template, report.message)
                    .at(&self.source.at(place.unwrap_or(span)), report.label);
                for note in report.notes {
                    diagnostic = diagnostic.note(note);
                }
                self.diagnostics.push(diagnostic);
            }
        }
    }

    /// A value of the file with the results of its templates, for the context of later ones.
    fn json(&self, value: &Spanned<DeValue<'_>>) -> Value {
        match value.get_ref() {
            DeValue::String(text) => {
                let text = self.rendered.strings.get(&value.span().start).map_or(text.as_ref(), String::as_str);
                Value::from(text)
            }
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Null, Value::from)
            }
            DeValue::Float(number) => number.as_str().parse::<f64>().map_or(Value::Null, Value::from),
            DeValue::Boolean(value) => Value::from(*value),
            DeValue::Datetime(value) => Value::from(value.to_string()),
            DeValue::Array(items) => items.iter().map(|item| self.json(item)).collect(),
            DeValue::Table(table) => {
                let entries = table.iter().map(|(key, item)| (key.get_ref().to_string(), self.json(item)));
                entries.collect::<Map<_, _>>().into()
            }
        }
    }
}

/// An error of Tera in klab's words.
#[derive(Debug)]
pub struct Problem {
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

impl Problem {
    /// A template that cannot be rendered, somewhere.
    fn rendering(label: &str) -> Self {
        let message = "the template cannot be rendered".to_owned();
        Self { message, label: label.to_owned(), span: None, template: None, notes: Vec::new() }
    }
}

/// Takes an error of Tera in a text apart.
pub fn problem(error: &tera::Error, text: &str) -> Problem {
    match error.kind() {
        ErrorKind::SyntaxError(report) | ErrorKind::RenderingError(report) => {
            let mut lines = report.message().lines().map(str::trim).filter(|line| !line.is_empty());
            let label = lines.next().unwrap_or_default().trim_end_matches('.').to_owned();
            let what = if matches!(error.kind(), ErrorKind::SyntaxError(_)) { "parsed" } else { "rendered" };
            let mut span = report.span().range.clone();
            let mut label = label;
            if label == NOT_DEFINED
                && let Some(filtered) = filtered_before(text, span.start)
            {
                label = format!("`{}` {NOT_DEFINED}", &text[filtered.clone()]);
                span = filtered;
            }
            Problem {
                message: format!("the template cannot be {what}"),
                label,
                span: Some(span),
                template: Some(report.filename().to_owned()),
                notes: lines.map(str::to_owned).collect(),
            }
        }
        _ => {
            let shown = error.to_string();
            let message = "the template cannot be rendered".to_owned();
            let mut lines = shown.lines().map(str::trim);
            let label = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            // Some errors come with their place only in Tera's own drawing of it.
            let span = lines.find_map(|line| drawn_span(line.strip_prefix("--> ")?, text));
            Problem { message, label, span, template: None, notes: Vec::new() }
        }
    }
}

/// The name that a filter at this offset is applied to.
fn filtered_before(text: &str, filter: usize) -> Option<Range<usize>> {
    let before = text.get(..filter)?.trim_end().strip_suffix('|')?.trim_end();
    let start = before.rfind(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '.')).map_or(0, |at| at + 1);
    (start < before.len() && before.is_char_boundary(start)).then_some(start..before.len())
}

/// The word at `NAME:LINE:COLUMN` in a text.
fn drawn_span(place: &str, text: &str) -> Option<Range<usize>> {
    let mut parts = place.rsplitn(3, ':');
    let column: usize = parts.next()?.parse().ok()?;
    let line: usize = parts.next()?.parse().ok()?;
    let source = Source::new("", text);
    let within = source.line_text(line);
    let (start, _) = within.char_indices().nth(column.checked_sub(1)?)?;
    let length = within[start..].find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(within.len() - start);
    let start = source.line_span(line).start + start;
    Some(start..start + length)
}
