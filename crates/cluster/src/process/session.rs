//! A shell that is given one line after another, as somebody types them.

use jiff::SignedDuration;

use super::files::Changed;
use super::output::{Given, Piece};
use super::run::{Flow, Run};
use super::script::parse;
use super::world::World;

/// No command of a session is followed for longer.
const HORIZON: SignedDuration = SignedDuration::from_mins(10);

/// What may be missing at the end of a command.
const CLOSERS: [&str; 10] =
    ["\n:", "\ndone", "\ndo :; done", "\nfi", "\nthen :; fi", "\n}", "\n)", "\nesac", "'", "\""];
/// Whoever types more than that is not waited for.
const MAX_UNFINISHED: usize = 4096;

/// Whether a program is a shell: an image that has one has the programs of every shell, and it reads what somebody types.
pub(crate) fn is_shell(name: &str) -> bool {
    matches!(name, "sh" | "bash" | "ash" | "dash")
}

/// Whether a command is a shell without a script, which reads what somebody types.
pub(crate) fn is_prompt<T: AsRef<str>>(command: &[T]) -> bool {
    let Some((program, rest)) = command.split_first() else { return false };
    let name = program.as_ref().rsplit('/').next().unwrap_or_default();
    let is_flag = |word: &T| word.as_ref().starts_with('-') && !word.as_ref().contains('c');
    is_shell(name) && rest.iter().all(is_flag)
}

/// A shell between two lines.
pub(crate) struct Session {
    run: Run,
}

/// What a line comes to.
pub(crate) struct Answered {
    pub(crate) pieces: Vec<Piece>,
    /// How long it takes.
    pub(crate) took: SignedDuration,
    /// Why no more can be told, if that is so.
    pub(crate) unknown: Option<String>,
    /// The exit code, if the shell ends.
    pub(crate) exit: Option<i64>,
    /// Whether it goes on then with what is not known before.
    pub(crate) waits: bool,
    /// What it does to files.
    pub(crate) changes: Vec<Changed>,
}

impl Session {
    pub(crate) fn new(world: World) -> Self {
        Self { run: Run::shell_in(&world, HORIZON) }
    }

    /// Whether a text is not yet all of a command: a loop without its `done`, a quote that is open.
    pub(crate) fn is_unfinished(text: &str) -> bool {
        if parse(text).is_some() || text.len() > MAX_UNFINISHED {
            return text.ends_with('\\');
        }
        let closes = |text: &str| CLOSERS.iter().any(|closer| parse(&format!("{text}{closer}")).is_some());
        closes(text) || CLOSERS.iter().any(|closer| closes(&format!("{text}{closer}")))
    }

    /// Runs a line in the world as it is now. One that waits is as if it had not been run: it is run again then.
    pub(crate) fn line(&mut self, line: &str, world: World) -> Answered {
        let before = self.run.clone();
        let found = world.files.clone();
        self.run.begin_anew(World { given: Given::open(), ..world });
        let flow = self.run.script(line);
        let exit = (flow == Flow::Exit).then_some(self.run.code);
        let (pieces, doubt) = self.run.take_printed();
        let changes = self.run.files.changed_since(&found);
        if let Some(doubt) = doubt.as_ref().filter(|_| self.run.waits) {
            self.run = before;
            return Answered { pieces, took: doubt.at, unknown: None, exit: None, waits: true, changes };
        }
        let unknown = match (doubt, flow) {
            _ if self.run.input.blocked => Some("a command of a shell reads what the shell reads, too".to_owned()),
            (Some(doubt), _) => Some(doubt.why),
            (None, Flow::Forever) => Some(format!("it goes on for more than {} minutes", HORIZON.as_mins())),
            _ => None,
        };
        Answered { pieces, took: self.run.at.min(HORIZON), unknown, exit, waits: false, changes }
    }

    /// The exit code of the last command.
    pub(crate) fn code(&self) -> i64 {
        self.run.code
    }

    /// Where it is.
    pub(crate) fn directory(&self) -> Option<&str> {
        self.run.directory.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_may_come_in_several_lines() {
        for text in [
            "for i in 1 2",
            "for i in 1 2\ndo",
            "while true; do\nif true",
            "if true; then",
            "echo 'a",
            "f() {",
            "a &&",
            "a |",
            "(a",
        ] {
            assert!(Session::is_unfinished(text), "{text}");
        }
        for text in ["echo a", "do echo; done", "a )", "", "select a"] {
            assert!(!Session::is_unfinished(text), "{text}");
        }
    }
}
