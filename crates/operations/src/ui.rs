//! The only file that writes to a terminal, but for the picture of `klab watch`: results to stdout, talk to stderr, live lines, colour.

mod slow;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use self::slow::Slow;
use crate::environment;
use crate::error::{Code, Error};
use crate::event::{Event, Events, Sink, Stamped};
use crate::invocation::Invocation;
use klab_lab::printable::{printable, printable_with_styles};
use klab_lab::report::{with_commands_apart, wrapped};
use klab_lab::words::duration;

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const CARE: Style = AnsiColor::Yellow.on_default().bold();
const LEAD: Style = AnsiColor::Cyan.on_default().bold();

/// How often is looked whether something takes long.
const TICK: Duration = Duration::from_secs(1);

/// Widest text: longer lines are hard to read.
const WIDEST: usize = 100;

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Human,
    /// One document, or one event a line.
    Json,
    /// `JUnit` XML, for `verify` and `test`.
    Junit,
    /// A line for each seat, for `verify --seats`.
    Csv,
    /// A picture, for `board`.
    Svg,
    /// A Mermaid flowchart, for `board`.
    Mermaid,
    /// Markdown, for `whatif`.
    Markdown,
}

/// The terminal, or what stands in its place.
#[derive(Clone)]
pub struct Ui {
    shared: Arc<Shared>,
    /// Takes all talk in place of the terminal, which then gets no results either.
    apart: Option<Arc<dyn Sink>>,
}

struct Shared {
    format: Format,
    /// How klab was called, where that was said.
    invocation: OnceLock<Invocation>,
    quiet: bool,
    /// Whether stdout takes one event a line in JSON; else it takes the one document of the command.
    streams: AtomicBool,
    /// Whether stdout has been given anything.
    spoke: AtomicBool,
    live: Option<MultiProgress>,
    bars: Mutex<HashMap<u64, ProgressBar>>,
    /// What takes long, where nothing lives on the screen, and whether somebody looks after it.
    slow: Mutex<Slow>,
    ticking: Once,
    own: OnceLock<Weak<Shared>>,
    under_way: Mutex<Vec<String>>,
    /// The lab that is worked on, for programs that read events.
    lab: Mutex<Option<String>>,
    /// How many rows of the terminal the text takes that is drawn again and again.
    drawn: Mutex<usize>,
    /// What was said while a picture has the terminal; none while none has.
    waiting: Mutex<Option<Vec<String>>>,
}

impl Ui {
    /// A user interface on stdout and stderr. Live lines only where stderr is a terminal and nothing else writes there.
    pub fn new(format: Format, quiet: bool, verbose: bool) -> Self {
        let live = (!quiet && !verbose && std::io::stderr().is_terminal()).then(MultiProgress::new);
        let shared = Arc::new(Shared {
            format,
            invocation: OnceLock::new(),
            quiet,
            streams: AtomicBool::new(false),
            spoke: AtomicBool::new(false),
            live,
            bars: Mutex::default(),
            slow: Mutex::default(),
            ticking: Once::new(),
            own: OnceLock::new(),
            under_way: Mutex::default(),
            lab: Mutex::default(),
            drawn: Mutex::default(),
            waiting: Mutex::default(),
        });
        let _ = shared.own.set(Arc::downgrade(&shared));
        Self { shared, apart: None }
    }

    /// An interface for work that is part of a command and says nothing itself: events go to `sink`, results nowhere.
    pub fn apart(&self, sink: Arc<dyn Sink>) -> Self {
        Self { shared: Arc::clone(&self.shared), apart: Some(sink) }
    }

    /// The same interface of a klab that was called so: its commands are written as they are typed.
    #[must_use]
    pub fn called(self, invocation: Invocation) -> Self {
        let _ = self.shared.invocation.set(invocation);
        self
    }

    /// How klab was called.
    pub fn invocation(&self) -> &Invocation {
        self.shared.invocation()
    }

    /// What goes on outside klab now, even if klab is interrupted.
    pub fn under_way(&self) -> Vec<String> {
        locked(&self.shared.under_way).clone()
    }

    /// How results are written.
    pub fn format(&self) -> Format {
        self.shared.format
    }

    /// Whether nothing but results and errors is wanted.
    pub fn quiet(&self) -> bool {
        self.shared.quiet
    }

    /// The sink for everything that happens.
    pub fn events(&self) -> Events {
        Events::new(self.apart.clone().unwrap_or_else(|| Arc::clone(&self.shared) as Arc<dyn Sink>))
    }

