//! The condition `succeeded`: this many pods have succeeded.

use super::rule::{Rollout, Rule, Subject};
use super::standing::{counts_now, judge, number};
use crate::code::Code;
use crate::spec::Count;
use crate::verify::observation::Fact;
use crate::verify::pod::PodState;
use crate::verify::rollout::Group;
use crate::verify::verdict::Standing;
use crate::verify::view::{PodView, View};

pub(super) struct Succeeded(pub(super) Count);

impl Rule for Succeeded {
    fn code(&self) -> Code {
        Code::Succeeded
    }

    fn title(&self) -> String {
        format!("{} succeeded", self.0)
    }

    fn judge(&self, _: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        let Subject::Pods(group) = subject else { return None };
        Some(succeeded(group, self.0))
    }

    fn rollout(&self) -> Rollout {
        Rollout::Counts
    }
}

fn succeeded(group: &Group<'_, '_>, count: Count) -> Fact {
    let (done, others): (Vec<_>, Vec<_>) =
        group.counted.iter().copied().partition(|pod| pod.state == PodState::Succeeded);
    let under_way = |pod: &&&PodView<'_>| pod.state.is_moving() || pod.state.is_ready();
    let may_come = number(others.iter().filter(under_way).count()) + group.to_come();
    let standing = judge(count, number(done.len()), may_come, 0, "succeeded");
    let now = counts_now(done.len(), "succeeded", count, &standing, &others);
    let offenders = if standing == Standing::Holds { Vec::new() } else { others.iter().map(|pod| pod.id()).collect() };
    Fact::new(standing, now).offenders(offenders)
}
