//! A command-line tool of the machine, called with a transcript: what was run, how it ended, what it said.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::exec::{self, Command, Written};

/// A tool and the environment it is called in.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    program: String,
    environment: Vec<(String, String)>,
    transcript: Option<PathBuf>,
}

impl Tool {
    /// A tool by name.
    pub(super) fn new(program: impl Into<String>) -> Self {
        Self { program: program.into(), environment: Vec::new(), transcript: None }
    }

    /// Sets a variable of its environment.
    pub(super) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes down what it says from now on.
    pub(super) fn transcribed(mut self, file: PathBuf) -> Self {
        self.transcript = Some(file);
        self
    }

    /// Its name.
    pub(super) fn program(&self) -> &str {
        &self.program
    }

    /// The command line, for people to read.
    pub(super) fn shown<T: AsRef<str>>(&self, arguments: &[T]) -> String {
        self.command(arguments).to_string()
    }

    /// Runs it and gives its stdout.
    ///
    /// # Errors
    /// [`exec::Error`].
    pub(super) fn run<T: AsRef<str>>(&self, arguments: &[T], deadline: Duration) -> Result<String, exec::Error> {
        self.written(arguments, deadline).map(|written| written.stdout)
    }

    /// Runs it and gives all it wrote.
    ///
    /// # Errors
    /// [`exec::Error`].
    pub(super) fn written<T: AsRef<str>>(&self, arguments: &[T], deadline: Duration) -> Result<Written, exec::Error> {
        let command = self.command(arguments);
        let started = Instant::now();
        let result = command.written(deadline);
        self.transcribe(&command, started.elapsed(), &result);
        result
    }

    fn command<T: AsRef<str>>(&self, arguments: &[T]) -> Command {
        let command = Command::new(self.program.clone()).args(arguments.iter().map(AsRef::as_ref));
        self.environment.iter().fold(command, |command, (name, value)| command.env(name, value))
    }

    /// What a tool gives on stdout may be a secret and is not written down; a transcript that cannot be written must not
    /// stop the work.
    fn transcribe(&self, command: &Command, elapsed: Duration, result: &Result<Written, exec::Error>) {
        let Some(path) = self.transcript.as_ref().filter(|path| path.parent().is_some_and(std::path::Path::is_dir))
        else {
            return;
        };
        let (status, said) = match result {
            Ok(written) => ("done".to_owned(), written.stderr.clone()),
            Err(exec::Error::Failed { status, stderr, .. }) => (status.clone(), stderr.clone()),
            Err(error) => (error.to_string(), String::new()),
        };
        let seconds = elapsed.as_secs_f64();
        let mut entry = format!("{} {command}\n  {status} after {seconds:.1} s\n", Timestamp::now());
        for line in said.lines() {
            entry.push_str("  | ");
            entry.push_str(line);
            entry.push('\n');
        }
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        let _ = file.and_then(|mut file| file.write_all(entry.as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transcript_has_commands_and_talk_but_no_results() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("transcript.log");
        let tool = Tool::new("sh").env("WORD", "token").transcribed(path.clone());
        let seconds = Duration::from_secs(20);
        assert_eq!(tool.run(&["-c", "echo $WORD; echo talk >&2"], seconds).unwrap(), "token\n");
        tool.run(&["-c", "echo broken >&2; exit 3"], seconds).unwrap_err();
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains("done after") && text.contains("  | talk\n"), "{text}");
        assert!(text.contains("exited with code 3 after") && text.contains("  | broken\n"), "{text}");
        assert!(!text.contains("token"), "{text}");
    }
}