    /// In JSON, writes everything that happens to stdout from now on, one event a line.
    pub fn stream_events(&self) {
        if self.apart.is_some() {
            return;
        }
        self.shared.streams.store(self.shared.format == Format::Json, Ordering::Relaxed);
    }

    /// Says which lab or class is worked on: events in JSON bear its name from now on.
    pub fn works_on(&self, lab: &str) {
        if self.apart.is_none() {
            *locked(&self.shared.lab) = Some(lab.to_owned());
        }
    }

    /// Writes an event in JSON with which a command ends.
    pub fn last_event(&self, event: &serde_json::Value) {
        if let Some(text) = self.shared.stamped(event) {
            self.result(&text);
        }
    }

    /// Writes a result to stdout. A closed pipe ends klab quietly, as it does other tools in a pipeline; what cannot be
    /// written for another reason ends it with an error.
    pub fn result(&self, text: &str) {
        if self.apart.is_some() {
            return;
        }
        // For programs text is as it is; their formats have escapes of their own.
        let for_people = self.shared.format == Format::Human || std::io::stdout().is_terminal();
        let text = if for_people { printable_with_styles(text) } else { text.into() };
        self.shared.spoke.store(true, Ordering::Relaxed);
        self.shared.suspended(|| {
            let mut out = anstream::stdout().lock();
            let ended = if text.ends_with('\n') { write!(out, "{text}") } else { writeln!(out, "{text}") };
            written(ended.and_then(|()| out.flush()));
        });
    }

    /// How many columns results may take: those of the terminal, at most 100; `COLUMNS` says otherwise.
    pub fn width(&self) -> usize {
        columns()
    }

    /// A text whose lines fit into the terminal; as it is where results go elsewhere.
    pub fn fitted(&self, text: &str) -> String {
        if std::io::stdout().is_terminal() { wrapped(text, columns()) } else { text.to_owned() }
    }

    /// Whether results are shown in colours.
    pub fn colours(&self) -> bool {
        anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
    }

    /// Whether a person sits in front of it, who sees what is said and what is opened.
    pub fn is_interactive(&self) -> bool {
        std::io::stderr().is_terminal() && std::io::stdout().is_terminal() && !self.shared.quiet
    }

