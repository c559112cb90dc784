//! Who is logged in at Azure, and with which subscription.

use serde::Deserialize;

/// Stands where the id of a subscription is not known.
const UNKNOWN_SUBSCRIPTION: &str = "SUBSCRIPTION";

/// `az account show`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Account {
    /// Subscription id.
    pub(super) id: String,
    /// Who is logged in.
    pub(super) user: User,
}

impl Account {
    /// Stands in commands that people read before they have logged in.
    pub(super) fn unknown() -> Self {
        Self { id: UNKNOWN_SUBSCRIPTION.to_owned(), user: User { name: "YOU".to_owned() } }
    }

    /// Whether there is no login, so that names made from the login are not known.
    pub(super) fn is_unknown(&self) -> bool {
        self.id == UNKNOWN_SUBSCRIPTION
    }
}

/// Who is logged in.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct User {
    /// Address of a person, or id of a service principal.
    pub(super) name: String,
}
