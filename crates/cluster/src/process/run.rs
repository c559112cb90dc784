//! Following a command from its start: its structure, its time, where it prints.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;

use super::files::{Files, Made};
use super::glob;
use super::output::{Buffer, Doubt, Input, Piece, Sink, Stream, Transcript};
use super::script::{Node, parse};
use super::tokens::Word;
use super::world::{Course, End, Performance, World};

/// So many commands are followed before a script is given up as one nobody can foretell.
const MAX_COMMANDS: usize = 4096;
/// As many when somebody wants to know what it prints.
const MAX_PERFORMED: usize = 60_000;
/// So deep do shells and functions call each other.
const MAX_CALLS: usize = 8;
/// So many turns of a loop that goes on and on are followed one by one, the last ones: who asks for more of its log has
/// all of that.
const MAX_TURNS: i64 = 5000;
/// Bytes that count as much as a command.
const BYTES: usize = 512;

/// Follows a command, given as a program and its arguments, from its start.
pub(crate) fn follow(arguments: &[&str], world: &World) -> Course {
    let mut run = Run::new(world, None);
    let end = run.main(arguments);
    run.keep_up(None);
    let (known, asks) = (!run.unknown, run.questions > 0);
    Course { end, files: run.noted, writes: run.writes, on_term: run.on_term, known, asks }
}

/// Follows a command with all that it prints, for so long.
pub(crate) fn perform(arguments: &[&str], world: &World, horizon: SignedDuration) -> Performance {
    let mut run = Run::new(world, Some(horizon));
    let end = run.main(arguments);
    run.keep_up(None);
    run.performance(end)
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

#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) world: Arc<World>,
    pub(super) at: SignedDuration,
    /// Exit code of the last command.
    pub(super) code: i64,
    /// Values of variables; `None` for those that cannot be told.
    pub(super) variables: BTreeMap<String, Option<String>>,
    /// Those that programs are given.
    pub(super) exported: Vec<String>,
    pub(super) arguments: Vec<Option<String>>,
    pub(super) functions: BTreeMap<String, Arc<Node>>,
    pub(super) files: Files,
    /// So many of the world's interventions it has met.
    met: usize,
    noted: Vec<(SignedDuration, String, bool)>,
    pub(super) writes: Vec<(SignedDuration, i64)>,
    pub(super) on_term: Option<(SignedDuration, i64)>,
    pub(super) unknown: bool,
    pub(super) unknown_last: bool,
    /// `set -e`.
    pub(super) exits_on_failure: bool,
    /// `set -x`: where commands are printed.
    pub(super) trace: Option<Sink>,
    /// When the commands in the background are done; `None`: never.
    pub(super) background: Vec<Option<SignedDuration>>,
    pub(super) commands: usize,
    calls: usize,
    pub(super) transcript: Transcript,
    pub(super) buffers: Vec<Buffer>,
    pub(super) input: Input,
    pub(super) out: Sink,
    pub(super) err: Sink,
    /// Nobody looks any further; none where only the end matters.
    horizon: Option<SignedDuration>,
    /// How many questions the network was asked.
    pub(super) questions: usize,
    /// The next one cannot be answered yet.
    pub(super) waits: bool,
    /// Whether what it does may depend on the time.
    pub(super) asked_time: bool,
    /// Where relative paths begin.
    pub(super) directory: Option<String>,
    /// What the shell is called.
    pub(super) shell: String,
    /// Whether it is a shell that runs, which has variables of its own.
    pub(super) in_shell: bool,
}

/// What a turn of a loop finds.
struct Mark {
    presence: BTreeMap<String, bool>,
    variables: BTreeMap<String, Option<String>>,
    version: u64,
    state: Option<BTreeMap<String, Option<Made>>>,
    at: SignedDuration,
}