    /// Shows a text in the place of the one before, where stdout is a terminal; says whether it is.
    pub fn redraw(&self, text: &str) -> bool {
        if !std::io::stdout().is_terminal() {
            return false;
        }
        let columns = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0).max(1));
        let rows = |line: &str| anstream::adapter::strip_str(line).to_string().chars().count().max(1).div_ceil(columns);
        let text = printable_with_styles(text);
        self.shared.suspended(|| {
            let mut drawn = locked(&self.shared.drawn);
            // Up to where the last text began, and clear from there; also where colours are not wanted.
            let up = if *drawn > 0 { format!("\u{1b}[{}A\r\u{1b}[J", *drawn) } else { String::new() };
            let mut raw = std::io::stdout();
            let moved = write!(raw, "{up}").and_then(|()| raw.flush());
            let mut out = anstream::stdout().lock();
            written(moved.and_then(|()| writeln!(out, "{}", text.trim_end())).and_then(|()| out.flush()));
            *drawn = text.trim_end().lines().map(rows).sum();
        });
        true
    }

    /// A picture takes the terminal: talk waits until it gives it back.
    pub fn covered(&self) {
        locked(&self.shared.waiting).get_or_insert_default();
    }

    /// The terminal shows talk again, also what was said in the meantime.
    pub fn uncovered(&self) {
        let waiting = locked(&self.shared.waiting).take();
        waiting.into_iter().flatten().for_each(|text| self.shared.line(&text));
    }

    /// Writes talk to stderr as it is; nothing in quiet mode.
    pub fn say(&self, text: &str) {
        if !self.shared.quiet && self.apart.is_none() {
            self.shared.line(text);
        }
    }

    /// Writes a sentence of advice to stderr, its commands on lines of their own.
    pub fn advise(&self, text: &str) {
        self.say(&with_commands_apart(text));
    }

    /// Asks a question at the terminal; `None` where there is no user to ask.
    pub fn agrees(&self, question: &str) -> Option<bool> {
        Some(matches!(self.asks(&format!("{question} [y/N]"))?.as_str(), "y" | "Y" | "yes"))
    }

    /// Asks for a line at the terminal; `None` where there is no user to ask.
    pub fn asks(&self, question: &str) -> Option<String> {
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return None;
        }
        self.shared.line(question);
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).ok()?;
        Some(answer.trim().to_owned())
    }

    /// Says on Ctrl-C what the interruption leaves.
    pub fn interrupted(&self, leaves: Option<&str>) {
        if let Some(live) = &self.shared.live {
            // Live lines that are left standing, or drawn once more by a thread that has not heard, look like work that
            // goes on.
            locked(&self.shared.bars).drain().for_each(|(_, bar)| bar.finish_and_clear());
            live.set_draw_target(ProgressDrawTarget::hidden());
        }
        let leaves = leaves.map_or(String::new(), |words| format!("; {}", with_commands_apart(words)));
        for what in self.under_way() {
            self.shared.line(&format!("{CARE}continues{CARE:#}: {what}"));
        }
        self.shared.line(&format!("{BAD}interrupted{BAD:#}{leaves}"));
    }

    /// Shows an error: diagnostics, what failed and why, what is left behind, how to go on.
    pub fn error(&self, error: &Error) {
        let silent = self.shared.format == Format::Json && !self.shared.spoke.load(Ordering::Relaxed);
        // Who reads documents gets one, too, where there is nothing but the error.
        if self.shared.streams.load(Ordering::Relaxed) || silent {
            let chain: Vec<String> = error.source.chain().map(ToString::to_string).collect();
            let hints: Vec<_> = error.hints.iter().map(|hint| self.invocation().spelled(hint)).collect();
            self.last_event(&serde_json::json!({
                "event": "error", "code": error.code, "case": error.code.name(), "message": chain.first(), "causes": chain.get(1..).unwrap_or_default(),
                "left_behind": error.left_behind, "hints": hints, "exit_code": error.kind().exit_code(),
            }));
        }
        let mut text = error.diagnostics.clone();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let mut chain = error.source.chain();
        if let Some(first) = chain.next() {
            let _ = writeln!(text, "{BAD}error[{}]{BAD:#}: {first}", error.code);
        }
        for cause in chain {
            let _ = writeln!(text, "caused by: {}", indented(&cause.to_string()));
        }
        for left in &error.left_behind {
            let _ = writeln!(text, "{CARE}left behind{CARE:#}: {}", indented(left));
        }
        for hint in &error.hints {
            let hint = with_commands_apart(hint);
            let _ = writeln!(text, "{LEAD}hint{LEAD:#}: {}", indented(&self.invocation().spelled(&hint)));
        }
        self.shared.line(text.trim_end());
    }
}

/// How many columns results and help may take: those of the terminal, at most 100; `COLUMNS` says otherwise.
pub fn columns() -> usize {
    let said = environment::COLUMNS.parsed();
    let terminal = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    said.or_else(terminal).unwrap_or(80).min(WIDEST)
}

/// Ends klab where stdout could not be written.
fn written(outcome: std::io::Result<()>) {
    match outcome {
        Ok(()) => {}
        // As if by SIGPIPE: the reader has read enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(141),
        Err(error) => std::process::exit(i32::from(unwritten(&error))),
    }
}

/// Says that stdout cannot be written; gives the exit code.
pub fn unwritten(error: &std::io::Error) -> u8 {
    let code = Code::FileUnwritten;
    let words = format!("{BAD}error[{code}]{BAD:#}: could not write the result to stdout: {error}");
    let _ = writeln!(anstream::stderr().lock(), "{words}");
    code.exit()
}

/// Says what is wrong with a command line, in the words of clap; gives the exit code.
pub fn mistyped(mistake: &clap::Error) -> u8 {
    let (code, words) = (Code::Usage, mistake.render());
    let mut text = words.ansi().to_string();
    // Without a subcommand it is the help.
    if words.to_string().starts_with("error:") {
        text = text.replacen("error:", &format!("error[{code}]:"), 1);
    }
    let _ = write!(anstream::stderr().lock(), "{text}");
    code.exit()
}

