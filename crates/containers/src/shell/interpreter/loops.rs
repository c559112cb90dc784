//! Runs loops: turn by turn, or all turns that are alike at once.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::super::syntax::{Node, Word};
use super::{Flow, Run};
use crate::pod::files::Made;

/// Most turns of an endless loop that are followed one by one, the last ones: a client that asks for more of its log
/// gets all of that.
const MAX_TURNS: i64 = 5000;

impl Run {
    pub(super) fn in_loop(&mut self, what: impl FnOnce(&mut Self) -> Flow) -> Flow {
        self.scope.loops += 1;
        let flow = what(self);
        self.scope.loops = self.scope.loops.saturating_sub(1);
        flow
    }

    pub(super) fn each(&mut self, variable: &str, words: &[Word], body: &Node) -> Flow {
        let values = self.expand_all(words);
        if values.is_empty() {
            return self.done(0);
        }
        for value in values {
            if value.is_none() {
                return self.unknown(|| format!("what `{variable}` is in a loop is not known"));
            }
            self.scope.variables.insert(variable.to_owned(), value);
            match self.node(body, false) {
                Flow::Next | Flow::Continue if self.spend(0) => return self.give_up(),
                Flow::Next | Flow::Continue => {}
                Flow::Break => return self.done(0),
                flow => return flow,
            }
        }
        Flow::Next
    }

    /// `while` and `until`: turn by turn, or all turns that are alike at once.
    pub(super) fn turns(&mut self, until: bool, condition: &Node, body: &Node) -> Flow {
        let mut last = 0;
        loop {
            let (begun, found) = (self.at, self.found());
            // To look at many files and variables is work, too.
            self.spend(found.0.len().saturating_mul(64).saturating_add(found.1.len().saturating_mul(16)));
            match self.node(condition, true) {
                Flow::Next if (self.code == 0) == until => return self.done(last),
                Flow::Next | Flow::Continue => {}
                Flow::Break => return self.done(0),
                flow => return flow,
            }
            let flow = self.node(body, false);
            last = self.code;
            match flow {
                Flow::Next | Flow::Continue if self.spend(0) => return self.give_up(),
                Flow::Next | Flow::Continue => {}
                Flow::Break => return self.done(0),
                flow => return flow,
            }
            if self.horizon.is_some_and(|horizon| self.at > horizon) {
                return Flow::Forever;
            }
            if self.found() != found {
                continue;
            }
            // It goes on as it does until its files change, or what the network answers.
            let next = self.world.interventions.get(self.met).map(|next| next.at);
            let news = self.world.network.as_ref().map(|network| network.news()).filter(|news| begun < *news);
            let next = next.into_iter().chain(news).min().filter(|next| self.horizon.is_none_or(|end| *next <= end));
            let turn = self.at.saturating_sub(begun);
            match (next, self.horizon) {
                (None, None) => return Flow::Forever,
                (None, Some(_)) if turn.is_zero() => {
                    self.uncertain(|| "a loop goes round as fast as it can".to_owned());
                    return Flow::Forever;
                }
                (Some(next), _) if turn.is_zero() => self.at = self.at.max(next),
                (Some(next), None) => self.skip(turn, next, 0),
                (next, Some(horizon)) if !self.asked_time => self.skip(turn, next.unwrap_or(horizon), MAX_TURNS),
                _ => {}
            }
        }
    }

    /// What a turn of a loop finds, which decides what it does.
    fn found(&self) -> (BTreeMap<String, Option<Made>>, BTreeMap<String, Option<String>>) {
        (self.files.made().clone(), self.scope.variables.clone())
    }

    /// Every turn is like the last one until then: all but the last ones are not followed.
    fn skip(&mut self, turn: SignedDuration, until: SignedDuration, last: i64) {
        let turns = until.saturating_sub(self.at).as_millis() / turn.as_millis().max(1);
        let turns = i64::try_from(turns).unwrap_or(i64::MAX).saturating_sub(last).max(0);
        self.at = self.at.saturating_add(turn.saturating_mul(i32::try_from(turns).unwrap_or(i32::MAX)));
    }
}
