//! The lock of a lab: two klabs never work on one lab at a time, and the second says who holds it.

use std::fs::{File, TryLockError};
use std::io::{self, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::home::{remove_empty, state_error};
use crate::error::{Code, Error, Result};
use klab_server::files::{create_private_folder, open_private_append};

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    pid: u32,
    command: String,
    since: Timestamp,
}

/// A held lock. The system lets go of it when the process ends, however it ends, so a lock is never stale.
#[derive(Debug)]
pub struct Lock {
    file: File,
    folder: PathBuf,
}

impl Lock {
    /// Takes the lock of the lab in `folder` (made if missing) for `command`.
    ///
    /// # Errors
    /// When another klab holds it, or the folder cannot be written.
    pub fn take(folder: &Path, lab: &str, command: &str) -> Result<Self> {
        loop {
            create_private_folder(folder).map_err(|error| state_error(error, "create the state folder", folder))?;
            if let Some(lock) = Self::attempt(folder, lab, command)? {
                return Ok(lock);
            }
        }
    }

    /// Takes the lock of a lab whose folder exists; `None` when there is no such folder.
    ///
    /// # Errors
    /// When another klab holds it.
    pub fn take_existing(folder: &Path, lab: &str, command: &str) -> Result<Option<Self>> {
        while folder.is_dir() {
            if let Some(lock) = Self::attempt(folder, lab, command)? {
                return Ok(Some(lock));
            }
        }
        Ok(None)
    }

    /// One attempt; `None` when the file was removed by a `down` in between, so that the lock would guard nothing.
    fn attempt(folder: &Path, lab: &str, command: &str) -> Result<Option<Self>> {
        let path = &folder.join(FILE);
        let failed = |error| state_error(error, "lock", path);
        let mut file = match open_private_append(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(path, lab)),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        if !is_at(&file, path) {
            return Ok(None);
        }
        let holder = Holder { pid: std::process::id(), command: command.to_owned(), since: Timestamp::now() };
        let text = serde_json::to_string(&holder).map_err(io::Error::other).map_err(failed)?;
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(text.as_bytes())).map_err(failed)?;
        Ok(Some(Self { file, folder: folder.to_owned() }))
    }
}

impl Drop for Lock {
    /// A folder that holds nothing but the lock is no lab: of a command that was refused nothing stays.
    fn drop(&mut self) {
        let path = self.folder.join(FILE);
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        if is_at(&self.file, &path) && entries.flatten().all(|entry| entry.file_name() == FILE) {
            // A process that waits for the lock sees that its file is gone, and starts again.
            let _ = std::fs::remove_file(path);
            remove_empty(&self.folder);
        }
    }
}

const FILE: &str = "lock";

/// Whether an open file is the one at a path: not when that was removed, or recreated, meanwhile.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let place = |file: std::fs::Metadata| (file.dev(), file.ino());
    file.metadata().is_ok_and(|ours| std::fs::metadata(path).is_ok_and(|there| place(there) == place(ours)))
}

/// A lab that another klab works on.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub(crate) struct Busy {
    words: String,
    /// What that klab was called with; empty where it does not say.
    pub(crate) command: String,
}

impl Busy {
    /// What an error says of another klab.
    pub(crate) fn in_error(error: &Error) -> Option<&Self> {
        error.source.downcast_ref()
    }
}

fn held(path: &Path, lab: &str) -> Error {
    let holder: Option<Holder> = std::fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let busy = |words, command| Error::new(Code::LabLocked, Busy { words, command });
    match holder {
        Some(Holder { pid, command, since }) => {
            let ago = Timestamp::now().duration_since(since).unsigned_abs();
            let words = format!(
                "lab `{lab}` is in use: `klab {command}` (process {pid}) has been working on it for {}",
                klab_lab::words::duration(ago)
            );
            busy(words, command).hint(format!("wait until it is done, or end it with `kill {pid}`"))
        }
        None => busy(format!("lab `{lab}` is in use by another klab"), String::new()).hint("wait until it is done"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_taker_is_told_who_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("labs/taints");
        let lock = Lock::take(&folder, "taints", "up").unwrap();
        let error = Lock::take(&folder, "taints", "down").unwrap_err();
        let words = error.to_string();
        let expected = format!("lab `taints` is in use: `klab up` (process {}) has been working", std::process::id());
        assert!(words.starts_with(&expected), "{words}");
        drop(lock);
        Lock::take(&folder, "taints", "down").unwrap();
    }

    #[test]
    fn a_folder_with_nothing_but_the_lock_goes_with_it() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("labs/taints");
        let lock = Lock::take(&folder, "taints", "up").unwrap();
        std::fs::write(folder.join("record.json"), "{}").unwrap();
        drop(lock);
        assert!(folder.is_dir());
        let lock = Lock::take_existing(&folder, "taints", "up").unwrap().unwrap();
        std::fs::remove_file(folder.join("record.json")).unwrap();
        drop(lock);
        assert!(!home.path().join("labs").exists());
    }

    #[test]
    fn lock_file_left_by_a_dead_process_does_not_hold() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("taints");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join(FILE), r#"{"pid":1,"command":"up","since":"2026-01-01T00:00:00Z"}"#).unwrap();
        Lock::take(&folder, "taints", "up").unwrap();
    }

    #[test]
    fn missing_folder_is_no_lab() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Lock::take_existing(&folder.path().join("none"), "none", "down").unwrap().is_none());
    }
}
