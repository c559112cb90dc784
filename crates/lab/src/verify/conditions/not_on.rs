//! The condition `not_on`: no pod is on one of these nodes.

use super::rule::{Rollout, Rule, Subject};
use super::standing::{standing_of, tally};
use crate::code::Code;
use crate::spec::NodeSet;
use crate::verify::observation::Fact;
use crate::verify::rollout::Group;
use crate::verify::verdict::Standing;
use crate::verify::view::View;

pub(super) struct NotOn<'c>(pub(super) &'c NodeSet);

impl Rule for NotOn<'_> {
    fn code(&self) -> Code {
        Code::NotOn
    }

    fn title(&self) -> String {
        format!("not on {}", self.0)
    }

    fn judge(&self, view: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        let Subject::Pods(group) = subject else { return None };
        Some(not_on(view, group, self.0))
    }

    fn rollout(&self) -> Rollout {
        Rollout::EveryPod
    }

    fn accepts(&self, view: &View<'_>, node: &str) -> bool {
        !view.contains(self.0, node)
    }
}

fn not_on(view: &View<'_>, group: &Group<'_, '_>, set: &NodeSet) -> Fact {
    let known = matches!(set, NodeSet::Pool(name) if view.context.pool(name).is_some());
    if !known && view.nodes_in(set).next().is_none() {
        let text = format!("no node is in {set}, so this could not fail");
        return Fact::new(Standing::Blocked(text.clone()), text);
    }
    let total = group.counted.len();
    let there: Vec<_> =
        group.counted.iter().filter(|pod| pod.node.is_some_and(|node| view.contains(set, node))).collect();
    if !there.is_empty() {
        let text = format!("{} of {total} on {set}", there.len());
        return Fact::new(Standing::Blocked(text.clone()), text).offenders(there.iter().map(|pod| pod.id()));
    }
    // A pod without a node is on none of them, but may still come there.
    let coming: Vec<_> =
        group.counted.iter().copied().filter(|pod| pod.node.is_none() && pod.state.is_moving()).collect();
    let standing = if coming.is_empty() { Standing::Holds } else { standing_of(&coming) };
    let rest = tally(view, group.counted.iter().copied());
    Fact::new(standing, format!("none of {total} on {set}: {rest}")).offenders(coming.iter().map(|pod| pod.id()))
}
