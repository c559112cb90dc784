//! What programs print: to whom, and from when on that is not known.

use std::collections::VecDeque;

use jiff::SignedDuration;

/// Most bytes of what was printed that are kept; what was printed first is dropped, as a kubelet's rotated logs are.
const MAX_KEPT: usize = 4 * 1024 * 1024;
/// Most bytes that go into a variable.
const MAX_CAPTURED: usize = 256 * 1024;

/// Which of the two a program prints to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Something that was printed at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// In time since the start of the command.
    pub at: SignedDuration,
    /// Where it was printed to.
    pub stream: Stream,
    /// What was printed.
    pub text: Vec<u8>,
}

/// From when on it is not certain what a command prints or how it ends, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// In time since the start of the command.
    pub at: SignedDuration,
    /// The reason, as part of a sentence.
    pub why: String,
}

/// What was printed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Transcript {
    pub(crate) pieces: VecDeque<Piece>,
    pub(crate) unknown: Option<Unknown>,
    size: usize,
}

impl Transcript {
    pub(super) fn print(&mut self, at: SignedDuration, stream: Stream, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        self.size += text.len();
        match self.pieces.back_mut() {
            Some(last) if last.at == at && last.stream == stream => last.text.extend_from_slice(text),
            _ => self.pieces.push_back(Piece { at, stream, text: text.to_vec() }),
        }
        while self.size > MAX_KEPT {
            let Some(first) = self.pieces.pop_front() else { break };
            self.size -= first.text.len();
        }
    }
}

/// Where an open file of a program leads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Sink {
    Stream(Stream),
    /// Into the text that stands for the command: the one of this index.
    Captured(usize),
    File(String),
    #[default]
    Nowhere,
}

/// What `$(…)` is; none where that is not known.
#[derive(Debug, Clone)]
pub(super) struct Captured(pub(super) Option<Vec<u8>>);

impl Captured {
    pub(super) fn push(&mut self, text: Option<&[u8]>) {
        match (&mut self.0, text) {
            (Some(all), Some(text)) if all.len() + text.len() <= MAX_CAPTURED => all.extend_from_slice(text),
            (all, _) => *all = None,
        }
    }
}
