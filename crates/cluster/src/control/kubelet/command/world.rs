//! What a command finds, and what comes of it as time goes by.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

/// Programs that are done at once, and well.
pub(super) const QUICK: [&str; 40] = [
    "echo", "printf", "date", "hostname", "printenv", "export", "unset", "readonly", "local", "umask", "cd", "pwd",
    "id", "whoami", "uname", "mkdir", "rmdir", "cp", "mv", "ln", "chmod", "chown", "head", "tail", "wc", "sort",
    "uniq", "cut", "tr", "basename", "dirname", "seq", "expr", "sync", "df", "du", "free", "ps", "read", "ulimit",
];

/// What a command finds when it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct World {
    /// Its environment, as far as the pod says it.
    pub(crate) variables: BTreeMap<String, String>,
    /// Directories that were empty before this node's containers wrote into them.
    pub(crate) directories: Vec<String>,
    /// Files that are in them.
    pub(crate) files: BTreeSet<String>,
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
}

impl Course {
    /// A command that runs until it is stopped.
    pub(crate) fn endless() -> Self {
        Self { end: End::Never, files: Vec::new(), writes: Vec::new(), on_term: None, known: true }
    }

    /// Whether a file is there at this time; `None` where the command has nothing to do with it.
    pub(crate) fn has_file(&self, path: &str, at: SignedDuration) -> Option<bool> {
        let mut known = self.files.iter().filter(|(_, file, _)| file == path).peekable();
        known.peek()?;
        Some(known.take_while(|(when, ..)| *when <= at).last().is_some_and(|(.., there)| *there))
    }

    /// When its files change.
    pub(crate) fn changes(&self) -> impl Iterator<Item = SignedDuration> + '_ {
        self.files.iter().map(|(at, ..)| *at)
    }
}
