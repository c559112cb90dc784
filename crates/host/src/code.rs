//! Pure: codes that let people in: how they are written and read, and for how long and how often they are good.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::secret::Secret;

/// Letters of the code of a class, which is read out; and of one for a single seat, which is handed out.
const CLASS: usize = 8;
const SEAT: usize = 12;

/// Numbers of codes that each shard of a class gives: no two give the same.
pub const EACH: u32 = 4_000_000;

/// What a code is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum For {
    /// Everybody of a class.
    Class,
    /// One person, once.
    Seat,
}

/// A code, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// Its number, from 1: with the host's secret it makes the text.
    pub number: u32,
    /// What it is for.
    pub of: For,
    /// The hash of the text.
    pub hash: String,
    /// Until when it is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The shard at which one for a seat is good; others lead there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<u32>,
    /// How many people it lets in; none: as many as there is room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<u32>,
}

/// Why a code admits no learner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spent {
    /// Its time is over.
    Expired,
    /// As many people have come as it lets in.
    Used,
    /// The instructor took it back.
    Revoked,
}

impl Code {
    /// The code of a number, and its text.
    pub fn new(secret: &Secret, number: u32, of: For, until: Option<Timestamp>, uses: Option<u32>) -> (Self, String) {
        let text = text(secret, number, of);
        (Self { number, of, hash: secret.hash(&plain(&text)), home: None, until, uses }, text)
    }

    /// The text of the code, which the host can always say again.
    pub fn text(&self, secret: &Secret) -> String {
        text(secret, self.number, self.of)
    }

    /// The shard that admits its holder, where it is for a seat.
    pub fn is_good_at(&self) -> u32 {
        self.home.unwrap_or(self.number / EACH)
    }

    /// What it is called among the codes of its kind: its number, and before it the shard that made it, if that is not the first.
    pub fn name(&self) -> String {
        match self.number / EACH {
            0 => self.number.to_string(),
            shard => format!("{shard}-{}", self.number % EACH),
        }
    }

    /// Why it admits no new learner, after `used` have come.
    pub fn spent(&self, now: Timestamp, used: u32, revoked: bool) -> Option<Spent> {
        if revoked {
            return Some(Spent::Revoked);
        }
        if self.until.is_some_and(|until| until <= now) {
            return Some(Spent::Expired);
        }
        self.uses.is_some_and(|uses| used >= uses).then_some(Spent::Used)
    }
}

fn text(secret: &Secret, number: u32, of: For) -> String {
    let (purpose, letters) = match of {
        For::Class => ("class code", CLASS),
        For::Seat => ("seat code", SEAT),
    };
    let word = secret.word(purpose, &number.to_string(), letters);
    let groups: Vec<String> =
        word.as_bytes().chunks(4).map(|group| String::from_utf8_lossy(group).into_owned()).collect();
    groups.join("-")
}

/// Whether what somebody typed is as long as a code for a seat.
pub fn may_be_for_a_seat(typed: &str) -> bool {
    plain(typed).len() == SEAT
}

/// A code as it is compared, however somebody typed it: capitals, blanks and hyphens mean nothing, and letters are what they
/// were taken for.
pub fn plain(typed: &str) -> String {
    let letters = typed.chars().filter(char::is_ascii_alphanumeric).take(64);
    let read = letters.map(|letter| match letter.to_ascii_lowercase() {
        'o' => '0',
        'i' | 'l' => '1',
        'u' => 'v',
        letter => letter,
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn a_code_is_read_however_it_is_typed() {
        let folder = tempfile::tempdir().unwrap();
        let secret = Secret::open(folder.path()).unwrap();
        for (of, length) in [(For::Class, 9), (For::Seat, 14)] {
            let (code, text) = Code::new(&secret, 3, of, None, None);
            assert_eq!((text.len(), code.text(&secret)), (length, text.clone()));
            for typed in [text.clone(), text.to_uppercase(), text.replace('-', " "), format!(" {text}\n")] {
                assert_eq!(secret.hash(&plain(&typed)), code.hash, "{typed}");
            }
            assert_eq!(may_be_for_a_seat(&text.to_uppercase()), of == For::Seat);
            assert_ne!(secret.hash(&plain(&text[1..])), code.hash);
            assert_ne!(Code::new(&secret, 4, of, None, None).1, text);
        }
        assert_eq!(plain("Oil-0u 9é"), "0110v9");
    }

    #[test]
    fn a_code_says_which_shard_made_it_and_at_which_it_is_good() {
        let secret = Secret::of_class("of a class");
        for (number, home, name, good_at) in
            [(7, None, "7", 0), (EACH + 7, None, "1-7", 1), (2 * EACH + 7, Some(0), "2-7", 0)]
        {
            let code = Code { home, ..Code::new(&secret, number, For::Seat, None, Some(1)).0 };
            assert_eq!((code.name().as_str(), code.is_good_at()), (name, good_at));
        }
    }

    #[test]
    fn a_code_ends_by_its_time_its_number_of_uses_or_its_instructor() {
        let folder = tempfile::tempdir().unwrap();
        let secret = Secret::open(folder.path()).unwrap();
        let now = Timestamp::UNIX_EPOCH;
        let later = now + SignedDuration::from_secs(60);
        let (code, _) = Code::new(&secret, 1, For::Class, Some(later), Some(2));
        for (at, used, revoked, wanted) in [
            (now, 0, false, None),
            (now, 1, false, None),
            (now, 2, false, Some(Spent::Used)),
            (later, 0, false, Some(Spent::Expired)),
            (now, 0, true, Some(Spent::Revoked)),
        ] {
            assert_eq!(code.spent(at, used, revoked), wanted, "{at} {used} {revoked}");
        }
    }
}
