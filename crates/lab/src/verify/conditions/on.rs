//! The condition `on`: every pod runs on one of these nodes.

use super::rule::{Rollout, Rule, Subject};
use super::standing::{placed, standing_of, tally};
use crate::code::Code;
use crate::spec::NodeSet;
use crate::verify::observation::Fact;
use crate::verify::rollout::Group;
use crate::verify::verdict::Standing;
use crate::verify::view::{PodView, View};
use crate::words::counted;

pub(super) struct On<'c>(pub(super) &'c NodeSet);

impl Rule for On<'_> {
    fn code(&self) -> Code {
        Code::On
    }

    fn title(&self) -> String {
        format!("on {}", self.0)
    }

    fn judge(&self, view: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        let Subject::Pods(group) = subject else { return None };
        Some(on(view, group, self.0))
    }

    fn rollout(&self) -> Rollout {
        Rollout::EveryPod
    }

    fn accepts(&self, view: &View<'_>, node: &str) -> bool {
        view.contains(self.0, node)
    }
}

fn on(view: &View<'_>, group: &Group<'_, '_>, set: &NodeSet) -> Fact {
    let total = group.counted.len();
    let is_there = |pod: &PodView<'_>| pod.node.is_some_and(|node| view.contains(set, node));
    let (there, elsewhere): (Vec<_>, Vec<_>) =
        group.counted.iter().copied().partition(|pod| placed(pod) && is_there(pod));
    if elsewhere.is_empty() {
        return Fact::new(Standing::Holds, format!("{total} of {total} on {set}"));
    }
    let wrong = elsewhere.iter().filter(|pod| pod.node.is_some() && !is_there(pod)).count();
    let standing = if view.nodes_in(set).next().is_none() {
        Standing::blocked(format!("no node is in {set}"))
    } else if wrong > 0 {
        Standing::blocked(counted(wrong, "pod", &format!("is not on {set}"), &format!("are not on {set}")))
    } else {
        standing_of(&elsewhere)
    };
    let none = if view.nodes_in(set).next().is_none() { format!(" (no node is in {set})") } else { String::new() };
    let rest = tally(view, elsewhere.iter().copied());
    Fact::new(standing, format!("{} of {total} on {set}{none}, {rest}", there.len()))
        .offenders(elsewhere.iter().map(|pod| pod.id()))
}
