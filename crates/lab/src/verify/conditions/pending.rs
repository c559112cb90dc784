//! The condition `pending`: this many pods are Pending, marked unschedulable by the scheduler.

use super::rule::{Rollout, Rule, Subject};
use super::standing::{counts_now, judge, number};
use crate::code::Code;
use crate::spec::Count;
use crate::verify::observation::Fact;
use crate::verify::pod::PodState;
use crate::verify::rollout::Group;
use crate::verify::verdict::Standing;
use crate::verify::view::{PodView, View};

pub(super) struct Pending<'c> {
    pub(super) count: Count,
    pub(super) reason: Option<&'c str>,
}

impl Rule for Pending<'_> {
    fn code(&self) -> Code {
        Code::Pending
    }

    fn title(&self) -> String {
        match self.reason {
            None => format!("{} Pending", self.count),
            Some(reason) => format!("{} Pending, {reason}", self.count),
        }
    }

    fn judge(&self, _: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        let Subject::Pods(group) = subject else { return None };
        Some(pending(group, self.count, self.reason))
    }

    fn rollout(&self) -> Rollout {
        Rollout::Counts
    }
}

fn pending(group: &Group<'_, '_>, count: Count, reason: Option<&str>) -> Fact {
    let says = |message: &str| reason.is_none_or(|reason| message.to_lowercase().contains(&reason.to_lowercase()));
    let is_pending = |pod: &&PodView<'_>| matches!(pod.state, PodState::Unschedulable { .. } | PodState::Gated { .. });
    let matches = |pod: &PodView<'_>| match &pod.state {
        PodState::Unschedulable { message, .. } => says(message),
        // Gated pods have not been judged by the scheduler; they count only where the author names the gates.
        PodState::Gated { message } => reason.is_some() && (says(message) || says("SchedulingGated")),
        _ => false,
    };
    let pending: Vec<_> = group.counted.iter().copied().filter(is_pending).collect();
    let (here, otherwise): (Vec<_>, Vec<_>) = pending.iter().copied().partition(|pod| matches(pod));
    let may_come = group.counted.iter().filter(|pod| pod.state == PodState::Unscheduled).count();
    let may_go = here.iter().filter(|pod| pod.state.is_moving()).count();
    let standing =
        judge(count, number(here.len()), number(may_come) + group.to_come(), number(may_go) + group.surplus, "Pending");
    let others: Vec<_> = group.counted.iter().copied().filter(|pod| !is_pending(pod)).collect();
    let now = match reason {
        Some(reason) if !otherwise.is_empty() => {
            format!("{} Pending, {} of them with `{reason}`, wanted {count}", pending.len(), here.len())
        }
        _ => counts_now(here.len(), "Pending", count, &standing, &others),
    };
    let blamed = if number(here.len()) > count.min { here } else { [otherwise, others].concat() };
    let offenders = if standing == Standing::Holds { Vec::new() } else { blamed.iter().map(|pod| pod.id()).collect() };
    Fact::new(standing, now).offenders(offenders)
}
