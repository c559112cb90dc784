//! A file descriptor that becomes readable when the cluster is ready: the process that started klab has the other end of the
//! pipe.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;

use klab_operations::error::{Code, Error, Result};

/// What is written: one line.
const WORD: &[u8] = b"ready\n";

/// The pipe's end.
pub(super) struct ReadyFile(File);

impl ReadyFile {
    /// The descriptor of this number. To be opened before klab itself opens anything, which might have that number.
    ///
    /// # Errors
    /// When there is none, or nothing can be written to it.
    pub(super) fn descriptor(number: u32) -> Result<Self> {
        // Writing into a pipe without a reader would block.
        let flags = i32::try_from((OFlags::NONBLOCK | OFlags::CLOEXEC).bits()).unwrap_or_default();
        let opened = OpenOptions::new().write(true).custom_flags(flags).open(format!("/dev/fd/{number}"));
        opened.map(Self).map_err(|error| {
            let message = format!("descriptor {number} of `--ready-fd` cannot be written to: {error}");
            Error::message(Code::Flags, message)
                .hint("give klab the writing end of a pipe, such as `3>&1 --ready-fd 3`")
        })
    }

    /// Tells it.
    pub(super) fn tell(mut self) {
        // A reader that has gone needs no message.
        let _ = self.0.write_all(WORD);
    }
}
