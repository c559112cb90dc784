//! What an expression reads of a variable: the fields and constant keys that are written out in it.

use crate::ast::{Comprehension, Expr, Kind};
use crate::value::Value;

/// Names that stand for paths while a tree is walked.
type Names<'e> = Vec<(&'e str, Option<Vec<String>>)>;

/// The paths from a variable, in the order of the source; the longest of each.
pub(crate) fn of(root: &Expr, variable: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    walk(root, &mut vec![(variable, Some(Vec::new()))], &mut found);
    found
}

fn walk<'e>(expr: &'e Expr, names: &mut Names<'e>, found: &mut Vec<Vec<String>>) {
    if let Some(path) = path(expr, names) {
        if !path.is_empty() {
            found.push(path);
        }
        return;
    }
    match &expr.kind {
        Kind::Comprehension(fold) => fold_of(fold, names, found),
        kind => kind.children().into_iter().for_each(|child| walk(child, names, found)),
    }
}

fn fold_of<'e>(fold: &'e Comprehension, names: &mut Names<'e>, found: &mut Vec<Vec<String>>) {
    let depth = names.len();
    walk(&fold.range, names, found);
    if Expr::is_bind(fold) {
        let path = path(&fold.init, names);
        if path.is_none() {
            walk(&fold.init, names, found);
        }
        names.push((&fold.accumulator, path));
    } else {
        walk(&fold.init, names, found);
        // What a loop names is no longer what it was called outside.
        let of_loop = [Some(&fold.variable), fold.second.as_ref(), Some(&fold.accumulator)];
        names.extend(of_loop.into_iter().flatten().map(|name| (name.as_str(), None)));
        walk(&fold.condition, names, found);
        walk(&fold.step, names, found);
    }
    walk(&fold.result, names, found);
    names.truncate(depth);
}

fn path(expr: &Expr, names: &Names<'_>) -> Option<Vec<String>> {
    match &expr.kind {
        Kind::Ident(name) => names.iter().rev().find(|(known, _)| known == name)?.1.clone(),
        Kind::Select { operand, field, .. } => extended(operand, field, names),
        Kind::Call { function, target: None, arguments } if function == "_[_]" => match arguments.as_slice() {
            [operand, Expr { kind: Kind::Literal(Value::String(key)), .. }] => extended(operand, key, names),
            _ => None,
        },
        _ => None,
    }
}

fn extended(operand: &Expr, field: &str, names: &Names<'_>) -> Option<Vec<String>> {
    let mut path = path(operand, names)?;
    path.push(field.to_owned());
    Some(path)
}
