//! The lock of a lab: two klabs never work on one lab at a time, and the second says who holds it.

use std::fs::{File, TryLockError};
use std::io::{self, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::home::{create_private_folder, open_private_append, state_error};
use crate::error::{Error, Kind, Result};

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
    _file: File,
}

impl Lock {
    /// Takes the lock of the lab in `folder` (made if missing) for `command`.
    ///
    /// # Errors
    /// When another klab holds it, or the folder cannot be written.
    pub fn take(folder: &Path, lab: &str, command: &str) -> Result<Self> {
        loop {
            create_private_folder(folder).map_err(|error| state_error(error, "create the state folder", folder))?;
            if let Some(lock) = Self::attempt(&folder.join(FILE), lab, command)? {
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
            if let Some(lock) = Self::attempt(&folder.join(FILE), lab, command)? {
                return Ok(Some(lock));
            }
        }
        Ok(None)
    }

    /// One attempt; `None` when the file was removed by a `down` in between, so that the lock would guard nothing.
    fn attempt(path: &Path, lab: &str, command: &str) -> Result<Option<Self>> {
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
        let same = std::fs::metadata(path).is_ok_and(|now| file.metadata().is_ok_and(|ours| ours.ino() == now.ino()));
        if !same {
            return Ok(None);
        }
        let holder = Holder { pid: std::process::id(), command: command.to_owned(), since: Timestamp::now() };
        let text = serde_json::to_string(&holder).map_err(io::Error::other).map_err(failed)?;
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(text.as_bytes())).map_err(failed)?;
        Ok(Some(Self { _file: file }))
    }
}

const FILE: &str = "lock";

fn held(path: &Path, lab: &str) -> Error {
    let holder: Option<Holder> = std::fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok());
    match holder {
        Some(Holder { pid, command, since }) => {
            let ago = Timestamp::now().duration_since(since).unsigned_abs();
            let message = format!(
                "lab `{lab}` is in use: `klab {command}` (process {pid}) has been at work on it for {}",
                crate::ui::duration(ago)
            );
            Error::message(Kind::Failed, message).hint(format!("wait until it is done, or end it with `kill {pid}`"))
        }
        None => {
            Error::message(Kind::Failed, format!("lab `{lab}` is in use by another klab")).hint("wait until it is done")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_taker_is_told_who_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::take(folder.path(), "taints", "up").unwrap();
        let error = Lock::take(folder.path(), "taints", "down").unwrap_err();
        let words = error.to_string();
        let expected = format!("lab `taints` is in use: `klab up` (process {}) has been at work", std::process::id());
        assert!(words.starts_with(&expected), "{words}");
        drop(lock);
        Lock::take(folder.path(), "taints", "down").unwrap();
    }

    #[test]
    fn lock_file_left_by_a_dead_process_does_not_hold() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), r#"{"pid":1,"command":"up","since":"2026-01-01T00:00:00Z"}"#).unwrap();
        Lock::take(folder.path(), "taints", "up").unwrap();
    }

    #[test]
    fn missing_folder_is_no_lab() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Lock::take_existing(&folder.path().join("none"), "none", "down").unwrap().is_none());
    }
}
