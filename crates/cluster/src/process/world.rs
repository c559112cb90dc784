//! What a command finds, and what comes of it as time goes by.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::file::File;
use super::files::{Changed, Files};
use super::image::{Shell, Tools};
use super::output::{Doubt, Given, Piece};
use super::reach::Reach;

/// Programs that are done at once, and well.
pub(super) const QUICK: [&str; 17] = [
    "unset", "readonly", "local", "umask", "rmdir", "ln", "chown", "sync", "ulimit", "df", "du", "free", "ps", "uname",
    "whoami", "chgrp", "clear",
];
/// Those among them that print nothing.
pub(super) const SILENT: [&str; 10] =
    ["unset", "readonly", "local", "umask", "rmdir", "ln", "chown", "sync", "ulimit", "chgrp"];

/// Who runs a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// Further groups.
    pub(crate) groups: Vec<u32>,
}

/// What a command may do beside what everybody may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Privileges {
    /// Whether programs that are set to run as another user do.
    pub(crate) gains: bool,
    /// Whether it may change the network of its pod.
    pub(crate) network: bool,
}

/// What others have done to the files of a command while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Intervention {
    /// In time since it started.
    pub(crate) at: SignedDuration,
    pub(crate) changes: Vec<Changed>,
}

/// What a command finds when it starts.
#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    /// Its environment, as far as the pod says it, in its order.
    pub(crate) variables: Vec<(String, String)>,
    /// Variables that it has, though their value is not known: why.
    pub(crate) unknown_variables: BTreeMap<String, String>,
    /// Whether it has no others.
    pub(crate) all_variables: bool,
    pub(crate) files: Files,
    /// What others do to its files, in order.
    pub(crate) interventions: Arc<[Intervention]>,
    /// When it starts, where that matters.
    pub(crate) start: Option<Timestamp>,
    pub(crate) shell: Shell,
    /// The programs for the network that its image has.
    pub(crate) tools: Tools,
    /// The network, for commands that are executed now and for those that hold up the start of a pod.
    pub(crate) network: Option<Arc<dyn Reach>>,
    /// Whether a program that is not known may write into the volumes that it shares.
    pub(crate) has_unknown_company: bool,
    pub(crate) identity: Option<Identity>,
    pub(crate) privileges: Privileges,
    pub(crate) host_name: Option<String>,
    pub(crate) directory: Option<String>,
    pub(crate) given: Given,
}

impl World {
    /// Whether it is root's.
    #[cfg(feature = "server")]
    pub(crate) fn is_root(&self) -> bool {
        self.identity.as_ref().is_none_or(|identity| identity.user == 0)
    }

    /// A file that is there, whatever is in it.
    pub(crate) fn with_file(mut self, path: &str) -> Self {
        self.files.put(path, File { text: None, mode: 0o644, owner: None });
        self
    }
}

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Not by itself.
    Never,
    /// After this time with this exit code.
    After(SignedDuration, i64),
    /// The last thing it does is a program nobody knows, which may run for ever; the exit code if it does not.
    Unknown(SignedDuration, i64),
}

/// What a command does as time goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Course {
    pub(crate) end: End,
    /// Files it makes and removes.
    pub(crate) files: Vec<(SignedDuration, String, bool)>,
    /// Bytes it writes to the disk.
    pub(crate) writes: Vec<(SignedDuration, i64)>,
    /// Where it has a handler for SIGTERM that ends it: how long that takes, and the exit code.
    pub(crate) on_term: Option<(SignedDuration, i64)>,
    /// Whether all it runs is known, so that none of it is a server.
    pub(crate) known: bool,
    /// Whether it depends on what the network answers.
    pub(crate) asks: bool,
}

impl Course {
    /// A command that runs until it is stopped.
    pub(crate) fn endless() -> Self {
        Self { end: End::Never, files: Vec::new(), writes: Vec::new(), on_term: None, known: true, asks: false }
    }

    /// Whether a file is there at this time; `None` where the command has nothing to do with it.
    pub(crate) fn has_file(&self, path: &str, at: SignedDuration) -> Option<bool> {
        let mut known = self.files.iter().filter(|(_, file, _)| file == path).peekable();
        known.peek()?;
        Some(known.take_while(|(when, ..)| *when <= at).last().is_some_and(|(.., there)| *there))
    }
}

/// What a command comes to, with all that it prints.
#[derive(Debug, Clone)]
pub(crate) struct Performance {
    pub(crate) end: End,
    pub(crate) pieces: VecDeque<Piece>,
    /// From when on what it prints, or how it ends, cannot be told.
    pub(crate) doubt: Option<Doubt>,
    /// Whether that is so only because the time for what it asks of the network has not come.
    pub(crate) waits: bool,
    /// Whether it waits for more to read.
    pub(crate) wants_input: bool,
    /// The files when it ended, or when nobody looked any further.
    pub(crate) files: Files,
}

impl Performance {
    /// Nothing has been done so far.
    pub(crate) fn nothing() -> Self {
        let files = Files::default();
        Self { end: End::Never, pieces: VecDeque::new(), doubt: None, waits: false, wants_input: false, files }
    }
}
