//! The only file that starts processes: own process group, deadline, complete output, named failures, transcript.

mod redact;
pub mod stream;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
pub use redact::redact;

use klab_cluster::deadline;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};

/// A program with its arguments, passed as they are, never through a shell.
#[derive(Debug, Clone)]
pub struct Command {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    transcript: Option<PathBuf>,
    held: Option<PathBuf>,
    results_are_secret: bool,
    own_environment: bool,
}

/// What a program wrote, where it ended well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Its results.
    pub stdout: String,
    /// Its talk.
    pub stderr: String,
}

/// Why a program gave no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not on this machine.
    #[error("`{program}` was not found on PATH")]
    Missing {
        /// The program.
        program: String,
    },
    /// It could not be started or its output not be read.
    #[error("could not run `{command}`")]
    Broken {
        /// The command line.
        command: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// It ran too long and was killed with all its children.
    #[error("`{command}` was still running after {}", klab_lab::words::duration(*.after))]
    Deadline {
        /// The command line.
        command: String,
        /// The time it was given.
        after: Duration,
    },
    /// It ended with a failure.
    #[error("`{command}` {status}{}", said(.stderr))]
    Failed {
        /// The command line.
        command: String,
        /// `exited with code 1`, `was killed by signal 9`.
        status: String,
        /// Its exit code, unless a signal ended it.
        code: Option<i32>,
        /// Its own words, without secrets.
        stderr: String,
    },
}

fn said(stderr: &str) -> String {
    if stderr.trim().is_empty() { String::new() } else { format!(":\n{}", stderr.trim_end()) }
}

