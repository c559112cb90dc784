//! Labs that az makes: where their files are, and made of them.

use std::path::{Path, PathBuf};

use super::super::one::{self, Arguments};
use klab_lab::spec::LoadOptions;
use klab_operations::context::{Context, invalid};
use klab_operations::error::Result;
use klab_operations::locked_lab::LockedLab;
use klab_operations::render;
use klab_operations::state::home::remove_empty;

/// The lab file of a cluster that az made, in the lab's folder.
pub(super) fn file_of(context: &Context, lab: &str) -> PathBuf {
    context.home.lab(lab).join("az.toml")
}

/// Removes the folder of a lab of which nothing was begun.
pub(super) fn forget(folder: &Path) {
    if std::fs::remove_dir_all(folder).is_ok() {
        remove_empty(folder);
    }
}

/// Makes the lab of the file that was written for it; one that is made already stays as it is.
///
/// # Errors
/// When it cannot be made.
pub(super) fn make(context: &Context, lab: &str) -> Result<()> {
    let folder = context.home.lab(lab);
    let path = file_of(context, lab);
    let mut locked = LockedLab::new(context, lab, "up")?;
    locked.interruption_leaves(format!("lab `{lab}` is partly made; `klab down {lab}` removes it"));
    let made = (|| {
        let read = context.load(&path, &LoadOptions::default())?;
        let manifests = render::render(&read).map_err(|problems| invalid(&path, &problems))?;
        one::make(&mut locked, &Arguments::of(&path, &[]), &read, &manifests).map(drop)
    })();
    made.map_err(|error| {
        if locked.record.is_none() && !context.is_later {
            drop(locked);
            forget(&folder);
            return error;
        }
        error.hint(format!("`klab down {lab}` removes what there is"))
    })
}
