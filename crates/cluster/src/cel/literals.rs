//! What is looked for in a checked tree: names of variables, and literals that no function would take.
//!
//! // upstream: cel-go cel/validator.go

use super::ast::{Expr, Kind};
use super::errors::Issue;
use super::functions;
use super::time;
use super::value::Value;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) names: Vec<String>,
    pub(super) issues: Vec<Issue>,
}

/// Looks through a tree.
pub(super) fn look(root: &Expr, offsets: &[usize]) -> Found {
    let mut found = Found::default();
    walk(root, offsets, &mut found);
    found
}

fn walk(node: &Expr, offsets: &[usize], found: &mut Found) {
    match &node.kind {
        Kind::Literal(_) => {}
        Kind::Ident(name) => {
            if !found.names.contains(name) {
                found.names.push(name.clone());
            }
        }
        Kind::Select { operand, .. } => walk(operand, offsets, found),
        Kind::Call { function, target, arguments } => {
            for part in target.iter().map(AsRef::as_ref).chain(arguments) {
                walk(part, offsets, found);
            }
            if let Some(argument) = arguments.last()
                && let Kind::Literal(Value::String(text)) = &argument.kind
                && !is_good(function, text, arguments.len())
            {
                let offset = offsets.get(argument.id).copied().unwrap_or_default();
                found.issues.push(Issue { offset, message: format!("invalid {function} argument") });
            }
        }
        Kind::List(elements) => elements.iter().for_each(|element| walk(&element.value, offsets, found)),
        Kind::Map(entries) => {
            for entry in entries {
                walk(&entry.key, offsets, found);
                walk(&entry.value, offsets, found);
            }
        }
        Kind::Struct { fields, .. } => fields.iter().for_each(|(_, _, value)| walk(value, offsets, found)),
        Kind::Comprehension(fold) => {
            for part in [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result] {
                walk(part, offsets, found);
            }
        }
    }
}

fn is_good(function: &str, text: &str, arguments: usize) -> bool {
    match function {
        "duration" if arguments == 1 => time::duration(text).is_some(),
        "timestamp" if arguments == 1 => time::timestamp(text).is_some(),
        "matches" => functions::pattern(text).is_ok(),
        _ => true,
    }
}
