//! Pure: where each learner of a class is, as the instructor's page, a terminal, a spreadsheet and a program show it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::seat::SeatId;

/// Who has not come further for so long is stuck.
const STUCK: i64 = 5 * 60;

/// Where a learner is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnerProgress {
    /// The seat.
    pub seat: SeatId,
    /// The lab in it.
    pub lab: String,
    /// Whose it is: a number of the seat's shard.
    #[serde(default)]
    pub person: u32,
    /// As the learner calls himself.
    pub name: String,
    /// Number (from 1) of the step that the learner is at; 0: the set-up.
    pub step: usize,
    /// Its name.
    pub step_name: String,
    /// How many steps are done, and how many there are.
    pub done: usize,
    /// See [`LearnerProgress::done`].
    pub steps: usize,
    /// How many checks of the step hold, and how many there are; none before the first look since the host began.
    pub held: Option<(usize, usize)>,
    /// The first check that does not hold, and what is true instead.
    pub failing: String,
    /// Since when the learner is there.
    pub since: Timestamp,
    /// When something last changed in the seat.
    pub active: Option<Timestamp>,
    /// Whether the instructor may change something in it.
    pub agreed: bool,
    /// Whether the instructor has ended it.
    #[serde(default)]
    pub revoked: bool,
}

impl LearnerProgress {
    /// Whether the learner has been at the step for long, and works on it.
    pub fn is_stuck(&self, now: Timestamp) -> bool {
        let here = now.as_second().saturating_sub(self.since.as_second());
        self.done < self.steps && here > STUCK && self.held.is_some_and(|(held, of)| held < of)
    }

    /// For programs.
    pub fn document(&self, now: Timestamp) -> Value {
        let mut document = serde_json::to_value(self).unwrap_or_default();
        document["stuck"] = json!(self.is_stuck(now));
        document
    }
}

/// How many learners are at each step of a lab: at the set-up, at step 1 …, and done with all.
pub fn histogram(all: &BTreeMap<SeatId, LearnerProgress>, lab: &str) -> Vec<usize> {
    let steps = all.values().filter(|one| one.lab == lab).map(|one| one.steps).max().unwrap_or(0);
    let mut counts = vec![0; steps.saturating_add(2)];
    for one in all.values().filter(|one| one.lab == lab) {
        let at = if one.steps > 0 && one.done >= one.steps { steps.saturating_add(1) } else { one.step };
        if let Some(count) = counts.get_mut(at) {
            *count = usize::saturating_add(*count, 1);
        }
    }
    counts
}

/// A line for each seat, as spreadsheets read it (RFC 4180).
pub fn csv(all: &BTreeMap<SeatId, LearnerProgress>, hides_names: bool) -> String {
    let mut text = "seat,name,lab,step,step_name,done,steps,held,total,first_failing,since,learner\n".to_owned();
    for one in all.values() {
        let (held, total) =
            one.held.map_or_else(Default::default, |(held, total)| (held.to_string(), total.to_string()));
        let cells = [
            one.seat.to_string(),
            if hides_names { String::new() } else { one.name.clone() },
            one.lab.clone(),
            one.step.to_string(),
            one.step_name.clone(),
            one.done.to_string(),
            one.steps.to_string(),
            held,
            total,
            one.failing.clone(),
            one.since.to_string(),
            format!("{}-{}", one.seat.shard, one.person),
        ];
        text.push_str(&cells.map(|cell| cell_of(&cell)).join(","));
        text.push('\n');
    }
    text
}

/// A cell that a spreadsheet reads as text and never as a formula.
fn cell_of(cell: &str) -> String {
    let cell = if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{cell}") } else { cell.to_owned() };
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(number: u32, step: usize, done: usize) -> LearnerProgress {
        LearnerProgress {
            seat: SeatId { shard: 0, number },
            lab: "a".to_owned(),
            person: number,
            name: format!("=L{number}, \"x\""),
            step,
            step_name: String::new(),
            done,
            steps: 2,
            held: Some((1, 2)),
            failing: "web → a, b".to_owned(),
            since: Timestamp::UNIX_EPOCH,
            active: None,
            agreed: false,
            revoked: false,
        }
    }

    #[test]
    fn who_is_long_at_a_step_that_does_not_hold_is_stuck() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let one = standing(1, 1, 0);
        assert!(!one.is_stuck(at(300)) && one.is_stuck(at(301)));
        assert!(!standing(1, 2, 2).is_stuck(at(9999)), "all is done");
        assert!(
            !LearnerProgress { held: Some((2, 2)), ..one.clone() }.is_stuck(at(9999)),
            "it holds: the next step is not open"
        );
        assert!(!LearnerProgress { held: None, ..one }.is_stuck(at(9999)));
    }

    #[test]
    fn a_class_is_counted_and_written_as_text() {
        let all: BTreeMap<SeatId, LearnerProgress> = [(1, 0, 0), (2, 1, 0), (3, 1, 0), (4, 2, 2)]
            .map(|(number, step, done)| (SeatId { shard: 0, number }, standing(number, step, done)))
            .into();
        assert_eq!(histogram(&all, "a"), [1, 2, 0, 1]);
        assert_eq!(histogram(&all, "b"), [0, 0]);
        let text = csv(&all, false);
        assert!(text.contains("0-1,\"'=L1, \"\"x\"\"\",a,0,,0,2,1,2,\"web → a, b\","), "{text}");
        assert!(!csv(&all, true).contains("L1"));
    }
}
