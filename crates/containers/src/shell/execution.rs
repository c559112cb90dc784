//! What a command finds, and what comes of it as time goes by.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::output::{Piece, Unknown};
use crate::pod::files::{Changed, Files};
use crate::pod::place::Inside;

/// What others have done to the files of a command while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Intervention {
    /// In time since it started.
    pub(crate) at: SignedDuration,
    pub(crate) changes: Vec<Changed>,
}

/// What becomes of a question to the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The name is known, or the connection is taken.
    Yes,
    NoSuchName,
    Refused,
    /// What is sent there is dropped.
    Silence,
    Unknown,
}

/// The network of a cluster. A container is asked about whose end its pod waits for.
pub(crate) trait Resolver: Send + Sync {
    /// What becomes of a TCP connection to a port of a host, or of the question for its name alone, at a time since the start
    /// of the container.
    fn ask(&self, at: SignedDuration, host: &str, port: Option<u16>) -> Answer;

    /// When it began to answer as it does.
    fn news(&self) -> SignedDuration;
}

impl fmt::Debug for dyn Resolver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Resolver")
    }
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
    pub(crate) fn endless() -> Self {
        Self { end: End::Never, files: Vec::new(), writes: Vec::new(), on_term: None, known: true, asks: false }
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
