//! Following a command from its start: its structure and its time.

mod loops;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;

use super::execution::{End, Execution, Performed, World};
use super::output::{Captured, Sink, Stream, Transcript, Unknown};
use super::syntax::{Descriptor, Node, Redirect, Target, Word, parse};
use crate::pod::files::Files;

/// Most commands of a script that are followed.
const MAX_COMMANDS: usize = 4096;
/// As many where it matters what it prints.
const MAX_PERFORMED: usize = 60_000;
/// So deep do shells and functions call each other.
const MAX_CALLS: usize = 8;
/// Bytes that count as much as a command.
const BYTES: usize = 512;

/// Follows a command, given as a program and its arguments, from its start.
pub(crate) fn simulate(arguments: &[&str], world: &World) -> Execution {
    let mut run = Run::new(world, None);
    let end = run.main(arguments);
    let (known, asks) = (!run.unknown, run.asks);
    Execution { end, files: run.noted, writes: run.writes, on_term: run.scope.on_term, known, asks }
}

/// Follows a command with all that it prints, for so long.
pub(crate) fn execute(arguments: &[&str], world: &World, horizon: SignedDuration) -> Performed {
    let mut run = Run::new(world, Some(horizon));
    let end = run.main(arguments);
    let Transcript { pieces, unknown, .. } = run.transcript;
    Performed { end, pieces, unknown, has_handler: run.has_handler, files: run.files }
}

/// How it goes on after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Exit,
    Forever,
    /// `break`, `continue`, `return`.
    Break,
    Continue,
    Return,
}

/// What a shell has for itself: a subshell changes a copy of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    /// Whether a shell runs, and not a program alone.
    pub(super) is_shell: bool,
    /// Values of variables; `None` for those that are not known.
    pub(super) variables: BTreeMap<String, Option<String>>,
    pub(super) functions: BTreeMap<String, Arc<Node>>,
    /// Where relative paths begin.
    pub(super) directory: Option<String>,
    /// `set -e`.
    pub(super) exits_on_failure: bool,
    /// Somebody's condition: `set -e` lets its failure pass.
    pub(super) is_condition: bool,
    pub(super) on_term: Option<(SignedDuration, i64)>,
    /// How many loops are around it.
    pub(super) loops: usize,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Run {
    pub(super) world: Arc<World>,
    pub(super) scope: Scope,
    pub(super) at: SignedDuration,
    /// Exit code of the last command.
    pub(super) code: i64,
    pub(super) files: Files,
    /// How many of the world's interventions it has met.
    met: usize,
    noted: Vec<(SignedDuration, String, bool)>,
    pub(super) writes: Vec<(SignedDuration, i64)>,
    unknown: bool,
    pub(super) unknown_last: bool,
    /// When the commands in the background are done; `None`: never.
    pub(super) background: Vec<Option<SignedDuration>>,
    commands: usize,
    calls: usize,
    /// How the last `$(…)` ended.
    captured: Option<i64>,
    pub(super) transcript: Transcript,
    captures: Vec<Captured>,
    pub(super) out: Sink,
    err: Sink,
    /// It is followed no further; none where only the end matters.
    pub(super) horizon: Option<SignedDuration>,
    /// Whether it has asked the network.
    pub(super) asks: bool,
    /// Whether what it does may depend on the time.
    pub(super) asked_time: bool,
    pub(super) has_handler: bool,
}

impl Run {
    fn new(world: &World, horizon: Option<SignedDuration>) -> Self {
        let inside = &world.inside;
        let known = inside.variables.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
        let unknown = inside.unknown_variables.keys().map(|name| (name.clone(), None));
        Self {
            world: Arc::new(world.clone()),
            scope: Scope {
                variables: known.chain(unknown).collect(),
                directory: inside.directory.clone(),
                ..Scope::default()
            },
            files: inside.files.clone(),
            out: Sink::Stream(Stream::Out),
            err: Sink::Stream(Stream::Err),
            horizon,
            ..Self::default()
        }
    }

    fn main(&mut self, arguments: &[&str]) -> End {
        let words: Vec<Option<String>> = arguments.iter().map(|argument| Some((*argument).to_owned())).collect();
        let flow = self.command(&words);
        self.keep_up(self.horizon.unwrap_or(SignedDuration::MAX));
        match flow {
            Flow::Forever => End::Never,
            flow if self.unknown_last && flow != Flow::Exit => End::Unknown(self.at, self.code),
            _ => End::After(self.at, self.code),
        }
    }

    pub(super) fn done(&mut self, code: i64) -> Flow {
        self.code = code;
        self.unknown_last = false;
        Flow::Next
    }

