//! Pure: why a sign-in failed: in words for the person, and in others for those who answer for the class.

use crate::refusal::Refusal;

/// Why somebody was not signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    kind: Kind,
    /// For the audit log. No token and no code is in it.
    pub(crate) why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The provider does not answer.
    Away,
    /// The provider says what cannot be believed or understood, or does not know this host.
    Wrong,
    /// The provider did not sign the person in.
    Declined,
    /// The person is not among those who may join.
    Stranger,
    /// What the browser brought was not begun there, or long ago, or was used.
    Stale,
}

impl Fault {
    pub(crate) fn away(why: impl Into<String>) -> Self {
        Self { kind: Kind::Away, why: why.into() }
    }

    pub(crate) fn wrong(why: impl Into<String>) -> Self {
        Self { kind: Kind::Wrong, why: why.into() }
    }

    pub(crate) fn declined(why: impl Into<String>) -> Self {
        Self { kind: Kind::Declined, why: why.into() }
    }

    pub(crate) fn stranger(why: impl Into<String>) -> Self {
        Self { kind: Kind::Stranger, why: why.into() }
    }

    pub(crate) fn stale(why: impl Into<String>) -> Self {
        Self { kind: Kind::Stale, why: why.into() }
    }

    /// Whether the provider is only not there.
    pub(crate) fn is_away(&self) -> bool {
        matches!(self.kind, Kind::Away)
    }

    /// Whether somebody may have made it up to get in, which counts.
    pub(crate) fn is_guess(&self) -> bool {
        matches!(self.kind, Kind::Stale)
    }

    /// The words for the person who was to sign in at `place`.
    pub(crate) fn refusal(&self, place: &str) -> Refusal {
        match self.kind {
            Kind::Away => {
                let message = format!(
                    "{place}, where people of this class sign in, does not answer at the moment: try again in a while, or join with a \
                     code if you were given one"
                );
                Refusal { retry_after: Some(10), ..Refusal::new(503, "ServiceUnavailable", message) }
            }
            Kind::Wrong => {
                let message = format!(
                    "what {place} said of you could not be believed, so you are not signed in: tell the instructor, whose audit log has \
                     the reason; a code lets you in meanwhile"
                );
                Refusal::new(502, "BadGateway", message)
            }
            Kind::Declined => Refusal::forbidden(format!(
                "{place} did not sign you in: begin again, or ask the instructor for a code"
            )),
            Kind::Stranger => Refusal::forbidden(format!(
                "you are signed in at {place}, but not among those who may come in here: ask the instructor, who can let you in \
                 with a code"
            )),
            Kind::Stale => Refusal::bad_request(
                "this sign-in was not begun in this browser, or more than ten minutes ago, or it is used up: begin again at the entrance",
            ),
        }
    }
}

/// A word of a provider's for a log: its letters, and not too many.
pub(crate) fn word(text: &str) -> String {
    text.chars().filter(|letter| letter.is_ascii_alphanumeric() || "_-.".contains(*letter)).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_learner_is_told_what_to_do_and_no_reason_that_others_may_have_written() {
        for fault in [
            Fault::away("<x>"),
            Fault::wrong("<x>"),
            Fault::declined("<x>"),
            Fault::stranger("<x>"),
            Fault::stale("<x>"),
        ] {
            let refusal = fault.refusal("login.example.org");
            assert!(!refusal.message.contains("<x>") && refusal.code >= 400, "{refusal:?}");
            assert!(refusal.message.contains("code") || refusal.message.contains("begin again"), "{refusal:?}");
        }
        assert_eq!(word("access_denied\n{\"x\""), "access_deniedx");
        assert_eq!(word(&"a".repeat(100)).len(), 60);
    }
}
