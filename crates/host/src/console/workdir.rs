//! Folders in which commands run: each has one of its own, which is gone when it ends.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::policy::Files;
use klab_operations::exec::process_exists;
use tempfile::TempDir;

/// What the folders of a klab begin with; its process's number follows.
const PREFIX: &str = "klab-console-";
/// The first of the users that commands run as, of a range that systemd's and Debian's tables of users leave free; and the
/// range for containers that have no more than 65,536, of users that live as long as a service.
const USERS: [u32; 2] = [2_000_000_000, 61_184];

/// The folder of all consoles of this process, and the users that are free.
#[derive(Debug)]
pub(super) struct Scratch {
    folder: TempDir,
    /// The first user; none where klab is not root.
    users: Option<u32>,
    free: Mutex<Vec<u32>>,
}

impl Scratch {
    /// A folder for this many commands at a time. Leftovers of a klab that was killed are removed.
    pub(super) fn new(at_a_time: usize) -> io::Result<Self> {
        let all = std::env::temp_dir();
        remove_stale(&all);
        let prefix = format!("{PREFIX}{}-", std::process::id());
        // Other users go through it to a folder of their own, and see no other.
        let folder =
            tempfile::Builder::new().prefix(&prefix).permissions(Permissions::from_mode(0o711)).tempdir_in(all)?;
        let is_root = rustix::process::geteuid().is_root();
        let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let most = u32::try_from(at_a_time).unwrap_or(u32::MAX);
        let users = USERS.into_iter().find(|first| is_root && covers(&map, *first, most));
        Ok(Self { folder, users, free: Mutex::new((0..most).rev().collect()) })
    }

    /// A folder for one command, with a kubeconfig and files; none where all are taken.
    pub(super) fn open(self: &Arc<Self>, kubeconfig: &str, files: &Files) -> io::Result<Option<Workdir>> {
        let Some(number) = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop() else { return Ok(None) };
        let user = self.users.map(|first| first + number);
        let place =
            Workdir { scratch: Arc::clone(self), number, user, folder: self.folder.path().join(number.to_string()) };
        if place.folder.exists() {
            std::fs::remove_dir_all(&place.folder)?;
        }
        place.make_folder(&place.folder)?;
        place.make_folder(&place.files())?;
        place.write(&place.kubeconfig(), kubeconfig)?;
        for (name, text) in files {
            let mut folder = place.files();
            let mut parts = name.split('/').peekable();
            while let Some(part) = parts.next() {
                folder.push(part);
                if parts.peek().is_some() && !folder.exists() {
                    place.make_folder(&folder)?;
                }
            }
            place.write(&folder, text)?;
        }
        Ok(Some(place))
    }
}

/// A folder of one command; removed with all that is in it when it is dropped.
pub(super) struct Workdir {
    scratch: Arc<Scratch>,
    number: u32,
    /// Who the command is.
    pub(super) user: Option<u32>,
    /// The folder.
    pub(super) folder: PathBuf,
}

impl Workdir {
    /// The seat's kubeconfig.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// The editor's files: where the command begins.
    pub(super) fn files(&self) -> PathBuf {
        self.folder.join("files")
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        std::fs::create_dir(folder)?;
        std::fs::set_permissions(folder, Permissions::from_mode(0o700))?;
        self.give(folder)
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        self.give(path)
    }

    fn give(&self, path: &Path) -> io::Result<()> {
        if self.user.is_some() { chown(path, self.user, self.user) } else { Ok(()) }
    }
}

impl Drop for Workdir {
    fn drop(&mut self) {
        // What stays is removed before the folder is used again.
        let _ = std::fs::remove_dir_all(&self.folder);
        self.scratch.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}

/// Whether a map of users (`/proc/self/uid_map`) has this many from one on. Where there is none, all are there.
fn covers(map: &str, first: u32, many: u32) -> bool {
    let is_in = |line: &str| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [inside, _, length] = numbers[..] else { return false };
        inside <= u64::from(first) && u64::from(first) + u64::from(many) <= inside + length
    };
    map.is_empty() || map.lines().any(is_in)
}

/// Removes folders of this user's whose klab is gone.
fn remove_stale(all: &Path) {
    for entry in std::fs::read_dir(all).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok());
        let is_gone = process.is_some_and(|process: u32| !process_exists(process));
        let is_own =
            entry.metadata().is_ok_and(|file| file.is_dir() && file.uid() == rustix::process::geteuid().as_raw());
        if is_gone && is_own {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_those_that_a_container_has() {
        let whole = "         0          0 4294967295\n";
        let narrow = "         0     100000      65536\n";
        assert!(covers(whole, USERS[0], 16) && covers("", USERS[0], 16));
        assert!(!covers(narrow, USERS[0], 16) && covers(narrow, USERS[1], 16));
        assert!(!covers(narrow, USERS[1], 10_000) && !covers("nonsense", 1, 1));
    }

    #[test]
    fn a_place_is_private_and_gone_afterwards() {
        let scratch = Arc::new(Scratch::new(1).unwrap());
        let files = Files::from([("a/b.yaml".to_owned(), "x".to_owned())]);
        let place = scratch.open("secret", &files).unwrap().unwrap();
        assert!(scratch.open("secret", &files).unwrap().is_none());
        assert_eq!(std::fs::read_to_string(place.files().join("a/b.yaml")).unwrap(), "x");
        for path in [place.kubeconfig(), place.folder.clone()] {
            let file = std::fs::metadata(path).unwrap();
            assert_eq!(file.mode() & 0o077, 0);
            assert_eq!(Some(file.uid()), place.user.or(Some(rustix::process::geteuid().as_raw())));
        }
        let folder = place.folder.clone();
        drop(place);
        assert!(!folder.exists());
        assert!(scratch.open("", &Files::new()).unwrap().is_some());
    }
}
