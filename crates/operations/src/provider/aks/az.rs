//! Runs az: one call, one answer or one failure; every call is in the lab's transcript.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::arguments::Arguments;
use super::failure::Failure;
use super::printed;
use crate::behind_klab;
use crate::environment;
use crate::error::{Code, Error};
use crate::exec::{self, Command, Written};

/// The oldest az that is known to have every option klab uses.
pub const OLDEST: (u32, u32) = (2, 60);
/// A call that only asks.
pub(super) const ASK: Duration = Duration::from_mins(2);
/// A call that changes something; with some options az waits for Azure despite `--no-wait`.
const CHANGE: Duration = Duration::from_mins(45);

/// Every call of az for a lab, with its answer.
const TRANSCRIPT: &str = "az.log";
/// The file that each call of az holds that changes something, for as long as it lives: longer than a klab that is killed.
const AT_WORK: &str = "az.lock";

/// The az command for one subscription.
#[derive(Debug, Clone)]
pub(super) struct Az {
    /// What az is called; none where klab's own is the only one, which speaks for labs that are not in Azure.
    program: Option<OsString>,
    subscription: Option<String>,
    /// The lab's folder, with the transcript and the file that changes hold.
    folder: Option<PathBuf>,
    pub(super) pace: Pace,
    pub(super) ledger: Ledger,
}

/// A change that Azure took.
#[derive(Debug, Clone, Default)]
pub(super) struct Taken {
    /// What az warns of that only the user can mend.
    pub(super) warning: Option<String>,
    /// What az printed: the thing as it is now, where it printed any.
    pub(super) printed: String,
}

/// The az of the environment: `KLAB_AZ`, else `az` on PATH; in a `klab shell`, the one behind klab's own. None where klab's own
/// is the only one.
pub fn program() -> Option<OsString> {
    environment::KLAB_AZ.value().or_else(|| behind_klab::program("az"))
}

impl Az {
    /// As [`program`] says.
    pub(super) fn from_environment() -> Self {
        Self { program: program(), ..Self::new("az", Pace::from_environment()) }
    }

    pub(super) fn new(program: impl Into<OsString>, pace: Pace) -> Self {
        Self { program: Some(program.into()), subscription: None, folder: None, pace, ledger: Ledger::default() }
    }

    /// The same az for one subscription.
    pub(super) fn on(&self, subscription: &str) -> Self {
        Self { subscription: Some(subscription.to_owned()), ..self.clone() }
    }

    /// The same az for the lab of a folder: its calls stand in the transcript there.
    pub(super) fn in_folder(&self, folder: PathBuf) -> Self {
        Self { folder: Some(folder), ..self.clone() }
    }

    /// The command line as klab runs it.
    pub(super) fn command(&self, arguments: &Arguments) -> Command {
        let program = self.program.clone().unwrap_or_else(|| OsString::from("az"));
        let mut command = Command::new(program).args(arguments.iter().cloned());
        // Without a login, `version` and `account` do not know what a subscription is.
        if let Some(subscription) = &self.subscription {
            command = command.args(["--subscription", subscription]);
        }
        // Of a subnet az only warns where it could not give the cluster its right to it.
        let command = if arguments.iter().any(|word| word == "--vnet-subnet-id") {
            command
        } else {
            command.arg("--only-show-errors")
        };
        // Whatever the user has set as defaults, klab reads JSON.
        let command = command.args(["-o", "json"]);
        match &self.folder {
            Some(folder) => command.transcript(folder.join(TRANSCRIPT)),
            None => command,
        }
    }

    /// Asks for a change.
    pub(super) fn change(&self, arguments: &Arguments) -> Result<Taken, Failure> {
        let command = self.command(arguments);
        let command = match &self.folder {
            Some(folder) => command.holds(folder.join(AT_WORK)),
            None => command,
        };
        let Written { stdout, stderr } = self.finish(&command, CHANGE)?;
        Ok(Taken { warning: printed::warning(&stderr, "role assignment").map(str::to_owned), printed: stdout })
    }

    /// Whether a call of az that changes something is still at work although the klab that made it is dead.
    pub(super) fn others_at_work(&self) -> bool {
        self.folder.as_ref().is_some_and(|folder| exec::is_held(&folder.join(AT_WORK)))
    }

    /// Runs az and gives its stdout.
    pub(super) fn run(&self, arguments: &Arguments, deadline: Duration) -> Result<String, Failure> {
        self.finish(&self.command(arguments), deadline).map(|written| written.stdout)
    }

