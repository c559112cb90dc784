//! What is looked for in a checked tree: names of variables, and literals that no function would take.
//!
//! // upstream: cel-go cel/validator.go

use crate::ast::{Expr, Kind};
use crate::errors::Issue;
use crate::functions;
use crate::meter::Meter;
use crate::time;
use crate::value::Value;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) names: Vec<String>,
    pub(crate) issues: Vec<Issue>,
}

/// Looks through a tree.
pub(crate) fn look(root: &Expr, offsets: &[usize], meter: Option<Meter>) -> Found {
    let mut found = Found::default();
    walk(root, offsets, meter, &mut found);
    found
}

fn walk(node: &Expr, offsets: &[usize], meter: Option<Meter>, found: &mut Found) {
    for child in node.kind.children() {
        walk(child, offsets, meter, found);
    }
    match &node.kind {
        Kind::Ident(name) if !found.names.contains(name) => found.names.push(name.clone()),
        Kind::Call { function, arguments, .. } => {
            if let Some(argument) = arguments.last()
                && let Kind::Literal(Value::String(text)) = &argument.kind
                && !is_good(function, text, arguments.len(), meter)
            {
                let offset = offsets.get(argument.id).copied().unwrap_or_default();
                found.issues.push(Issue { offset, message: format!("invalid {function} argument") });
            }
        }
        _ => {}
    }
}

fn is_good(function: &str, text: &str, arguments: usize, meter: Option<Meter>) -> bool {
    match function {
        "duration" if arguments == 1 => time::duration(text).is_some(),
        "timestamp" if arguments == 1 => time::timestamp(text).is_some(),
        "matches" => functions::pattern(text, meter).is_ok(),
        _ => true,
    }
}
