//! What programs print: to whom, and from when on that is not known.

use std::collections::VecDeque;

use jiff::SignedDuration;

/// Most bytes of what was printed that are kept; what was printed first is dropped, as a kubelet's rotated logs are.
const MAX_KEPT: usize = 4 * 1024 * 1024;
/// Most bytes that go through a pipe or into a variable.
const MAX_BUFFER: usize = 256 * 1024;

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
    /// Whether anybody wants to read it.
    pub(crate) kept: bool,
    pub(crate) pieces: VecDeque<Piece>,
    pub(crate) unknown: Option<Unknown>,
    size: usize,
}

impl Transcript {
    pub(super) fn new(kept: bool) -> Self {
        Self { kept, ..Self::default() }
    }

    pub(super) fn print(&mut self, at: SignedDuration, stream: Stream, text: &[u8]) {
        if !self.kept || text.is_empty() {
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

    pub(super) fn uncertain(&mut self, at: SignedDuration, why: impl FnOnce() -> String) {
        if self.kept && self.unknown.is_none() {
            self.unknown = Some(Unknown { at, why: why() });
        }
    }

    /// Background commands print in between: by time.
    pub(super) fn sort(&mut self) {
        self.pieces.make_contiguous().sort_by_key(|piece| piece.at);
    }
}

/// Where an open file of a program leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sink {
    Stream(Stream),
    /// A pipe, or what stands for the command.
    Buffer(usize),
    File(String),
    Nowhere,
}

/// What went into a pipe; none where that is not known.
#[derive(Debug, Clone)]
pub(super) struct Buffer(pub(super) Option<Vec<u8>>);

impl Buffer {
    pub(super) fn new() -> Self {
        Self(Some(Vec::new()))
    }

    pub(super) fn push(&mut self, text: &[u8]) {
        if let Some(all) = &mut self.0 {
            all.extend_from_slice(text);
            if all.len() > MAX_BUFFER {
                self.0 = None;
            }
        }
    }
}

/// What a program reads from a pipe, a file or a here-document; none where that is not known.
#[derive(Debug, Clone)]
pub(super) struct Input {
    text: Option<Vec<u8>>,
    at: usize,
    /// When all of it was there.
    pub(super) came: SignedDuration,
}

impl Default for Input {
    /// Nothing is there to be read.
    fn default() -> Self {
        Self::of(Some(Vec::new()))
    }
}

impl Input {
    pub(super) fn of(text: Option<Vec<u8>>) -> Self {
        Self { text, at: 0, came: SignedDuration::ZERO }
    }

    /// Whether something is left to be read, or may be.
    pub(super) fn matters(&self) -> bool {
        self.text.as_ref().is_none_or(|text| self.at < text.len())
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> Option<Vec<u8>> {
        let text = self.text.as_ref()?;
        let rest = text.get(self.at..).unwrap_or_default().to_vec();
        self.at = text.len();
        Some(rest)
    }

    /// The next line without its end; the inner one is none at the end of all lines.
    #[expect(clippy::option_option, reason = "not known, and at its end")]
    pub(super) fn line(&mut self) -> Option<Option<String>> {
        let text = self.text.as_ref()?;
        let rest = text.get(self.at..).unwrap_or_default();
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            self.at = text.len();
            // A last line without an end is read, and `read` fails.
            return if rest.is_empty() { Some(None) } else { None };
        };
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        self.at += end + 1;
        Some(Some(line))
    }
}
