//! The lab that is up, as its file says: the one that is named, or else the one it was made of.

use std::path::Path;

use super::{Context, LabOptions};
use klab_lab::spec::Lab;
use klab_operations::error::Result;
use klab_operations::running_lab;

/// The lab that is up, from the file that is named or else from the one it was made of.
///
/// # Errors
/// When the lab is not up, or its file is invalid.
pub(super) fn lab(context: &Context, argument: Option<&str>, options: &LabOptions) -> Result<Lab> {
    let name = context.lab_name(argument)?;
    let file = argument.map(Path::new).filter(|file| file.is_file());
    running_lab::lab(context, name, file, options.load_options_to_make())
}
