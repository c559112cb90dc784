//! The files of what `klab az` remembers: of the account in klab's home, of a cluster in its lab's folder.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::home::state_error;
use crate::error::Result;
use klab_server::files::write_private;

const FILE: &str = "azure.json";

/// The file in a folder.
pub fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

/// Reads what is remembered in a folder. A torn file counts as none: only what a lab file has no key for is lost with it.
///
/// # Errors
/// When the folder cannot be read.
pub fn read<T: Default + DeserializeOwned>(folder: &Path) -> Result<T> {
    let path = path(folder);
    match std::fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(state_error(error, "read", &path)),
        Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
    }
}

/// Writes it; where there is nothing to remember, no file stays.
///
/// # Errors
/// When the file system refuses.
pub fn write<T: Default + PartialEq + Serialize>(value: &T, folder: &Path) -> Result<()> {
    let path = path(folder);
    if *value == T::default() {
        return match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(state_error(error, "remove", &path)),
            _ => Ok(()),
        };
    }
    let failed = |error| state_error(error, "write", &path);
    std::fs::create_dir_all(folder).map_err(failed)?;
    let text = serde_json::to_vec_pretty(value).map_err(io::Error::other).map_err(failed)?;
    write_private(&path, &text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_az::notes::{Account, ClusterNote};

    #[test]
    fn what_is_remembered_comes_back_and_nothing_needs_no_file() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read::<Account>(folder.path()).unwrap(), Account::default());
        let mut account = Account::default();
        account.settings.insert("defaults.group".to_owned(), "rg".to_owned());
        write(&account, folder.path()).unwrap();
        assert_eq!(read::<Account>(folder.path()).unwrap(), account);
        write(&Account::default(), folder.path()).unwrap();
        assert!(!path(folder.path()).exists());
        std::fs::write(path(folder.path()), "{ torn").unwrap();
        assert_eq!(read::<ClusterNote>(folder.path()).unwrap(), ClusterNote::default());
    }
}