impl Command {
    /// A program by name or path.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: None,
            transcript: None,
            held: None,
            results_are_secret: false,
            own_environment: false,
        }
    }

    /// Adds one argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    pub fn args<T: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of its environment; everything else it has from klab.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Gives it nothing of klab's environment: only what [`Command::env`] sets.
    pub fn own_environment(mut self) -> Self {
        self.own_environment = true;
        self
    }

    /// The folder it starts in; klab's own otherwise.
    pub fn directory(mut self, folder: impl Into<PathBuf>) -> Self {
        self.directory = Some(folder.into());
        self
    }

    /// Writes command line, output and status, without secrets, to the end of a file of the user's own.
    pub fn transcript(mut self, file: impl Into<PathBuf>) -> Self {
        self.transcript = Some(file.into());
        self
    }

    /// Holds a file as long as it lives, and its children, also where klab dies before them: see [`is_held`].
    pub fn holds(mut self, file: impl Into<PathBuf>) -> Self {
        self.held = Some(file.into());
        self
    }

    /// Keeps what it writes to stdout, which may be a key or a token, out of the transcript.
    pub fn results_are_secret(mut self) -> Self {
        self.results_are_secret = true;
        self
    }

    /// Runs it to its end and gives its stdout.
    ///
    /// # Errors
    /// As [`Command::written`].
    pub fn output(&self, deadline: Duration) -> Result<String, Error> {
        self.written(deadline).map(|written| written.stdout)
    }

    /// Runs it to its end and gives all it wrote.
    ///
    /// # Errors
    /// [`Error`]; a program that outlives `deadline` is killed with its whole process group, so that no grandchild
    /// keeps running (`az` is a script over Python).
    pub fn written(&self, deadline: Duration) -> Result<Written, Error> {
        let started = Instant::now();
        let until = deadline::after(started, deadline);
        let broken = |source| Error::Broken { command: self.to_string(), source };
        let expression = match self.held.as_deref().and_then(held) {
            Some(file) => self.expression().stdin_file(file),
            None => self.expression().stdin_null(),
        };
        let handle = expression.stdout_capture().stderr_capture().unchecked().start();
        let handle = handle.map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => Error::Missing { program: self.program.to_string_lossy().into_owned() },
            _ => broken(source),
        })?;
        let _running = Running::note(handle.pids());
        let Some(output) = handle.wait_deadline(until).map_err(broken)? else {
            for pid in handle.pids() {
                signal_group(pid, Signal::KILL);
            }
            self.record(started, None);
            return Err(Error::Deadline { command: self.to_string(), after: deadline });
        };
        self.record(started, Some(output));
        if output.status.success() {
            Ok(Written { stdout: text(&output.stdout), stderr: text(&output.stderr) })
        } else {
            Err(self.failed(output, &text(&output.stderr)))
        }
    }

    /// The program in klab's place, at its terminal; returns only when it cannot be started.
    pub fn replace_klab(&self) -> Error {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        let reason = command.exec();
        let program = self.program.to_string_lossy().into_owned();
        if reason.kind() == std::io::ErrorKind::NotFound {
            return Error::Missing { program };
        }
        Error::Broken { command: program, source: reason }
    }

    /// The program in klab's place, as another user and group where klab is root; returns only when it cannot be started.
    pub fn become_program(&self, user: Option<u32>) -> Error {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.arguments);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        Error::Broken { command: self.program.to_string_lossy().into_owned(), source: command.exec() }
    }

    /// Starts it in the background, where it outlives klab, and gives the first line it writes to stdout.
    ///
    /// Its stdin is the file that is given, and its stderr goes to the file `log`. Nothing else may be written to its
    /// stdout: the reading end is closed.
    ///
    /// # Errors
    /// [`Error`]; when it ends before it has written a line, with what it wrote to `log`, or has written none when the
    /// deadline passes: it is then killed.
    pub fn start_in_background(&self, stdin: File, log: &Path, deadline: Duration) -> Result<String, Error> {
        let broken = |source| Error::Broken { command: self.to_string(), source };
        let (reader, writer) = std::io::pipe().map_err(broken)?;
        let stderr = private_file(log).map_err(broken)?;
        let expression = self.expression().stdin_file(stdin).stdout_file(writer).stderr_file(stderr).unchecked();
        let handle = expression.start().map_err(broken)?;
        // What it was given is its own now.
        drop(expression);
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            // The receiver is gone after the deadline.
            let _ = sender.send(BufReader::new(reader).read_line(&mut line).map(|_| line));
        });
        let Ok(line) = receiver.recv_timeout(deadline) else {
            for pid in handle.pids() {
                signal_group(pid, Signal::KILL);
            }
            return Err(Error::Deadline { command: self.to_string(), after: deadline });
        };
        let line = line.map_err(broken)?;
        if line.ends_with('\n') {
            return Ok(line.trim_end().to_owned());
        }
        let output = handle.wait().map_err(broken)?;
        let stderr = std::fs::read_to_string(log).unwrap_or_default();
        Err(self.failed(output, &stderr))
    }

    fn failed(&self, output: &Output, stderr: &str) -> Error {
        Error::Failed {
            command: self.to_string(),
            status: status_words(output),
            code: output.status.code(),
            stderr: redact(stderr),
        }
    }

    /// Appends what was run and what came of it to the transcript; a transcript that cannot be written stops nothing.
    fn record(&self, started: Instant, output: Option<&Output>) {
        let Some(file) = &self.transcript else { return };
        let status = output.map_or_else(|| "was killed at its deadline".to_owned(), status_words);
        let took = started.elapsed();
        let began = Timestamp::now().saturating_sub(took).unwrap_or_default();
        let mut entry = format!("{began:.3} $ {self}\n");
        let streams = output.iter().flat_map(|output| [&output.stdout, &output.stderr]);
        let streams = streams.zip([TRANSCRIPT_RESULTS, TRANSCRIPT_TALK]).skip(usize::from(self.results_are_secret));
        for (stream, most) in streams {
            let stream = text(stream);
            let shown: String = stream.chars().take(most).collect();
            entry.extend(redact(&shown).lines().map(|line| format!("  {line}\n")));
            if shown.len() < stream.len() {
                entry.push_str("  … (cut here)\n");
            }
        }
        let _ = writeln!(entry, "= {status} after {}", klab_lab::words::duration(took));
        let _ = klab_server::files::open_private_append(file).and_then(|mut file| file.write_all(entry.as_bytes()));
    }

    /// Starts it for the person, and thinks no more of it: a browser. What it writes goes nowhere.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn hand_over(&self) -> Result<(), Error> {
        let broken = |source| Error::Broken { command: self.to_string(), source };
        let expression = self.expression().stdin_null().stdout_null().stderr_null().unchecked();
        let handle = expression.start().map_err(broken)?;
        // Somebody must take note of its end.
        std::thread::spawn(move || handle.wait().map(|_| ()));
        Ok(())
    }

    fn expression(&self) -> duct::Expression {
        let command = duct::cmd(self.program.clone(), self.arguments.clone());
        let command = if self.own_environment {
            command.full_env(self.environment.iter().cloned())
        } else {
            self.environment.iter().fold(command, |command, (name, value)| command.env(name, value))
        };
        let command = match &self.directory {
            Some(folder) => command.dir(folder),
            None => command,
        };
        command.before_spawn(|command| {
            // A group of its own: a deadline can then end grandchildren too, and Ctrl-C reaches klab alone.
            command.process_group(0);
            Ok(())
        })
    }
}

