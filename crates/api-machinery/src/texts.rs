//! Texts for a client, no more of them than it reads.

use std::fmt::Display;

use crate::work;

/// Most bytes of all texts about one object: as many as a request has.
pub const MAX_BYTES: usize = 3 << 20;

/// Texts, each of which may be as long as the path that it names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    list: Vec<String>,
    bytes: usize,
}

impl Texts {
    /// Whether further texts are dropped.
    pub fn is_full(&self) -> bool {
        self.bytes > MAX_BYTES
    }

    /// A text. It is not written where it is dropped.
    pub fn push(&mut self, text: impl Display) {
        work::step();
        if !self.is_full() {
            let text = text.to_string();
            self.bytes += text.len();
            self.list.push(text);
        }
    }

    /// All of them.
    pub fn into_list(self) -> Vec<String> {
        self.list
    }
}
