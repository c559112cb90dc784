//! Expressions as trees: what the parser makes, the checker annotates and the evaluator walks.

use crate::value::Value;

/// A node of an expression. Its number finds its place in the source, its type and its overloads.
#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub(crate) id: usize,
    pub(crate) kind: Kind,
}

/// What a node is.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Literal(Value),
    Ident(String),
    Select { operand: Box<Expr>, field: String, test: bool },
    Call { function: String, target: Option<Box<Expr>>, arguments: Vec<Expr> },
    List(Vec<Element>),
    Map(Vec<Entry>),
    Struct { name: String, fields: Vec<(usize, String, Expr)> },
    Comprehension(Box<Comprehension>),
}

impl Kind {
    /// The nodes right below, in the order of the source.
    pub(crate) fn children(&self) -> Vec<&Expr> {
        match self {
            Self::Literal(_) | Self::Ident(_) => Vec::new(),
            Self::Select { operand, .. } => vec![operand],
            Self::Call { target, arguments, .. } => target.iter().map(AsRef::as_ref).chain(arguments).collect(),
            Self::List(elements) => elements.iter().map(|element| &element.value).collect(),
            Self::Map(entries) => entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect(),
            Self::Struct { fields, .. } => fields.iter().map(|(_, _, value)| value).collect(),
            Self::Comprehension(fold) => vec![&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result],
        }
    }
}

/// An element of a list; an optional one is left out when it is empty.
#[derive(Debug, Clone)]
pub(crate) struct Element {
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// An entry of a map.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A fold over a list or a map, which every macro with a variable becomes.
#[derive(Debug, Clone)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    pub(crate) variable: String,
    pub(crate) second: Option<String>,
    pub(crate) accumulator: String,
    pub(crate) init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

/// The accumulator of macros, a name that no source can contain.
pub(crate) const ACCUMULATOR: &str = "@result";

impl Expr {
    /// `a.b.c` as one name, where the node is nothing but a path.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select { operand, field, test: false } => Some(format!("{}.{field}", operand.qualified_name()?)),
            _ => None,
        }
    }

    /// Whether the fold only gives a value a name, as `optMap` does.
    pub(crate) fn is_bind(fold: &Comprehension) -> bool {
        matches!(&fold.range.kind, Kind::List(elements) if elements.is_empty())
            && matches!(fold.condition.kind, Kind::Literal(Value::Bool(false)))
            && fold.accumulator != ACCUMULATOR
    }
}
