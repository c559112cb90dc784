//! Pure: why somebody is not let in, or is not given what they ask for: in words for them, and as Kubernetes would say it.

use jiff::Timestamp;
use klab_lab::words::plural;
use serde_json::{Value, json};

use super::code::Spent;
use super::limit::{Wait, Whose};

/// Why something is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub code: u16,
    /// Kubernetes' word for it.
    pub reason: &'static str,
    /// The sentence.
    pub message: String,
    /// After how many seconds it is worth trying again.
    pub retry_after: Option<u64>,
    /// Whether it may have been a guess, which counts.
    pub is_guess: bool,
}

/// What went wrong without where on this machine: learners have no business there.
pub(super) fn without_places(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some((before, quoted)) = rest.split_once(['`', '"', '\'']) {
        let quote = rest.get(before.len()..).and_then(|rest| rest.chars().next()).unwrap_or_default();
        shown.push_str(before);
        if let Some((_, after)) = quoted.split_once(quote).filter(|(place, _)| place.starts_with('/')) {
            shown.push_str("a file of the host");
            rest = after;
        } else {
            shown.push(quote);
            rest = quoted;
        }
    }
    shown + rest
}

impl Refusal {
    /// One of a status.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), retry_after: None, is_guess: false }
    }

    pub(super) fn guess(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { is_guess: true, ..Self::new(code, reason, message) }
    }

    /// Something impossible.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// What is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(404, "NotFound", message)
    }

    /// What this person may not do.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(403, "Forbidden", message)
    }

    /// Somebody who has not shown who they are.
    pub fn unauthorised() -> Self {
        Self::new(401, "Unauthorized", "join first: your browser or your token is not known here")
    }

    /// Something that came too late or too early.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(409, "Conflict", message)
    }

    /// Something of klab's own went wrong.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", without_places(&message.into()))
    }

    pub(super) fn wrong_code() -> Self {
        Self::guess(403, "Forbidden", "this code is not valid: check it against the instructor's screen")
    }

    pub(super) fn needs_code() -> Self {
        Self::forbidden(
            "who comes for the first time says the code on the instructor's screen as well: type it at the entrance, beside `Sign in`",
        )
    }

    pub(super) fn wrong_pin(name: &str) -> Self {
        let message = format!(
            "this is not the PIN of {name}; if you are another {name}, take a longer name; if you have forgotten the PIN, \
             the instructor can take it away"
        );
        Self::guess(403, "Forbidden", message)
    }

    pub(super) fn name_taken(name: &str) -> Self {
        let message = format!(
            "{name} is here already: say the PIN that {name} was given to come back to that seat, or take a longer name"
        );
        Self::guess(409, "AlreadyExists", message)
    }

    pub(super) fn spent(spent: Spent) -> Self {
        let message = match spent {
            Spent::Expired => "the time of this code is over: ask the instructor for the new one",
            Spent::Used => "as many people have come with this code as it lets in: ask the instructor for another one",
            Spent::Revoked => "the instructor has taken this code back: ask for the new one",
        };
        Self::forbidden(message)
    }

    pub(super) fn barred() -> Self {
        Self::forbidden("the instructor has ended your seat: ask the instructor")
    }

    pub(super) fn full(most: u32) -> Self {
        let seats = plural(most as usize, "seat");
        Self {
            retry_after: Some(60),
            ..Self::new(503, "ServiceUnavailable", format!("the class is full: it has {seats}"))
        }
    }

    pub(super) fn ahead(opens: Option<Timestamp>) -> Self {
        let when = opens.map_or(String::new(), |at| format!(" at {}", at.strftime("%Y-%m-%d %H:%M UTC")));
        Self { retry_after: Some(30), ..Self::forbidden(format!("the class is not open yet; it opens{when}")) }
    }

    /// A class that is over.
    pub fn closed() -> Self {
        Self::forbidden("the class is closed: you can look, but not change anything")
    }

    /// A learner of a practice whose time is over.
    pub fn time_is_over() -> Self {
        Self::forbidden("your time is over: you can look, but not change anything")
    }

    /// Too many tries.
    pub fn too_many(wait: Wait) -> Self {
        let seconds = plural(wait.seconds as usize, "second");
        let message = match wait.whose {
            Whose::Own => format!("too many tries from here: wait {seconds} and try again"),
            Whose::Name => format!(
                "too many wrong PINs were tried for this name: wait {seconds} and try again. You come in at once in the browser in \
                 which you joined, or with a code for a seat, which the instructor can give you"
            ),
            Whose::All => format!("many people try wrong codes at the moment: wait {seconds} and try again"),
        };
        Self { retry_after: Some(wait.seconds), ..Self::new(429, "TooManyRequests", message) }
    }

    /// As the API of a cluster says it.
    pub fn document(&self) -> Value {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
            "reason": self.reason, "code": self.code,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_told_without_its_place() {
        for (text, told) in [
            ("could not write `/home/x/.klab/hosts/a/journal`: full", "could not write a file of the host: full"),
            ("no space at path \"/a/clusters/0-6/.new-b\"", "no space at path a file of the host"),
            ("'/a' and `/b`", "a file of the host and a file of the host"),
            ("workload `web` isn't there", "workload `web` isn't there"),
            ("`web", "`web"),
            ("", ""),
        ] {
            assert_eq!(Refusal::internal(text).message, told, "{text}");
        }
    }
}
