//! The journal of a lab: what klab was about to do, written and fsynced before it was done. Each line ends with a checksum that counts
//! the lines before it.

use std::io;
use std::path::Path;

use jiff::Timestamp;
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

use crate::environment;
use klab_lab::spec::Provider;
use klab_server::checked_lines::{self, CheckedFile, Form, Mark};

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When it was written.
    pub at: Timestamp,
    /// `up`, `down`, …
    pub command: String,
    /// What is about to be done: `add-cluster`, `apply`, …
    pub action: String,
    /// To what; never a secret.
    pub subject: String,
    /// The provider that is asked; empty where none is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub provider: String,
}

/// An open journal. The lab's lock must be held.
pub struct Journal {
    file: Option<CheckedFile>,
    command: String,
    provider: String,
    written: u32,
}

impl Journal {
    /// Opens the journal of the lab in `folder` for entries of `command`.
    ///
    /// # Errors
    /// When the file system refuses, or a line of it is damaged or missing.
    pub fn open(folder: &Path, command: &str) -> io::Result<Self> {
        let path = folder.join(FILE);
        let file = CheckedFile::open(&path).map_err(|error| {
            let path = path.display();
            io::Error::new(error.kind(), format!("`{path}`: {error}"))
        })?;
        Ok(Self { file: Some(file), command: command.to_owned(), provider: String::new(), written: 0 })
    }

    /// A journal that keeps nothing: for work in process, of which nothing outlives klab.
    pub fn nowhere() -> Self {
        Self { file: None, command: String::new(), provider: String::new(), written: 0 }
    }

    /// Names the provider in all entries from now on.
    pub fn set_provider(&mut self, provider: Provider) {
        provider.as_str().clone_into(&mut self.provider);
    }

    /// How much was done outside since it was opened.
    pub fn written(&self) -> u32 {
        self.written
    }

    /// Records that `action` on `subject` is about to happen. On disk when this returns.
    ///
    /// # Errors
    /// When it cannot be made durable; the action must then not be done.
    pub fn intend(&mut self, action: &str, subject: &str) -> io::Result<()> {
        self.write(action, subject, |file| file.syncing()?())
    }

    /// As [`Journal::intend`], but that it is on the disk only with what is synced next, which must be before the action:
    /// for many labs at once.
    ///
    /// # Errors
    /// As [`Journal::intend`].
    pub fn intend_later(&mut self, action: &str, subject: &str) -> io::Result<()> {
        self.write(action, subject, |_| Ok(()))
    }

    fn write(&mut self, action: &str, subject: &str, sync: impl Fn(&CheckedFile) -> io::Result<()>) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let entry = Entry {
            at: Timestamp::now(),
            command: self.command.clone(),
            action: action.to_owned(),
            subject: subject.to_owned(),
            provider: self.provider.clone(),
        };
        self.written += 1;
        fault(self.written, "before");
        file.append(&serde_json::to_vec(&entry)?)?;
        sync(file)?;
        fault(self.written, "after");
        Ok(())
    }
}

/// Reads the journal of the lab in `folder`; a last line without its end is passed over.
///
/// # Errors
/// When the file exists and cannot be read, or a line of it is damaged or missing.
pub fn read(folder: &Path) -> io::Result<Vec<Entry>> {
    let path = folder.join(FILE);
    // What is noted to be written was written before.
    let mark = Mark::read(&Mark::path(&path))?;
    let text = match std::fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && mark.is_none() => return Ok(Vec::new()),
        text => text?,
    };
    let parse = |line: &[u8]| serde_json::from_slice(line).map_err(|error| error.to_string());
    Ok(checked_lines::read(&text, mark.as_ref(), Form::Within, parse)?.entries)
}

/// Removes the folder of a lab: first what says where the journal ends, so that a kill in between leaves no journal that seems to be
/// cut off.
///
/// # Errors
/// When the file system refuses.
pub fn remove_with_folder(folder: &Path) -> io::Result<()> {
    unmark(folder)?;
    std::fs::remove_dir_all(folder)
}

fn unmark(folder: &Path) -> io::Result<()> {
    match std::fs::remove_file(Mark::path(&folder.join(FILE))) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Its file in the folder of a lab.
pub(super) const FILE: &str = "journal.jsonl";

/// Ends the process the hard way at the n-th entry, so that tests can show what a kill there leaves behind.
fn fault(entry: u32, moment: &str) {
    if environment::KLAB_FAULT.text().is_some_and(|at| at == format!("{moment}:{entry}")) {
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_kill_while_the_folder_is_removed_leaves_a_journal_that_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            || Journal::open(folder.path(), "down").and_then(|mut journal| journal.intend("remove-cluster", "a"));
        write().unwrap();
        // The system removes files in any order.
        unmark(folder.path()).unwrap();
        write().unwrap();
        unmark(folder.path()).unwrap();
        std::fs::remove_file(folder.path().join(FILE)).unwrap();
        write().unwrap();
        remove_with_folder(folder.path()).unwrap();
        assert!(!folder.path().exists());
    }

    #[test]
    fn entries_come_back_half_a_line_is_cut_off_and_what_was_changed_is_refused_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path(), "up").unwrap();
        journal.set_provider(Provider::Sim);
        journal.intend("add-cluster", "scheduling").unwrap();
        let path = folder.path().join(FILE);
        let add = |text: &[u8]| std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(text).unwrap();
        add(b"{\"at\":\"2026-");
        let mut journal = Journal::open(folder.path(), "down").unwrap();
        journal.intend("remove-cluster", "scheduling").unwrap();
        let entries = read(folder.path()).unwrap();
        let seen: Vec<_> = entries.iter().map(|entry| (entry.command.as_str(), entry.action.as_str())).collect();
        assert_eq!(seen, [("up", "add-cluster"), ("down", "remove-cluster")]);
        assert_eq!(entries[0].provider, "sim");
        let whole = std::fs::read_to_string(&path).unwrap();
        for (changed, place) in [
            (whole.replacen("add-cluster", "add-clusters", 1), "line 1 (byte 0)"),
            (whole.lines().take(1).map(|line| format!("{line}\n")).collect(), "line 1 (byte "),
            (String::new(), "line 0 (byte 0)"),
        ] {
            std::fs::write(&path, changed).unwrap();
            let refused = [read(folder.path()).err(), Journal::open(folder.path(), "up").err()];
            for error in refused.map(Option::unwrap) {
                assert!(error.to_string().contains(place), "{error}");
            }
        }
    }
}
