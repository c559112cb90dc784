//! What `klab explain` writes.

use serde_json::Value;

use super::super::Context;
use klab_lab::report;
use klab_lab::verify::{Explained, NothingToExplain};
use klab_operations::error::{Code, Error};
use klab_operations::ui::Format;

/// There is nothing of that name; `otherwise` is said where nothing is like it.
pub(super) fn not_there(nothing: &NothingToExplain, otherwise: &str) -> Error {
    let error = Error::message(Code::NothingToExplain, nothing.to_string());
    error.hint(nothing.hint().unwrap_or_else(|| otherwise.to_owned()))
}

/// Writes explanations, for people or as a document.
pub(super) fn show(context: &Context, document: &Value, explained: &Explained) {
    if context.ui.format() == Format::Json {
        context.ui.result(&document.to_string());
        return;
    }
    let text = report::explanation_text(explained, report::Styles::coloured());
    context.ui.result(&context.ui.invocation().spelled(&text));
}
