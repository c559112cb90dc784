//! Pure: who is in a class: people, seats, codes, times. What changes it is an entry of the journal, and nothing else.

mod identity;
mod times;

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

pub use self::identity::Identified;
use self::times::refuse_untimely;
pub use self::times::{Phase, Times};
use super::code::{Code, EACH, For, Spent};
use super::refusal::Refusal;
use super::seat::SeatId;
use super::secret::ring_equal;

/// Longest name of a person, in letters.
const NAME: usize = 60;

/// What happened to a class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case", rename_all_fields = "snake_case")]
pub enum Entry {
    /// There is a code more.
    Code(Code),
    /// A code admits no learner any more.
    Revoked {
        /// Its number.
        code: u32,
    },
    /// Somebody has come for the first time.
    Person(Person),
    /// Somebody has a seat.
    Seat(Seat),
    /// Somebody may or may not look into the seat and write there.
    Agreed {
        /// The seat.
        seat: SeatId,
        /// Whether the instructor may change something in it.
        writes: bool,
    },
    /// A person may choose another PIN: the next one who comes with the name sets it.
    PinForgotten {
        /// Whose.
        person: u32,
    },
    /// A person has a PIN.
    Pin {
        /// Whose.
        person: u32,
        /// Its slow hash.
        pin: String,
    },
    /// A person is barred, whatever they hold, or may come in again.
    Barred {
        /// Who.
        person: u32,
        /// Whether they do not come in.
        barred: bool,
        /// When.
        at: Timestamp,
    },
    /// The class has these times from now on.
    Times(Times),
    /// A word of the instructor to one, or to all.
    Hint {
        /// The seat; none: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seat: Option<SeatId>,
        /// The word; nothing takes the last one back.
        text: String,
        /// When.
        at: Timestamp,
    },
    /// All seats were removed, and the class is over.
    Over {
        /// When.
        at: Timestamp,
    },
}

/// Somebody who has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// From 1.
    pub number: u32,
    /// As they call themselves.
    pub name: String,
    /// The slow hash of their PIN; none for somebody with a seat code, or who signs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<String>,
    /// The keyed hash of who they are at an identity provider, where they have signed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The code they came with; 0: none was needed.
    pub code: u32,
    /// When.
    pub at: Timestamp,
}

/// A seat, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// Which.
    pub seat: SeatId,
    /// Whose.
    pub person: u32,
    /// The lab that is in it.
    pub lab: String,
    /// Since when.
    pub at: Timestamp,
}

/// What somebody brings who wants to come in. Hashes were made before.
#[derive(Debug)]
pub struct Joining<'a> {
    /// As they call themselves; nothing, where a seat code says who it is.
    pub name: &'a str,
    /// The hash of the code.
    pub code: &'a str,
    /// The slow hash of the PIN they said, if they said one.
    pub pin: Option<String>,
    /// The lab; none: the first.
    pub lab: Option<&'a str>,
    /// Whether another shard of the class has the room that this one has not.
    pub beyond: bool,
}

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Joined {
    /// Whose seat.
    pub person: u32,
    /// Which.
    pub seat: SeatId,
    /// The lab in it.
    pub lab: String,
    /// What is written down before any answer goes out.
    pub entries: Vec<Entry>,
}

/// Who is in a class.
#[derive(Debug, Default)]
pub struct Register {
    /// The shard of this host.
    pub shard: u32,
    /// The labs, the first one first.
    pub labs: Vec<String>,
    /// Most seats.
    pub most: u32,
    /// How many minutes each learner has from when they come, where the class is a practice.
    pub minutes: Option<u16>,
    times: Times,
    codes: BTreeMap<u32, Code>,
    by_hash: HashMap<String, u32>,
    revoked: std::collections::BTreeSet<u32>,
    used: HashMap<u32, u32>,
    people: BTreeMap<u32, Person>,
    by_name: HashMap<String, u32>,
    by_code: HashMap<u32, u32>,
    by_identity: HashMap<String, u32>,
    seats: BTreeMap<SeatId, Seat>,
    by_person: HashMap<(u32, String), SeatId>,
    agreed: HashMap<SeatId, bool>,
    /// Whether a person is barred, and how often they were.
    barred: HashMap<u32, (bool, u32)>,
    hints: HashMap<Option<SeatId>, (String, Timestamp)>,
    over: bool,
}

