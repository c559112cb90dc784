//! Pure: what happens in a class, found in what the instructor's page shows of it at one moment and the next.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::register::{Phase, Times};
use crate::seat::SeatId;
use crate::standing::LearnerProgress;

/// Where a class is in its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassAt {
    /// The phase.
    pub phase: Phase,
    /// Its times.
    pub times: Times,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happening {
    /// What kind of thing: what receivers filter by.
    pub kind: &'static str,
    /// Where the class is now.
    pub class: ClassAt,
    /// Where the learner is now, of what happened in a seat.
    pub seat: Option<LearnerProgress>,
}

/// The last message about a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Notified {
    done: usize,
    step: usize,
    finished: bool,
    agreed: bool,
    stuck: bool,
}

impl Notified {
    fn of(standing: &LearnerProgress, now: Timestamp) -> Self {
        Self {
            done: standing.done,
            step: standing.step,
            finished: standing.steps > 0 && standing.done >= standing.steps,
            agreed: standing.agreed,
            stuck: standing.is_stuck(now),
        }
    }
}

/// The last messages.
#[derive(Debug)]
pub struct News {
    class: ClassAt,
    seats: BTreeMap<SeatId, Notified>,
}

impl News {
    /// Of a class that is there already: nothing of it is new, but who is stuck.
    pub fn of(class: ClassAt, rows: &[LearnerProgress]) -> Self {
        let notified =
            |row: &LearnerProgress| (row.seat, Notified { stuck: false, ..Notified::of(row, Timestamp::UNIX_EPOCH) });
        Self { class, seats: rows.iter().map(notified).collect() }
    }

    /// Seats of which time alone may make something new.
    pub fn may_be_stuck(&self) -> impl Iterator<Item = SeatId> {
        self.seats.iter().filter(|(_, notified)| !notified.stuck && !notified.finished).map(|(seat, _)| *seat)
    }

    /// What happened since the last time, of a class and of those seats that may have changed.
    pub fn take(&mut self, class: ClassAt, rows: &[LearnerProgress], now: Timestamp) -> Vec<Happening> {
        let mut found = Vec::new();
        let mut tell =
            |kind, seat: Option<&LearnerProgress>| found.push(Happening { kind, class, seat: seat.cloned() });
        if class.phase != self.class.phase {
            match class.phase {
                Phase::Ahead => {}
                Phase::Open => tell("class.opened", None),
                Phase::Closed => tell("class.closed", None),
                Phase::Over => tell("class.over", None),
            }
        } else if class.times != self.class.times {
            tell("class.extended", None);
        }
        self.class = class;
        for row in rows {
            let notified = Notified::of(row, now);
            let Some(before) = self.seats.insert(row.seat, notified) else {
                tell("seat.joined", Some(row));
                continue;
            };
            if notified.finished && !before.finished {
                tell("seat.finished", Some(row));
            } else if (notified.done, notified.step) != (before.done, before.step) {
                tell("seat.moved", Some(row));
            }
            if notified.stuck && !before.stuck {
                tell("seat.stuck", Some(row));
            }
            if notified.agreed != before.agreed {
                tell(if notified.agreed { "seat.agreed" } else { "seat.disagreed" }, Some(row));
            }
        }
        found
    }
}

impl Happening {
    /// For the receiver, of the class of a name and its shard.
    pub fn document(&self, (class, shard): (&str, u32), names: bool, now: Timestamp) -> Value {
        let mut data = json!({
            "class": class, "shard": shard, "phase": self.class.phase.word(),
            "opens": self.class.times.opens, "closes": self.class.times.closes,
        });
        if let Some(standing) = &self.seat {
            let mut seat = standing.document(now);
            if !names && let Some(seat) = seat.as_object_mut() {
                seat.remove("name");
            }
            data["seat"] = seat;
        }
        json!({ "type": self.kind, "timestamp": now, "data": data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: ClassAt = ClassAt {
        phase: Phase::Open,
        times: Times { opens: None, closes: None, keep: jiff::SignedDuration::ZERO, decided: None },
    };

    fn standing(number: u32, done: usize) -> LearnerProgress {
        LearnerProgress {
            seat: SeatId { shard: 0, number },
            lab: "scheduling".to_owned(),
            person: number,
            name: "Ann".to_owned(),
            step: done + 1,
            step_name: "taint".to_owned(),
            done,
            steps: 2,
            held: Some((0, 1)),
            failing: "web → 0 running".to_owned(),
            since: Timestamp::UNIX_EPOCH,
            active: None,
            agreed: false,
            revoked: false,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn kinds(found: &[Happening]) -> Vec<&'static str> {
        found.iter().map(|one| one.kind).collect()
    }

    #[test]
    fn each_thing_is_told_once() {
        let mut news = News::of(OPEN, &[standing(1, 0)]);
        let mut take = |row: &LearnerProgress, second| kinds(&news.take(OPEN, std::slice::from_ref(row), at(second)));
        assert_eq!(take(&standing(1, 0), 1), Vec::<&str>::new(), "it was there");
        assert_eq!(take(&standing(2, 0), 1), ["seat.joined"]);
        assert_eq!(take(&standing(2, 0), 1), Vec::<&str>::new());
        assert_eq!(take(&standing(2, 1), 2), ["seat.moved"]);
        assert_eq!(take(&standing(2, 1), 1000), ["seat.stuck"]);
        assert_eq!(take(&standing(2, 1), 1001), Vec::<&str>::new());
        assert_eq!(take(&standing(2, 2), 1002), ["seat.finished"]);
        assert_eq!(take(&standing(2, 0), 2), ["seat.moved"], "brought back");
        assert_eq!(take(&LearnerProgress { agreed: true, ..standing(2, 0) }, 2), ["seat.agreed"]);
        assert_eq!(take(&standing(2, 0), 2), ["seat.disagreed"]);
    }

    #[test]
    fn a_class_opens_is_extended_and_closes() {
        let mut news = News::of(ClassAt { phase: Phase::Ahead, ..OPEN }, &[]);
        assert_eq!(kinds(&news.take(OPEN, &[], at(1))), ["class.opened"]);
        let later = ClassAt { times: Times { closes: Some(at(9)), ..OPEN.times }, ..OPEN };
        assert_eq!(kinds(&news.take(later, &[], at(1))), ["class.extended"]);
        assert_eq!(kinds(&news.take(later, &[], at(1))), Vec::<&str>::new());
        for (phase, kind) in
            [(Phase::Closed, "class.closed"), (Phase::Open, "class.opened"), (Phase::Over, "class.over")]
        {
            assert_eq!(kinds(&news.take(ClassAt { phase, ..later }, &[], at(1))), [kind]);
        }
    }

    #[test]
    fn a_name_is_told_where_the_instructor_says_so_and_nowhere_else() {
        let moved = Happening { kind: "seat.moved", class: OPEN, seat: Some(standing(1, 1)) };
        let nameless = moved.document(("c", 3), false, at(7));
        assert!(!nameless.to_string().contains("Ann"), "{nameless}");
        assert_eq!(nameless["type"], "seat.moved");
        assert_eq!(nameless["timestamp"], "1970-01-01T00:00:07Z");
        assert_eq!((&nameless["data"]["class"], &nameless["data"]["shard"]), (&json!("c"), &json!(3)));
        assert_eq!((&nameless["data"]["seat"]["seat"], &nameless["data"]["seat"]["done"]), (&json!("0-1"), &json!(1)));
        assert_eq!(moved.document(("c", 3), true, at(7))["data"]["seat"]["name"], "Ann");
    }
}
