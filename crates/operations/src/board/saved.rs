//! Pure: a lab's page as one file that needs nothing else.

use super::Frame;
use super::page::{Form, Page, Written, all_parts, title};
use crate::error::Result;

/// The page of a lab as it is at a moment, with the board it shows as JSON inside. It runs nothing and loads nothing.
///
/// # Errors
/// When a template fails.
pub fn saved(frame: &Frame, of: Option<&Written>) -> Result<String> {
    let parts = all_parts(frame, of, Form::Saved)?;
    let parts = parts.iter().map(|(name, html)| (name.as_str(), html.as_str())).collect();
    Page { title: title(frame), number: 0, run: "", parts }.saved(&frame.board)
}
