//! What people did, one JSON line each, for those who answer for the class: who joined, what was reset, where the instructor
//! looked. No secret and no name stands there: a seat is a number. Each line ends with a checksum that counts the lines before it.

use std::net::IpAddr;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::refusal::Refusal;
use super::seat::SeatId;
use klab_operations::error::{Code, Context, Error, Result};
use klab_server::checked_lines::{CheckedFile, Mark};

/// A file that lines are added to.
pub struct Audit {
    file: Arc<Mutex<CheckedFile>>,
    /// Says that lines were added.
    news: Sender<()>,
}

impl Audit {
    /// The audit log at a path.
    ///
    /// # Errors
    /// When it cannot be opened, or a line of it is damaged or missing.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = || format!("could not use the audit log `{}`", path.display());
        let file = CheckedFile::open(path).map_err(|error| {
            let is_altered = error.kind() == std::io::ErrorKind::InvalidData;
            let error = Error::new(Code::ClassJournal, anyhow::Error::new(error).context(failed()));
            let (path, end) = (path.display(), Mark::path(path));
            let hint =
                || format!("the class goes on with a new one after `mv {path} {path}.old && rm -f {}`", end.display());
            if is_altered { error.hint(hint()) } else { error }
        })?;
        let file = Arc::new(Mutex::new(file));
        let (news, added) = channel();
        let own = Arc::clone(&file);
        let thread = std::thread::Builder::new().name("audit".to_owned()).spawn(move || {
            while added.recv().is_ok() {
                // What came meanwhile goes to the disk together.
                added.try_iter().for_each(drop);
                let syncing = own.lock().unwrap_or_else(PoisonError::into_inner).syncing();
                if let Err(error) = syncing.and_then(|sync| sync()) {
                    tracing::warn!(%error, "how far the audit log goes could not be noted");
                }
            }
        });
        thread.code(Code::ClassJournal, failed)?;
        Ok(Self { file, news })
    }

    /// Adds a line: when, what, and the fields of an object.
    pub fn line(&self, what: &str, mut fields: Value) {
        fields["at"] = json!(Timestamp::now());
        fields["what"] = json!(what);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.append(fields.to_string().as_bytes()) {
            // The class goes on; the log of the process shows it.
            tracing::error!(%error, "the audit log could not be written");
        }
        drop(file);
        // Its thread ends with it.
        let _ = self.news.send(());
    }

    /// Somebody has come in.
    pub fn joined(&self, seat: SeatId, lab: &str, from: IpAddr) {
        self.line("join", json!({ "seat": seat, "lab": lab, "from": from }));
    }

    /// Somebody was not signed in, and why.
    pub fn not_signed_in(&self, refusal: &Refusal, why: &str, from: IpAddr) {
        let fields =
            json!({ "of": "sign-in", "code": refusal.code, "reason": refusal.reason, "why": why, "from": from });
        self.line("refused", fields);
    }

    /// Somebody was refused something.
    pub fn refused(&self, what: &str, refusal: &Refusal, from: IpAddr) {
        self.line("refused", json!({ "of": what, "code": refusal.code, "reason": refusal.reason, "from": from }));
    }

    /// Something was done to a seat, by its learner or by the instructor.
    pub fn seat(&self, what: &str, seat: SeatId, by: &str) {
        self.line(what, json!({ "seat": seat, "by": by }));
    }
}
