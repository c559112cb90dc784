//! Where klab keeps its state, and the atomic file operations everything in it uses.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::journal::FILE as JOURNAL;
use crate::environment;
use crate::error::{Code, Error, Result};
use klab_server::checked_lines::Mark;

/// klab's state folder.
#[derive(Debug, Clone)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// `KLAB_HOME`, else `$XDG_STATE_HOME/klab`, else `~/.local/state/klab`.
    ///
    /// # Errors
    /// When none of the variables is set.
    pub fn from_environment() -> Result<Self> {
        let root = environment::KLAB_HOME
            .path()
            .or_else(|| environment::XDG_STATE_HOME.path().map(|state| state.join("klab")))
            .or_else(|| environment::HOME.path().map(|home| home.join(".local/state/klab")));
        let root = root.ok_or_else(|| {
            Error::message(Code::StateFolder, "could not find a folder for klab's state: HOME is not set")
                .hint("set KLAB_HOME to a folder of your own")
        })?;
        let root = std::path::absolute(&root).unwrap_or(root);
        if root.to_str().is_none() {
            // Kubeconfigs, records and what is said to other programs are text.
            let message = format!("the folder for klab's state, `{}`, is not UTF-8 text", root.display());
            return Err(Error::message(Code::StateFolder, message).hint("set KLAB_HOME to a folder with a plain name"));
        }
        Ok(Self::new(root))
    }

    /// A home at a given folder.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a lab.
    pub fn lab(&self, lab: &str) -> PathBuf {
        self.root.join("labs").join(lab)
    }

    /// The folder of the embedded cluster's server, shared by all labs of this home.
    pub fn server(&self) -> PathBuf {
        self.root.join("server")
    }

    /// The folder of the clusters that `klab kind` made.
    pub fn kind(&self) -> PathBuf {
        self.root.join("kind")
    }

    /// The clusters that `klab kind` made, by name.
    ///
    /// # Errors
    /// When the folder exists and cannot be read.
    pub fn kind_clusters(&self) -> io::Result<Vec<String>> {
        folders(&self.kind())
    }

    /// The folder of the classes that are hosted.
    pub fn hosts(&self) -> PathBuf {
        self.root.join("hosts")
    }

    /// The classes that are hosted on this machine or were, and are kept; by name.
    ///
    /// # Errors
    /// When the folder exists and cannot be read.
    pub fn hosted(&self) -> io::Result<Vec<String>> {
        let mut names = folders(&self.hosts())?;
        names.retain(|name| self.hosts().join(name).join(HOSTED).is_file());
        Ok(names)
    }

    /// The folder into which lessons that come with klab are written when they are used.
    pub fn lessons(&self) -> PathBuf {
        self.root.join("lessons")
    }

    /// The labs that have state, by name.
    ///
    /// # Errors
    /// When the folder exists and cannot be read.
    pub fn labs(&self) -> io::Result<Vec<String>> {
        let mut labs = folders(&self.root.join("labs"))?;
        labs.retain(|lab| is_lab_name(lab));
        Ok(labs)
    }
}

/// The file by which the folder of a hosted class is known.
pub const HOSTED: &str = "class.json";

/// What a folder has in it, by name; nothing where it is not there.
fn folders(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// Whether a folder's name can be a lab's: what `[a-z][a-z0-9-]*` allows.
fn is_lab_name(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_lowercase())
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
}

/// Removes a lab's folder where it is empty, and those above it that klab made and that are unused; one with other files stays.
pub fn remove_empty(lab: &Path) {
    let labs = lab.parent().filter(|labs| labs.file_name().is_some_and(|name| name == "labs"));
    for folder in [Some(lab), labs, labs.and_then(Path::parent)].into_iter().flatten() {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return,
            _ => {}
        }
    }
}

/// A JSON document of a state folder; none where there is no such file.
///
/// # Errors
/// When it cannot be read, or was written by another klab.
pub fn read_document<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match fs::read(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        text => text.map_err(|error| state_error(error, "read", path))?,
    };
    let document = serde_json::from_slice(&text).map_err(io::Error::other);
    document.map(Some).map_err(|error| state_error(error, "read", path))
}

/// A sentence and a hint for a state folder that cannot be used.
pub fn state_error(error: io::Error, what: &str, path: &Path) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "set KLAB_HOME to a folder you can write to".to_owned()
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space there, or set KLAB_HOME to a folder on another disk".to_owned()
        }
        // Altered by others than klab: klab leaves it to the user what of it is still true.
        io::ErrorKind::InvalidData if path.join(JOURNAL).is_file() => {
            let (old, end) = (path.join(JOURNAL), Mark::path(&path.join(JOURNAL)));
            let (old, end) = (old.display(), end.display());
            format!("klab goes on with a new journal after `mv {old} {old}.old && rm -f {end}`")
        }
        _ => "`klab doctor` shows which folder klab uses; KLAB_HOME chooses another".to_owned(),
    };
    let context = format!("could not {what} `{}`", path.display());
    Error::new(Code::StateFolder, anyhow::Error::new(error).context(context)).hint(hint)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use klab_server::files::{create_private_folder, write_private};

    #[test]
    fn files_and_folders_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        create_private_folder(&home.lab("a")).unwrap();
        let path = home.lab("a").join("kubeconfig");
        write_private(&path, b"secret").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&home.lab("a")), mode(&path)), (0o700, 0o600));
    }

    #[test]
    fn only_lab_folders_are_labs() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        assert_eq!(home.labs().unwrap(), Vec::<String>::new());
        for name in ["taints", "a1-b", ".new-x", "Upper"] {
            create_private_folder(&home.lab(name)).unwrap();
        }
        assert_eq!(home.labs().unwrap(), ["a1-b", "taints"]);
    }
}
