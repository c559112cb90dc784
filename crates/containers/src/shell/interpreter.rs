//! Following a command from its start: its structure and its time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;

use super::execution::{End, Execution, Performed, World};
use super::glob;
use super::output::{Buffer, Input, Sink, Stream, Transcript};
use super::syntax::{Node, Redirect, parse};
use super::tokens::Word;
use crate::image::Shell;
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
    run.keep_up(None);
    let (known, asks) = (!run.unknown, run.asks);
    Execution { end, files: run.noted, writes: run.writes, on_term: run.scope.on_term, known, asks }
}

/// Follows a command with all that it prints, for so long.
pub(crate) fn execute(arguments: &[&str], world: &World, horizon: SignedDuration) -> Performed {
    let mut run = Run::new(world, Some(horizon));
    let end = run.main(arguments);
    run.keep_up(None);
    run.transcript.sort();
    Performed {
        end,
        pieces: run.transcript.pieces,
        unknown: run.transcript.unknown,
        has_handler: run.has_handler,
        files: run.files,
    }
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
    /// What the shell is called; empty outside of shells.
    pub(super) shell: String,
    /// Values of variables; `None` for those that are not known.
    pub(super) variables: BTreeMap<String, Option<String>>,
    /// Those that programs are given.
    pub(super) exported: Vec<String>,
    pub(super) arguments: Vec<Option<String>>,
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

#[derive(Debug, Clone)]
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
    pub(super) unknown: bool,
    pub(super) unknown_last: bool,
    /// When the commands in the background are done; `None`: never.
    pub(super) background: Vec<Option<SignedDuration>>,
    commands: usize,
    calls: usize,
    /// How the last `$(…)` ended.
    pub(super) captured: Option<i64>,
    pub(super) transcript: Transcript,
    pub(super) buffers: Vec<Buffer>,
    pub(super) input: Input,
    pub(super) out: Sink,
    pub(super) err: Sink,
    /// It is followed no further; none where only the end matters.
    pub(super) horizon: Option<SignedDuration>,
    /// Whether it has asked the network.
    pub(super) asks: bool,
    /// Whether what it does may depend on the time.
    pub(super) asked_time: bool,
    pub(super) has_handler: bool,
}

impl Run {
    pub(super) fn new(world: &World, horizon: Option<SignedDuration>) -> Self {
        let inside = &world.inside;
        let variables = inside.variables.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
        let unknown = inside.unknown_variables.keys().map(|name| (name.clone(), None));
        let scope = Scope {
            variables: variables.chain(unknown).collect(),
            exported: inside.variables.iter().map(|(name, _)| name.clone()).collect(),
            directory: inside.directory.clone(),
            ..Scope::default()
        };
        Self {
            world: Arc::new(world.clone()),
            scope,
            at: SignedDuration::ZERO,
            code: 0,
            files: inside.files.clone(),
            met: 0,
            noted: Vec::new(),
            writes: Vec::new(),
            unknown: false,
            unknown_last: false,
            background: Vec::new(),
            commands: 0,
            calls: 0,
            captured: None,
            transcript: Transcript::new(horizon.is_some()),
            buffers: Vec::new(),
            input: Input::default(),
            out: Sink::Stream(Stream::Out),
            err: Sink::Stream(Stream::Err),
            horizon,
            asks: false,
            asked_time: false,
            has_handler: false,
        }
    }

    fn main(&mut self, arguments: &[&str]) -> End {
        let words: Vec<Option<String>> = arguments.iter().map(|argument| Some((*argument).to_owned())).collect();
        match self.command(&words) {
            Flow::Forever => End::Never,
            flow if self.unknown_last && flow != Flow::Exit => End::Unknown(self.at, self.code),
            _ => End::After(self.at, self.code),
        }
    }

    /// Whose shell runs: bash by its name, else that of the image.
    pub(super) fn dialect(&self) -> Shell {
        match &*self.scope.shell {
            "bash" => Shell::Bash,
            "dash" => Shell::Dash,
            "ash" => Shell::Busybox,
            _ => self.world.inside.image.shell,
        }
    }

