//! Reports of checks as text, JSON and JUnit, all from the same data ([`crate::verify::Report`]).

mod human;
mod json;
mod junit;

#[cfg(test)]
mod tests;

pub use human::{Styles, check_lines, human, suggestion_line, summary};
pub use json::{SCHEMA, json};
pub use junit::{Suite, junit};
