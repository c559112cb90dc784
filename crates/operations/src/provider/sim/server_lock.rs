//! The lock of the embedded cluster's server: its holder alone works on the server's folder.

use std::fs::{File, TryLockError};
use std::io::{self, Seek, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use super::server;
use crate::error::Result;
use crate::state::home::state_error;
use crate::state::lock::is_at;
use klab_server::files::{create_private_folder, gone, open_private_append};

/// How long a look at the lock by another klab may keep a server from taking it.
const LOOKED_AT: Duration = Duration::from_millis(200);

/// The lock a server holds as long as it lives; the system lets go of it when the process ends, however it ends.
///
/// klab takes it before it starts a server and hands it to the server as its stdin, so that a server is known from before
/// it begins, and one whose klab was killed is known, too.
#[derive(Debug)]
pub struct ServerLock {
    file: File,
}

/// What an attempt to take a lock came to.
#[derive(Debug)]
pub enum Attempt {
    /// It is taken.
    Taken(ServerLock),
    /// A server has it.
    Held,
    /// There is no such file, and so no server.
    Absent,
}

impl ServerLock {
    /// Takes the lock of a folder, which is made if need be; `None` when a server holds it.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn take(folder: &Path) -> Result<Option<Self>> {
        loop {
            create_private_folder(folder).map_err(|error| state_error(error, "create", folder))?;
            let path = folder.join(FILE);
            match open_private_append(&path) {
                // Removed in this moment by a `down`.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(state_error(error, "open", &path)),
                Ok(file) => match lock(file, &path)? {
                    Attempt::Taken(lock) => return Ok(Some(lock)),
                    Attempt::Held => return Ok(None),
                    Attempt::Absent => {}
                },
            }
        }
    }

    /// Takes the lock of a folder if it is there.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn take_existing(folder: &Path) -> Result<Attempt> {
        let path = folder.join(FILE);
        match File::options().read(true).append(true).open(&path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(Attempt::Absent)
            }
            Err(error) => Err(state_error(error, "open", &path)),
            Ok(file) => lock(file, &path),
        }
    }

    /// The lock for this process, which is a server: what the klab that started it handed over, else a new one.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn of_this_server(folder: &Path) -> Result<Option<Self>> {
        if let Some(lock) = Self::handed_over(folder) {
            return Ok(Some(lock));
        }
        let until = klab_cluster::deadline::within(LOOKED_AT);
        loop {
            let taken = Self::take(folder)?;
            if taken.is_some() || Instant::now() > until {
                return Ok(taken);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn handed_over(folder: &Path) -> Option<Self> {
        let file = File::from(io::stdin().as_fd().try_clone_to_owned().ok()?);
        is_at(&file, &folder.join(FILE)).then_some(())?;
        file.try_lock().ok().map(|()| Self { file })
    }

    /// The lock as the stdin of the server that it is for.
    ///
    /// # Errors
    /// When the system has no more files for klab.
    pub fn to_hand_over(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Removes the folder of a server that has ended, the lock last: a klab that finds no lock may take a new one and go on
    /// where this klab was killed, or begin a new server there, whose folder it is then.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn remove_folder(self, folder: &Path) -> Result<()> {
        let remove = |path: &Path| {
            let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
            gone(removed).map_err(|error| state_error(error, "remove", path))
        };
        let failed = |error| state_error(error, "read", folder);
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.file_name().is_some_and(|name| name != FILE) {
                remove(&path)?;
            }
        }
        remove(&folder.join(FILE))?;
        match gone(std::fs::remove_dir(folder)) {
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(state_error(error, "remove", folder)),
            _ => Ok(()),
        }
    }

    /// Notes this process as the one that holds the lock.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn sign(&self) -> io::Result<()> {
        let mut file = &self.file;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(std::process::id().to_string().as_bytes())
    }
}

const FILE: &str = "lock";

/// The process that holds the lock of a folder, or held it last.
pub fn holder(folder: &Path) -> Option<u32> {
    let signed = std::fs::read_to_string(folder.join(FILE)).ok().and_then(|text| text.trim().parse().ok());
    // Servers of older versions do not sign.
    signed.or_else(|| server::access(folder).map(|access| access.pid))
}

/// Locks an open file, unless it was removed meanwhile: the lock would guard nothing.
fn lock(file: File, path: &Path) -> Result<Attempt> {
    match file.try_lock() {
        Ok(()) if is_at(&file, path) => Ok(Attempt::Taken(ServerLock { file })),
        Ok(()) => Ok(Attempt::Absent),
        Err(TryLockError::WouldBlock) => Ok(Attempt::Held),
        Err(TryLockError::Error(error)) => Err(state_error(error, "lock", path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_and_signs_and_a_file_that_was_removed_guards_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("server");
        assert!(matches!(ServerLock::take_existing(&folder).unwrap(), Attempt::Absent));
        let lock = ServerLock::take(&folder).unwrap().unwrap();
        lock.sign().unwrap();
        assert_eq!(holder(&folder), Some(std::process::id()));
        assert!(ServerLock::take(&folder).unwrap().is_none());
        // A process that was handed the lock holds it after its first owner has gone.
        let handed = lock.to_hand_over().unwrap();
        drop(lock);
        assert!(matches!(ServerLock::take_existing(&folder).unwrap(), Attempt::Held));
        std::fs::remove_dir_all(&folder).unwrap();
        let fresh = ServerLock::take(&folder).unwrap();
        assert!(fresh.is_some(), "the lock of a folder that was removed is nobody's");
        drop(handed);
    }

    #[test]
    fn those_who_remove_a_folder_at_the_same_time_all_succeed() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("server");
        for _ in 0..100 {
            drop(ServerLock::take(&folder).unwrap());
            for number in 0..20 {
                std::fs::write(folder.join(number.to_string()), "").unwrap();
            }
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        while folder.exists() {
                            if let Some(lock) = ServerLock::take(&folder).unwrap() {
                                lock.remove_folder(&folder).unwrap();
                            }
                        }
                    });
                }
            });
            assert!(!folder.exists());
        }
    }
}
