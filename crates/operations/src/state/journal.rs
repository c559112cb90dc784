//! The journal of a lab: what klab was about to do, written and fsynced before it was done.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use jiff::Timestamp;
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

use crate::environment;
use klab_lab::spec::Provider;
use klab_server::files::open_private_append;

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
#[derive(Debug)]
pub struct Journal {
    file: Option<File>,
    command: String,
    provider: String,
    written: u32,
}

impl Journal {
    /// Opens the journal of the lab in `folder` for entries of `command`.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn open(folder: &Path, command: &str) -> io::Result<Self> {
        let path = folder.join(FILE);
        let mut file = open_private_append(&path)?;
        // A line torn by a kill must not swallow the next one.
        if last_byte(&mut file)?.is_some_and(|last| last != b'\n') {
            file.write_all(b"\n")?;
        }
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
        self.write(action, subject, File::sync_data)
    }

    /// As [`Journal::intend`], but that it is on the disk only with what is synced next, which must be before the action:
    /// for many labs at once.
    ///
    /// # Errors
    /// As [`Journal::intend`].
    pub fn intend_later(&mut self, action: &str, subject: &str) -> io::Result<()> {
        self.write(action, subject, |_| Ok(()))
    }

    fn write(&mut self, action: &str, subject: &str, sync: impl Fn(&File) -> io::Result<()>) -> io::Result<()> {
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
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        file.write_all(&line)?;
        sync(file)?;
        fault(self.written, "after");
        Ok(())
    }
}

/// Reads the journal of the lab in `folder`; lines that are not whole entries are passed over and counted.
///
/// # Errors
/// When the file exists and cannot be read.
pub fn read(folder: &Path) -> io::Result<(Vec<Entry>, usize)> {
    let text = match std::fs::read(folder.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        text => text?,
    };
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let (mut entries, mut torn) = (Vec::new(), 0);
    for line in lines {
        match serde_json::from_slice(line) {
            Ok(entry) => entries.push(entry),
            Err(_) => torn += 1,
        }
    }
    Ok((entries, torn))
}

const FILE: &str = "journal.jsonl";

fn last_byte(file: &mut File) -> io::Result<Option<u8>> {
    if file.metadata()?.len() == 0 {
        return Ok(None);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(Some(last[0]))
}

/// Ends the process the hard way at the n-th entry, so that tests can show what a kill there leaves behind.
fn fault(entry: u32, moment: &str) {
    if environment::KLAB_FAULT.text().is_some_and(|at| at == format!("{moment}:{entry}")) {
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_and_a_torn_line_costs_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path(), "up").unwrap();
        journal.set_provider(Provider::Sim);
        journal.intend("add-cluster", "scheduling").unwrap();
        std::fs::OpenOptions::new()
            .append(true)
            .open(folder.path().join(FILE))
            .unwrap()
            .write_all(b"{\"at\":\"2026-")
            .unwrap();
        let mut journal = Journal::open(folder.path(), "down").unwrap();
        journal.intend("remove-cluster", "scheduling").unwrap();
        let (entries, torn) = read(folder.path()).unwrap();
        let seen: Vec<_> = entries.iter().map(|entry| (entry.command.as_str(), entry.action.as_str())).collect();
        assert_eq!(seen, [("up", "add-cluster"), ("down", "remove-cluster")]);
        assert_eq!((entries[0].provider.as_str(), torn), ("sim", 1));
    }
}
