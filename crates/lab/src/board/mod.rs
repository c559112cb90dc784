//! A lab as a picture: what is where, why the rest is nowhere, what the checks say of it.
//!
//! A [`Board`] is made from a snapshot and says all that a drawing needs; [`Delta`] is what changed between two of them. What
//! draws it only reads it: [`svg`] and [`mermaid`] for slides and pages, [`parts`] for a page
//! that lives. As JSON a board is `klab.board/1`, described in
//! `docs/look-up/board.md`.

mod delta;
mod labels;
mod legend;
mod make;
mod mermaid;
mod model;
mod plain_words;
mod svg;

#[cfg(test)]
mod tests;

pub use delta::Delta;
pub use legend::{colour, ink, letter, sign};
pub use make::Lesson;
pub use mermaid::mermaid;
pub use model::{
    Amounts, Board, Check, MissingPods, Move, Node, PendingGroup, Pod, Pool, SCHEMA, Spot, Step, StepState, Usage,
    Workload, Zone,
};
pub use plain_words::in_plain_words;
pub use svg::{escaped, parts, svg};
