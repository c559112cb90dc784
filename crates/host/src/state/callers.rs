//! Who calls: learners and instructors by their browsers, owners of seats by the tokens of their clusters.

use http::HeaderMap;
use jiff::Timestamp;

use super::Host;
use crate::cookie;
use crate::seat::SeatId;
use crate::secret::ring_equal;
use klab_server::Digest;

/// Somebody who has come, and one of their seats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learner {
    /// Who.
    pub person: u32,
    /// As they call themselves.
    pub name: String,
    /// The seat.
    pub seat: SeatId,
    /// The lab in it.
    pub lab: String,
    /// How often they had been barred when they asked: what was ended since then does nothing more. None where the instructor asks.
    pub ended: Option<u32>,
}

impl Host {
    /// The learner whose browser it is, in a lab.
    pub fn learner(&self, headers: &HeaderMap, lab: &str) -> Option<Learner> {
        let (person, ended) = self.admitted(headers)?;
        let register = self.register();
        let seat = register.seat_of(person, lab)?;
        let name = register.person(person)?.name.clone();
        Some(Learner { person, name, seat, lab: lab.to_owned(), ended: Some(ended) })
    }

    /// Whether what let a learner in is still good: their seats have not been ended since.
    pub fn admits(&self, learner: &Learner) -> bool {
        let register = self.register();
        learner
            .ended
            .is_none_or(|ended| !register.is_barred(learner.person) && register.times_barred(learner.person) == ended)
    }

    /// The person whose browser it is.
    pub fn person(&self, headers: &HeaderMap) -> Option<u32> {
        self.admitted(headers).map(|(person, _)| person)
    }

    /// The person whose browser it is, and how often they were barred.
    fn admitted(&self, headers: &HeaderMap) -> Option<(u32, u32)> {
        let value = cookie::value(headers, cookie::LEARNER)?;
        let (person, proof) = value.split_once('.')?;
        let person = person.parse().ok()?;
        let register = self.register();
        let is_good = self.secret.is_proof("learner", &register.browser_word(person), proof);
        (is_good && !register.is_barred(person)).then(|| (person, register.times_barred(person)))
    }

    /// What the browser of a person keeps.
    pub fn learner_proof(&self, person: u32) -> String {
        format!("{person}.{}", self.secret.proof("learner", &self.register().browser_word(person)))
    }

    /// Whether the browser is the instructor's.
    pub fn is_instructor(&self, headers: &HeaderMap) -> bool {
        cookie::value(headers, cookie::INSTRUCTOR)
            .is_some_and(|proof| self.class.is_proof("instructor", "browser", proof))
            || self.has_signed_in_to_teach(headers)
    }

    /// What the instructor's browser keeps: the same at all shards of the class.
    pub fn instructor_proof(&self) -> String {
        self.class.proof("instructor", "browser")
    }

    /// What the instructor's link says.
    pub fn instructor_word(&self) -> String {
        self.class.word("instructor", "link", 26)
    }

    /// Whether somebody says the instructor's word: that of the link, or the one that only this host and its machine know.
    pub fn is_instructor_word(&self, word: &str) -> bool {
        let own = self.secret.word("instructor", "link", 26);
        let [link, own] = [self.instructor_word(), own].map(|known| ring_equal(word.as_bytes(), known.as_bytes()));
        link | own
    }

    /// The owner of a seat, by the token of its cluster.
    pub fn owner(&self, seat: SeatId, headers: &HeaderMap) -> Option<Learner> {
        let token = bearer(headers)?;
        // Read before the token is looked at: one that is changed meanwhile was good for what had ended by then.
        let learner = {
            let register = self.register();
            let known = register.seat(seat)?;
            let name = register.person(known.person)?.name.clone();
            let ended = Some(register.times_barred(known.person));
            Learner { person: known.person, name, seat, lab: known.lab.clone(), ended }
        };
        let is_own = self.server()?.is_token(&seat.to_string(), &Digest::of(token.as_bytes()));
        (is_own && self.admits(&learner)).then_some(learner)
    }

    /// Whether the browser is of an instructor who has signed in, not too long ago.
    fn has_signed_in_to_teach(&self, headers: &HeaderMap) -> bool {
        let Some((until, proof)) = cookie::value(headers, cookie::TEACHING).and_then(|value| value.split_once('.'))
        else {
            return false;
        };
        let is_good = self.class.is_proof("instructor until", until, proof);
        is_good && until.parse().is_ok_and(|until: i64| until > Timestamp::now().as_second())
    }
}

/// The bearer token of a request.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(http::header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