    /// What it prints and does from now on is not certain.
    pub(super) fn uncertain(&mut self, why: impl FnOnce() -> String) {
        if self.horizon.is_some() && self.transcript.unknown.is_none() {
            self.transcript.unknown = Some(Unknown { at: self.at, why: why() });
        }
    }

    /// What is done, and how it ends, is not known.
    pub(super) fn unknown(&mut self, why: impl FnOnce() -> String) -> Flow {
        let flow = self.unknown_effects(0, why);
        (self.unknown, self.unknown_last) = (true, true);
        flow
    }

    /// It ends so at once, but what it prints and does beside is not known.
    pub(super) fn unknown_effects(&mut self, code: i64, why: impl FnOnce() -> String) -> Flow {
        self.uncertain(why);
        for sink in [self.out.clone(), self.err.clone()] {
            self.print(&sink, None);
        }
        self.done(code)
    }

    /// It ends as it should, but what it prints is not known.
    pub(super) fn unknown_output(&mut self, code: i64, why: impl FnOnce() -> String) -> Flow {
        let out = self.out.clone();
        if matches!(out, Sink::Stream(_)) {
            self.uncertain(why);
        }
        self.print(&out, None);
        self.done(code)
    }

    /// Counts what is done; says whether that is too much.
    pub(super) fn spend(&mut self, bytes: usize) -> bool {
        self.commands = self.commands.saturating_add(1).saturating_add(bytes / BYTES);
        self.commands > if self.horizon.is_some() { MAX_PERFORMED } else { MAX_COMMANDS }
    }

    pub(super) fn give_up(&mut self) -> Flow {
        self.unknown(|| format!("the script is followed for {MAX_PERFORMED} commands, and goes on"))
    }

    fn print(&mut self, to: &Sink, text: Option<&[u8]>) {
        self.commands = self.commands.saturating_add(text.map_or(0, <[u8]>::len) / BYTES);
        match (to, text) {
            (Sink::Stream(stream), Some(text)) if self.horizon.is_some() => {
                self.transcript.print(self.at, *stream, text);
            }
            (Sink::Captured(index), text) => {
                if let Some(captured) = self.captures.get_mut(*index) {
                    captured.push(text);
                }
            }
            (Sink::File(path), text) => self.files.append(path, text),
            (Sink::Nowhere | Sink::Stream(_), _) => {}
        }
    }

    /// Prints.
    pub(super) fn say(&mut self, text: impl AsRef<[u8]>) {
        let out = self.out.clone();
        self.print(&out, Some(text.as_ref()));
    }

    /// Prints what went wrong, where the words are known, and fails.
    pub(super) fn fail(&mut self, code: i64, words: Option<String>) -> Flow {
        let err = self.err.clone();
        if words.is_none() && matches!(err, Sink::Stream(_)) {
            self.uncertain(|| "in which words a program of the image fails is not known".to_owned());
        }
        self.print(&err, words.map(|words| words + "\n").as_deref().map(str::as_bytes));
        self.done(code)
    }

    /// What others have done to its files until then.
    fn keep_up(&mut self, until: SignedDuration) {
        let world = Arc::clone(&self.world);
        while let Some(next) = world.interventions.get(self.met).filter(|next| next.at <= until) {
            self.met += 1;
            self.files.take_over(&next.changes);
            let noted = next.changes.iter().map(|(path, made)| (next.at, path.clone(), made.is_some()));
            self.noted.extend(noted);
        }
    }

    /// Notes that a file has come or gone.
    pub(super) fn note(&mut self, path: &str, there: bool) {
        self.noted.push((self.at, path.to_owned(), there));
    }

    /// Runs a script, where it can be read.
    pub(super) fn script(&mut self, script: &str) -> Flow {
        match parse(script) {
            Some(node) => self.call(&node),
            None => self.unknown(|| "the script holds what is not followed here".to_owned()),
        }
    }

    /// Runs a script or a function, unless too many of them call each other.
    fn call(&mut self, node: &Node) -> Flow {
        if self.calls >= MAX_CALLS {
            return self.unknown(|| "its shells and functions call each other too deeply to be followed".to_owned());
        }
        self.calls += 1;
        let flow = self.node(node, false);
        self.calls -= 1;
        flow
    }

    /// Runs a function, if there is one of this name.
    pub(super) fn function(&mut self, name: &str) -> Option<Flow> {
        let body = self.scope.functions.get(name).map(Arc::clone)?;
        let loops = std::mem::take(&mut self.scope.loops);
        let flow = self.call(&body);
        self.scope.loops = loops;
        Some(if flow == Flow::Return { Flow::Next } else { flow })
    }

