//! Where commands read and write: redirections, pipes, `$(…)`.

use super::interpreter::{Flow, Run};
use super::output::{Buffer, Input, Sink, Stream};
use super::syntax::{Node, Redirect, Target, parse};
use crate::image::Shell;

impl Run {
    /// Runs with other open files.
    pub(super) fn redirected(&mut self, redirects: &[Redirect], what: impl FnOnce(&mut Self) -> Flow) -> Flow {
        if redirects.is_empty() {
            return what(self);
        }
        let (out, err, input) = (self.out.clone(), self.err.clone(), self.input.clone());
        let reads = redirects.iter().any(|redirect| matches!(redirect.to, Target::Text(_) | Target::Read(_)));
        let flow = if redirects.iter().all(|redirect| self.redirect(redirect)) {
            what(self)
        } else {
            self.uncertain(|| "a file that cannot be opened is told of in the shell's own words".to_owned());
            self.done(1)
        };
        (self.out, self.err) = (out, err);
        if reads {
            self.input = input;
        }
        flow
    }

    /// Opens a file of a command; whether that can be done.
    fn redirect(&mut self, redirect: &Redirect) -> bool {
        let sink = match &redirect.to {
            Target::File(1) => self.out.clone(),
            Target::File(2) => self.err.clone(),
            Target::File(_) => {
                self.uncertain(|| "only the files 1 and 2 of a command are followed".to_owned());
                return true;
            }
            Target::Text(text) => {
                let text = self.expand(text);
                self.input = Input::of(text.map(String::into_bytes));
                return true;
            }
            Target::Read(path) => {
                let path = self.expand(path).map(|path| self.full(&path));
                if path.as_deref().is_some_and(|path| self.files.is_there(path) == Some(false)) {
                    return false;
                }
                let text = if path.as_deref() == Some("/dev/null") {
                    Some(Vec::new())
                } else {
                    path.and_then(|path| self.content(&path))
                };
                self.input = Input::of(text);
                return true;
            }
            Target::Write(path) | Target::Append(path) | Target::Both(path) => {
                let truncates = !matches!(redirect.to, Target::Append(_));
                if matches!(redirect.to, Target::Both(_)) && self.dialect() != Shell::Bash {
                    self.uncertain(|| "what `&>` means depends on the shell".to_owned());
                }
                let Some(path) = self.expand(path) else {
                    self.uncertain(|| "into which file it prints is not known".to_owned());
                    return true;
                };
                let Some(sink) = self.opened(&path, truncates) else { return false };
                sink
            }
        };
        if matches!(redirect.to, Target::Both(_)) {
            self.err = sink.clone();
        }
        match redirect.file {
            1 => self.out = sink,
            2 => self.err = sink,
            _ => self.uncertain(|| "only the files 1 and 2 of a command are followed".to_owned()),
        }
        true
    }

    /// A file that is written to; none where it cannot be opened.
    fn opened(&mut self, path: &str, truncates: bool) -> Option<Sink> {
        match path {
            "/dev/null" => return Some(Sink::Nowhere),
            "/dev/stdout" | "/proc/self/fd/1" | "/dev/fd/1" => return Some(self.out.clone()),
            "/dev/stderr" | "/proc/self/fd/2" | "/dev/fd/2" => return Some(self.err.clone()),
            "/proc/1/fd/1" => return Some(Sink::Stream(Stream::Out)),
            _ => {}
        }
        let full = self.full(path);
        if self.files.refusal(&full).is_some() {
            return None;
        }
        if !self.may_write(&full) {
            self.uncertain(|| format!("whether `{path}` may be written is not known"));
        }
        self.files.open(&full, truncates);
        self.note(&full, true);
        Some(Sink::File(full))
    }

    /// All parts run at once; the last one's end is the pipe's.
    pub(super) fn pipe(&mut self, parts: &[Node]) -> Flow {
        if self.scope.exits_on_failure && !parts.iter().all(|part| matches!(part, Node::Simple { .. })) {
            self.uncertain(|| "what `set -e` does in a pipe is not followed".to_owned());
        }
        let (begun, mut latest, mut forever) = (self.at, self.at, false);
        let (outer_out, outer_input) = (self.out.clone(), self.input.clone());
        let (mut unreached, mut printing) = (false, 0);
        for (index, part) in parts.iter().enumerate() {
            self.at = begun;
            let (last, buffer, asks) = (index + 1 == parts.len(), self.buffers.len(), self.asks);
            if last {
                self.out = outer_out.clone();
            } else {
                self.buffers.push(Buffer::new());
                self.out = Sink::Buffer(buffer);
            }
            self.asks = false;
            let (pieces, version) = (self.transcript.pieces.len(), self.files.version);
            forever |= self.in_subshell(|run| run.node(part, true)) == Flow::Forever;
            latest = latest.max(self.at);
            printing += usize::from(self.transcript.pieces.len() != pieces);
            if printing > 1 || (!last && self.files.version != version) {
                self.uncertain(|| "what comes first of what runs at once is not known".to_owned());
            }
            unreached |= !last && self.asks && self.code != 0;
            self.asks |= asks;
            if !last {
                let text = self.buffers.pop().and_then(|buffer| buffer.0).filter(|text| !forever || text.is_empty());
                self.input = Input::of(text);
                self.input.came = self.at;
            }
        }
        (self.out, self.input) = (outer_out, outer_input);
        self.at = latest;
        // A host that was not reached has sent nothing that a filter could find.
        if unreached {
            self.code = 1;
        }
        if forever { Flow::Forever } else { Flow::Next }
    }

    /// What a command prints, where that is known.
    pub(super) fn captured(&mut self, command: &str) -> Option<String> {
        let Some(node) = parse(command) else {
            self.uncertain(|| "the script holds what is not followed here".to_owned());
            return None;
        };
        if self.scope.exits_on_failure && !matches!(node, Node::Simple { .. }) {
            self.uncertain(|| "what `set -e` does in `$(…)` depends on the shell".to_owned());
        }
        let before = self.code;
        let index = self.buffers.len();
        self.buffers.push(Buffer::new());
        let (out, unknown, begun) =
            (std::mem::replace(&mut self.out, Sink::Buffer(index)), (self.unknown, self.unknown_last), self.at);
        let flow = self.call(|run| run.in_subshell(|run| run.node(&node, true)));
        self.out = out;
        (self.unknown, self.unknown_last) = unknown;
        self.captured = Some(std::mem::replace(&mut self.code, before));
        let text = self.buffers.pop().and_then(|buffer| buffer.0);
        if flow == Flow::Forever {
            self.at = begun;
            self.uncertain(|| "what `$(…)` waits for goes on".to_owned());
            return None;
        }
        String::from_utf8(text?).ok().map(|text| text.trim_end_matches('\n').to_owned())
    }
}
