//! The nodes of a tree that is being made, their places, and what is wrong with the source.

use super::ast::{Expr, Kind};
use super::errors::Issue;

/// What nodes are made by.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Places by number of node.
    pub(super) offsets: Vec<usize>,
    pub(super) issues: Vec<Issue>,
    /// Whether there is `cel.bind`.
    pub(super) bindings: bool,
}

impl Tree {
    /// A node at a place.
    pub(super) fn node(&mut self, offset: usize, kind: Kind) -> Expr {
        self.offsets.push(offset);
        Expr { id: self.offsets.len().saturating_sub(1), kind }
    }

    /// Where a node is.
    pub(super) fn offset(&self, node: &Expr) -> usize {
        self.offsets.get(node.id).copied().unwrap_or_default()
    }

    /// A call of a function.
    pub(super) fn call(&mut self, offset: usize, function: &str, arguments: Vec<Expr>) -> Expr {
        self.node(offset, Kind::Call { function: function.to_owned(), target: None, arguments })
    }

    /// Reports an error; there is no node then.
    pub(super) fn refuse<T>(&mut self, offset: usize, message: impl Into<String>) -> Option<T> {
        self.issues.push(Issue { offset, message: message.into() });
        None
    }
}
