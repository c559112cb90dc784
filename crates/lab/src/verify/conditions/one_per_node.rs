//! The condition `one_per_node`: exactly one pod on each of these nodes and none elsewhere.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::rule::{Rollout, Rule, Subject};
use super::standing::{placed, standing_of, tally};
use crate::code::Code;
use crate::spec::NodeSet;
use crate::verify::explain::Edit;
use crate::verify::observation::Fact;
use crate::verify::rollout::Group;
use crate::verify::verdict::Standing;
use crate::verify::view::{PodView, View};
use crate::words::{counted, listed};

pub(super) struct OnePerNode<'c>(pub(super) &'c NodeSet);

impl Rule for OnePerNode<'_> {
    fn code(&self) -> Code {
        Code::OnePerNode
    }

    fn title(&self) -> String {
        format!("one per node of {}", self.0)
    }

    fn judge(&self, view: &View<'_>, subject: &Subject<'_>) -> Option<Fact> {
        let Subject::Pods(group) = subject else { return None };
        Some(one_per_node(view, group, self.0))
    }

    fn rollout(&self) -> Rollout {
        Rollout::EveryPod
    }

    fn accepts(&self, view: &View<'_>, node: &str) -> bool {
        view.contains(self.0, node)
    }

    fn steers(&self, own: &LabelSelector) -> Option<Edit> {
        Some(Edit::KeepApart(own.clone()))
    }
}

fn one_per_node(view: &View<'_>, group: &Group<'_, '_>, set: &NodeSet) -> Fact {
    let mut pods_by_node: BTreeMap<&str, Vec<&PodView<'_>>> =
        view.nodes_in(set).map(|(name, _)| (name, Vec::new())).collect();
    if pods_by_node.is_empty() {
        let text = format!("no node is in {set}");
        return Fact::new(Standing::Blocked(text.clone()), text);
    }
    let mut elsewhere = Vec::new();
    let mut unplaced = Vec::new();
    for pod in group.counted.iter().copied() {
        match pod.node {
            Some(node) if placed(pod) => match pods_by_node.get_mut(node) {
                Some(pods) => pods.push(pod),
                None => elsewhere.push(pod),
            },
            _ => unplaced.push(pod),
        }
    }
    let total = pods_by_node.len();
    let good = pods_by_node.values().filter(|pods| pods.len() == 1).count();
    let empty: Vec<&str> = pods_by_node.iter().filter(|(_, pods)| pods.is_empty()).map(|(name, _)| *name).collect();
    let crowded: Vec<(&str, usize)> =
        pods_by_node.iter().filter(|(_, pods)| pods.len() > 1).map(|(name, pods)| (*name, pods.len())).collect();
    let mut texts = vec![format!("{good} of {total} nodes have exactly one")];
    if !empty.is_empty() {
        texts.push(format!("none on {}", listed(&empty)));
    }
    texts.extend(crowded.iter().take(3).map(|(name, pods)| format!("{pods} on {name}")));
    if !elsewhere.is_empty() {
        texts.push(format!("{} elsewhere", elsewhere.len()));
    }
    if !unplaced.is_empty() {
        texts.push(tally(view, unplaced.iter().copied()));
    }
    let coming = unplaced.iter().filter(|pod| pod.state.is_moving()).count() + group.to_come() as usize;
    let standing = if good == total && elsewhere.is_empty() && unplaced.is_empty() {
        Standing::Holds
    } else if !crowded.is_empty() && group.surplus == 0 {
        Standing::blocked(format!("{} has {} pods", crowded[0].0, crowded[0].1))
    } else if !elsewhere.is_empty() && group.surplus == 0 {
        Standing::blocked(counted(elsewhere.len(), "pod", "is on another node", "are on other nodes"))
    } else if unplaced.iter().any(|pod| !pod.state.is_moving()) {
        standing_of(&unplaced)
    } else if empty.len() <= coming || !crowded.is_empty() || !elsewhere.is_empty() {
        Standing::moving(counted(empty.len(), "node", "is still without a pod", "are still without a pod"))
    } else {
        Standing::blocked(format!("no pod is coming to {}", listed(&empty)))
    };
    let crowd = pods_by_node.values().filter(|pods| pods.len() > 1).flatten();
    let blamed: Vec<String> = elsewhere.iter().chain(&unplaced).chain(crowd).map(|pod| pod.id()).collect();
    Fact::new(standing, texts.join(", ")).offenders(blamed)
}