    /// Runs in a shell of its own, which leaves nothing but files behind.
    fn in_subshell(&mut self, node: &Node, condition: bool) -> Flow {
        let outside = self.scope.clone();
        self.scope.loops = 0;
        let flow = self.node(node, condition);
        self.scope = outside;
        if flow == Flow::Forever { flow } else { Flow::Next }
    }

    /// `condition`: its failure is somebody's condition, which `set -e` lets pass.
    fn node(&mut self, node: &Node, condition: bool) -> Flow {
        let outside = self.scope.is_condition;
        self.scope.is_condition |= condition;
        self.keep_up(self.at);
        let flow = self.structure(node);
        let fails = flow == Flow::Next && self.scope.exits_on_failure && !self.scope.is_condition && self.code != 0;
        self.scope.is_condition = outside;
        if fails && matches!(node, Node::Simple { .. } | Node::Subshell(_) | Node::Pipe(_)) { Flow::Exit } else { flow }
    }

    fn structure(&mut self, node: &Node) -> Flow {
        match node {
            Node::Simple { assigned, words, redirects } => self.simple(assigned, words, redirects),
            Node::Redirected(inner, redirects) => self.redirected(redirects, |run| run.node(inner, false)),
            Node::Sequence(nodes) => {
                for node in nodes {
                    let flow = self.node(node, false);
                    if flow != Flow::Next {
                        return flow;
                    }
                }
                Flow::Next
            }
            Node::And(left, right) | Node::Or(left, right) => match self.node(left, true) {
                Flow::Next if (self.code == 0) == matches!(node, Node::And(..)) => self.node(right, false),
                flow => flow,
            },
            Node::Not(inner) => {
                let flow = self.node(inner, true);
                self.code = i64::from(self.code == 0);
                flow
            }
            Node::Pipe(parts) => self.pipe(parts),
            Node::Background(inner) => self.beside(inner),
            Node::Subshell(inner) => self.in_subshell(inner, false),
            Node::Loop { until, condition, body } => self.in_loop(|run| run.turns(*until, condition, body)),
            Node::For { variable, words, body } => self.in_loop(|run| run.each(variable, words, body)),
            Node::If { arms, otherwise } => {
                for (condition, body) in arms {
                    match self.node(condition, true) {
                        Flow::Next if self.code == 0 => return self.node(body, false),
                        Flow::Next => {}
                        flow => return flow,
                    }
                }
                match otherwise {
                    Some(body) => self.node(body, false),
                    None => self.done(0),
                }
            }
            Node::Function { name, body } => {
                self.scope.functions.insert(name.clone(), Arc::clone(body));
                self.done(0)
            }
        }
    }

    fn simple(&mut self, assigned: &[(String, Word)], words: &[Word], redirects: &[Redirect]) -> Flow {
        if words.is_empty() {
            // Assignments without a command end as the last `$(…)` in them.
            self.captured = None;
            let flow = self.redirected(redirects, |run| {
                for (name, value) in assigned {
                    run.assign(name, value);
                }
                let code = run.captured.unwrap_or(0);
                run.done(code)
            });
            return if self.spend(0) { self.give_up() } else { flow };
        }
        let words = self.expand_all(words);
        let is_for_nothing = |(name, value): &(String, Word)| name != "PATH" && value.text().is_some();
        let ignores = words.first().cloned().flatten().is_some_and(|name| self.ignores_variables(&name));
        let is_certain = assigned.is_empty() || (ignores && assigned.iter().all(is_for_nothing));
        if !is_certain {
            self.uncertain(|| "what a command does with what is assigned in front of it is not followed".to_owned());
            for (name, value) in assigned {
                self.assign(name, value);
            }
        }
        self.redirected(redirects, |run| run.command(&words))
    }

    /// Waits, but not beyond what is asked about.
    pub(super) fn pass(&mut self, time: SignedDuration) -> Flow {
        self.at = self.at.saturating_add(time);
        if self.horizon.is_some_and(|horizon| self.at > horizon) { Flow::Forever } else { self.done(0) }
    }

    /// A handler of SIGTERM: how long it takes and how it ends, if it ends the shell.
    pub(super) fn handled(&self, action: &str) -> Option<(SignedDuration, i64)> {
        let mut handler = Self { code: 143, transcript: Transcript::default(), ..self.clone() };
        let flow = handler.script(action);
        (flow == Flow::Exit).then(|| (handler.at.saturating_sub(self.at), handler.code))
    }

    /// Runs with other open files.
    fn redirected(&mut self, redirects: &[Redirect], what: impl FnOnce(&mut Self) -> Flow) -> Flow {
        let (out, err) = (self.out.clone(), self.err.clone());
        let flow = if redirects.iter().all(|redirect| self.redirect(redirect)) {
            what(self)
        } else {
            self.uncertain(|| "the words for a file that cannot be opened depend on the shell".to_owned());
            self.done(1)
        };
        (self.out, self.err) = (out, err);
        flow
    }

