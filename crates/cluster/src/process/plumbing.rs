//! Where commands read and write: redirections, pipes, `$(…)`.

use super::files::Refused;
use super::output::{Buffer, Input, Sink, Stream};
use super::run::{Flow, Run};
use super::script::{Node, Redirect, Target, parse};

impl Run {
    /// Runs with other open files.
    pub(super) fn elsewhere(&mut self, redirects: &[Redirect], what: impl FnOnce(&mut Self) -> Flow) -> Flow {
        if redirects.is_empty() {
            return what(self);
        }
        let outer = (self.out.clone(), self.err.clone());
        let mut input = None;
        for redirect in redirects {
            let sink = match &redirect.to {
                Target::File(1) => self.out.clone(),
                Target::File(2) => self.err.clone(),
                Target::File(_) => continue,
                Target::Text(text) => {
                    let text = self.expand(text);
                    input.get_or_insert_with(|| self.input.clone());
                    self.input = Input::of(text.map(String::into_bytes));
                    continue;
                }
                Target::Read(path) => {
                    input.get_or_insert_with(|| self.input.clone());
                    let path = self.expand(path).map(|path| self.full(&path));
                    if let Some(path) = path.as_deref().filter(|path| self.files.is_there(path) == Some(false)) {
                        let text = format!("{}: can't open {path}: no such file", self.shell);
                        (self.out, self.err) = outer;
                        self.input = input.unwrap_or_default();
                        return self.fail(1, &text);
                    }
                    self.input = Input::of(path.and_then(|path| self.content(&path)));
                    continue;
                }
                Target::Write(path) | Target::Append(path) => {
                    let truncate = matches!(redirect.to, Target::Write(_));
                    match self.expand(path) {
                        Some(path) => match self.writable(&path, truncate) {
                            Ok(sink) => sink,
                            Err(text) => {
                                (self.out, self.err) = outer;
                                self.input = input.unwrap_or_else(|| self.input.clone());
                                return self.fail(1, &text);
                            }
                        },
                        None => Sink::Nowhere,
                    }
                }
            };
            match redirect.file {
                1 => self.out = sink,
                2 => self.err = sink,
                _ => {}
            }
        }
        let flow = what(self);
        (self.out, self.err) = outer;
        if let Some(input) = input {
            self.input = input;
        }
        flow
    }

    /// A file that is written to.
    fn writable(&mut self, path: &str, truncate: bool) -> Result<Sink, String> {
        match path {
            "/dev/null" => return Ok(Sink::Nowhere),
            "/dev/stdout" | "/proc/self/fd/1" | "/dev/fd/1" => return Ok(self.out.clone()),
            "/dev/stderr" | "/proc/self/fd/2" | "/dev/fd/2" => return Ok(self.err.clone()),
            "/proc/1/fd/1" if self.world.start.is_some() => return Ok(Sink::Nowhere),
            "/proc/1/fd/1" => return Ok(Sink::Stream(Stream::Out)),
            _ => {}
        }
        let full = self.full(path);
        if let Some(refused) = self.files.refusal(&full) {
            let text = match refused {
                Refused::NoDirectory => format!("{}: can't create {path}: nonexistent directory", self.shell),
                refused => format!("{}: can't create {path}: {}", self.shell, refused.text()),
            };
            return Err(text);
        }
        self.files.open(&full, truncate);
        self.note(&full, true);
        Ok(Sink::File(full))
    }

    /// All parts run at once; the last one's end is the pipe's.
    pub(super) fn pipe(&mut self, parts: &[Node]) -> Flow {
        let (begun, mut latest, mut forever) = (self.at, self.at, false);
        let (outer_out, mut outer_input, variables) = (self.out.clone(), self.input.clone(), self.variables.clone());
        for (index, part) in parts.iter().enumerate() {
            self.at = begun;
            let last = index + 1 == parts.len();
            let buffer = self.buffers.len();
            if last {
                self.out = outer_out.clone();
            } else {
                self.buffers.push(Buffer::new());
                self.out = Sink::Buffer(buffer);
            }
            forever |= self.node(part, true) == Flow::Forever;
            latest = latest.max(self.at);
            if index == 0 {
                outer_input = self.input.clone();
            }
            if !last {
                let text = self.buffers.pop().and_then(|buffer| buffer.0);
                let is_all = !self.input.blocked;
                // What comes late cannot be passed on at its time.
                let text = text.filter(|text| !is_all || !forever || text.is_empty());
                self.input = Input::piped(text, self.at, is_all);
            }
        }
        (self.out, self.input, self.variables) = (outer_out, outer_input, variables);
        self.at = latest;
        if forever { Flow::Forever } else { Flow::Next }
    }

    /// What a command prints, where that can be told.
    pub(super) fn captured(&mut self, command: &str) -> Option<String> {
        let node = parse(command)?;
        let index = self.buffers.len();
        self.buffers.push(Buffer::new());
        let outer = (
            std::mem::replace(&mut self.out, Sink::Buffer(index)),
            self.variables.clone(),
            self.directory.clone(),
            self.exits_on_failure,
            (self.unknown, self.unknown_last),
            self.at,
        );
        let flow = self.call(|run| run.node(&node, true));
        (self.out, self.variables, self.directory, self.exits_on_failure) = (outer.0, outer.1, outer.2, outer.3);
        (self.unknown, self.unknown_last) = outer.4;
        let text = self.buffers.pop().and_then(|buffer| buffer.0);
        if flow == Flow::Forever {
            self.at = outer.5;
            return None;
        }
        Some(String::from_utf8_lossy(&text?).trim_end_matches('\n').to_owned())
    }
}
