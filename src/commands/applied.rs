//! The lab that is up, as its file says: the one that is named, or else the one it was made of.

use std::path::Path;

use super::{Context, LabOptions, invalid};
use crate::context::not_up;
use crate::error::Result;
use klab_lab::spec::{self, Lab};

/// The lab that is up, from the file that is named or else from the one it was made of.
///
/// # Errors
/// When the lab is not up, or its file is invalid.
pub(super) fn lab(context: &Context, argument: Option<&str>, options: &LabOptions) -> Result<Lab> {
    let name = context.lab_name(argument)?;
    let record = context.record(&name)?.ok_or_else(|| not_up(&name))?;
    let mut load_options = options.load_options_to_make();
    load_options.reach.outside |= record.allow_outside;
    load_options.provider = Some(record.provider);
    if load_options.vars.is_empty() {
        load_options.vars.clone_from(&record.vars);
    }
    if let Some(file) = argument.map(Path::new).filter(|file| file.is_file()) {
        return context.load(file, &load_options);
    }
    let saved = context.home.lab(&name).join("lab.toml");
    let text =
        std::fs::read_to_string(&saved).map_err(|error| crate::state::home::state_error(error, "read", &saved))?;
    let folder = record.source.parent().unwrap_or(Path::new("."));
    let parsed = spec::parse_beside(&shown(&record.source), &text, folder, &load_options);
    let mut lab = parsed.map_err(|diagnostics| invalid(&record.source, &diagnostics))?;
    // A seat of a class is a lab of another name than its file says.
    lab.name.value = name;
    Ok(lab)
}

/// The path as the user would write it here.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}