    pub(super) fn done(&mut self, code: i64) -> Flow {
        self.code = code;
        self.unknown_last = false;
        Flow::Next
    }

    pub(super) fn uncertain(&mut self, why: impl FnOnce() -> String) {
        self.transcript.uncertain(self.at, why);
    }

    /// What is done, and how it ends, is not known.
    pub(super) fn unknown(&mut self, why: impl FnOnce() -> String) -> Flow {
        self.code = 0;
        (self.unknown, self.unknown_last) = (true, true);
        self.uncertain(why);
        self.print_unknown();
        Flow::Next
    }

    /// It ends so at once, but what it prints and does beside is not known.
    pub(super) fn unknown_effects(&mut self, code: i64, why: impl FnOnce() -> String) -> Flow {
        self.uncertain(why);
        self.print_unknown();
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
        self.is_spent()
    }

    pub(super) fn is_spent(&self) -> bool {
        self.commands > if self.horizon.is_some() { MAX_PERFORMED } else { MAX_COMMANDS }
    }

    pub(super) fn give_up(&mut self) -> Flow {
        self.unknown(|| format!("the script is followed for {MAX_PERFORMED} commands, and goes on"))
    }

    fn print_unknown(&mut self) {
        let (out, err) = (self.out.clone(), self.err.clone());
        self.print(&out, None);
        self.print(&err, None);
    }

    pub(super) fn print(&mut self, to: &Sink, text: Option<&[u8]>) {
        if let Some(text) = text {
            self.commands = self.commands.saturating_add(text.len() / BYTES);
        }
        match (to, text) {
            (Sink::Stream(stream), Some(text)) => self.transcript.print(self.at, *stream, text),
            (Sink::Buffer(index), text) => {
                if let Some(buffer) = self.buffers.get_mut(*index) {
                    match text {
                        Some(text) => buffer.push(text),
                        None => buffer.0 = None,
                    }
                }
            }
            (Sink::File(path), text) => self.files.append(path, text),
            (Sink::Nowhere, _) | (Sink::Stream(_), None) => {}
        }
    }

    /// All that is left to be read.
    pub(super) fn read_rest(&mut self) -> Option<Vec<u8>> {
        self.at = self.at.max(self.input.came);
        self.input.rest()
    }

    /// Prints.
    pub(super) fn say(&mut self, text: impl AsRef<[u8]>) {
        let out = self.out.clone();
        self.print(&out, Some(text.as_ref()));
    }

    /// Prints what went wrong, and fails.
    pub(super) fn fail(&mut self, code: i64, text: &str) -> Flow {
        let err = self.err.clone();
        self.print(&err, Some(format!("{text}\n").as_bytes()));
        self.done(code)
    }

    /// Fails in words of its own.
    pub(super) fn fail_somehow(&mut self, code: i64, why: impl FnOnce() -> String) -> Flow {
        let err = self.err.clone();
        if matches!(err, Sink::Stream(_)) {
            self.uncertain(why);
        }
        self.print(&err, None);
        self.done(code)
    }

    /// What others have done to its files until then, or ever.
    fn keep_up(&mut self, until: Option<SignedDuration>) {
        if self.met == self.world.interventions.len() {
            return;
        }
        let world = Arc::clone(&self.world);
        while let Some(next) =
            world.interventions.get(self.met).filter(|next| until.is_none_or(|until| next.at <= until))
        {
            self.met += 1;
            self.files.take_over(&next.changes);
            let noted = next.changes.iter().map(|(path, made)| (next.at, path.clone(), made.is_some()));
            self.noted.extend(noted);
        }
    }

    /// When others do something to its files next.
    pub(super) fn next_intervention(&self) -> Option<SignedDuration> {
        self.world.interventions.get(self.met).map(|next| next.at)
    }

