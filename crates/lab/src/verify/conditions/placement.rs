//! The condition `placement`: pods by pool.

use std::collections::{BTreeMap, BTreeSet};

use super::rule::{Rollout, Rule, Subject};
use super::standing::{judge, number, placed, tally, worse};
use crate::code::Code;
use crate::spec::Count;
use crate::verify::observation::Fact;
use crate::verify::rollout::Group;
use crate::verify::verdict::Standing;
use crate::verify::view::{PodView, View};

pub(super) struct Placement<'c>(pub(super) &'c BTreeMap<String, Count>);

impl Rule for Placement<'_> {
    fn code(&self) -> Code {
        Code::Placement
    }

    fn title(&self) -> String {
        let parts: Vec<String> = self.0.iter().map(|(pool, count)| format!("{pool} {count}")).collect();
        format!("placed {}", parts.join(", "))
    }

    fn judge(&self, view: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        let Subject::Pods(group) = subject else { return None };
        Some(placement(view, group, self.0))
    }

    fn rollout(&self) -> Rollout {
        Rollout::EveryPod
    }

    fn accepts(&self, view: &View<'_>, node: &str) -> bool {
        let pool = view.pool_of(node);
        pool.and_then(|pool| self.0.get(pool)).is_none_or(|count| count.max != Some(0))
    }
}

fn placement(view: &View<'_>, group: &Group<'_, '_>, wanted: &BTreeMap<String, Count>) -> Fact {
    let mut standing = Standing::Holds;
    let mut texts = Vec::new();
    let mut offenders: BTreeSet<String> = BTreeSet::new();
    for (pool, count) in wanted {
        let in_pool = |pod: &PodView<'_>| pod.node.and_then(|node| view.pool_of(node)) == Some(pool);
        let here = group.counted.iter().filter(|pod| placed(pod) && in_pool(pod)).count();
        let coming = group
            .counted
            .iter()
            .filter(|pod| !placed(pod) && pod.state.is_moving() && (pod.node.is_none() || in_pool(pod)));
        let may_come = number(coming.count()) + group.to_come();
        let next = judge(*count, number(here), may_come, group.surplus, &format!("on {pool}"));
        let wish = if next == Standing::Holds { String::new() } else { format!(" (wanted {count})") };
        texts.push(format!("{pool} {here}{wish}"));
        if next != Standing::Holds {
            let too_many = number(here) > count.min;
            let blamed =
                group.counted.iter().filter(|pod| if too_many { in_pool(pod) } else { !(placed(pod) && in_pool(pod)) });
            offenders.extend(blamed.map(|pod| pod.id()));
        }
        standing = worse(standing, next);
    }
    let unplaced: Vec<_> = group.counted.iter().copied().filter(|pod| !placed(pod)).collect();
    if !unplaced.is_empty() {
        texts.push(tally(view, unplaced));
    }
    Fact::new(standing, texts.join(", ")).offenders(offenders)
}
