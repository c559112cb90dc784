//! The condition `spread`: pods are spread evenly over the values of a node label.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::rule::{Rollout, Rule, Subject};
use crate::code::Code;
use crate::verify::explain::Edit;
use crate::verify::observation::Fact;
use crate::verify::placeable;
use crate::verify::pod::PodState;
use crate::verify::rollout::Group;
use crate::verify::verdict::Standing;
use crate::verify::view::{PodView, View};

pub(super) struct Spread<'c> {
    pub(super) over: &'c str,
    pub(super) max_skew: u32,
}

impl Rule for Spread<'_> {
    fn code(&self) -> Code {
        Code::Spread
    }

    fn title(&self) -> String {
        format!("spread over {}, skew at most {}", self.over, self.max_skew)
    }

    fn judge(&self, view: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        let Subject::Pods(group) = subject else { return None };
        Some(spread(view, group, self.over, self.max_skew))
    }

    fn rollout(&self) -> Rollout {
        Rollout::EveryPod
    }

    fn steers(&self, own: &LabelSelector) -> Option<Edit> {
        Some(Edit::SpreadOver { key: self.over.to_owned(), max_skew: self.max_skew, own: own.clone() })
    }
}

/// Most domains named in a sentence.
const SHOWN: usize = 6;

/// Pods by domain. Domains are the values of the label on nodes where the pods may be (their selector, affinity and
/// tolerations decide; cordoned nodes are left out), and on nodes where one of them is.
fn spread(view: &View<'_>, group: &Group<'_, '_>, over: &str, max_skew: u32) -> Fact {
    let value = |node: &str| view.nodes.get(node).and_then(|node| node.metadata.labels.as_ref()?.get(over));
    let mut pods_by_domain: BTreeMap<&str, u32> = BTreeMap::new();
    if let Some(pod) = group.counted.first() {
        for node in placeable::nodes(view, pod.pod) {
            if let Some(domain) = value(node) {
                pods_by_domain.entry(domain).or_default();
            }
        }
    }
    let mut outside = Vec::new();
    let mut unplaced: Vec<&PodView<'_>> = Vec::new();
    for pod in group.counted.iter().copied() {
        match pod.node {
            Some(node) if matches!(pod.state, PodState::Running { .. } | PodState::Succeeded) => match value(node) {
                Some(domain) => *pods_by_domain.entry(domain).or_default() += 1,
                None => outside.push(pod),
            },
            _ => unplaced.push(pod),
        }
    }
    if pods_by_domain.len() < 2 {
        let what = match pods_by_domain.keys().next() {
            Some(only) => format!("`{only}` is the only value of {over} among the nodes the pods may use"),
            None => format!("no node the pods may use has the label {over}"),
        };
        let text = format!("{what}, so this could not fail");
        return Fact::new(Standing::Blocked(text.clone()), text);
    }
    let most = pods_by_domain.values().copied().max().unwrap_or_default();
    let least = pods_by_domain.values().copied().min().unwrap_or_default();
    let skew = most - least;
    let mut texts: Vec<String> =
        pods_by_domain.iter().take(SHOWN).map(|(domain, pods)| format!("{domain} {pods}")).collect();
    if pods_by_domain.len() > SHOWN {
        texts.push(format!("{} more", pods_by_domain.len() - SHOWN));
    }
    let mut now = format!("{}: skew {skew}", texts.join(", "));
    if skew > max_skew {
        now = format!("{now}, at most {max_skew} wanted");
    }
    if !outside.is_empty() {
        now = format!("{now}; {} on nodes without {over}", outside.len());
    }
    if !unplaced.is_empty() {
        now = format!("{now}; {} without a place", unplaced.len());
    }
    let coming = unplaced.iter().all(|pod| pod.state.is_moving()) && !unplaced.is_empty() || group.to_come() > 0;
    let crowded: Vec<&str> =
        pods_by_domain.iter().filter(|(_, pods)| **pods == most).map(|(domain, _)| *domain).collect();
    let standing = if !outside.is_empty() {
        Standing::blocked(format!("{} on nodes without {over}", outside.len()))
    } else if coming || (skew > max_skew && group.surplus > 0) {
        Standing::moving("pods are still coming and going")
    } else if !unplaced.is_empty() {
        Standing::blocked(format!("{} without a place", unplaced.len()))
    } else if skew > max_skew {
        Standing::blocked(format!("skew {skew} over {over}"))
    } else {
        Standing::Holds
    };
    let blamed = if standing == Standing::Holds {
        Vec::new()
    } else if outside.is_empty() && unplaced.is_empty() {
        let in_crowd =
            |pod: &&&PodView<'_>| pod.node.and_then(value).is_some_and(|domain| crowded.contains(&domain.as_str()));
        group.counted.iter().filter(in_crowd).map(|pod| pod.id()).collect()
    } else {
        outside.iter().chain(&unplaced).map(|pod| pod.id()).collect()
    };
    Fact::new(standing, now).offenders(blamed)
}
