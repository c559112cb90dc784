//! One wait for whatever Azure is at work on: looked at until it is over, silence borne for a while, with a deadline.

use std::time::Instant;

use super::failure::Failure;
use super::site::Site;
use crate::error::{Code, Error, Result};
use crate::event::Activity;

/// What one look found.
pub(super) enum Poll<T> {
    /// There is nothing to wait for any more.
    Over(T),
    /// It goes on; in Azure's word for it.
    GoesOn(String),
    /// Azure did not answer.
    Silence(Failure),
}

/// Looks until it is over.
///
/// # Errors
/// What `look` fails with; when Azure is silent for too long; at the deadline, with what goes on.
pub(super) fn until<T>(
    site: Site<'_>,
    activity: &Activity,
    what: &str,
    mut look: impl FnMut() -> Result<Poll<T>>,
) -> Result<T> {
    let Site { az, place } = site;
    let since = Instant::now();
    let mut silent: Option<Instant> = None;
    let mut state = "at work".to_owned();
    loop {
        let looked = Instant::now();
        match look()? {
            Poll::Over(found) => return Ok(found),
            Poll::GoesOn(now) => {
                silent = None;
                activity.progress(format!("{what}: {now}"));
                state = now;
            }
            Poll::Silence(failure) => {
                let since = *silent.get_or_insert(looked);
                if !failure.class.passes() || since.elapsed() > az.pace.patience {
                    let error = failure.into_error(&format!("could not inspect {what}"), Some(place));
                    return Err(error.left_behind(format!("{what}, when last seen: {state}")));
                }
            }
        }
        if since.elapsed() > az.pace.deadline {
            let waited = klab_lab::words::duration(since.elapsed());
            let message = format!("Azure was still working on {what} after {waited}");
            return Err(Error::message(Code::StillAtWork, message).left_behind(format!("{what}: {state}")));
        }
        az.pause_after_look(since, looked);
    }
}
