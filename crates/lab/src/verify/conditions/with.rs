//! The condition `with`: every pod shares its node with a pod of these labels.

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
use crate::verify::view::{PodView, View};
use crate::words::counted;

pub(super) struct With<'c>(pub(super) &'c Selector);

impl Rule for With<'_> {
    fn code(&self) -> Code {
        Code::With
    }

    fn title(&self) -> String {
        format!("with {}", self.0)
    }

    fn judge(&self, view: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        let Subject::Pods(group) = subject else { return None };
        Some(with(view, group, self.0))
    }

    fn rollout(&self) -> Rollout {
        Rollout::EveryPod
    }

    fn steers(&self, _: &LabelSelector) -> Option<Edit> {
        Some(Edit::Join(label_selector(self.0)))
    }
}

fn with(view: &View<'_>, group: &Group<'_, '_>, selector: &Selector) -> Fact {
    let by_node = companions(view, selector);
    if by_node.is_empty() {
        let text = format!("no pod {selector} runs");
        return Fact::new(Standing::Blocked(text.clone()), text);
    }
    let total = group.counted.len();
    let accompanied = |pod: &PodView<'_>| {
        let beside = pod.node.and_then(|node| by_node.get(node)).into_iter().flatten();
        beside.into_iter().any(|other| other.index != pod.index && other.state.is_running())
    };
    let (beside, alone): (Vec<_>, Vec<_>) =
        group.counted.iter().copied().partition(|pod| placed(pod) && accompanied(pod));
    if alone.is_empty() {
        return Fact::new(Standing::Holds, format!("{total} of {total} beside a pod {selector}"));
    }
    let bound: Vec<_> = alone.iter().copied().filter(|pod| placed(pod)).collect();
    let unplaced: Vec<_> = alone.iter().copied().filter(|pod| !placed(pod)).collect();
    let starting = |pod: &PodView<'_>| {
        pod.node.and_then(|node| by_node.get(node)).into_iter().flatten().any(|other| other.index != pod.index)
    };
    let standing = if bound.iter().any(|pod| !starting(pod)) {
        Standing::blocked(counted(bound.len(), "pod", "runs without one beside it", "run without one beside them"))
    } else if unplaced.is_empty() {
        Standing::moving(format!("a pod {selector} is starting"))
    } else {
        standing_of(&unplaced)
    };
    let now = format!("{} of {total} beside a pod {selector}, {}", beside.len(), tally(view, alone.iter().copied()));
    Fact::new(standing, now).offenders(alone.iter().map(|pod| pod.id()))
}
