//! Loops of a script: turn by turn, or all turns that are alike at once.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::interpreter::{Flow, Run};
use super::syntax::Node;
use super::tokens::Word;
use crate::pod::files::Made;

/// Most turns of an endless loop that are followed one by one, the last ones: a client that asks for more of its log
/// gets all of that.
const MAX_TURNS: i64 = 5000;

/// What a turn of a loop finds.
struct Mark {
    presence: BTreeMap<String, bool>,
    variables: BTreeMap<String, Option<String>>,
    version: u64,
    state: Option<BTreeMap<String, Option<Made>>>,
    at: SignedDuration,
}

impl Run {
    fn mark(&mut self) -> Mark {
        let presence = self.files.presence();
        let variables = &self.scope.variables;
        // To look at many files and variables is work, too.
        let work = presence.len().saturating_mul(64).saturating_add(variables.len().saturating_mul(16));
        let variables = variables.clone();
        self.spend(work);
        Mark {
            presence,
            variables,
            version: self.files.version,
            state: self.horizon.and_then(|_| self.files.small_state()),
            at: self.at,
        }
    }

    pub(super) fn turns(&mut self, until: bool, condition: &Node, body: &Node) -> Flow {
        let mut last = 0;
        loop {
            let before = self.mark();
            match self.node(condition, true) {
                Flow::Next if (self.code == 0) == until => return self.done(last),
                Flow::Next | Flow::Continue => {}
                Flow::Break => return self.done(0),
                flow => return flow,
            }
            let flow = self.node(body, false);
            last = self.code;
            match flow {
                Flow::Next | Flow::Continue if self.is_spent() => return self.give_up(),
                Flow::Next | Flow::Continue => {}
                Flow::Break => return self.done(0),
                flow => return flow,
            }
            let same = self.files.presence() == before.presence && self.scope.variables == before.variables;
            let next = self.next_intervention();
            let Some(horizon) = self.horizon else {
                let news = self.world.network.as_ref().map(|network| network.news());
                match next.into_iter().chain(news.filter(|news| before.at < *news)).min() {
                    _ if !same => {}
                    // It goes on as it does until its files change, or what the network answers.
                    Some(next) => self.go_round(self.at.saturating_sub(before.at), next),
                    None => return Flow::Forever,
                }
                continue;
            };
            if self.at > horizon {
                return Flow::Forever;
            }
            let unchanged = self.files.version == before.version
                || before.state.is_some_and(|state| self.files.small_state().is_some_and(|now| now == state));
            if same && self.at == before.at && !self.input.matters() {
                let Some(next) = next.filter(|next| *next <= horizon) else {
                    self.uncertain(|| "a loop goes round as fast as it can".to_owned());
                    return Flow::Forever;
                };
                self.go_round(SignedDuration::ZERO, next);
                continue;
            }
            if same && unchanged && !self.asked_time && !self.input.matters() {
                self.skip(self.at.saturating_sub(before.at), next.map_or(horizon, |next| next.min(horizon)));
            }
        }
    }

    /// Every turn is like the last one, of this length, until then.
    fn go_round(&mut self, turn: SignedDuration, until: SignedDuration) {
        let left = until.saturating_sub(self.at);
        if turn.is_zero() {
            self.at = self.at.max(until);
        } else if left.is_positive() {
            let turns = i32::try_from(left.as_millis() / turn.as_millis().max(1)).unwrap_or(i32::MAX);
            self.at = self.at.saturating_add(turn.saturating_mul(turns));
        }
    }

    /// Every turn is like the last one: most of them are not followed.
    fn skip(&mut self, turn: SignedDuration, horizon: SignedDuration) {
        let left = horizon.saturating_sub(self.at).as_millis() / turn.as_millis().max(1);
        let skipped = i64::try_from(left).unwrap_or(i64::MAX).saturating_sub(MAX_TURNS);
        if skipped > 0 {
            let skipped = i32::try_from(skipped).unwrap_or(i32::MAX);
            self.at = self.at.saturating_add(turn.saturating_mul(skipped));
        }
    }

    pub(super) fn each(&mut self, variable: &str, words: &[Word], body: &Node) -> Flow {
        let values = self.expand_all(words);
        if values.is_empty() {
            return self.done(0);
        }
        if values.contains(&None) {
            self.uncertain(|| format!("what `{variable}` is in a loop is not known"));
        }
        for value in values {
            self.assign_to(variable, value);
            match self.node(body, false) {
                Flow::Next | Flow::Continue if self.is_spent() => return self.give_up(),
                Flow::Next | Flow::Continue => {}
                Flow::Break => return self.done(0),
                flow => return flow,
            }
        }
        Flow::Next
    }
}
