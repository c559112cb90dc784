//! The condition `same_pods`: the pods are those of before the step, where they were; or none is one of them.

use super::rule::{Rollout, Rule, Subject};
use crate::code::Code;
use crate::spec::PodBefore;
use crate::verify::observation::Fact;
use crate::verify::rollout::Group;
use crate::verify::verdict::Standing;
use crate::verify::view::{PodView, View};
use crate::words::counted;

pub(super) struct SamePods<'c> {
    pub(super) wanted: bool,
    pub(super) before: Option<&'c [PodBefore]>,
}

impl Rule for SamePods<'_> {
    fn code(&self) -> Code {
        Code::SamePods
    }

    fn title(&self) -> String {
        if self.wanted { "the same pods as before" } else { "none of the pods of before" }.to_owned()
    }

    fn judge(&self, _: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        let Subject::Pods(group) = subject else { return None };
        let Some(before) = self.before else {
            let text = "which pods there were before the step was not noted; `klab step` and `klab guide` note it";
            return Some(Fact::new(Standing::blocked(text), text));
        };
        Some(if self.wanted { stayed(group, before) } else { replaced(group, before) })
    }

    fn rollout(&self) -> Rollout {
        Rollout::EveryPod
    }
}

/// A pod as it was, if it was there.
fn as_it_was<'b>(pod: &PodView<'_>, before: &'b [PodBefore]) -> Option<&'b PodBefore> {
    let uid = pod.pod.metadata.uid.as_deref().unwrap_or_default();
    before.iter().find(|was| was.uid == uid && was.pod == pod.id())
}

fn stayed(group: &Group<'_, '_>, before: &[PodBefore]) -> Fact {
    let (there, new): (Vec<&PodView<'_>>, Vec<&PodView<'_>>) =
        group.counted.iter().copied().partition(|pod| as_it_was(pod, before).is_some());
    let is_elsewhere = |pod: &&PodView<'_>| as_it_was(pod, before).is_some_and(|was| was.node.as_deref() != pod.node);
    let moved: Vec<&PodView<'_>> = there.iter().copied().filter(is_elsewhere).collect();
    let gone = before.len().saturating_sub(there.len());
    let mut texts = vec![format!("{} of {} pods of before on their nodes", there.len() - moved.len(), before.len())];
    let parts = [
        (gone, "is gone", "are gone"),
        (moved.len(), "has another node", "have another node"),
        (new.len(), "is new", "are new"),
    ];
    let amiss: Vec<String> = parts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| counted(*count, "pod", one, many))
        .collect();
    let standing = match amiss.first() {
        None if before.is_empty() => Standing::blocked("there was no pod before the step"),
        None => Standing::Holds,
        // What is too much may still go, and what is gone does not come back.
        Some(first) if gone == 0 && moved.is_empty() && group.surplus > 0 => Standing::moving(first.clone()),
        Some(first) => Standing::blocked(first.clone()),
    };
    texts.extend(amiss);
    Fact::new(standing, texts.join(", ")).offenders(moved.iter().chain(&new).map(|pod| pod.id()))
}

fn replaced(group: &Group<'_, '_>, before: &[PodBefore]) -> Fact {
    let still: Vec<&PodView<'_>> =
        group.counted.iter().copied().filter(|pod| as_it_was(pod, before).is_some()).collect();
    let now = format!("{} of {} pods of before still there", still.len(), before.len());
    let standing = if still.is_empty() {
        Standing::Holds
    } else {
        let words = counted(still.len(), "pod", "of before is still there", "of before are still there");
        if group.surplus > 0 { Standing::moving(words) } else { Standing::blocked(words) }
    };
    Fact::new(standing, now).offenders(still.iter().map(|pod| pod.id()))
}