    fn finish(&self, command: &Command, deadline: Duration) -> Result<Written, Failure> {
        if self.program.is_none() {
            return Err(Failure::of(&exec::Error::Missing { program: "az".to_owned() }));
        }
        let entered = Instant::now();
        let result = command.written(deadline);
        self.ledger.note(entered, true);
        result.map_err(|error| Failure::of(&error))
    }

    /// Runs az and understands its answer.
    pub(super) fn ask<T: DeserializeOwned>(&self, arguments: &Arguments) -> Result<T, Failure> {
        let command = self.command(arguments);
        let Written { stdout, stderr } = self.finish(&command, ASK)?;
        printed::answer(&stdout).map_err(|words| {
            let words = [words, printed::error(&stderr)].join("\n");
            Failure::of_answer(&exec::redact(words.trim_end()), &command.to_string())
        })
    }

    /// Waits before the next try at something that began a while ago.
    pub(super) fn pause(&self, running_for: Duration) {
        self.sleep(self.pace.next(running_for));
    }

    /// Waits between two looks at something that began a while ago. A look that took long has been a wait itself.
    pub(super) fn pause_after_look(&self, since: Instant, looked: Instant) {
        self.sleep(self.pace.next(since.elapsed()).saturating_sub(looked.elapsed()));
    }

    pub(super) fn sleep(&self, time: Duration) {
        let entered = Instant::now();
        std::thread::sleep(time);
        self.ledger.note(entered, false);
    }
}

/// A thread that called az came to no end; what it panicked with is of no use to anybody.
pub(super) fn lost<T>(_: T) -> Error {
    Error::message(Code::KlabFault, "could not run several calls of az at once")
}

/// How often klab looks at what Azure is doing, and how long it waits for it.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Least time between two looks.
    pub least: Duration,
    /// How long a change that Azure refuses because it is busy is tried again.
    pub patience: Duration,
    /// How long one operation may take.
    pub deadline: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { least: Duration::from_millis(250), patience: Duration::from_mins(15), deadline: Duration::from_mins(45) }
    }
}

impl Pace {
    /// The usual pace; `KLAB_AKS_POLL=2s` sets the least time between two looks.
    fn from_environment() -> Self {
        let usual = Self::default();
        let least = environment::KLAB_AKS_POLL.parsed::<jiff::SignedDuration>();
        Self { least: least.and_then(|least| least.try_into().ok()).unwrap_or(usual.least), ..usual }
    }

    /// How long something is waited for that Azure took the request for and does not show: one part of Azure hears later than
    /// another.
    pub(super) fn unseen(&self) -> Duration {
        self.least.saturating_mul(240)
    }

    /// Time until the next look: a small part of the time it has taken so far, so that klab is late by little and asks
    /// seldom.
    pub(super) fn next(&self, running_for: Duration) -> Duration {
        (running_for / 15).min(Duration::from_secs(10)).max(self.least)
    }
}

/// When klab was inside az or waiting for Azure: what is left of a command's time is klab's own.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Mutex<Vec<Span>>>);

#[derive(Debug, Clone, Copy)]
struct Span {
    from: Instant,
    to: Instant,
    is_call: bool,
}

impl Ledger {
    pub(super) fn note(&self, from: Instant, is_call: bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Span { from, to: Instant::now(), is_call });
    }

    /// Number of calls of az.
    pub fn calls(&self) -> usize {
        self.spans().iter().filter(|span| span.is_call).count()
    }

    /// Time during which at least one call of az or one wait was under way.
    pub fn outside(&self) -> Duration {
        let mut spans = self.spans();
        spans.sort_by_key(|span| span.from);
        let mut total = Duration::ZERO;
        let mut reached: Option<Instant> = None;
        for span in spans {
            let from = reached.map_or(span.from, |reached| reached.max(span.from));
            total = total.saturating_add(span.to.saturating_duration_since(from));
            reached = Some(reached.map_or(span.to, |reached| reached.max(span.to)));
        }
        total
    }

    fn spans(&self) -> Vec<Span> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_grow_rarer_the_longer_it_takes() {
        let pace = Pace::default();
        let next = |seconds| pace.next(Duration::from_secs(seconds)).as_millis();
        assert_eq!([next(0), next(6), next(60), next(240)], [250, 400, 4000, 10_000]);
    }

    #[test]
    fn time_that_overlaps_counts_once() {
        let ledger = Ledger::default();
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        for (from, to) in [(0, 10), (5, 20), (7, 9), (30, 35)] {
            ledger.0.lock().unwrap().push(Span { from: at(from), to: at(to), is_call: true });
        }
        assert_eq!(ledger.outside(), Duration::from_millis(25));
        assert_eq!(ledger.calls(), 4);
    }
}
