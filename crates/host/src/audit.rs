//! What people did, one JSON line each, for those who answer for the class: who joined, what was reset, where the instructor
//! looked. No secret and no name stands there: a seat is a number.

use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::refusal::Refusal;
use super::seat::SeatId;
use klab_operations::error::{Context, Kind, Result};
use klab_server::files::open_private_append;

/// A file that lines are added to.
pub struct Audit {
    file: Mutex<File>,
}

impl Audit {
    /// The audit log at a path.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path) -> Result<Self> {
        let file = open_private_append(path).kind(Kind::Outside, || format!("could not open `{}`", path.display()))?;
        Ok(Self { file: Mutex::new(file) })
    }

    /// Adds a line: when, what, and the fields of an object.
    pub fn line(&self, what: &str, mut fields: Value) {
        fields["at"] = json!(Timestamp::now());
        fields["what"] = json!(what);
        let text = format!("{fields}\n");
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(text.as_bytes()) {
            // The class goes on; the log of the process shows it.
            tracing::error!(%error, "the audit log could not be written");
        }
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