/// Most characters of a program's results in a transcript, and of its talk, where the reason of a failure is.
const TRANSCRIPT_RESULTS: usize = 8000;
const TRANSCRIPT_TALK: usize = 100_000;

static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Processes that are waited for, as long as it lives.
struct Running(Vec<u32>);

impl Running {
    fn note(pids: Vec<u32>) -> Self {
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).extend(&pids);
        Self(pids)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).retain(|pid| !self.0.contains(pid));
    }
}

/// Passes the user's interruption on to every program that is waited for, and to its children.
pub fn interrupt_children() {
    for pid in RUNNING.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        signal_group(*pid, Signal::INT);
    }
}

impl fmt::Display for Command {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.program.to_string_lossy())?;
        let arguments = self.arguments.iter().map(|argument| argument.to_string_lossy().into_owned());
        for argument in redact::redact_arguments(arguments) {
            write!(formatter, " {}", quoted(&argument))?;
        }
        Ok(())
    }
}

/// An empty file for this user only, whatever the umask and its former owner.
fn private_file(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// A word as it is typed to a shell.
pub fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn status_words(output: &Output) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (output.status.code(), output.status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// A file with a shared lock, to be a program's stdin: empty, and inherited by all its children, so that the system lets go of
/// the lock when the last of them has ended. None where it cannot be had; work goes on without it.
fn held(path: &Path) -> Option<File> {
    let file = klab_server::files::open_private_append(path).ok()?;
    file.lock_shared().ok()?;
    Some(file)
}

/// Whether a program that [`Command::holds`] a file is alive.
pub fn is_held(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

fn signal_group(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // Gone already is what was wanted.
        let _ = kill_process_group(pid, signal);
    }
}

/// Asks a process to end (SIGTERM), or ends it (SIGKILL) when `force` is set. A process that is gone is no error.
pub fn end_process(pid: u32, force: bool) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, if force { Signal::KILL } else { Signal::TERM });
    }
}

/// Ends a process and all others of its group at once, where it leads one: what it had started goes with it.
pub fn end_group(pid: u32) {
    signal_group(pid, Signal::KILL);
    end_process(pid, true);
}

/// Lets a process that was stopped go on.
pub fn continue_process(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::CONT);
    }
}

/// The words a process was started with, where the system tells them.
pub fn command_line(pid: u32) -> Option<Vec<OsString>> {
    if let Ok(text) = std::fs::read(format!("/proc/{pid}/cmdline")) {
        let words = text.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
        return Some(words.collect());
    }
    let words = Command::new("ps").args(["-ww", "-o", "args=", "-p"]).arg(pid.to_string()).output(LOOK).ok()?;
    Some(words.split_whitespace().map(OsString::from).collect())
}

/// Whether a process is stopped (SIGSTOP, Ctrl-Z), where the system tells.
pub fn is_stopped(pid: u32) -> bool {
    let state = condition(pid).or_else(|| {
        Command::new("ps").args(["-o", "stat=", "-p"]).arg(pid.to_string()).output(LOOK).ok()?.trim().chars().next()
    });
    state.is_some_and(|state| matches!(state, 'T' | 't'))
}

