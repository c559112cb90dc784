//! A lab that is up, read again from the copy of its file that it was made of.

use std::path::Path;

use crate::context::{Context, invalid};
use crate::error::Result;
use crate::state::home::state_error;
use klab_lab::spec::{self, Lab, LoadOptions};

/// The lab, from a file that is named or else from the one it was made of; `options` are those of the command line.
///
/// # Errors
/// When the lab is not up, or its file is invalid.
pub fn lab(context: &Context, name: String, file: Option<&Path>, mut options: LoadOptions) -> Result<Lab> {
    let record = context.record(&name)?.ok_or_else(|| context.not_up(&name))?;
    options.reach.outside |= record.allow_outside;
    options.provider = Some(record.provider);
    if options.vars.is_empty() {
        options.vars.clone_from(&record.vars);
    }
    if let Some(file) = file {
        return context.load(file, &options);
    }
    let saved = context.home.lab(&name).join("lab.toml");
    let text = std::fs::read_to_string(&saved).map_err(|error| state_error(error, "read", &saved))?;
    let folder = record.source.parent().unwrap_or(Path::new("."));
    let parsed = spec::parse_beside(&shown(&record.source), &text, folder, &options);
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
