//! Calls that are written like functions and are none: `has`, `all`, `map`, `cel.bind` and the like become folds.
//!
//! // upstream: cel-go tree/macro.go, ext/comprehensions.go, cel/library.go optMap

use crate::ast::{ACCUMULATOR, Comprehension, Element, Expr, Kind};
use crate::tree::Tree;
use crate::value::Value;

/// A call without a receiver.
pub(crate) fn function(tree: &mut Tree, offset: usize, name: &str, mut arguments: Vec<Expr>) -> Option<Expr> {
    if name != "has" || arguments.len() != 1 {
        return Some(tree.call(offset, name, arguments));
    }
    let argument = arguments.remove(0);
    match argument.kind {
        Kind::Select { operand, field, .. } => Some(tree.node(offset, Kind::Select { operand, field, test: true })),
        _ => {
            let place = tree.offset(&argument);
            tree.refuse(place, "invalid argument to has() macro")
        }
    }
}

/// A call with a receiver.
pub(crate) fn method(tree: &mut Tree, offset: usize, name: &str, target: Expr, arguments: Vec<Expr>) -> Option<Expr> {
    match (name, arguments.len()) {
        ("all" | "exists" | "exists_one" | "existsOne" | "map" | "filter", 2)
        | (
            "all" | "exists" | "exists_one" | "existsOne" | "map" | "transformList" | "transformMap"
            | "transformMapEntry",
            3,
        )
        | ("transformList" | "transformMap" | "transformMapEntry", 4) => fold(tree, offset, name, target, arguments),
        ("bind", 3) if tree.bindings && matches!(&target.kind, Kind::Ident(name) if name == "cel") => {
            bind(tree, offset, arguments)
        }
        ("optMap" | "optFlatMap", 2) => optional(tree, offset, name, target, arguments),
        _ => {
            Some(tree.node(offset, Kind::Call { function: name.to_owned(), target: Some(Box::new(target)), arguments }))
        }
    }
}

/// The name that an argument is, which must be a simple one.
fn variable(tree: &mut Tree, argument: &Expr) -> Option<String> {
    match &argument.kind {
        Kind::Ident(name) if name != ACCUMULATOR => Some(name.clone()),
        _ => {
            let place = tree.offset(argument);
            tree.refuse(place, "argument must be a simple name")
        }
    }
}

fn fold(tree: &mut Tree, offset: usize, name: &str, target: Expr, arguments: Vec<Expr>) -> Option<Expr> {
    let two = arguments.len() > 2 && name != "map";
    let first = variable(tree, arguments.first()?)?;
    let second = if two { Some(variable(tree, arguments.get(1)?)?) } else { None };
    if second.as_ref() == Some(&first) {
        let place = tree.offset(arguments.get(1)?);
        return tree.refuse(place, format!("duplicate variable name: {first}"));
    }
    let mut rest = arguments.into_iter().skip(if two { 2 } else { 1 });
    let one = rest.next()?;
    let other = rest.next();
    let accumulator = |tree: &mut Tree| tree.node(offset, Kind::Ident(ACCUMULATOR.to_owned()));
    let literal = |tree: &mut Tree, value: Value| tree.node(offset, Kind::Literal(value));
    let (init, condition, step, result) = match name {
        "all" => {
            let init = literal(tree, Value::Bool(true));
            let so_far = accumulator(tree);
            let condition = tree.call(offset, "@not_strictly_false", vec![so_far]);
            let so_far = accumulator(tree);
            let step = tree.call(offset, "_&&_", vec![so_far, one]);
            (init, condition, step, accumulator(tree))
        }
        "exists" => {
            let init = literal(tree, Value::Bool(false));
            let so_far = accumulator(tree);
            let not = tree.call(offset, "!_", vec![so_far]);
            let condition = tree.call(offset, "@not_strictly_false", vec![not]);
            let so_far = accumulator(tree);
            let step = tree.call(offset, "_||_", vec![so_far, one]);
            (init, condition, step, accumulator(tree))
        }
        "exists_one" | "existsOne" => {
            let init = literal(tree, Value::Int(0));
            let condition = literal(tree, Value::Bool(true));
            let (so_far, step_one) = (accumulator(tree), literal(tree, Value::Int(1)));
            let more = tree.call(offset, "_+_", vec![so_far, step_one]);
            let same = accumulator(tree);
            let step = tree.call(offset, "_?_:_", vec![one, more, same]);
            let (so_far, wanted) = (accumulator(tree), literal(tree, Value::Int(1)));
            let result = tree.call(offset, "_==_", vec![so_far, wanted]);
            (init, condition, step, result)
        }
        "transformMap" | "transformMapEntry" => {
            let init = tree.node(offset, Kind::Map(Vec::new()));
            let condition = literal(tree, Value::Bool(true));
            let (predicate, transform) = match other {
                Some(transform) => (Some(one), transform),
                None => (None, one),
            };
            let so_far = accumulator(tree);
            let arguments = if name == "transformMap" {
                vec![so_far, tree.node(offset, Kind::Ident(first.clone())), transform]
            } else {
                vec![so_far, transform]
            };
            let step = tree.call(offset, "cel.@mapInsert", arguments);
            let step = guarded(tree, offset, predicate, step);
            (init, condition, step, accumulator(tree))
        }
        _ => {
            let init = tree.node(offset, Kind::List(Vec::new()));
            let condition = literal(tree, Value::Bool(true));
            let (predicate, transform) = match (name, other) {
                ("filter", _) => {
                    let place = tree.offset(&target);
                    let element = tree.node(place, Kind::Ident(first.clone()));
                    (Some(one), element)
                }
                (_, Some(transform)) => (Some(one), transform),
                (_, None) => (None, one),
            };
            let added = tree.node(offset, Kind::List(vec![Element { value: transform, optional: false }]));
            let so_far = accumulator(tree);
            let step = tree.call(offset, "_+_", vec![so_far, added]);
            let step = guarded(tree, offset, predicate, step);
            (init, condition, step, accumulator(tree))
        }
    };
    let comprehension = Comprehension {
        range: target,
        variable: first,
        second,
        accumulator: ACCUMULATOR.to_owned(),
        init,
        condition,
        step,
        result,
    };
    Some(tree.node(offset, Kind::Comprehension(Box::new(comprehension))))
}