    /// Notes that a file has come or gone.
    pub(super) fn note(&mut self, path: &str, there: bool) {
        self.noted.push((self.at, path.to_owned(), there));
    }

    pub(super) fn script(&mut self, script: &str) -> Flow {
        let node = parse(script);
        self.call(|run| match &node {
            Some(node) => run.node(node, false),
            None => run.unknown(|| "the script holds what is not followed here".to_owned()),
        })
    }

    pub(super) fn call(&mut self, what: impl FnOnce(&mut Self) -> Flow) -> Flow {
        if self.calls >= MAX_CALLS {
            return self.unknown(|| "its shells and functions call each other too deeply to be followed".to_owned());
        }
        self.calls += 1;
        let flow = what(self);
        self.calls -= 1;
        flow
    }

    /// Runs in a shell of its own, which leaves nothing but files behind.
    pub(super) fn in_subshell(&mut self, what: impl FnOnce(&mut Self) -> Flow) -> Flow {
        let outside = self.scope.clone();
        self.scope.loops = 0;
        let flow = what(self);
        self.scope = outside;
        if flow == Flow::Forever { flow } else { Flow::Next }
    }

    /// `condition`: its failure is somebody's condition, which `set -e` lets pass.
    pub(super) fn node(&mut self, node: &Node, condition: bool) -> Flow {
        let outside = self.scope.is_condition;
        self.scope.is_condition |= condition;
        let flow = self.structure(node);
        let fails = flow == Flow::Next && self.scope.exits_on_failure && !self.scope.is_condition && self.code != 0;
        self.scope.is_condition = outside;
        if fails && matches!(node, Node::Simple { .. } | Node::Subshell(_) | Node::Pipe(_)) { Flow::Exit } else { flow }
    }

    fn structure(&mut self, node: &Node) -> Flow {
        self.keep_up(Some(self.at));
        match node {
            Node::Simple { words, redirects } => self.simple(words, redirects),
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
            Node::Subshell(inner) => self.in_subshell(|run| run.node(inner, false)),
            Node::Loop { until, condition, body } => {
                self.scope.loops += 1;
                let flow = self.turns(*until, condition, body);
                self.scope.loops = self.scope.loops.saturating_sub(1);
                flow
            }
            Node::For { variable, words, body } => {
                self.scope.loops += 1;
                let flow = self.each(variable, words, body);
                self.scope.loops = self.scope.loops.saturating_sub(1);
                flow
            }
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
            Node::Case { word, arms } => self.choose(word, arms),
            Node::Function { name, body } => {
                self.scope.functions.insert(name.clone(), Arc::clone(body));
                self.done(0)
            }
        }
    }

    fn choose(&mut self, word: &Word, arms: &[(Vec<Word>, Node)]) -> Flow {
        let Some(text) = self.expand(word) else {
            return self.unknown(|| "a `case` is about a value that is not known".to_owned());
        };
        for (patterns, body) in arms {
            for pattern in patterns {
                let Some(wanted) = self.expand(pattern) else {
                    self.uncertain(|| "a pattern of a `case` is not known".to_owned());
                    continue;
                };
                if (pattern.quoted && pattern.open) || !glob::is_certain(&wanted) {
                    self.uncertain(|| format!("the pattern `{wanted}` is not followed here"));
                }
                if if pattern.quoted { wanted == text } else { glob::matches(&wanted, &text) } {
                    return self.node(body, false);
                }
            }
        }
        self.done(0)
    }

    /// Runs in the background: only `wait` waits for it.
    fn beside(&mut self, inner: &Node) -> Flow {
        let (at, unknown_last) = (self.at, self.unknown_last);
        let (pieces, version) = (self.transcript.pieces.len(), self.files.version);
        let flow = self.in_subshell(|run| run.node(inner, true));
        let end = (flow != Flow::Forever && !self.unknown_last).then_some(self.at);
        (self.at, self.unknown_last, self.code) = (at, unknown_last, 0);
        if self.transcript.pieces.len() != pieces || self.files.version != version {
            self.uncertain(|| "what comes first of what runs at once is not known".to_owned());
        }
        self.background.push(end);
        Flow::Next
    }

