//! Which lab files are meant: files as they are named, and those in folders.

use std::io;
use std::path::{Path, PathBuf};

use crate::bundled_lessons;
use crate::error::{Code, Error, Result};
use crate::state::Home;
use crate::state::home::state_error;
use klab_lab::spec::{MAX_BYTES, Unread, read_regular};

/// The lab files of paths, in order: a file is taken as it is, a folder for the lab files in it and below it, the name of a
/// lesson that comes with klab for that.
///
/// # Errors
/// When a folder cannot be read, or has no lab file.
pub fn lab_files(home: &Home, paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(bundled_lessons::lab_file(home, path)?);
            continue;
        }
        let mut found = Vec::new();
        below(path, &mut found).map_err(|error| state_error(error, "read", path))?;
        if found.is_empty() {
            let message = format!("there is no lab file in `{}`", path.display());
            return Err(Error::message(Code::NoLabFile, message)
                .hint("a lab file ends in `.toml` and says `lab = \"name\"`; `klab init` writes one"));
        }
        found.sort();
        files.extend(found);
    }
    let mut seen = std::collections::BTreeSet::new();
    files.retain(|file| seen.insert(file.clone()));
    Ok(files)
}

fn below(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if entry.file_type()?.is_dir() {
            if !hidden {
                below(&path, found)?;
            }
        } else if !hidden && path.extension().is_some_and(|extension| extension == "toml") && is_lab(&path) {
            found.push(path);
        }
    }
    Ok(())
}

/// Whether a TOML file is a lab's. One that cannot be read as TOML may be meant as one, and its reader says what is wrong.
fn is_lab(path: &Path) -> bool {
    let bytes = match read_regular(path, MAX_BYTES) {
        Ok(bytes) => bytes,
        // Pipes and devices that happen to lie there are no lessons.
        Err(Unread::NotRegular(_)) => return false,
        Err(_) => return true,
    };
    let text = String::from_utf8(bytes).ok();
    text.and_then(|text| text.parse::<toml::Table>().ok()).is_none_or(|table| table.contains_key("lab"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_give_their_lab_files_once_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("more/.hidden")).unwrap();
        for (name, text) in [
            ("b.toml", "lab = \"b\""),
            ("a.toml", "lab = \"a\""),
            ("Cargo.toml", "[package]"),
            ("broken.toml", "lab = "),
            ("notes.md", "lab"),
            ("more/c.toml", "lab = \"c\""),
            ("more/.hidden/d.toml", "lab = \"d\""),
        ] {
            std::fs::write(at(name), text).unwrap();
        }
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe.toml"), rustix::fs::Mode::RUSR).unwrap();
        let home = Home::new(folder.path().join("home"));
        let found = lab_files(&home, &[at("b.toml"), folder.path().to_owned()]).unwrap();
        assert_eq!(found, ["b.toml", "a.toml", "broken.toml", "more/c.toml"].map(at));
        let shipped = lab_files(&home, &[PathBuf::from("taints")]).unwrap();
        assert_eq!(shipped, [home.lessons().join("taints.toml")]);
    }

    #[test]
    fn a_folder_without_labs_is_a_mistake() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"));
        let error = lab_files(&home, &[folder.path().to_owned()]).unwrap_err();
        assert!(error.to_string().contains("there is no lab file in"), "{error}");
    }
}
