//! Expressions as trees: what the parser makes, the checker annotates and the evaluator walks.

use super::value::Value;

/// A node of an expression. Its number finds its place in the source, its type and its overloads.
#[derive(Debug, Clone)]
pub(super) struct Expr {
    pub(super) id: usize,
    pub(super) kind: Kind,
}

/// What a node is.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    Literal(Value),
    Ident(String),
    Select { operand: Box<Expr>, field: String, test: bool },
    Call { function: String, target: Option<Box<Expr>>, arguments: Vec<Expr> },
    List(Vec<Element>),
    Map(Vec<Entry>),
    Struct { name: String, fields: Vec<(usize, String, Expr)> },
    Comprehension(Box<Comprehension>),
}

/// An element of a list; an optional one is left out when it is empty.
#[derive(Debug, Clone)]
pub(super) struct Element {
    pub(super) value: Expr,
    pub(super) optional: bool,
}

/// An entry of a map.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: Expr,
    pub(super) value: Expr,
    pub(super) optional: bool,
}

/// A fold over a list or a map, which every macro with a variable becomes.
#[derive(Debug, Clone)]
pub(super) struct Comprehension {
    pub(super) range: Expr,
    pub(super) variable: String,
    pub(super) second: Option<String>,
    pub(super) accumulator: String,
    pub(super) init: Expr,
    pub(super) condition: Expr,
    pub(super) step: Expr,
    pub(super) result: Expr,
}

/// The accumulator of macros, a name that no source can contain.
pub(super) const ACCUMULATOR: &str = "@result";

impl Expr {
    /// `a.b.c` as one name, where the node is nothing but a path.
    pub(super) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select { operand, field, test: false } => Some(format!("{}.{field}", operand.qualified_name()?)),
            _ => None,
        }
    }

    /// Whether the fold only gives a value a name, as `optMap` does.
    pub(super) fn is_bind(fold: &Comprehension) -> bool {
        matches!(&fold.range.kind, Kind::List(elements) if elements.is_empty())
            && matches!(fold.condition.kind, Kind::Literal(Value::Bool(false)))
            && fold.accumulator != ACCUMULATOR
    }
}