    fn simple(&mut self, words: &[Word], redirects: &[Redirect]) -> Flow {
        let assigned = words.iter().take_while(|word| word.assigns().is_some()).count();
        let (assignments, rest) = words.split_at(assigned);
        let Some(first) = rest.first() else {
            self.redirected(redirects, |run| run.assign_all(assignments));
            return if self.spend(0) { self.give_up() } else { Flow::Next };
        };
        if first.text() == Some("export") {
            return self.export(rest.get(1..).unwrap_or_default());
        }
        let words = self.expand_all(rest);
        if assignments.is_empty() {
            return self.redirected(redirects, |run| run.command(&words));
        }
        let (variables, exported) = (self.scope.variables.clone(), self.scope.exported.clone());
        let name = words.first().cloned().flatten().unwrap_or_default();
        if self.scope.functions.contains_key(&name) || Self::keeps_assignments(&name) {
            self.uncertain(|| format!("whether what is assigned in front of `{name}` stays depends on the shell"));
        }
        for word in assignments {
            self.assign(word);
            self.scope.exported.extend(word.assigns().map(str::to_owned));
        }
        let flow = self.redirected(redirects, |run| run.command(&words));
        // `read` sets variables of its own.
        if name == "read" {
            for word in assignments {
                if let Some(own) = word.assigns() {
                    match variables.get(own) {
                        Some(value) => self.scope.variables.insert(own.to_owned(), value.clone()),
                        None => self.scope.variables.remove(own),
                    };
                }
            }
        } else {
            self.scope.variables = variables;
        }
        self.scope.exported = exported;
        flow
    }

    /// Assignments without a command, which end as the last `$(…)` in them.
    fn assign_all(&mut self, assignments: &[Word]) -> Flow {
        self.captured = None;
        for word in assignments {
            self.assign(word);
        }
        let code = self.captured.unwrap_or(0);
        self.done(code)
    }

    fn export(&mut self, words: &[Word]) -> Flow {
        if words.is_empty() {
            return self.unknown_output(0, || "the variables of a shell are not known in full".to_owned());
        }
        self.done(0);
        for word in words {
            if word.text().is_some_and(|text| text.starts_with('-')) {
                return self.unknown(|| "flags of `export` are not followed".to_owned());
            }
            let name = word.assigns().map(str::to_owned);
            if name.is_some() {
                if word.open && !word.quoted && self.expand(word).is_none_or(|text| text.contains([' ', '\t', '\n'])) {
                    self.uncertain(|| "whether `export` sees one word depends on the shell".to_owned());
                }
                self.assign(word);
            }
            let name = name.or_else(|| word.text().map(str::to_owned));
            self.scope.exported.extend(name.filter(|name| !self.scope.exported.contains(name)));
        }
        self.done(0)
    }

    /// What a command finds when it is run where this one is, without what it has printed.
    pub(super) fn handler(&self) -> Self {
        let transcript = Transcript::new(self.transcript.kept);
        Self { code: 143, transcript, ..self.clone() }
    }

    /// Waits, but not beyond what is asked about.
    pub(super) fn pass(&mut self, time: SignedDuration) -> Flow {
        self.at = self.at.saturating_add(time);
        if self.horizon.is_some_and(|horizon| self.at > horizon) { Flow::Forever } else { self.done(0) }
    }

    /// The variables that programs are given.
    pub(super) fn environment(&self) -> Option<Vec<(String, String)>> {
        let mut seen = BTreeSet::new();
        let given = self.scope.exported.iter().filter(|name| seen.insert(name.as_str()));
        given
            .filter_map(|name| self.scope.variables.get(name).map(|value| (name, value)))
            .map(|(name, value)| Some((name.clone(), value.clone()?)))
            .collect()
    }
}