/// The step where the predicate holds, and what there was where it does not.
fn guarded(tree: &mut Tree, offset: usize, predicate: Option<Expr>, step: Expr) -> Expr {
    let Some(predicate) = predicate else { return step };
    let same = tree.node(offset, Kind::Ident(ACCUMULATOR.to_owned()));
    tree.call(offset, "_?_:_", vec![predicate, step, same])
}

/// `cel.bind(name, value, expression)`: the value has a name in the expression.
fn bind(tree: &mut Tree, offset: usize, arguments: Vec<Expr>) -> Option<Expr> {
    let mut arguments = arguments.into_iter();
    let (first, value, body) = (arguments.next()?, arguments.next()?, arguments.next()?);
    let Kind::Ident(named) = &first.kind else {
        let place = tree.offset(&first);
        return tree.refuse(place, "cel.bind() variable names must be simple identifiers");
    };
    Some(named_value(tree, offset, named, value, body))
}

/// A fold over nothing, which only gives a value a name.
fn named_value(tree: &mut Tree, offset: usize, name: &str, init: Expr, result: Expr) -> Expr {
    let range = tree.node(offset, Kind::List(Vec::new()));
    let condition = tree.node(offset, Kind::Literal(Value::Bool(false)));
    let step = tree.node(offset, Kind::Ident(name.to_owned()));
    let comprehension = Comprehension {
        range,
        variable: "#unused".to_owned(),
        second: None,
        accumulator: name.to_owned(),
        init,
        condition,
        step,
        result,
    };
    tree.node(offset, Kind::Comprehension(Box::new(comprehension)))
}

/// `optMap` and `optFlatMap`: what is in the optional gets a name.
fn optional(tree: &mut Tree, offset: usize, name: &str, target: Expr, arguments: Vec<Expr>) -> Option<Expr> {
    let mut arguments = arguments.into_iter();
    let (first, body) = (arguments.next()?, arguments.next()?);
    let Kind::Ident(named) = &first.kind else {
        let place = tree.offset(&first);
        return tree.refuse(place, format!("{name}() variable name must be a simple identifier"));
    };
    let member = |tree: &mut Tree, function: &str, target: Expr| {
        let kind = Kind::Call { function: function.to_owned(), target: Some(Box::new(target)), arguments: Vec::new() };
        tree.node(offset, kind)
    };
    let copy = copied(tree, &target);
    let init = member(tree, "value", copy);
    let mut present = named_value(tree, offset, named, init, body);
    if name == "optMap" {
        present = tree.call(offset, "optional.of", vec![present]);
    }
    let condition = member(tree, "hasValue", target);
    let absent = tree.call(offset, "optional.none", Vec::new());
    Some(tree.call(offset, "_?_:_", vec![condition, present, absent]))
}

/// The same tree with numbers of its own.
fn copied(tree: &mut Tree, node: &Expr) -> Expr {
    let offset = tree.offset(node);
    let mut inner = |node: &Expr| copied(tree, node);
    let kind = match &node.kind {
        Kind::Select { operand, field, test } => {
            Kind::Select { operand: Box::new(inner(operand)), field: field.clone(), test: *test }
        }
        Kind::Call { function, target, arguments } => Kind::Call {
            function: function.clone(),
            target: target.as_ref().map(|target| Box::new(inner(target))),
            arguments: arguments.iter().map(inner).collect(),
        },
        // Parts of literals and folds are identified by the place of the whole.
        other => other.clone(),
    };
    tree.node(offset, kind)
}
