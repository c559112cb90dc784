//! Who comes in by having signed in, here or in a browser: their seat, and what tells that it is theirs.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use http::HeaderMap;
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use serde_json::json;

use super::one_time_codes::LETTERS;
use super::sign_in::SignIn;
use crate::host::answer::failed;
use crate::host::code::plain;
use crate::host::cookie;
use crate::host::refusal::Refusal;
use crate::host::register::{Identified, Joined, Register};
use crate::host::state::{Attempt, Host, Ticket, make_seat};
use klab_cluster::server::Token;

/// For how many seconds an instructor who has signed in is one.
pub(super) const TEACHING: i64 = 12 * 60 * 60;

/// What shards call somebody who has signed in: nothing that could be read in it.
pub(super) fn subject(issuer: &str, sub: &str) -> String {
    let digest = digest(&SHA256, format!("{issuer}\0{sub}").as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A word that was there never before.
pub(super) fn new_word() -> Result<String, Refusal> {
    let token =
        Token::random().map_err(|error| Refusal::internal(format!("the system gives no random numbers: {error}")))?;
    Ok(token.text().to_owned())
}

impl Host {
    /// Signing in, where people may.
    pub fn sign_in(&self) -> Option<&Arc<SignIn>> {
        self.settings.sign_in.as_ref()
    }

    /// The address of the class: that of its shards without their numbers.
    pub(super) fn class_url(&self) -> String {
        let url = self.url();
        let Some(shards) = self.shards() else { return url };
        let before = url.strip_suffix(&shards.own.to_string()).and_then(|before| before.strip_suffix('/'));
        before.map_or(url.as_str(), |before| before.strip_suffix("/shards").unwrap_or(before)).to_owned()
    }

    /// Where the provider leads back to: what is to be registered there.
    pub fn sign_in_redirect(&self) -> String {
        format!("{}/oidc/callback", self.class_url())
    }

    /// What is kept of somebody who has signed in.
    pub(super) fn identity(&self, subject: &str) -> String {
        self.secret.proof("identity", subject)
    }

    /// Lets somebody in who has signed in: finds their seat, or makes one.
    ///
    /// # Errors
    /// Why they cannot come in.
    pub(super) async fn join_signed_in(&self, identified: &Identified<'_>, from: IpAddr) -> Result<Ticket, Refusal> {
        let began = Instant::now();
        let joined = self.entered(|register| register.join_identified(identified, Timestamp::now())).await;
        self.metrics.joined(&joined, began.elapsed());
        match &joined {
            Ok(ticket) => {
                let fields = json!({ "seat": ticket.seat, "lab": ticket.lab, "from": from, "by": "sign-in" });
                self.audit.line("join", fields);
            }
            Err(refusal) => self.audit.refused("join", refusal, from),
        }
        joined
    }

    async fn entered(&self, decide: impl FnOnce(&Register) -> Result<Joined, Refusal>) -> Result<Ticket, Refusal> {
        let Some(server) = self.server().cloned() else {
            return Err(Refusal::new(503, "ServiceUnavailable", "the class is being made: try again in a moment"));
        };
        let (joined, written) = {
            let mut register = self.register();
            let joined = decide(&register)?;
            let written = (!joined.entries.is_empty()).then(|| self.take(&mut register, joined.entries.clone()));
            (joined, written)
        };
        if let Some(written) = written {
            self.settled(written).await.map_err(|error| failed(&error))?;
        }
        let (seat, lab) = (joined.seat, joined.lab.clone());
        let seated = tokio::task::spawn_blocking(move || make_seat(&server, seat, &lab)).await;
        seated.map_err(|error| Refusal::internal(error.to_string()))??;
        Ok(Ticket { person: joined.person, seat: joined.seat, lab: joined.lab, pin: None })
    }

    /// Lets somebody in by a code that they took from their page, where what they typed is one: it is good no more.
    pub(in crate::host) async fn join_by_pass(&self, attempt: &Attempt) -> Option<Result<Ticket, Refusal>> {
        let hash = self.secret.hash(&plain(&attempt.code));
        let person = self.sign_in()?.passes().take(&hash, Instant::now())?;
        let lab = attempt.lab.as_deref().filter(|lab| !lab.is_empty());
        Some(self.entered(|register| register.join_known(person, lab, Timestamp::now())).await)
    }

    /// Whether what somebody typed is such a code.
    pub(in crate::host) fn is_pass(&self, typed: &str) -> bool {
        let hash = self.secret.hash(&plain(typed));
        self.sign_in().is_some_and(|sign_in| sign_in.passes().knows(&hash, Instant::now()))
    }

    /// A code for somebody's terminal; none for those who have a PIN, or a code of their own.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub(in crate::host) fn new_pass(&self, person: u32) -> Result<Option<String>, Refusal> {
        let has_signed_in = self.register().person(person).is_some_and(|person| person.identity.is_some());
        let Some(sign_in) = self.sign_in().filter(|_| has_signed_in) else { return Ok(None) };
        let word = self.secret.word("pass", &new_word()?, LETTERS);
        let groups: Vec<String> =
            word.as_bytes().chunks(4).map(|group| String::from_utf8_lossy(group).into_owned()).collect();
        let text = groups.join("-");
        sign_in.passes().give(person, self.secret.hash(&plain(&text)), Instant::now());
        Ok(Some(text))
    }

    /// The word of a browser that signs in, where this class gave it: others may have planted one.
    pub(super) fn browser_of<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let (word, proof) = cookie::value(headers, cookie::sign_in(self.is_secure()))?.split_once('.')?;
        self.class.is_proof("sign-in browser", word, proof).then_some(word)
    }

    /// The cookie with that word, for a number of seconds. All shards and paths of a host share it: so browsers know whose it
    /// is.
    pub(super) fn sign_in_cookie(&self, seconds: i64, word: &str) -> String {
        let value = if word.is_empty() {
            String::new()
        } else {
            format!("{word}.{}", self.class.proof("sign-in browser", word))
        };
        cookie::set_for(seconds, cookie::sign_in(self.is_secure()), &value, "", self.is_secure())
    }

    /// What the browser of an instructor keeps who has signed in.
    pub(super) fn teaching(&self, now: i64) -> String {
        let until = now.saturating_add(TEACHING).to_string();
        format!("{until}.{}", self.class.proof("instructor until", &until))
    }

    /// Whether the browser is of an instructor who has signed in, not too long ago.
    pub(in crate::host) fn has_signed_in_to_teach(&self, headers: &HeaderMap) -> bool {
        let Some((until, proof)) = cookie::value(headers, cookie::TEACHING).and_then(|value| value.split_once('.'))
        else {
            return false;
        };
        let is_good = self.class.is_proof("instructor until", until, proof);
        is_good && until.parse().is_ok_and(|until: i64| until > Timestamp::now().as_second())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::state::Settings;
    use super::*;

    #[test]
    fn one_person_of_two_providers_is_two() {
        assert_eq!(subject("https://a", "1").len(), 64);
        assert_ne!(subject("https://a", "1"), subject("https://b", "1"));
        assert_ne!(subject("https://a", "1"), subject("https://a", "2"));
    }

    #[test]
    fn a_browsers_word_is_one_that_the_class_gave_it() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::open(folder.path(), Settings::default(), &["scheduling".to_owned()]).unwrap();
        let read = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("cookie", format!("klab-sign-in={value}").parse().unwrap());
            host.browser_of(&headers).map(str::to_owned)
        };
        let word = new_word().unwrap();
        let cookie = host.sign_in_cookie(600, &word);
        let given = cookie.split(['=', ';']).nth(1).unwrap();
        assert_eq!(read(given), Some(word.clone()));
        let other = host.class.proof("learner", &word);
        for planted in [
            word.clone(),
            "a".repeat(64),
            format!("{word}."),
            format!("{word}.{other}"),
            format!("b{given}"),
            String::new(),
        ] {
            assert_eq!(read(&planted), None, "{planted}");
        }
    }
}
