//! Requests to Azure: made again as long as what keeps Azure from taking them passes by itself.

use std::time::{Duration, Instant};

use super::arguments::Arguments;
use super::arguments::journal_action;
use super::az::{Az, Pace, Taken};
use super::catalogue::Class;
use super::failure::Failure;
use super::site::Site;
use crate::error::Result;
use crate::provider::Work;

/// How often a request that failed on the way to Azure is made in all.
const ATTEMPTS: u32 = 4;
/// How long a question is asked again while Azure wants fewer of them.
const PATIENCE_OF_QUESTIONS: Duration = Duration::from_mins(1);
/// Longest time between two tries at a throttled request.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// What a call of az that changes something came to.
pub(super) type Outcome = std::result::Result<Taken, Failure>;

/// The tries at one request: one rule for whether, and when, it is made again.
#[derive(Debug, Clone)]
pub(super) struct Tries {
    /// When the first of them failed.
    since: Option<Instant>,
    failed: u32,
    is_question: bool,
}

impl Tries {
    /// No try yet, at a request that changes something.
    pub(super) fn new() -> Self {
        Self { since: None, failed: 0, is_question: false }
    }

    /// No try yet, at something that can be asked as often as one likes.
    fn of_question() -> Self {
        Self { is_question: true, ..Self::new() }
    }

    /// After one more failure: the time until the next try, or none where it is of no use.
    pub(super) fn again(&mut self, failure: &Failure, pace: &Pace) -> Option<Duration> {
        self.failed += 1;
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        let patience = if self.is_question { pace.patience.min(PATIENCE_OF_QUESTIONS) } else { pace.patience };
        let doubled = pace.least.saturating_mul(1 << self.failed.min(10));
        match failure.class {
            Class::Deadline if self.is_question => None,
            class if class.conflicts() => (waited < patience).then(|| pace.next(waited)),
            Class::Throttled => {
                let left = patience.checked_sub(waited)?;
                Some(failure.retry_after().unwrap_or(doubled).max(pace.least).min(MAX_PAUSE).min(left))
            }
            class => (class.passes() && self.failed < ATTEMPTS).then_some(doubled),
        }
    }

    /// After a refusal by a part of Azure that has not yet heard of what another one made.
    fn again_after_lag(&mut self, pace: &Pace) -> Option<Duration> {
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        (waited < pace.unseen()).then(|| pace.next(waited))
    }
}

/// What a failed try at a request means to its caller.
pub(super) enum Meaning {
    /// What its class says: it is made again where it passes by itself.
    AsItSays,
    /// Azure took the request all the same.
    Taken,
    /// A part of Azure has not yet heard of what another one made.
    Lag,
}

/// Makes a request until Azure takes it or refuses it for good.
///
/// # Errors
/// When the journal cannot be written.
pub(super) fn until_taken(
    site: Site<'_>,
    arguments: &Arguments,
    subject: &str,
    work: &mut Work<'_>,
) -> Result<Outcome> {
    until_taken_as(site, arguments, subject, None, work, |_| Ok(Meaning::AsItSays))
}

/// As [`until_taken`], of which the first try may have been made already, and whose failures mean what `meaning` says.
///
/// # Errors
/// When the journal cannot be written; those of `meaning`.
pub(super) fn until_taken_as(
    site: Site<'_>,
    arguments: &Arguments,
    subject: &str,
    mut made: Option<Outcome>,
    work: &mut Work<'_>,
    mut meaning: impl FnMut(&Failure) -> Result<Meaning>,
) -> Result<Outcome> {
    let az = site.az;
    let mut tries = Tries::new();
    loop {
        let outcome = if let Some(made) = made.take() {
            made
        } else {
            work.intend(&journal_action(arguments), subject)?;
            az.change(arguments)
        };
        let failure = match outcome {
            Ok(said) => return Ok(Ok(said)),
            Err(failure) => failure,
        };
        let pause = match meaning(&failure)? {
            Meaning::Taken => return Ok(Ok(Taken::default())),
            Meaning::AsItSays => tries.again(&failure, &az.pace),
            Meaning::Lag => tries.again_after_lag(&az.pace),
        };
        match pause {
            Some(pause) => az.sleep(pause),
            None => return Ok(Err(failure)),
        }
    }
}

/// As [`until_taken`], where a refusal is the end of it: `could not VERB SUBJECT`.
///
/// # Errors
/// When Azure refuses, or the journal cannot be written.
pub(super) fn change(
    site: Site<'_>,
    arguments: &Arguments,
    subject: &str,
    verb: &str,
    work: &mut Work<'_>,
) -> Result<Taken> {
    match until_taken(site, arguments, subject, work)? {
        Ok(taken) => Ok(taken),
        Err(failure) => Err(failure.into_error(&format!("could not {verb} `{subject}`"), Some(site.place))),
    }
}

/// Asks until Azure answers, or no more asking helps.
pub(super) fn answered<T>(
    az: &Az,
    mut ask: impl FnMut() -> std::result::Result<T, Failure>,
) -> std::result::Result<T, Failure> {
    let mut tries = Tries::of_question();
    loop {
        let failure = match ask() {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        match tries.again(&failure, &az.pace) {
            Some(pause) => az.sleep(pause),
            None => return Err(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace() -> Pace {
        Pace { least: Duration::from_millis(250), ..Pace::default() }
    }

    fn failure(words: &str) -> Failure {
        Failure::from_stderr(Some(1), words)
    }

    #[test]
    fn what_passes_by_itself_is_tried_again_and_nothing_else() {
        let pauses = |words: &str| {
            let mut tries = Tries::new();
            let pauses = std::iter::from_fn(|| tries.again(&failure(words), &pace())).take(20);
            pauses.map(|pause| pause.as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(pauses("ERROR: ('Connection aborted.', RemoteDisconnected('…'))"), [500, 1000, 2000]);
        assert_eq!(pauses("ERROR: (InternalServerError) Encountered internal server error."), [500, 1000, 2000]);
        assert_eq!(pauses("ERROR: (AuthorizationFailed) The client 'c' …"), [0; 0]);
        let busy = "ERROR: (OperationNotAllowed) Another operation (Updating) is in progress.";
        assert_eq!(pauses(busy).len(), 20, "as long as the patience lasts");
        assert_eq!(pauses("ERROR: (TooManyRequests) please retry again in 7 seconds.")[..2], [7000, 7000]);
        assert_eq!(pauses("ERROR: (TooManyRequests) Wait.")[..3], [500, 1000, 2000]);
    }

    #[test]
    fn patience_ends() {
        let mut tries = Tries { since: Instant::now().checked_sub(Duration::from_mins(2)), ..Tries::new() };
        let throttled = failure("ERROR: (TooManyRequests) Wait.");
        assert!(tries.again(&throttled, &pace()).is_some(), "a change is worth a quarter of an hour");
        tries.is_question = true;
        assert!(tries.again(&throttled, &pace()).is_none());
    }
}
