//! How far a lesson has come: kept in the lab's folder, apart from the record, for it changes with every step.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::home::state_error;
use crate::error::Result;
use klab_lab::verify::Before;
use klab_server::files::write_private;

/// How far a lesson has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Version of this form: `klab.progress/1`.
    pub schema: String,
    /// How many steps are done: performed, or done by hand and found to hold.
    pub done: usize,
    /// Whether the set-up was found to hold since `up`, so that the guide opens the first step next.
    pub started: bool,
    /// Whether the guide has shown the learner the next step: from then on it is what is graded.
    #[serde(default)]
    pub opened: bool,
    /// The step that klab is at work on, or was when it was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doing: Option<StepUnderWay>,
    /// The pods as they were before steps whose checks compare with them, by the steps' names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub before: BTreeMap<String, Before>,
}

/// A step that klab is at work on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepUnderWay {
    /// Name of the step.
    pub step: String,
    /// Whether it is being undone.
    pub back: bool,
}

const SCHEMA: &str = "klab.progress/1";
const FILE: &str = "progress.json";

impl Default for Progress {
    /// At the set-up.
    fn default() -> Self {
        Self { schema: SCHEMA.to_owned(), done: 0, started: false, opened: false, doing: None, before: BTreeMap::new() }
    }
}

impl Progress {
    /// Where this many steps are done, none is under way, and the guide has not opened the next.
    pub fn reached(done: usize) -> Self {
        Self { done, started: true, ..Self::default() }
    }

    /// Goes on, or back, to where this many steps are done.
    pub fn reach(&mut self, done: usize) {
        let before = std::mem::take(&mut self.before);
        *self = Self { before, ..Self::reached(done) };
    }

    /// The number (from 0) of the step that is next, or the one klab was interrupted at, of `steps`; none after the last.
    pub fn next(&self, steps: usize) -> Option<usize> {
        (self.done < steps).then_some(self.done)
    }

    /// Whether the learner has been shown the next step, or klab was interrupted at it.
    pub fn is_opened(&self) -> bool {
        self.opened || self.doing.is_some()
    }

    /// The number (from 0) of the step whose checks say where the learner is: the one that is opened, else the last one
    /// that was reached; none at the set-up.
    pub fn graded(&self, steps: usize) -> Option<usize> {
        let reached = self.done.checked_sub(1);
        if self.is_opened() { self.next(steps).or(reached) } else { reached }
    }

    /// Reads the progress in a lab's folder. Without a file, or with one that says nothing, the lesson is at its set-up.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(state_error(error, "read", &path)),
            Ok(text) => {
                let read = serde_json::from_slice::<Self>(&text).ok();
                Ok(read.filter(|progress| progress.schema == SCHEMA).unwrap_or_default())
            }
        }
    }

    /// When the lesson last went on; none where it never did.
    pub fn written_at(folder: &Path) -> Option<std::time::SystemTime> {
        std::fs::metadata(folder.join(FILE)).and_then(|file| file.modified()).ok()
    }

    /// As [`Progress::read`], of a lesson of `steps` steps: its file may have lost some since.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn of(folder: &Path, steps: usize) -> Result<Self> {
        let mut progress = Self::read(folder)?;
        progress.done = progress.done.min(steps);
        Ok(progress)
    }

    /// Writes the progress into a lab's folder.
    ///
    /// # Errors
    /// When the file system refuses; the old progress is then still there.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let failed = |error| state_error(error, "write", &path);
        let mut text = serde_json::to_vec_pretty(self).map_err(io::Error::other).map_err(failed)?;
        text.push(b'\n');
        write_private(&path, &text).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_comes_back_and_a_damaged_file_is_the_set_up() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Progress::read(folder.path()).unwrap(), Progress::default());
        let doing = Some(StepUnderWay { step: "taint".to_owned(), back: false });
        let progress = Progress { doing, ..Progress::reached(3) };
        progress.write(folder.path()).unwrap();
        assert_eq!(Progress::read(folder.path()).unwrap(), progress);
        std::fs::write(folder.path().join(FILE), "{ torn").unwrap();
        assert_eq!(Progress::read(folder.path()).unwrap(), Progress::default());
    }
}
