//! Pure: when a class opens and closes, and where it is in its time.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

/// When a class opens and closes, and for how long it is kept then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Times {
    /// From when on people may come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens: Option<Timestamp>,
    /// From when on the class admits no learner, and nothing is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closes: Option<Timestamp>,
    /// For how long it is kept after that.
    pub keep: SignedDuration,
    /// When an instructor decided so; none: they are those that the class began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Timestamp>,
}

/// Where a class is in its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not yet open.
    Ahead,
    /// Open.
    Open,
    /// Closed: what is there can be looked at.
    Closed,
    /// All is to be removed.
    Over,
}

impl Phase {
    /// As people and programs read it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ahead => "not open yet",
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Over => "over",
        }
    }
}

impl Times {
    /// Where the class is at a moment.
    pub fn phase(&self, now: Timestamp) -> Phase {
        match (self.opens, self.closes, self.over()) {
            (_, _, Some(over)) if over <= now => Phase::Over,
            (_, Some(closes), _) if closes <= now => Phase::Closed,
            (Some(opens), _, _) if opens > now => Phase::Ahead,
            _ => Phase::Open,
        }
    }

    fn over(&self) -> Option<Timestamp> {
        self.closes?.checked_add(self.keep).ok()
    }

    /// When that changes next.
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        [self.opens, self.closes, self.over()].into_iter().flatten().filter(|at| *at > now).min()
    }
}

/// Refuses what can only be done while the class is open.
pub(super) fn refuse_untimely(phase: Phase, times: &Times) -> Result<(), Refusal> {
    match phase {
        Phase::Open => Ok(()),
        Phase::Ahead => Err(Refusal::ahead(times.opens)),
        Phase::Closed | Phase::Over => Err(Refusal::closed()),
    }
}
