//! Reports of checks as text, JSON and JUnit, explanations as text and JSON; all from the same data ([`crate::verify::Report`]).

mod commands;
mod explanation;
mod html;
mod human;
mod json;
mod junit;
mod markdown;
mod wrapping;

#[cfg(test)]
mod tests;

pub use commands::with_commands_apart;
pub use explanation::{EXPLANATION_SCHEMA, explanation_json, explanation_text};
pub use html::markdown_html;
pub use human::{Styles, check_lines, human, summary};
pub use json::{SCHEMA, json};
pub use junit::{Suite, case as junit_case, junit};
pub use markdown::markdown;
pub use wrapping::wrapped;
