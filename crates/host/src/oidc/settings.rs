//! Pure: which identity provider people sign in at, and who of those whom it knows may join or teach.

use super::rule::Claims;
pub use super::rule::Rule;
use super::rule::why_none;
use crate::service_address::Address;

/// Which provider it is, and who may come.
#[derive(Clone)]
pub struct Settings {
    /// What the provider calls itself.
    pub issuer: Address,
    /// What it calls this class.
    pub client_id: String,
    /// The secret that the class shows it, where it has one.
    pub client_secret: Option<String>,
    /// The authority (PEM) that vouches for it, where the machine does not know it.
    pub authority: Option<String>,
    /// What is asked for besides `openid`.
    pub scopes: Vec<String>,
    /// Who may join without a code; empty: holders of the class's code alone.
    pub allow: Vec<Rule>,
    /// Who is an instructor.
    pub instructors: Vec<Rule>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The secret is not among what is printed.
        formatter.debug_struct("Settings").field("issuer", &self.issuer.to_string()).finish_non_exhaustive()
    }
}

impl Settings {
    /// Whether people who sign in for the first time need the code of the class.
    pub fn needs_code(&self) -> bool {
        self.allow.is_empty()
    }

    /// Why somebody may not join; nothing, if they may.
    pub(crate) fn why_not_join(&self, claims: &Claims) -> Option<String> {
        if self.allow.is_empty() { None } else { why_none(&self.allow, "--oidc-allow", claims) }
    }

    /// Why somebody is no instructor; nothing, if they are.
    pub(crate) fn why_not_teach(&self, claims: &Claims) -> Option<String> {
        why_none(&self.instructors, "--oidc-instructors", claims)
    }

    /// Whether a rule needs to know more of somebody.
    pub(crate) fn needs_more(&self, claims: &Claims) -> bool {
        self.allow.iter().chain(&self.instructors).any(|rule| rule.lacks(claims).is_some())
    }

    /// What is asked for, in one line.
    pub(crate) fn scope(&self) -> String {
        let mut all = vec!["openid"];
        all.extend(self.scopes.iter().map(String::as_str).filter(|scope| *scope != "openid"));
        all.join(" ")
    }
}
