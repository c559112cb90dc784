//! Pure: who comes in by having signed in, at a provider or, in another window, at the class's page.

use jiff::Timestamp;

use super::times::refuse_untimely;
use super::{Entry, Joined, Person, Register, tidy};
use crate::refusal::Refusal;

/// What is known of somebody who has signed in.
#[derive(Debug)]
pub struct Identified<'a> {
    /// The keyed hash of who they are, at which provider.
    pub identity: &'a str,
    /// As the provider calls them.
    pub name: &'a str,
    /// The lab; none: the first.
    pub lab: Option<&'a str>,
    /// The number of the class's code that they said.
    pub code: Option<u32>,
    /// Whether somebody new needs one.
    pub needs_code: bool,
}

impl Register {
    /// Whether somebody of this keyed hash has come.
    pub fn knows_identity(&self, identity: &str) -> bool {
        self.by_identity.contains_key(identity)
    }

    /// The number of the code of the class that has this hash, where it lets somebody new in.
    ///
    /// # Errors
    /// Why it does not. [`Refusal::is_guess`] says whether it may have been a guess.
    pub fn good_code(&self, hash: &str, now: Timestamp) -> Result<u32, Refusal> {
        let code = self.code(hash).filter(|(code, _)| code.of == super::For::Class);
        let (code, is_revoked) = code.ok_or_else(Refusal::wrong_code)?;
        match code.spent(now, self.used(code), is_revoked) {
            Some(spent) => Err(Refusal::spent(spent)),
            None => Ok(code.number),
        }
    }

    /// Finds the seat of somebody who has signed in, or gives them one.
    ///
    /// # Errors
    /// Why they cannot come in.
    pub fn join_identified(&self, one: &Identified<'_>, now: Timestamp) -> Result<Joined, Refusal> {
        if let Some(person) = self.by_identity.get(one.identity) {
            return self.join_known(*person, one.lab, now);
        }
        let lab = self.lab(one.lab)?;
        let code = match one.code {
            None if one.needs_code => return Err(Refusal::needs_code()),
            None => 0,
            // As many may have come with it meanwhile as it lets in.
            Some(number) => {
                let hash = self.codes.get(&number).map(|code| code.hash.as_str());
                self.good_code(hash.unwrap_or_default(), now)?
            }
        };
        refuse_untimely(self.phase(now), &self.times)?;
        let named = tidy(one.name);
        let name = if named.is_empty() { "Learner without a name".to_owned() } else { named };
        let identity = Some(one.identity.to_owned());
        let number = self.next_person();
        let mut entries = vec![Entry::Person(Person { number, name, pin: None, identity, code, at: now })];
        let seat = self.seat_for(number, &lab, (now, false), &mut entries)?;
        Ok(Joined { person: number, seat, lab, entries })
    }

    /// Finds the seat of somebody who has come before, or gives them one in another lab.
    ///
    /// # Errors
    /// Why they cannot come in.
    pub fn join_known(&self, person: u32, lab: Option<&str>, now: Timestamp) -> Result<Joined, Refusal> {
        let lab = match (lab, self.first_lab_of(person)) {
            (None, Some(own)) => own,
            (lab, _) => self.lab(lab)?,
        };
        let mut entries = Vec::new();
        let seat = self.seat_for(person, &lab, (now, false), &mut entries)?;
        Ok(Joined { person, seat, lab, entries })
    }
}
