//! Pure: a lab's page as one file that needs nothing else.

use super::Frame;
use super::page::{Form, Page, all_parts};
use crate::error::Result;
use crate::provider::AzureNames;
use klab_lab::spec::Lab;

/// The page of a lab as it is at a moment, with the board it shows as JSON inside. It runs nothing and loads nothing.
///
/// # Errors
/// When a template fails.
pub fn saved(frame: &Frame, written: &Lab, azure: &AzureNames) -> Result<String> {
    let parts = all_parts(frame, written, azure, Form::Saved)?;
    let parts = parts.iter().map(|(name, html)| (name.as_str(), html.as_str())).collect();
    let title = written.title.as_deref().unwrap_or(&written.name.value);
    Page { title, number: 0, run: "", parts }.saved(&frame.board)
}