/// The letter for what a process does, where `/proc` tells.
fn condition(pid: u32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // `1234 (name) T …`, and a name may hold anything.
    text.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Time to look at a process.
const LOOK: Duration = Duration::from_secs(5);

/// Whether a process of that number exists and has not ended: one that has ended keeps its number until its parent asks how, and
/// the first process of a container may never ask.
pub fn process_exists(pid: u32) -> bool {
    let exists = i32::try_from(pid).ok().and_then(Pid::from_raw).is_some_and(|pid| test_kill_process(pid).is_ok());
    exists && condition(pid) != Some('Z')
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECONDS: Duration = Duration::from_secs(20);

    #[test]
    fn output_is_returned_and_arguments_are_not_interpreted() {
        let output = Command::new("printf").args(["%s|", "$HOME; echo", "a b"]).output(SECONDS).unwrap();
        assert_eq!(output, "$HOME; echo|a b|");
    }

    #[test]
    fn failure_names_command_status_and_the_tools_words() {
        let error = Command::new("ls").arg("/no such directory").output(SECONDS).unwrap_err().to_string();
        assert!(error.starts_with("`ls '/no such directory'` exited with code 2:\n"), "{error}");
        assert!(error.contains("No such file"), "{error}");
    }

    #[test]
    fn missing_program_is_named() {
        let error = Command::new("klab-no-such-program").output(SECONDS).unwrap_err();
        assert_eq!(error.to_string(), "`klab-no-such-program` was not found on PATH");
    }

    #[test]
    fn environment_is_set_and_both_streams_are_kept_apart() {
        let command = Command::new("sh").args(["-c", "echo $KLAB_WORD; echo talk >&2"]).env("KLAB_WORD", "a b");
        assert_eq!(command.written(SECONDS).unwrap(), Written { stdout: "a b\n".into(), stderr: "talk\n".into() });
    }

    #[test]
    fn environment_is_passed_and_transcript_is_kept_without_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("transcript");
        let script = "echo \"$GREETING\"; echo password=hunter2 >&2; exit 3";
        let command = Command::new("sh").args(["-c", script]).env("GREETING", "hello").transcript(&file);
        let error = command.output(SECONDS).unwrap_err();
        assert!(matches!(error, Error::Failed { code: Some(3), .. }), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
        let kept = std::fs::read_to_string(file).unwrap();
        assert!(kept.contains("  hello\n  password=<redacted>\n= exited with code 3 after"), "{kept}");
        assert!(!kept.contains("hunter2"), "{kept}");
    }

    #[test]
    fn deadline_ends_the_whole_group() {
        let started = Instant::now();
        let command = Command::new("sh").args(["-c", "sleep 60 & wait"]);
        let error = command.output(Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, Error::Deadline { .. }), "{error}");
        assert!(started.elapsed() < SECONDS);
    }

    #[test]
    fn background_process_that_dies_reports_its_words() {
        let folder = tempfile::tempdir().unwrap();
        let command = Command::new("sh").args(["-c", "echo no port >&2; exit 7"]);
        let nothing = File::open("/dev/null").unwrap();
        let error = command.start_in_background(nothing, &folder.path().join("log"), SECONDS).unwrap_err().to_string();
        assert!(error.ends_with("exited with code 7:\nno port"), "{error}");
    }

    #[test]
    fn background_process_that_says_nothing_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let command = Command::new("sh").args(["-c", "echo $$ >&2; sleep 60"]);
        // A busy machine may not have started it by the first deadline.
        let pid: u32 = (0..10)
            .find_map(|doubled| {
                let nothing = File::open("/dev/null").unwrap();
                let deadline = Duration::from_millis(100 << doubled);
                let error = command.start_in_background(nothing, &log, deadline).unwrap_err();
                assert!(matches!(error, Error::Deadline { .. }), "{error}");
                std::fs::read_to_string(&log).unwrap().trim().parse().ok()
            })
            .unwrap();
        let until = Instant::now() + SECONDS;
        while process_exists(pid) {
            assert!(Instant::now() < until, "process {pid} is still running");
        }
    }

    #[test]
    fn a_process_that_has_ended_does_not_exist_before_its_parent_has_asked_how() {
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let id = rustix::process::WaitId::Pid(Pid::from_child(&ended));
        let look = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        assert!(rustix::process::waitid(id, look).unwrap().is_some_and(|status| status.exited()));
        assert!(!process_exists(ended.id()));
        assert!(process_exists(std::process::id()));
        ended.wait().unwrap();
    }

    #[test]
    fn a_process_is_known_by_its_words_and_whether_it_is_stopped() {
        let words = command_line(std::process::id()).unwrap();
        assert_eq!(words.first(), std::env::args_os().next().as_ref());
        assert!(!is_stopped(std::process::id()));
        let mut stopped = std::process::Command::new("sh").args(["-c", "kill -STOP $$; exit 9"]).spawn().unwrap();
        let until = Instant::now() + SECONDS;
        while !is_stopped(stopped.id()) {
            assert!(Instant::now() < until, "it does not stop");
        }
        continue_process(stopped.id());
        assert_eq!(stopped.wait().unwrap().code(), Some(9));
    }
}
