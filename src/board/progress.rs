//! The learner goes on to the next step from the page, as `klab verify` and `klab guide` take him there.

use std::path::Path;

use super::Frame;
use crate::error::{Error, Kind, Result};
use crate::lesson::stage;
use crate::state::{Lock, Progress};
use klab_lab::report;
use klab_lab::spec::Lab;
use klab_lab::verify::{self, Before};

/// Opens the next step: at the set-up the first one; where a step is open and its checks hold, the one after it.
///
/// # Errors
/// When the checks do not hold, nothing is left to open, another klab is at work on the lab, or the state cannot be written.
pub(super) fn advance(lab: &Lab, folder: &Path, frame: &Frame) -> Result<()> {
    let Some(_lock) = Lock::take_existing(folder, &lab.name.value, "board")? else {
        return Err(Error::message(Kind::Failed, format!("lab `{}` was taken down", lab.name)));
    };
    let total = lab.steps.len();
    let mut progress = Progress::read(folder)?;
    if progress != frame.progress {
        return Err(Error::message(Kind::Failed, "the lesson has just moved on"));
    }
    let Some(next) = progress.next(total) else {
        return Err(Error::message(Kind::Failed, "all steps are done"));
    };
    if !frame.report.ok() {
        let summary = report::summary(&frame.report);
        return Err(Error::message(Kind::NotHeld, format!("not yet: {summary}")));
    }
    if progress.is_opened() {
        progress.reach(next.saturating_add(1));
    }
    progress.started = true;
    // What the next step's checks compare with is what is there now.
    if let Some(step) = lab.steps.get(progress.done) {
        progress.opened = true;
        if Before::is_asked_for(&step.checks) && !progress.before.contains_key(&step.name.value) {
            let before = stage(lab, progress.done);
            let noted = Before::of(&step.checks, &frame.snapshot, &verify::Context::of(&before));
            progress.before.insert(step.name.value.clone(), noted);
        }
    }
    progress.write(folder)
}