impl Run {
    pub(super) fn new(world: &World, horizon: Option<SignedDuration>) -> Self {
        let variables = world.variables.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
        let unknown = world.unknown_variables.keys().map(|name| (name.clone(), None));
        Self {
            world: Arc::new(world.clone()),
            at: SignedDuration::ZERO,
            code: 0,
            variables: variables.chain(unknown).collect(),
            exported: world.variables.iter().map(|(name, _)| name.clone()).collect(),
            arguments: Vec::new(),
            functions: BTreeMap::new(),
            files: world.files.clone(),
            met: 0,
            noted: Vec::new(),
            writes: Vec::new(),
            on_term: None,
            unknown: false,
            unknown_last: false,
            exits_on_failure: false,
            trace: None,
            background: Vec::new(),
            commands: 0,
            calls: 0,
            transcript: Transcript::new(horizon.is_some()),
            buffers: Vec::new(),
            input: Input::given(&world.given),
            out: Sink::Stream(Stream::Out),
            err: Sink::Stream(Stream::Err),
            horizon,
            questions: 0,
            waits: false,
            asked_time: false,
            directory: world.directory.clone(),
            shell: "sh".to_owned(),
            in_shell: false,
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

    pub(super) fn performance(mut self, end: End) -> Performance {
        self.transcript.sort();
        Performance {
            end,
            pieces: self.transcript.pieces,
            doubt: self.transcript.doubt,
            waits: self.waits,
            wants_input: self.input.blocked,
            files: self.files,
        }
    }

    pub(super) fn done(&mut self, code: i64) -> Flow {
        self.code = code;
        self.unknown_last = false;
        Flow::Next
    }

    /// What is done, and how it ends, is not known.
    pub(super) fn unknown(&mut self, why: impl FnOnce() -> String) -> Flow {
        if self.input.blocked {
            return Flow::Forever;
        }
        self.code = 0;
        (self.unknown, self.unknown_last) = (true, true);
        self.transcript.doubt(self.at, why);
        let (out, err) = (self.out.clone(), self.err.clone());
        self.print(&out, None);
        self.print(&err, None);
        Flow::Next
    }

    /// It ends as it should, but what it prints is not known.
    pub(super) fn mute(&mut self, code: i64, why: impl FnOnce() -> String) -> Flow {
        let out = self.out.clone();
        if matches!(out, Sink::Stream(_)) && !self.input.blocked {
            self.transcript.doubt(self.at, why);
        }
        self.print(&out, None);
        self.done(code)
    }

    /// Whether it matters what it prints, and not only how it ends.
    pub(super) fn looks_on(&self) -> bool {
        self.horizon.is_some()
    }

    /// Counts what is done; says whether that is too much.
    pub(super) fn spend(&mut self, bytes: usize) -> bool {
        self.commands = self.commands.saturating_add(1).saturating_add(bytes / BYTES);
        self.is_spent()
    }

    fn is_spent(&self) -> bool {
        self.commands > if self.horizon.is_some() { MAX_PERFORMED } else { MAX_COMMANDS }
    }

    fn give_up(&mut self) -> Flow {
        self.unknown(|| format!("the script is followed for {MAX_PERFORMED} commands, and goes on"))
    }

    pub(super) fn print(&mut self, to: &Sink, text: Option<&[u8]>) {
        // A program that waits for input prints nothing.
        if self.input.blocked {
            return;
        }
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
        let rest = self.input.rest();
        self.wait_for_input();
        rest
    }

    /// The next line to be read.
    #[expect(clippy::option_option, reason = "not known, and at its end")]
    pub(super) fn read_line(&mut self) -> Option<Option<String>> {
        let line = self.input.line();
        self.wait_for_input();
        line
    }

    fn wait_for_input(&mut self) {
        self.at = self.at.max(self.input.came);
        // Input that comes after the horizon is as good as none.
        self.input.blocked |= self.horizon.is_some_and(|horizon| self.at > horizon);
    }

    /// Passes on what was read as it comes, though the program waits for more.
    pub(super) fn pass_on(&mut self, text: impl AsRef<[u8]>) {
        let blocked = std::mem::take(&mut self.input.blocked);
        self.say(text);
        self.input.blocked = blocked;
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
    fn next_intervention(&self) -> Option<SignedDuration> {
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

    /// `asked`: its failure is somebody's condition, which `set -e` lets pass.
    pub(super) fn node(&mut self, node: &Node, asked: bool) -> Flow {
        self.keep_up(Some(self.at));
        match node {
            Node::Simple { words, redirects } => {
                let flow = self.elsewhere(redirects, |run| run.simple(words));
                if flow == Flow::Next && self.exits_on_failure && !asked && self.code != 0 { Flow::Exit } else { flow }
            }
            Node::Redirected(inner, redirects) => self.elsewhere(redirects, |run| run.node(inner, asked)),
            Node::Sequence(nodes) => {
                for node in nodes {
                    let flow = self.node(node, asked);
                    if flow != Flow::Next {
                        return flow;
                    }
                }
                Flow::Next
            }
            Node::And(left, right) | Node::Or(left, right) => match self.node(left, true) {
                Flow::Next if (self.code == 0) == matches!(node, Node::And(..)) => self.node(right, asked),
                flow => flow,
            },
            Node::Not(inner) => {
                let flow = self.node(inner, true);
                self.code = i64::from(self.code == 0);
                flow
            }
            Node::Pipe(parts) => self.pipe(parts),
            Node::Background(inner) => self.beside(inner),
            Node::Subshell(inner) => {
                let outside = (self.variables.clone(), self.directory.clone());
                let flow = self.node(inner, asked);
                (self.variables, self.directory) = outside;
                if flow == Flow::Forever { flow } else { Flow::Next }
            }
            Node::Loop { until, condition, body } => self.turns(*until, condition, body),
            Node::For { variable, words, body } => self.each(variable, words, body),
            Node::If { arms, otherwise } => {
                for (condition, body) in arms {
                    match self.node(condition, true) {
                        Flow::Next if self.code == 0 => return self.node(body, asked),
                        Flow::Next => {}
                        flow => return flow,
                    }
                }
                self.code = 0;
                otherwise.as_ref().map_or(Flow::Next, |body| self.node(body, asked))
            }
            Node::Case { word, arms } => self.choose(word, arms, asked),
            Node::Function { name, body } => {
                self.functions.insert(name.clone(), Arc::clone(body));
                self.done(0)
            }
        }
    }

    fn choose(&mut self, word: &Word, arms: &[(Vec<Word>, Node)], asked: bool) -> Flow {
        let Some(text) = self.expand(word) else {
            return self.unknown(|| "a `case` is about a value that is not known".to_owned());
        };
        for (patterns, body) in arms {
            for pattern in patterns {
                if self.expand(pattern).is_some_and(|pattern| glob::matches(&pattern, &text)) {
                    return self.node(body, asked);
                }
            }
        }
        self.done(0)
    }

    /// Runs in the background: nobody waits for it, unless somebody does.
    fn beside(&mut self, inner: &Node) -> Flow {
        let (at, unknown_last) = (self.at, self.unknown_last);
        let flow = self.node(inner, true);
        let end = (flow != Flow::Forever && !self.unknown_last).then_some(self.at);
        self.background.push(end);
        (self.at, self.unknown_last, self.code) = (at, unknown_last, 0);
        Flow::Next
    }

    fn mark(&mut self) -> Mark {
        let presence = self.files.presence();
        // To look at many files and variables is work, too.
        self.spend(presence.len().saturating_mul(64).saturating_add(self.variables.len().saturating_mul(16)));
        Mark {
            presence,
            variables: self.variables.clone(),
            version: self.files.version,
            state: self.horizon.and_then(|_| self.files.small_state()),
            at: self.at,
        }
    }

    fn turns(&mut self, until: bool, condition: &Node, body: &Node) -> Flow {
        loop {
            let before = self.mark();
            match self.node(condition, true) {
                Flow::Next if (self.code == 0) == until => return self.done(0),
                Flow::Next => {}
                flow => return flow,
            }
            let flow = self.node(body, false);
            match flow {
                Flow::Next | Flow::Continue if self.is_spent() => return self.give_up(),
                Flow::Next | Flow::Continue => {}
                Flow::Break => return self.done(0),
                flow => return flow,
            }
            let same = self.files.presence() == before.presence && self.variables == before.variables;
            let next = self.next_intervention();
            let Some(horizon) = self.horizon else {
                let news = self.world.network.as_ref().and_then(|network| network.news());
                match next.into_iter().chain(news.filter(|news| before.at < *news)).min() {
                    _ if !same => {}
                    // It goes on as it does until its files change, or what the network answers.
                    Some(next) => self.go_round(self.at.saturating_sub(before.at), next),
                    None => return Flow::Forever,
                }
                continue;
            };
            if self.at > horizon {
                return Flow::Forever;
            }
            let unchanged = self.files.version == before.version
                || before.state.is_some_and(|state| self.files.small_state().is_some_and(|now| now == state));
            if same && self.at == before.at {
                let Some(next) = next.filter(|next| *next <= horizon) else {
                    self.transcript.doubt(self.at, || "a loop goes round as fast as it can".to_owned());
                    return Flow::Forever;
                };
                self.go_round(SignedDuration::ZERO, next);
                continue;
            }
            if same && unchanged && !self.asked_time && !self.input.matters() {
                self.skip(self.at.saturating_sub(before.at), next.map_or(horizon, |next| next.min(horizon)));
            }
        }
    }

    /// Every turn is like the last one, of this length, until then.
    fn go_round(&mut self, turn: SignedDuration, until: SignedDuration) {
        let left = until.saturating_sub(self.at);
        if turn.is_zero() {
            self.at = self.at.max(until);
        } else if left.is_positive() {
            let turns = i32::try_from(left.as_millis() / turn.as_millis().max(1)).unwrap_or(i32::MAX);
            self.at = self.at.saturating_add(turn.saturating_mul(turns));
        }
    }

    /// Every turn is like the last one: most of them are not followed.
    fn skip(&mut self, turn: SignedDuration, horizon: SignedDuration) {
        let left = horizon.saturating_sub(self.at).as_millis() / turn.as_millis().max(1);
        let skipped = i64::try_from(left).unwrap_or(i64::MAX).saturating_sub(MAX_TURNS);
        if skipped > 0 {
            let skipped = i32::try_from(skipped).unwrap_or(i32::MAX);
            self.at = self.at.saturating_add(turn.saturating_mul(skipped));
        }
    }

    fn each(&mut self, variable: &str, words: &[Word], body: &Node) -> Flow {
        for value in self.expand_all(words) {
            self.variables.insert(variable.to_owned(), value);
            match self.node(body, false) {
                Flow::Next | Flow::Continue if self.is_spent() => return self.give_up(),
                Flow::Next | Flow::Continue => {}
                Flow::Break => return self.done(0),
                flow => return flow,
            }
        }
        Flow::Next
    }

    fn simple(&mut self, words: &[Word]) -> Flow {
        let assigned = words.iter().take_while(|word| word.assigns().is_some()).count();
        let (assignments, rest) = words.split_at(assigned);
        if rest.is_empty() {
            self.done(0);
            for word in assignments {
                self.assign(word);
            }
            self.print_command(assignments, &[]);
            if self.spend(0) {
                return self.give_up();
            }
            return if self.input.blocked { Flow::Forever } else { Flow::Next };
        }
        let outside: Vec<(String, Option<Option<String>>)> = assignments
            .iter()
            .filter_map(|word| word.assigns())
            .map(|name| (name.to_owned(), self.variables.get(name).cloned()))
            .collect();
        let exported = self.exported.len();
        for word in assignments {
            self.assign(word);
            self.exported.extend(word.assigns().map(str::to_owned));
        }
        if rest[0].text() == Some("export") {
            for word in rest.get(1..).unwrap_or_default() {
                let name = word.assigns().map(str::to_owned);
                if name.is_some() {
                    self.assign(word);
                }
                let name = name.or_else(|| word.text().map(str::to_owned));
                self.exported.extend(name.filter(|name| !self.exported.contains(name)));
            }
            return self.done(0);
        }
        let words = self.expand_all(rest);
        self.print_command(assignments, &words);
        let flow = if self.input.blocked { Flow::Forever } else { self.command(&words) };
        for (name, value) in outside {
            match value {
                Some(value) => self.variables.insert(name, value),
                None => self.variables.remove(&name),
            };
        }
        if !assignments.is_empty() {
            self.exported.truncate(exported);
        }
        flow
    }

    /// What a command finds when it is run where this one is, without what it has printed.
    pub(super) fn handler(&self) -> Self {
        let transcript = Transcript::new(self.transcript.kept);
        Self { code: 143, transcript, ..self.clone() }
    }

    /// A shell that reads what somebody types.
    pub(super) fn shell_in(world: &World, horizon: SignedDuration) -> Self {
        let mut run = Self::new(world, Some(horizon));
        run.in_shell = true;
        run
    }

    /// The next line comes; time has passed.
    pub(super) fn begin_anew(&mut self, world: World) {
        self.files = world.files.clone();
        self.input = Input::given(&world.given);
        self.world = Arc::new(world);
        self.at = SignedDuration::ZERO;
        (self.commands, self.calls, self.questions) = (0, 0, 0);
        self.waits = false;
        self.unknown_last = false;
    }

    /// What was printed since somebody asked last, and why it is not all.
    pub(super) fn take_printed(&mut self) -> (Vec<Piece>, Option<Doubt>) {
        let mut transcript = std::mem::replace(&mut self.transcript, Transcript::new(true));
        transcript.sort();
        (transcript.pieces.into(), transcript.doubt)
    }

    /// Waits; nobody waits longer than anybody looks.
    pub(super) fn pass(&mut self, time: SignedDuration) -> Flow {
        self.at = self.at.saturating_add(time);
        if self.horizon.is_some_and(|horizon| self.at > horizon) { Flow::Forever } else { self.done(0) }
    }

    /// The variables that programs are given.
    pub(super) fn environment(&self) -> Option<Vec<(String, String)>> {
        let mut seen = BTreeSet::new();
        let given = self.exported.iter().filter(|name| seen.insert(name.as_str()));
        given
            .filter_map(|name| self.variables.get(name).map(|value| (name, value)))
            .map(|(name, value)| Some((name.clone(), value.clone()?)))
            .collect()
    }
}
