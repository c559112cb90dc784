//! What is left of a server that does not run: clusters are removed from its folder without it.

use std::io;
use std::path::Path;

use super::files::gone;
use super::hosted::remove_folder;
use super::register::{Note, Register};
use super::templates::Templates;

/// Removes clusters and everything they kept from the folder of a server. No server may be at work in it.
///
/// # Errors
/// When the file system refuses.
pub fn remove_saved(state: &Path, names: &[&str]) -> io::Result<()> {
    let remove = |name: &&str| remove_folder(&state.join("clusters").join(name));
    if !Register::is_in(state) {
        return names.iter().try_for_each(remove);
    }
    let (register, mut contents) = Register::open(state)?;
    let known: Vec<&&str> = names.iter().filter(|name| contents.entries.remove(**name).is_some()).collect();
    register.note(known.into_iter().map(|name| Note::Gone((*name).to_owned())))?;
    register.sync()?;
    names.iter().try_for_each(remove)?;
    let templates = Templates::new(state);
    for copy in contents.entries.values().filter_map(|entry| entry.copy.as_ref()) {
        templates.refer(&copy.base.template, 1);
    }
    templates.sweep()?;
    if contents.entries.is_empty() {
        // A folder without clusters has nothing to say of any.
        gone(register.remove())?;
    }
    Ok(())
}
