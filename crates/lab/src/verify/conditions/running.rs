//! The condition `running`: this many pods are Running and Ready.

use super::rule::{Rollout, Rule, Subject};
use super::standing::{counts_now, judge, number, standing_of};
use crate::code::Code;
use crate::spec::Count;
use crate::verify::observation::Fact;
use crate::verify::rollout::Group;
use crate::verify::verdict::Standing;
use crate::verify::view::View;

pub(super) struct Running(pub(super) Count);

impl Rule for Running {
    fn code(&self) -> Code {
        Code::Running
    }

    fn title(&self) -> String {
        format!("{} running", self.0)
    }

    fn judge(&self, _: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        let Subject::Pods(group) = subject else { return None };
        Some(running(group, self.0))
    }

    fn rollout(&self) -> Rollout {
        Rollout::EveryPod
    }
}

fn running(group: &Group<'_, '_>, count: Count) -> Fact {
    let ready = group.counted.iter().filter(|pod| pod.state.is_ready()).count();
    let others: Vec<_> = group.counted.iter().copied().filter(|pod| !pod.state.is_ready()).collect();
    let may_come = number(others.iter().filter(|pod| pod.state.is_moving()).count()) + group.to_come();
    let mut standing = judge(count, number(ready), may_come, group.surplus, "running");
    if let Standing::Blocked(_) = standing
        && number(ready) < count.min
    {
        standing = match (others.is_empty(), &group.hindered) {
            (_, Some(why)) => Standing::Blocked(why.clone()),
            (false, None) => standing_of(&others),
            (true, None) => standing,
        };
        if let Standing::Moving(what) = standing {
            standing = Standing::blocked(format!("{what}, too few for {count}"));
        }
    }
    let now = counts_now(ready, "running", count, &standing, &others);
    let blamed = if number(ready) > count.min { &group.counted } else { &others };
    let offenders = if standing == Standing::Holds { Vec::new() } else { blamed.iter().map(|pod| pod.id()).collect() };
    Fact::new(standing, now).offenders(offenders)
}