    /// Opens files of a command; whether that can be done.
    fn redirect(&mut self, redirect: &Redirect) -> bool {
        let sink = match &redirect.to {
            Target::Same(Descriptor::Out) => self.out.clone(),
            Target::Same(Descriptor::Err) => self.err.clone(),
            Target::Write(path) | Target::Append(path) => {
                let Some(path) = self.expand(path) else {
                    self.uncertain(|| "into which file it prints is not known".to_owned());
                    return true;
                };
                match self.opened(&path, matches!(redirect.to, Target::Write(_))) {
                    Some(sink) => sink,
                    None => return false,
                }
            }
        };
        if redirect.files.len() > 1 {
            self.uncertain(|| "what `&>` means depends on the shell".to_owned());
        }
        for file in redirect.files {
            match file {
                Descriptor::Out => self.out = sink.clone(),
                Descriptor::Err => self.err = sink.clone(),
            }
        }
        true
    }

    /// A file that is written to; none where it cannot be opened.
    fn opened(&mut self, path: &str, truncates: bool) -> Option<Sink> {
        match path {
            "/dev/null" => return Some(Sink::Nowhere),
            "/dev/stdout" | "/proc/1/fd/1" => return Some(Sink::Stream(Stream::Out)),
            "/dev/stderr" | "/proc/1/fd/2" => return Some(Sink::Stream(Stream::Err)),
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
        if !truncates && self.horizon.is_none() {
            // So that a loop that only adds to a file is seen to go on as it does.
            self.files.append(&full, None);
        }
        self.note(&full, true);
        Some(Sink::File(full))
    }

    /// All parts run at once; the last one's end is the pipe's. What goes through it is not followed.
    fn pipe(&mut self, parts: &[Node]) -> Flow {
        self.uncertain(|| "what goes through a pipe is not followed".to_owned());
        let (begun, mut latest) = (self.at, self.at);
        let (mut forever, mut unreached, mut unknown) = (false, false, false);
        let (out, outer_asks) = (self.out.clone(), std::mem::take(&mut self.asks));
        for (index, part) in parts.iter().enumerate() {
            let is_last = index + 1 == parts.len();
            self.at = begun;
            self.out = if is_last { out.clone() } else { Sink::Nowhere };
            forever |= self.in_subshell(part, true) == Flow::Forever;
            latest = latest.max(self.at);
            unreached |= !is_last && self.asks && self.code != 0;
            unknown |= self.unknown_last;
        }
        self.unknown_last = unknown;
        self.asks |= outer_asks;
        self.at = latest;
        // A host that was not reached has sent nothing that a filter could find.
        if unreached {
            self.code = 1;
        }
        if forever { Flow::Forever } else { Flow::Next }
    }

    /// Runs in the background: only `wait` waits for it.
    fn beside(&mut self, inner: &Node) -> Flow {
        let (at, unknown_last) = (self.at, self.unknown_last);
        let (pieces, version) = (self.transcript.pieces.len(), self.files.version);
        let flow = self.in_subshell(inner, true);
        let end = (flow != Flow::Forever && !self.unknown_last).then_some(self.at);
        (self.at, self.unknown_last, self.code) = (at, unknown_last, 0);
        if self.transcript.pieces.len() != pieces || self.files.version != version {
            self.uncertain(|| "what comes first of what runs at once is not known".to_owned());
        }
        self.background.push(end);
        Flow::Next
    }

    /// What a command prints, where that is known.
    pub(super) fn captured(&mut self, node: &Node) -> Option<String> {
        if self.scope.exits_on_failure && !matches!(node, Node::Simple { .. }) {
            self.uncertain(|| "what `set -e` does in `$(…)` depends on the shell".to_owned());
        }
        let out = std::mem::replace(&mut self.out, Sink::Captured(self.captures.len()));
        self.captures.push(Captured(Some(Vec::new())));
        let (before, begun, unknown) = (self.code, self.at, (self.unknown, self.unknown_last));
        let flow = self.in_subshell(node, true);
        self.out = out;
        (self.unknown, self.unknown_last) = unknown;
        self.captured = Some(std::mem::replace(&mut self.code, before));
        let text = self.captures.pop().and_then(|captured| captured.0);
        if flow == Flow::Forever {
            self.at = begun;
            self.uncertain(|| "what `$(…)` waits for goes on".to_owned());
            return None;
        }
        String::from_utf8(text?).ok().map(|text| text.trim_end_matches('\n').to_owned())
    }
}
