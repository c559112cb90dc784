//! The learner goes on to the next step from the page, as `klab verify` and `klab guide` take him there.

use std::path::Path;

use super::Frame;
use crate::error::{Code, Error, Result};
use crate::lesson::open_next;
use crate::state::{Lock, Progress};
use klab_lab::report;
use klab_lab::spec::Lab;

/// Opens the next step: at the set-up the first one; where a step is open and its checks hold, the one after it.
///
/// # Errors
/// When the checks do not hold, nothing is left to open, another klab is at work on the lab, or the state cannot be written.
pub(super) fn advance(lab: &Lab, folder: &Path, frame: &Frame) -> Result<()> {
    let Some(_lock) = Lock::take_existing(folder, &lab.name.value, "board")? else {
        return Err(Error::message(Code::ClusterGone, format!("lab `{}` was taken down", lab.name)));
    };
    let total = lab.steps.len();
    let mut progress = Progress::of(folder, total)?;
    if progress != frame.progress {
        return Err(Error::message(Code::StepFailed, "the lesson has just moved on"));
    }
    let Some(next) = progress.next(total) else {
        return Err(Error::message(Code::AllDone, "all steps are done"));
    };
    if !frame.report.ok() {
        let summary = report::summary(&frame.report);
        return Err(Error::message(Code::DoesNotHold, format!("not yet: {summary}")));
    }
    if progress.is_opened() {
        progress.reach(next.saturating_add(1));
    }
    progress.started = true;
    open_next(lab, &mut progress, &frame.snapshot);
    progress.write(folder)
}
