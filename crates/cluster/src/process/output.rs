//! What programs print: to whom, and from when on that cannot be told.

use std::collections::VecDeque;

use jiff::SignedDuration;

/// So many bytes of what was printed are kept; what was printed first is dropped, as a kubelet's rotated logs are.
const MAX_KEPT: usize = 4 * 1024 * 1024;
/// So many bytes go through a pipe or into a variable.
const MAX_BUFFER: usize = 256 * 1024;

/// Which of the two a program prints to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// Something that was printed at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) at: SignedDuration,
    pub(crate) stream: Stream,
    pub(crate) text: Vec<u8>,
}

/// From when on it cannot be told what is printed, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Doubt {
    pub(crate) at: SignedDuration,
    pub(crate) why: String,
}

/// What was printed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Transcript {
    /// Whether anybody wants to read it.
    pub(crate) kept: bool,
    pub(crate) pieces: VecDeque<Piece>,
    pub(crate) doubt: Option<Doubt>,
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

    pub(super) fn doubt(&mut self, at: SignedDuration, why: impl FnOnce() -> String) {
        if self.kept && self.doubt.is_none() {
            self.doubt = Some(Doubt { at, why: why() });
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

/// What went into a pipe; none where that cannot be told.
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

/// What a command is given to read, as it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    /// Each with the time since the command started.
    pub(crate) pieces: Vec<(SignedDuration, Vec<u8>)>,
    /// When it is at its end; none while more may come.
    pub(crate) ended: Option<SignedDuration>,
}

impl Given {
    /// Nothing yet.
    pub(crate) fn open() -> Self {
        Self { pieces: Vec::new(), ended: None }
    }
}

impl Default for Given {
    /// Nothing at all.
    fn default() -> Self {
        Self { pieces: Vec::new(), ended: Some(SignedDuration::ZERO) }
    }
}

/// What a program reads; none where that cannot be told.
#[derive(Debug, Clone)]
pub(super) struct Input {
    text: Option<Vec<u8>>,
    at: usize,
    /// How much of the text has come by when.
    times: Vec<(usize, SignedDuration)>,
    /// When it is at its end; none while more may come.
    ended: Option<SignedDuration>,
    /// When what was read last had come.
    pub(super) came: SignedDuration,
    /// Whether a program waits for what has not come yet.
    pub(super) blocked: bool,
}

impl Default for Input {
    /// Nothing is there to be read.
    fn default() -> Self {
        Self::of(Some(Vec::new()))
    }
}

impl Input {
    pub(super) fn of(text: Option<Vec<u8>>) -> Self {
        let (times, ended) = (Vec::new(), Some(SignedDuration::ZERO));
        Self { text, at: 0, times, ended, came: SignedDuration::ZERO, blocked: false }
    }

    pub(super) fn given(given: &Given) -> Self {
        let (mut text, mut times) = (Vec::new(), Vec::new());
        for (at, piece) in &given.pieces {
            text.extend_from_slice(piece);
            times.push((text.len(), *at));
        }
        Self { times, ended: given.ended, ..Self::of(Some(text)) }
    }

    /// What a pipe carries on that a program has written until then, unless it waits for more to read itself.
    pub(super) fn piped(text: Option<Vec<u8>>, at: SignedDuration, is_all: bool) -> Self {
        let times = text.iter().map(|text| (text.len(), at)).collect();
        Self { times, ended: is_all.then_some(at), ..Self::of(text) }
    }

    /// Whether something is left to be read, or may come.
    pub(super) fn matters(&self) -> bool {
        self.ended.is_none() || self.text.as_ref().is_none_or(|text| self.at < text.len())
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> Option<Vec<u8>> {
        let text = self.text.as_ref()?;
        let rest = text.get(self.at..).unwrap_or_default().to_vec();
        self.at = text.len();
        self.reach_end();
        Some(rest)
    }

    /// The next line without its end; the inner one is none at the end of all lines.
    #[expect(clippy::option_option, reason = "not known, and at its end")]
    pub(super) fn line(&mut self) -> Option<Option<String>> {
        let text = self.text.as_ref()?;
        let rest = text.get(self.at..).unwrap_or_default();
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            self.at = text.len();
            self.reach_end();
            return Some(None);
        };
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        self.at += end + 1;
        let time = self.times.iter().find(|(length, _)| *length >= self.at);
        self.came = time.map_or(self.came, |(_, time)| *time);
        Some(Some(line))
    }

    fn reach_end(&mut self) {
        let last = self.times.last().map_or(SignedDuration::ZERO, |(_, time)| *time);
        self.came = self.ended.unwrap_or_default().max(last);
        self.blocked = self.ended.is_none();
    }
}
