//! What a command finds, and what comes of it as time goes by.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::output::{Piece, Unknown};
use super::resolver::Resolver;
use crate::pod::file::File;
use crate::pod::files::{Changed, Files};
use crate::pod::place::Inside;

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
    pub(crate) inside: Inside,
    /// What others do to its files, in order.
    pub(crate) interventions: Arc<[Intervention]>,
    /// When it starts, where that matters.
    pub(crate) start: Option<Timestamp>,
    /// The network, for containers that hold up the start of a pod.
    pub(crate) network: Option<Arc<dyn Resolver>>,
    /// Whether a program that is not known may write into the volumes that it shares.
    pub(crate) has_unknown_company: bool,
}

impl World {
    /// A file that is there, whatever is in it.
    pub(crate) fn with_file(mut self, path: &str) -> Self {
        self.inside.files.put(path, File { text: None, mode: 0o644, owner: None });
        self
    }
}

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Not by itself.
    Never,
    /// After this time with this exit code.
    After(SignedDuration, i64),
    /// The last thing it does is an unknown program, which may run for ever; the exit code if it does not.
    Unknown(SignedDuration, i64),
}

/// What a command does as time goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// How it ends.
    pub end: End,
    /// The files that it makes (`true`) and removes, in time since its start.
    pub files: Vec<(SignedDuration, String, bool)>,
    /// The bytes that it writes to the disk, in time since its start.
    pub writes: Vec<(SignedDuration, i64)>,
    /// Where it has a handler for SIGTERM that ends it: how long that takes, and the exit code.
    pub on_term: Option<(SignedDuration, i64)>,
    /// Whether all it runs is known, so that none of it is a server.
    pub known: bool,
    /// Whether it depends on what the network answers.
    pub asks: bool,
}

impl Execution {
    /// A command that runs until it is stopped.
    pub fn endless() -> Self {
        Self { end: End::Never, files: Vec::new(), writes: Vec::new(), on_term: None, known: true, asks: false }
    }

    /// Whether a file is there at this time; `None` where the command has nothing to do with it.
    pub fn has_file(&self, path: &str, at: SignedDuration) -> Option<bool> {
        let mut known = self.files.iter().filter(|(_, file, _)| file == path).peekable();
        known.peek()?;
        Some(known.take_while(|(when, ..)| *when <= at).last().is_some_and(|(.., there)| *there))
    }
}

/// What a command comes to, with all that it prints.
#[derive(Debug, Clone)]
pub(crate) struct Performed {
    pub(crate) end: End,
    pub(crate) pieces: VecDeque<Piece>,
    /// From when on what it prints, or how it ends, is not certain.
    pub(crate) unknown: Option<Unknown>,
    /// Whether it has a handler for SIGTERM.
    pub(crate) has_handler: bool,
    /// The files when it ended, or at the last moment that was asked about.
    pub(crate) files: Files,
}