/// A name as it is kept: without what cannot be seen, and not too long.
pub fn tidy(name: &str) -> String {
    let is_seen = |letter: &char| {
        !letter.is_control()
            && !matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let words = name.split(char::is_whitespace).map(|word| word.chars().filter(is_seen).collect::<String>());
    let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(NAME).collect()
}

/// What two spellings of a name have in common.
pub fn key(name: &str) -> String {
    tidy(name).to_lowercase()
}

impl Register {
    /// Of a class without learners so far.
    pub fn new(shard: u32, labs: &[String], most: u32) -> Self {
        Self { shard, labs: labs.to_vec(), most, ..Self::default() }
    }

    /// Takes in what happened.
    pub fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Code(code) => {
                self.by_hash.insert(code.hash.clone(), code.number);
                self.codes.insert(code.number, code);
            }
            Entry::Revoked { code } => drop(self.revoked.insert(code)),
            Entry::Person(person) => {
                let used = self.used.entry(person.code).or_default();
                *used = used.saturating_add(1);
                if let Some(identity) = &person.identity {
                    // Others may have the same name, which says nothing of who they are.
                    self.by_identity.insert(identity.clone(), person.number);
                } else if self.codes.get(&person.code).is_some_and(|code| code.of == For::Seat) {
                    self.by_code.insert(person.code, person.number);
                } else {
                    self.by_name.insert(key(&person.name), person.number);
                }
                self.people.insert(person.number, person);
            }
            Entry::Seat(seat) => {
                self.by_person.insert((seat.person, seat.lab.clone()), seat.seat);
                self.seats.insert(seat.seat, seat);
            }
            Entry::Agreed { seat, writes } => drop(self.agreed.insert(seat, writes)),
            Entry::PinForgotten { person } => {
                if let Some(person) = self.people.get_mut(&person) {
                    person.pin = None;
                }
            }
            Entry::Pin { person, pin } => {
                if let Some(person) = self.people.get_mut(&person) {
                    person.pin = Some(pin);
                }
            }
            Entry::Barred { person, barred, .. } => {
                let (now, times) = self.barred.entry(person).or_default();
                *times = times.saturating_add(u32::from(barred && !*now));
                *now = barred;
            }
            Entry::Times(times) => self.times = times,
            // One that was taken back is remembered: another shard may still say the one before it.
            Entry::Hint { seat, text, at } => drop(self.hints.insert(seat, (text, at))),
            Entry::Over { .. } => {
                self.over = true;
                self.seats.clear();
                self.by_person.clear();
            }
        }
    }

    /// The times of the class.
    pub fn times(&self) -> Times {
        self.times
    }

    /// Where the class is in its time.
    pub fn phase(&self, now: Timestamp) -> Phase {
        if self.over { Phase::Over } else { self.times.phase(now) }
    }

    /// When the time of a person's practice is over; none where the class is a lesson.
    pub fn ends(&self, person: u32) -> Option<Timestamp> {
        self.people.get(&person)?.at.checked_add(SignedDuration::from_mins(self.minutes?.into())).ok()
    }

    /// Refuses what a person would change now.
    ///
    /// # Errors
    /// When the class is not open, or the time of their practice is over.
    pub fn refuse_late(&self, person: u32, now: Timestamp) -> Result<(), Refusal> {
        match self.phase(now) {
            Phase::Open if self.ends(person).is_some_and(|ends| ends <= now) => Err(Refusal::time_is_over()),
            Phase::Open => Ok(()),
            Phase::Ahead | Phase::Closed | Phase::Over => Err(Refusal::closed()),
        }
    }

    /// Whether the seats are removed for good.
    pub fn is_removed(&self) -> bool {
        self.over
    }

    /// The codes, each with how many have come with it, and whether it was taken back.
    pub fn codes(&self) -> impl Iterator<Item = (&Code, u32, bool)> {
        self.codes.values().map(|code| (code, self.used(code), self.revoked.contains(&code.number)))
    }

    /// Whether there is a code of this hash.
    pub fn knows(&self, code: &str) -> bool {
        self.by_hash.contains_key(code)
    }

    /// The code of a hash, and whether it was taken back.
    pub fn code(&self, hash: &str) -> Option<(&Code, bool)> {
        let code = self.by_hash.get(hash).and_then(|number| self.codes.get(number))?;
        Some((code, self.revoked.contains(&code.number)))
    }

    /// How many people have come here by a code, and how many it lets in where that has a bound.
    pub fn uses(&self, hash: &str) -> (u32, Option<u32>) {
        let code = self.code(hash).map(|(code, _)| code);
        let bound = code.filter(|code| code.of == For::Class).and_then(|code| code.uses);
        (code.map_or(0, |code| self.used(code)), bound)
    }

    /// How many people have come here by a code.
    fn used(&self, code: &Code) -> u32 {
        self.used.get(&code.number).copied().unwrap_or_default()
    }

    /// Whether there is a code of this number.
    pub fn has_code(&self, number: u32) -> bool {
        self.codes.contains_key(&number)
    }

    /// The number of the next code that this shard makes.
    pub fn next_code(&self) -> u32 {
        let before = self.shard.saturating_mul(EACH);
        let own = self.codes.range(before..before.saturating_add(EACH));
        own.map(|(number, _)| *number).next_back().unwrap_or(before).saturating_add(1)
    }

    /// All seats, in their order.
    pub fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.seats.values()
    }

    /// A seat.
    pub fn seat(&self, seat: SeatId) -> Option<&Seat> {
        self.seats.get(&seat)
    }

    /// The lab in which a person has a seat; the first such seat's.
    pub fn first_lab_of(&self, person: u32) -> Option<String> {
        self.seats.values().find(|seat| seat.person == person).map(|seat| seat.lab.clone())
    }

    /// The seat of a person in a lab.
    pub fn seat_of(&self, person: u32, lab: &str) -> Option<SeatId> {
        self.by_person.get(&(person, lab.to_owned())).copied()
    }

    /// A person.
    pub fn person(&self, number: u32) -> Option<&Person> {
        self.people.get(&number)
    }

    /// How many people have come.
    pub fn people(&self) -> usize {
        self.people.len()
    }

    /// Whether a person does not come in any more.
    pub fn is_barred(&self, person: u32) -> bool {
        self.barred.get(&person).is_some_and(|(barred, _)| *barred)
    }

    /// How often a person was barred.
    pub fn times_barred(&self, person: u32) -> u32 {
        self.barred.get(&person).map_or(0, |(_, times)| *times)
    }

    /// What a browser of a person keeps a proof of: another word after they were barred.
    pub fn browser_word(&self, person: u32) -> String {
        match self.times_barred(person) {
            0 => person.to_string(),
            times => format!("{person} {times}"),
        }
    }

    /// The seats of a person.
    pub fn seats_of(&self, person: u32) -> impl Iterator<Item = SeatId> {
        self.seats.values().filter(move |seat| seat.person == person).map(|seat| seat.seat)
    }

    /// Whether the instructor may change something in a seat.
    pub fn agreed(&self, seat: SeatId) -> bool {
        self.agreed.get(&seat).copied().unwrap_or_default()
    }

    /// The instructor's last words to somebody: to them alone, and to all.
    pub fn hints(&self, seat: SeatId) -> Vec<&str> {
        let said = [None, Some(seat)].map(|to| self.hints.get(&to).map_or("", |(text, _)| text));
        said.into_iter().filter(|text| !text.is_empty()).collect()
    }

    /// The instructor's last word to all, also where it took back the one before it.
    pub fn hint_to_all(&self) -> Option<&(String, Timestamp)> {
        self.hints.get(&None)
    }

    /// The person whom a name and a code of the class mean, where somebody of that name has come; then a PIN is needed.
    pub fn needs_pin(&self, name: &str) -> Option<&Person> {
        self.by_name.get(&key(name)).and_then(|number| self.people.get(number))
    }

    /// Finds somebody's seat, or gives them one. `new_pin` is the slow hash for somebody new who said no PIN.
    ///
    /// # Errors
    /// Why they cannot come in. [`Refusal::is_guess`] says whether it may have been a guess.
    pub fn join(&self, joining: &Joining<'_>, now: Timestamp, new_pin: &str) -> Result<Joined, Refusal> {
        let (code, is_revoked) = self.code(joining.code).ok_or_else(Refusal::wrong_code)?;
        let lab = self.lab(joining.lab)?;
        let known = match code.of {
            For::Seat => self.by_code.get(&code.number).copied(),
            For::Class => self.with_pin(joining)?,
        };
        let mut entries = Vec::new();
        let person = match known {
            // Who has come may always come back, but for codes that were taken back: those who have them are not known.
            Some(_) if code.of == For::Seat && is_revoked => return Err(Refusal::spent(Spent::Revoked)),
            Some(person) => {
                if let (Some(pin), None) = (&joining.pin, self.people.get(&person).and_then(|one| one.pin.as_ref()))
                    && code.of == For::Class
                {
                    entries.push(Entry::Pin { person, pin: pin.clone() });
                }
                person
            }
            None => {
                if let Some(spent) = code.spent(now, self.used(code), is_revoked) {
                    return Err(Refusal::spent(spent));
                }
                refuse_untimely(self.phase(now), &self.times)?;
                let name = tidy(joining.name);
                if name.is_empty() {
                    return Err(Refusal::bad_request("say your name: `name` is empty"));
                }
                let number = self.next_person();
                let pin = (code.of == For::Class).then(|| joining.pin.clone().unwrap_or_else(|| new_pin.to_owned()));
                entries.push(Entry::Person(Person { number, name, pin, identity: None, code: code.number, at: now }));
                number
            }
        };
        if known.is_none() && code.of == For::Seat && code.is_good_at() != self.shard {
            return Err(Refusal::conflict("this code is good at another shard of the class: join at its own address"));
        }
        let seat = self.seat_for(person, &lab, (now, joining.beyond), &mut entries)?;
        Ok(Joined { person, seat, lab, entries })
    }

    /// The seat that a person has in a lab of the class, or a new one, with what is written down before any answer goes out.
    ///
    /// # Errors
    /// When there is no such lab or no room, or the person may change nothing now.
    pub fn seat_in(&self, person: u32, lab: &str, now: Timestamp) -> Result<(SeatId, Vec<Entry>), Refusal> {
        let lab = self.lab(Some(lab))?;
        if self.seat_of(person, &lab).is_none() {
            self.refuse_late(person, now)?;
        }
        let mut entries = Vec::new();
        let seat = self.seat_for(person, &lab, (now, false), &mut entries)?;
        Ok((seat, entries))
    }

    /// A lab of the class; the first, where none is named.
    fn lab(&self, named: Option<&str>) -> Result<String, Refusal> {
        let lab = self.labs.iter().find(|known| named.is_none_or(|named| named == *known));
        lab.cloned().ok_or_else(|| Refusal::bad_request("there is no such lab in this class"))
    }

    fn next_person(&self) -> u32 {
        self.people.keys().next_back().map_or(1, |last| last.saturating_add(1))
    }

    /// The seat that somebody has in a lab, or a new one, which `entries` then has as well.
    /// `beyond`: though this shard may have no room left.
    fn seat_for(
        &self,
        person: u32,
        lab: &str,
        (now, beyond): (Timestamp, bool),
        entries: &mut Vec<Entry>,
    ) -> Result<SeatId, Refusal> {
        if self.is_barred(person) {
            return Err(Refusal::barred());
        }
        if let Some(seat) = self.seat_of(person, lab) {
            return Ok(seat);
        }
        refuse_untimely(self.phase(now), &self.times)?;
        if self.seats.len() >= self.most as usize && !beyond {
            return Err(Refusal::full(self.most));
        }
        let number = self.seats.keys().next_back().map_or(1, |last| last.number.saturating_add(1));
        let seat = SeatId { shard: self.shard, number };
        entries.push(Entry::Seat(Seat { seat, person, lab: lab.to_owned(), at: now }));
        Ok(seat)
    }

    /// The person of a name, whose PIN was given; none where no learner of that name has come.
    fn with_pin(&self, joining: &Joining<'_>) -> Result<Option<u32>, Refusal> {
        let Some(person) = self.needs_pin(joining.name) else { return Ok(None) };
        match (&person.pin, &joining.pin) {
            (None, Some(_)) => Ok(Some(person.number)),
            (_, None) => Err(Refusal::name_taken(&person.name)),
            (Some(wanted), Some(said)) if ring_equal(wanted.as_bytes(), said.as_bytes()) => Ok(Some(person.number)),
            (Some(_), Some(_)) => Err(Refusal::wrong_pin(&person.name)),
        }
    }
}

#[cfg(test)]
mod tests;
