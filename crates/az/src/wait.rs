//! `az … wait`: whether a document is in the state that a command waits for.

use serde_json::Value;

use crate::grammar::Arguments;
use crate::query::search;
use crate::refusal::Refusal;

/// The `provisioningState` of a document.
pub fn state(seen: &Value) -> Option<&str> {
    seen["provisioningState"].as_str().or_else(|| seen["properties"]["provisioningState"].as_str())
}

/// Whether the document is in the state that the flags wait for.
///
/// # Errors
/// When the expression of `--custom` is none.
pub fn is_reached(given: &Arguments, seen: &Value) -> Result<bool, Refusal> {
    let is_done = state(seen) == Some("Succeeded") && !given.has_none_of(&["--created", "--updated"]);
    if given.has("--exists") || is_done {
        return Ok(true);
    }
    let Some(condition) = given.word("--custom") else { return Ok(false) };
    let found = search(condition, seen)?.value;
    let is_empty = found.is_null()
        || found == Value::Bool(false)
        || found.as_str().is_some_and(str::is_empty)
        || found.as_array().is_some_and(Vec::is_empty)
        || found.as_object().is_some_and(serde_json::Map::is_empty);
    Ok(!is_empty)
}
