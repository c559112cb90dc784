//! A file descriptor that is told when the cluster is ready: whoever started klab gave it the other end of a pipe.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;

use crate::error::{Error, Kind, Result};

/// What is written: one line.
const WORD: &[u8] = b"ready\n";

/// Who is told.
pub(super) struct ReadyFile(File);

impl ReadyFile {
    /// The descriptor of this number. To be opened before klab itself opens anything, which might have that number.
    ///
    /// # Errors
    /// When there is none, or nothing can be written to it.
    pub(super) fn descriptor(number: u32) -> Result<Self> {
        // A pipe that nobody reads would be waited for.
        let flags = i32::try_from((OFlags::NONBLOCK | OFlags::CLOEXEC).bits()).unwrap_or_default();
        let opened = OpenOptions::new().write(true).custom_flags(flags).open(format!("/dev/fd/{number}"));
        opened.map(Self).map_err(|error| {
            let message = format!("descriptor {number} of `--ready-fd` cannot be written to: {error}");
            Error::message(Kind::Usage, message)
                .hint("give klab the writing end of a pipe, such as `3>&1 --ready-fd 3`")
        })
    }

    /// Tells it.
    pub(super) fn tell(mut self) {
        // Whoever has gone does not want to know.
        let _ = self.0.write_all(WORD);
    }
}
