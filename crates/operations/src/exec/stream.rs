//! A program whose output is taken while it runs, within bounds of time and size.

use std::io::Read;
use std::ops::ControlFlow;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use klab_cluster::deadline;
use rustix::process::Signal;

use super::{Command, Error, Running, signal_group};

/// What a program may use up.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Time until it is killed with its children.
    pub time: Duration,
    /// Bytes that it may write, to stdout and stderr together.
    pub output: usize,
}

/// Where a piece of output was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// Results.
    Stdout,
    /// Talk.
    Stderr,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal that it was not sent from here.
    Killed(i32),
    /// It ran too long.
    TooLong,
    /// It wrote too much.
    TooMuch,
    /// The receiver wanted no more of it.
    Unwanted,
}

/// Bytes that are read at a time, and pieces that may wait to be taken: a program that writes faster waits.
const PIECE: usize = 16 * 1024;
const PIECES: usize = 4;
/// How often it is asked whether somebody still wants what a silent program may write.
const LOOK: Duration = Duration::from_millis(200);

impl Command {
    /// Runs it, with a text as its stdin, and gives what it writes as it comes. `taken` gets empty pieces while nothing comes,
    /// so that it can end what has lost its receiver.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn stream(
        &self,
        input: Vec<u8>,
        bounds: Bounds,
        mut taken: impl FnMut(Channel, &[u8]) -> ControlFlow<()>,
    ) -> Result<End, Error> {
        let broken = |source| Error::Broken { command: self.to_string(), source };
        let until = deadline::after(Instant::now(), bounds.time);
        let (stdout, stdout_writer) = std::io::pipe().map_err(broken)?;
        let (stderr, stderr_writer) = std::io::pipe().map_err(broken)?;
        let expression = self.expression().stdin_bytes(input).unchecked();
        let expression = move || expression.stdout_file(stdout_writer).stderr_file(stderr_writer);
        // The ends that are written to are the program's alone: it closes them by its end.
        let handle = expression().start().map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => Error::Missing { program: self.program.to_string_lossy().into_owned() },
            _ => broken(source),
        })?;
        let running = Running::note(handle.pids());
        let (sender, pieces) = sync_channel(PIECES);
        for (channel, reader) in [(Channel::Stdout, stdout), (Channel::Stderr, stderr)] {
            let sender = sender.clone();
            std::thread::spawn(move || read(reader, channel, &sender));
        }
        drop(sender);
        let mut written = 0;
        let stopped = loop {
            let left = until.saturating_duration_since(Instant::now());
            let (channel, piece) = match pieces.recv_timeout(left.min(LOOK)) {
                Ok(piece) => piece,
                // Both ends are closed.
                Err(RecvTimeoutError::Disconnected) => break None,
                Err(RecvTimeoutError::Timeout) if left.is_zero() => break Some(End::TooLong),
                Err(RecvTimeoutError::Timeout) => (Channel::Stdout, Vec::new()),
            };
            let room = bounds.output.saturating_sub(written);
            written += piece.len();
            if taken(channel, &piece[..piece.len().min(room)]).is_break() {
                break Some(End::Unwanted);
            }
            if piece.len() > room {
                break Some(End::TooMuch);
            }
        };
        // One that has closed its output may go on for as long as any.
        let stopped = match stopped {
            None if handle.wait_deadline(until).map_err(broken)?.is_none() => Some(End::TooLong),
            stopped => stopped,
        };
        if stopped.is_some() {
            for pid in handle.pids() {
                signal_group(pid, Signal::KILL);
            }
        }
        drop(pieces);
        let output = handle.wait().map_err(broken)?;
        drop(running);
        Ok(stopped.unwrap_or_else(|| match output.status.code() {
            Some(code) => End::Exited(code),
            None => End::Killed(std::os::unix::process::ExitStatusExt::signal(&output.status).unwrap_or_default()),
        }))
    }
}

fn read(mut from: impl Read, channel: Channel, to: &SyncSender<(Channel, Vec<u8>)>) {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return,
            Ok(length) => {
                if to.send((channel, piece[..length].to_vec())).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { time: Duration::from_secs(20), output: 1 << 20 };

    fn sh(script: &str) -> Command {
        Command::new("sh").args(["-c", script])
    }

    fn all(command: &Command, input: &str, bounds: Bounds) -> (End, String, String) {
        let mut texts = (Vec::new(), Vec::new());
        let end = command.stream(input.into(), bounds, |channel, piece| {
            let text = if channel == Channel::Stdout { &mut texts.0 } else { &mut texts.1 };
            text.extend_from_slice(piece);
            ControlFlow::Continue(())
        });
        (end.unwrap(), String::from_utf8(texts.0).unwrap(), String::from_utf8(texts.1).unwrap())
    }

    #[test]
    fn output_is_taken_whole_and_input_is_given() {
        let (end, stdout, stderr) = all(&sh("tr a-z A-Z; echo talk >&2; exit 3"), "hello", BOUNDS);
        assert_eq!((end, stdout.as_str(), stderr.as_str()), (End::Exited(3), "HELLO", "talk\n"));
    }

    #[test]
    fn environment_is_its_own_where_it_is_to_be() {
        let command = Command::new("/usr/bin/env").own_environment().env("A", "b");
        assert_eq!(all(&command, "", BOUNDS).1, "A=b\n");
    }

    #[test]
    fn time_and_size_are_bounded_for_the_whole_group() {
        let soon = Bounds { time: Duration::from_millis(100), output: 100 };
        assert_eq!(all(&sh("sleep 60 & echo begun; wait"), "", soon).0, End::TooLong);
        assert_eq!(all(&sh("exec >&- 2>&-; sleep 60"), "", soon).0, End::TooLong);
        let little = Bounds { output: 100_000, ..BOUNDS };
        let (end, stdout, _) = all(&sh("yes & yes"), "", little);
        assert_eq!((end, stdout.len()), (End::TooMuch, 100_000));
    }

    #[test]
    fn what_nobody_wants_is_ended() {
        let end = sh("echo one; sleep 60").stream(Vec::new(), BOUNDS, |_, piece| {
            if piece.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(end.unwrap(), End::Unwanted);
    }

    #[test]
    fn a_signal_from_elsewhere_is_told() {
        assert_eq!(all(&sh("kill -9 $$"), "", BOUNDS).0, End::Killed(9));
        let missing = Command::new("klab-no-such-program").stream(Vec::new(), BOUNDS, |_, _| ControlFlow::Continue(()));
        assert!(matches!(missing, Err(Error::Missing { .. })));
    }
}
