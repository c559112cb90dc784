//! The condition `apart_from`: no pod shares its node with another pod of these labels.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::colocation::{companions, label_selector};
use super::rule::{Rollout, Rule, Subject};
use super::standing::{placed, standing_of, tally};
use crate::code::Code;
use crate::spec::Selector;
use crate::verify::explain::Edit;
use crate::verify::observation::Fact;
use crate::verify::rollout::Group;
use crate::verify::verdict::Standing;
use crate::verify::view::View;

pub(super) struct ApartFrom<'c>(pub(super) &'c Selector);

impl Rule for ApartFrom<'_> {
    fn code(&self) -> Code {
        Code::ApartFrom
    }

    fn title(&self) -> String {
        format!("apart from {}", self.0)
    }

    fn judge(&self, view: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        let Subject::Pods(group) = subject else { return None };
        Some(apart_from(view, group, self.0))
    }

    fn rollout(&self) -> Rollout {
        Rollout::EveryPod
    }

    fn steers(&self, _: &LabelSelector) -> Option<Edit> {
        Some(Edit::KeepApart(label_selector(self.0)))
    }
}

fn apart_from(view: &View<'_>, group: &Group<'_, '_>, selector: &Selector) -> Fact {
    let by_node = companions(view, selector);
    let total = group.counted.len();
    let others: BTreeSet<usize> = by_node.values().flatten().map(|pod| pod.index).collect();
    let alone = group.counted.len() == 1 && others.iter().all(|index| *index == group.counted[0].index);
    if others.is_empty() || alone {
        let text = format!("no other pod {selector} runs, so this could not fail");
        return Fact::new(Standing::Blocked(text.clone()), text);
    }
    let together: Vec<_> = group
        .counted
        .iter()
        .filter(|pod| {
            let beside = pod.node.filter(|_| pod.state.is_present()).and_then(|node| by_node.get(node));
            beside.is_some_and(|pods| pods.iter().any(|other| other.index != pod.index))
        })
        .collect();
    if !together.is_empty() {
        let text = format!("{} of {total} share a node with another pod {selector}", together.len());
        return Fact::new(Standing::Blocked(text.clone()), text).offenders(together.iter().map(|pod| pod.id()));
    }
    // A pod that stays Pending shares no node, but neither has it shown that it keeps away.
    let unplaced: Vec<_> = group.counted.iter().copied().filter(|pod| !placed(pod)).collect();
    let standing = if unplaced.is_empty() { Standing::Holds } else { standing_of(&unplaced) };
    let rest = if unplaced.is_empty() { String::new() } else { format!(", {}", tally(view, unplaced.iter().copied())) };
    Fact::new(standing, format!("none of {total} shares a node with another pod {selector}{rest}"))
        .offenders(unplaced.iter().map(|pod| pod.id()))
}