/// Writes the one line by which a background process says to its parent that it is ready.
pub fn announce(line: &str) {
    let mut out = std::io::stdout().lock();
    // The parent may be gone already; the server serves on.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Writes what happens inside to stderr, as much as `directives` ask for (`klab=debug,kube=debug`).
pub fn trace(directives: &str) {
    let filter = tracing_subscriber::EnvFilter::new(directives);
    // A second call finds a subscriber in place, which is as well.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).try_init();
}

/// Continuation lines of a cause or hint, moved in so that they read as one.
fn indented(text: &str) -> String {
    text.trim_end().replace('\n', "\n    ")
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Runs `write` while no live line is on the screen.
    fn suspended(&self, write: impl FnOnce()) {
        match &self.live {
            Some(live) => live.suspend(write),
            None => write(),
        }
    }

    fn invocation(&self) -> &Invocation {
        self.invocation.get_or_init(Invocation::default)
    }

    fn line(&self, text: &str) {
        let text = self.invocation().spelled(text);
        if let Some(waiting) = locked(&self.waiting).as_mut() {
            // What is said again and again is said once.
            if !waiting.iter().any(|said| *said == text) {
                waiting.push(text.into_owned());
            }
            return;
        }
        self.suspended(|| {
            // A closed stderr must not end the work.
            let _ = writeln!(anstream::stderr().lock(), "{}", printable_with_styles(&text));
        });
    }

    /// An event in JSON, with form, moment and lab.
    fn stamped(&self, event: &impl serde::Serialize) -> Option<String> {
        let lab = locked(&self.lab);
        serde_json::to_string(&Stamped::new(event, lab.as_deref(), jiff::Timestamp::now())).ok()
    }

    fn json(&self, event: &Event) {
        if let Some(text) = self.stamped(event) {
            let mut out = anstream::stdout().lock();
            written(writeln!(out, "{text}").and_then(|()| out.flush()));
        }
    }

    /// Forgets an activity that is over.
    fn end(&self, id: u64) {
        locked(&self.slow).end(id);
        if let Some(bar) = locked(&self.bars).remove(&id) {
            bar.finish_and_clear();
        }
    }

    /// Has what takes long spoken of, once something does.
    fn tick(&self) {
        let Some(own) = self.own.get().filter(|_| !self.quiet) else { return };
        self.ticking.call_once(|| {
            let own = Weak::clone(own);
            std::thread::spawn(move || {
                loop {
                    std::thread::sleep(TICK);
                    let Some(shared) = own.upgrade() else { return };
                    let due = locked(&shared.slow).due(Instant::now());
                    for (verb, words) in due {
                        shared.line(&format!("{GOOD}{verb:>12}{GOOD:#} {words}"));
                    }
                }
            });
        });
    }
}

impl Sink for Shared {
    fn event(&self, event: &Event) {
        if let Event::UnderWay { outside, .. } = event {
            locked(&self.under_way).clone_from(outside);
        }
        if self.streams.load(Ordering::Relaxed) {
            self.json(event);
            return;
        }
        if self.format == Format::Json && !matches!(event, Event::Warned { .. }) {
            return;
        }
        match event {
            Event::Started { id, verb, what, .. } => {
                if let Some(live) = &self.live {
                    let bar = live.add(ProgressBar::no_length());
                    if let Ok(style) = ProgressStyle::with_template("{prefix:>12.cyan} {msg} ({elapsed:.dim})") {
                        bar.set_style(style);
                    }
                    bar.set_prefix(*verb);
                    bar.set_message(printable(what).into_owned());
                    bar.enable_steady_tick(Duration::from_millis(250));
                    locked(&self.bars).insert(*id, bar);
                } else {
                    locked(&self.slow).begin(*id, verb, what, Instant::now());
                    self.tick();
                }
            }
            Event::Progress { id, detail, .. } => {
                if let Some(bar) = locked(&self.bars).get(id) {
                    bar.set_message(printable(detail).into_owned());
                }
                locked(&self.slow).is_at(*id, detail);
            }
            Event::Finished { id, verb, what, elapsed_ms, .. } => {
                self.end(*id);
                if !self.quiet {
                    let time =
                        elapsed_ms.map_or(String::new(), |ms| format!(" in {}", duration(Duration::from_millis(ms))));
                    let what = with_commands_apart(what).replace('\n', "\n             ");
                    self.line(&format!("{GOOD}{verb:>12}{GOOD:#} {what}{time}"));
                }
            }
            Event::Ended { id, .. } => self.end(*id),
            Event::UnderWay { .. } => {}
            Event::Warned { message, code, .. } => {
                let message = with_commands_apart(message);
                self.line(&format!("{CARE}warning[{code}]{CARE:#}: {}", indented(&message)));
            }
        }
    }
}
