//! What a container has printed, as the lines of its log.

// upstream: staging/src/k8s.io/cri-client/pkg/logs/logs.go ReadLogs (v1.36); containerd/internal/cri/io/logger.go redirectLogs

use jiff::{SignedDuration, Timestamp};

use crate::shell::output::{Piece, Stream};
use klab_api_machinery::value::later;

/// A line is cut into several where it is longer.
const MAX_LINE: usize = 16 * 1024;

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When its end was printed, in time since the start of the container.
    pub at: SignedDuration,
    /// Where it was printed to.
    pub stream: Stream,
    /// With its end, where it has one.
    pub text: Vec<u8>,
}

/// Which part of a log somebody wants, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Lines from then on.
    pub since: Option<Timestamp>,
    /// The number of lines at the end.
    pub tail: Option<usize>,
    /// No more bytes than that.
    pub bytes: Option<usize>,
    /// Whether each line begins with its time.
    pub timestamps: bool,
    /// One of the streams.
    pub stream: Option<Stream>,
}

/// The lines of what was printed. What is printed of a line that is not at its end is written down when the process has
/// ended.
pub fn lines<'a>(pieces: impl IntoIterator<Item = &'a Piece>, ended: bool) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut open: [Vec<u8>; 2] = Default::default();
    let mut last = SignedDuration::ZERO;
    for piece in pieces {
        last = piece.at;
        let open = &mut open[usize::from(piece.stream == Stream::Err)];
        for part in piece.text.split_inclusive(|byte| *byte == b'\n') {
            open.extend_from_slice(part);
            if part.ends_with(b"\n") || open.len() >= MAX_LINE {
                lines.push(Line { at: piece.at, stream: piece.stream, text: std::mem::take(open) });
            }
        }
    }
    if ended {
        for (stream, text) in [Stream::Out, Stream::Err].into_iter().zip(open) {
            if !text.is_empty() {
                lines.push(Line { at: last, stream, text });
            }
        }
    }
    lines
}

impl LogOptions {
    /// The wanted part of all lines of a container that started then.
    pub fn choose(&self, lines: Vec<Line>, start: Timestamp) -> Vec<Line> {
        let wanted = |line: &Line| {
            self.stream.is_none_or(|stream| stream == line.stream)
                && self.since.is_none_or(|since| later(start, line.at) >= since)
        };
        let from = match self.tail {
            Some(tail) => lines.len().saturating_sub(tail),
            None => 0,
        };
        lines.into_iter().skip(from).filter(wanted).collect()
    }

    /// A line as it is shown.
    pub fn shown(&self, line: &Line, start: Timestamp) -> Vec<u8> {
        if !self.timestamps {
            return line.text.clone();
        }
        let time = later(start, line.at).strftime("%Y-%m-%dT%H:%M:%S.%9fZ ").to_string();
        [time.as_bytes(), &line.text].concat()
    }
}

/// So much of a log stands for the message of a container that failed without one.
const MESSAGE_BYTES: usize = 2048;
const MESSAGE_LINES: usize = 80;

/// The end of a log, as the message of a container that failed without one.
pub(crate) fn last_words(lines: &[Line]) -> String {
    let from = lines.len().saturating_sub(MESSAGE_LINES);
    let text: Vec<u8> = lines[from..].iter().flat_map(|line| line.text.iter().copied()).collect();
    let text = &text[text.len().saturating_sub(MESSAGE_BYTES)..];
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(second: i64, stream: Stream, text: &str) -> Piece {
        Piece { at: SignedDuration::from_secs(second), stream, text: text.as_bytes().to_vec() }
    }

    #[test]
    fn lines_have_the_time_of_their_end() {
        let pieces = [piece(0, Stream::Out, "a\nb"), piece(1, Stream::Err, "e\n"), piece(2, Stream::Out, "c\nd")];
        let shown = |ended| {
            let all = lines(&pieces, ended);
            all.into_iter().map(|line| (line.at.as_secs(), String::from_utf8(line.text).unwrap())).collect::<Vec<_>>()
        };
        let line = |at: i64, text: &str| (at, text.to_owned());
        assert_eq!(shown(false), [line(0, "a\n"), line(1, "e\n"), line(2, "bc\n")]);
        assert_eq!(shown(true).last(), Some(&line(2, "d")));
    }

    #[test]
    fn parts_of_a_log() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let pieces: Vec<Piece> = (0..5).map(|second| piece(second, Stream::Out, &format!("{second}\n"))).collect();
        let chosen = |options: LogOptions| {
            let lines = options.choose(lines(&pieces, true), start);
            let shown: Vec<u8> = lines.iter().flat_map(|line| options.shown(line, start)).collect();
            String::from_utf8(shown).unwrap()
        };
        assert_eq!(chosen(LogOptions { tail: Some(2), ..LogOptions::default() }), "3\n4\n");
        let since = Some(later(start, SignedDuration::from_secs(4)));
        assert_eq!(
            chosen(LogOptions { since, timestamps: true, ..LogOptions::default() }),
            "2026-01-01T00:00:04.000000000Z 4\n"
        );
        assert_eq!(chosen(LogOptions { stream: Some(Stream::Err), ..LogOptions::default() }), "");
        assert_eq!(last_words(&lines(&pieces, true)), "0\n1\n2\n3\n4\n");
    }
}
