//! The nodes of a tree that is being made, their places, and what is wrong with the source.

use crate::ast::{Expr, Kind};
use crate::errors::Issue;
use crate::value::Value;

/// Most levels of a tree: it is walked and dropped by recursion.
const MAX_HEIGHT: u32 = 400;

/// Most nodes of a tree: macros repeat their receivers.
const MAX_NODES: u32 = 400_000;

/// What nodes are made by.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Places by number of node.
    pub(crate) offsets: Vec<usize>,
    /// Levels and nodes below and with each node, by its number.
    pub(crate) extents: Vec<(u32, u32)>,
    pub(crate) issues: Vec<Issue>,
    /// Whether there is `cel.bind`.
    pub(crate) bindings: bool,
}

impl Tree {
    /// A node at a place. Where the tree would become too large, that is reported, and the node has nothing below it.
    pub(crate) fn node(&mut self, offset: usize, mut kind: Kind) -> Expr {
        let (mut height, mut nodes) = (1_u32, 1_u32);
        for child in kind.children() {
            let (below, among) = self.extents.get(child.id).copied().unwrap_or_default();
            height = height.max(below.saturating_add(1));
            nodes = nodes.saturating_add(among);
        }
        let limit = [(height, MAX_HEIGHT, "recursion"), (nodes, MAX_NODES, "size")];
        if let Some((_, most, what)) = limit.into_iter().find(|(measured, most, _)| measured > most) {
            self.issues.push(Issue { offset, message: format!("expression {what} limit exceeded: {most}") });
            (kind, height, nodes) = (Kind::Literal(Value::Null), 1, 1);
        }
        self.offsets.push(offset);
        self.extents.push((height, nodes));
        Expr { id: self.offsets.len().saturating_sub(1), kind }
    }

    /// Where a node is.
    pub(crate) fn offset(&self, node: &Expr) -> usize {
        self.offsets.get(node.id).copied().unwrap_or_default()
    }

    /// A call of a function.
    pub(crate) fn call(&mut self, offset: usize, function: &str, arguments: Vec<Expr>) -> Expr {
        self.node(offset, Kind::Call { function: function.to_owned(), target: None, arguments })
    }

    /// Reports an error; there is no node then.
    pub(crate) fn refuse<T>(&mut self, offset: usize, message: impl Into<String>) -> Option<T> {
        self.issues.push(Issue { offset, message: message.into() });
        None
    }
}
