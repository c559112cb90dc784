//! Pure: what holds for a whole class, at whichever of its shards it was decided: codes, which of them were taken back, times, the
//! word to all. Shards that were away take over what they missed, in any order, and all come to the same.

use std::cmp::Reverse;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::code::Code;
use super::register::{Entry, Register, Times};

/// What was decided, as one shard knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Decisions {
    /// Codes, but for the one that each shard is given.
    codes: Vec<Code>,
    /// Hashes of those that were taken back.
    revoked: Vec<String>,
    times: Times,
    /// The last word to all.
    #[serde(default)]
    hint: Option<(String, Timestamp)>,
}

impl Decisions {
    /// What a shard knows; `given` is the hash of the code that all of them are given.
    pub(super) fn of(register: &Register, given: Option<&str>) -> Self {
        let codes = register.codes().map(|(code, _, revoked)| (code, revoked));
        let all: Vec<(&Code, bool)> = codes.collect();
        Self {
            codes: all.iter().filter(|(code, _)| Some(&*code.hash) != given).map(|(code, _)| (*code).clone()).collect(),
            revoked: all.iter().filter(|(_, revoked)| *revoked).map(|(code, _)| code.hash.clone()).collect(),
            times: register.times(),
            hint: register.hint_to_all().cloned(),
        }
    }

    /// What of it is new to another shard, in the order in which it is taken in there.
    pub(super) fn news_for(&self, register: &Register) -> Vec<Entry> {
        let fresh = |code: &&Code| !register.knows(&code.hash) && !register.has_code(code.number);
        let mut entries: Vec<Entry> = self.codes.iter().filter(fresh).cloned().map(Entry::Code).collect();
        let number = |hash: &String| match register.code(hash) {
            Some((_, true)) => None,
            Some((code, false)) => Some(code.number),
            None => self.codes.iter().find(|code| code.hash == *hash).map(|code| code.number),
        };
        entries.extend(self.revoked.iter().filter_map(number).map(|code| Entry::Revoked { code }));
        if rank(&self.times) > rank(&register.times()) {
            entries.push(Entry::Times(self.times));
        }
        let newest = register.hint_to_all().map(|(_, at)| *at);
        if let Some((text, at)) = self.hint.clone().filter(|(_, at)| Some(*at) > newest) {
            entries.push(Entry::Hint { seat: None, text, at });
        }
        entries
    }
}

/// Of two times the higher holds: what was decided last, and of those that shards began with the one that ends first.
fn rank(times: &Times) -> impl Ord + use<> {
    (times.decided, times.closes.map(Reverse))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::super::code::{EACH, For};
    use super::super::secret::Secret;
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    fn code(number: u32) -> Entry {
        Entry::Code(Code::new(&Secret::of_class("class"), number, For::Seat, None, Some(1)).0)
    }

    fn times(closes: i64, decided: Option<i64>) -> Entry {
        Entry::Times(Times { closes: Some(at(closes)), decided: decided.map(at), ..Times::default() })
    }

    fn word(text: &str, second: i64) -> Entry {
        Entry::Hint { seat: None, text: text.to_owned(), at: at(second) }
    }

    fn shard(number: u32, entries: &[Entry]) -> Register {
        let mut register = Register::new(number, &["lab".to_owned()], 10);
        entries.iter().cloned().for_each(|entry| register.take(entry));
        register
    }

    fn tell(from: &Register, to: &mut Register) {
        Decisions::of(from, None).news_for(to).into_iter().for_each(|entry| to.take(entry));
    }

    #[test]
    fn shards_come_to_the_same_in_whichever_order_they_ask_each_other() {
        let of = || {
            [
                shard(0, &[code(1), code(2), times(100, None), word("one", 1)]),
                shard(1, &[code(EACH + 1), code(2), Entry::Revoked { code: 2 }, times(50, Some(7)), word("", 9)]),
                shard(2, &[times(90, None)]),
            ]
        };
        let orders =
            [[(0, 1), (1, 2), (2, 0), (0, 1)], [(2, 1), (1, 0), (0, 2), (2, 1)], [(1, 2), (0, 2), (2, 0), (0, 1)]];
        let mut outcomes = Vec::new();
        for order in orders {
            let mut all = of();
            for (from, to) in order {
                let said = Decisions::of(&all[from], None);
                said.news_for(&all[to]).into_iter().for_each(|entry| all[to].take(entry));
            }
            let known: Vec<Decisions> = all.iter().map(|one| Decisions::of(one, None)).collect();
            assert!(known.iter().all(|one| *one == known[0]), "{order:?} {known:?}");
            assert_eq!(Decisions::of(&all[0], None).news_for(&all[1]), [], "nothing is news twice");
            outcomes.push(known[0].clone());
        }
        assert!(outcomes.iter().all(|one| *one == outcomes[0]));
        let last = &outcomes[0];
        assert_eq!((last.codes.len(), last.revoked.len()), (3, 1));
        assert_eq!((last.times.closes, &last.hint), (Some(at(50)), &Some((String::new(), at(9)))));
    }

    #[test]
    fn a_given_code_is_taken_back_everywhere_under_the_number_it_has_there() {
        let secret = Secret::of_class("class");
        let given = |number| {
            let code = Code { number, ..Code::new(&secret, 1, For::Class, None, None).0 };
            (code.hash.clone(), Entry::Code(code))
        };
        let mut first = shard(0, &[given(1).1, Entry::Revoked { code: 1 }]);
        let mut second = shard(1, &[given(EACH + 1).1]);
        let hash = given(1).0;
        assert_eq!(Decisions::of(&first, Some(&hash)).news_for(&second), [Entry::Revoked { code: EACH + 1 }]);
        tell(&second, &mut first);
        assert_eq!(first.codes().count(), 1, "one code of one text");
        second.take(times(5, None));
        tell(&second, &mut first);
        assert_eq!(first.times().closes, Some(at(5)), "a shard that has not begun takes over the times");
    }
}
