//! Who comes in by having signed in, here or in a browser: their seat, and what tells that it is theirs.

use std::net::IpAddr;
use std::time::Instant;

use http::HeaderMap;
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use serde_json::json;

use crate::answer::failed;
use crate::code::plain;
use crate::cookie;
use crate::oidc::one_time_codes::LETTERS;
use crate::refusal::Refusal;
use crate::register::{Identified, Joined, Register};
use crate::state::{Attempt, Host, Ticket, make_seat};
use klab_server::Token;

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

/// The address of the class: that of its shards without their numbers.
pub(super) fn class_url(host: &Host) -> String {
    let url = host.url();
    let Some(shards) = host.shards() else { return url };
    let before = url.strip_suffix(&shards.own.to_string()).and_then(|before| before.strip_suffix('/'));
    before.map_or(url.as_str(), |before| before.strip_suffix("/shards").unwrap_or(before)).to_owned()
}

/// Where the provider leads back to: what is to be registered there.
pub fn sign_in_redirect(host: &Host) -> String {
    format!("{}/oidc/callback", class_url(host))
}

/// What is kept of somebody who has signed in.
pub(super) fn identity(host: &Host, subject: &str) -> String {
    host.secret.proof("identity", subject)
}

/// Lets somebody in who has signed in: finds their seat, or makes one.
///
/// # Errors
/// Why they cannot come in.
pub(super) async fn join_signed_in(host: &Host, identified: &Identified<'_>, from: IpAddr) -> Result<Ticket, Refusal> {
    let began = Instant::now();
    let joined = entered(host, |register| register.join_identified(identified, Timestamp::now())).await;
    host.metrics.joined(&joined, began.elapsed());
    match &joined {
        Ok(ticket) => {
            let fields = json!({ "seat": ticket.seat, "lab": ticket.lab, "from": from, "by": "sign-in" });
            host.audit.line("join", fields);
        }
        Err(refusal) => host.audit.refused("join", refusal, from),
    }
    joined
}

async fn entered(host: &Host, decide: impl FnOnce(&Register) -> Result<Joined, Refusal>) -> Result<Ticket, Refusal> {
    let Some(server) = host.server().cloned() else {
        return Err(Refusal::new(503, "ServiceUnavailable", "the class is being made: try again in a moment"));
    };
    let (joined, written) = {
        let mut register = host.register();
        let joined = decide(&register)?;
        let written = (!joined.entries.is_empty()).then(|| host.take(&mut register, joined.entries.clone()));
        (joined, written)
    };
    if let Some(written) = written {
        host.settled(written).await.map_err(|error| failed(&error))?;
    }
    let (seat, lab) = (joined.seat, joined.lab.clone());
    let seated = tokio::task::spawn_blocking(move || make_seat(&server, seat, &lab)).await;
    seated.map_err(|error| Refusal::internal(error.to_string()))??;
    Ok(Ticket { person: joined.person, seat: joined.seat, lab: joined.lab, pin: None })
}

/// Lets somebody in by a code that they took from their page, where what they typed is one: it is good no more.
pub(crate) async fn join_by_pass(host: &Host, attempt: &Attempt) -> Option<Result<Ticket, Refusal>> {
    let hash = host.secret.hash(&plain(&attempt.code));
    let person = host.sign_in()?.passes().take(&hash, Instant::now())?;
    let lab = attempt.lab.as_deref().filter(|lab| !lab.is_empty());
    Some(entered(host, |register| register.join_known(person, lab, Timestamp::now())).await)
}

/// Whether what somebody typed is such a code.
pub(crate) fn is_pass(host: &Host, typed: &str) -> bool {
    let hash = host.secret.hash(&plain(typed));
    host.sign_in().is_some_and(|sign_in| sign_in.passes().knows(&hash, Instant::now()))
}

/// A code for somebody's terminal; none for those who have a PIN, or a code of their own.
///
/// # Errors
/// When the system gives no random numbers.
pub(crate) fn new_pass(host: &Host, person: u32) -> Result<Option<String>, Refusal> {
    let has_signed_in = host.register().person(person).is_some_and(|person| person.identity.is_some());
    let Some(sign_in) = host.sign_in().filter(|_| has_signed_in) else { return Ok(None) };
    let word = host.secret.word("pass", &new_word()?, LETTERS);
    let groups: Vec<String> =
        word.as_bytes().chunks(4).map(|group| String::from_utf8_lossy(group).into_owned()).collect();
    let text = groups.join("-");
    sign_in.passes().give(person, host.secret.hash(&plain(&text)), Instant::now());
    Ok(Some(text))
}

/// The word of a browser that signs in, where this class gave it: others may have planted one.
pub(super) fn browser_of<'h>(host: &Host, headers: &'h HeaderMap) -> Option<&'h str> {
    let (word, proof) = cookie::value(headers, cookie::sign_in(host.is_secure()))?.split_once('.')?;
    host.class.is_proof("sign-in browser", word, proof).then_some(word)
}

/// The cookie with that word, for a number of seconds. All shards and paths of a host share it: so browsers know whose it
/// is.
pub(super) fn sign_in_cookie(host: &Host, seconds: i64, word: &str) -> String {
    let value =
        if word.is_empty() { String::new() } else { format!("{word}.{}", host.class.proof("sign-in browser", word)) };
    cookie::set_for(seconds, cookie::sign_in(host.is_secure()), &value, "", host.is_secure())
}

/// What the browser of an instructor keeps who has signed in.
pub(super) fn teaching(host: &Host, now: i64) -> String {
    let until = now.saturating_add(TEACHING).to_string();
    format!("{until}.{}", host.class.proof("instructor until", &until))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Settings;

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
            browser_of(&host, &headers).map(str::to_owned)
        };
        let word = new_word().unwrap();
        let cookie = sign_in_cookie(&host, 600, &word);
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
