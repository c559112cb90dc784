//! A command-line tool of the machine, called with its environment and a transcript of its talk.

use std::path::PathBuf;
use std::time::Duration;

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

    /// Writes down what it says from now on; its results, which may be secrets, are not written down.
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
        self.command(arguments).written(deadline)
    }

    fn command<T: AsRef<str>>(&self, arguments: &[T]) -> Command {
        let command = Command::new(self.program.clone()).args(arguments.iter().map(AsRef::as_ref)).results_are_secret();
        let command = self.environment.iter().fold(command, |command, (name, value)| command.env(name, value));
        // A lab that is not made yet, or is gone, has no folder, and gets none for the sake of a transcript.
        match self.transcript.as_ref().filter(|file| file.parent().is_some_and(std::path::Path::is_dir)) {
            Some(file) => command.transcript(file),
            None => command,
        }
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
        assert!(text.contains("  talk\n= exited with code 0 after"), "{text}");
        assert!(text.contains("  broken\n= exited with code 3 after"), "{text}");
        assert!(!text.contains("token"), "{text}");
        let absent = folder.path().join("absent/transcript.log");
        Tool::new("true").transcribed(absent.clone()).run::<&str>(&[], seconds).unwrap();
        assert!(!absent.parent().unwrap().exists());
    }
}
