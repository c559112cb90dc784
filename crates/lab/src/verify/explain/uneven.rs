//! Why most pods of a workload are on few of the nodes that could have them, and what would spread them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::ResourceExt;

use super::edit::Edit;
use super::question::Destination;
use super::suggest::{steer, unbound};
use crate::code::Code;
use crate::verify::cause::{Cause, Hindrance, Suggestion};
use crate::verify::view::{Owner, PodView, View};
use crate::words::listed;
use klab_scheduler::selector::Selector;
use klab_scheduler::{Cluster, Outcome, PluginName};

const HOSTNAME: &str = "kubernetes.io/hostname";
/// Most nodes named in a sentence.
const SHOWN: usize = 4;

/// How many of a workload's pods are on each node that has one or would take one.
struct Counts<'n>(BTreeMap<&'n str, usize>);

impl<'n> Counts<'n> {
    fn most(&self) -> (&'n str, usize) {
        // Of equals the first by name.
        self.0.iter().rev().max_by_key(|(_, pods)| **pods).map_or(("", 0), |(node, pods)| (*node, *pods))
    }

    fn is_even(&self) -> bool {
        let least = self.0.values().min().copied().unwrap_or(0);
        self.most().1 <= least + 1
    }

    /// Whether half of the pods are on one node, and half as many again as an even share: less than that needs no reason.
    fn is_crowded(&self) -> bool {
        let (most, pods) = (self.most().1, self.0.values().sum::<usize>());
        !self.is_even() && most * 2 >= pods && most * 2 >= pods.div_ceil(self.0.len().max(1)) * 3
    }

    /// The nodes that could have more.
    fn spare(&self) -> Vec<&'n str> {
        let most = self.most().1;
        self.0.iter().filter(|(_, pods)| **pods + 1 < most).map(|(node, _)| *node).collect()
    }

    fn words(&self, pods: usize) -> String {
        let (node, most) = self.most();
        let mut others: Vec<(&str, usize)> =
            self.0.iter().filter(|(name, _)| **name != node).map(|(name, pods)| (*name, *pods)).collect();
        others.sort_by_key(|(name, pods)| (std::cmp::Reverse(*pods), *name));
        let number = |pods: usize| if pods == 0 { "none".to_owned() } else { pods.to_string() };
        let shown = others.iter().take(SHOWN).map(|(name, pods)| format!("{} on {name}", number(*pods)));
        let more = others.len().saturating_sub(SHOWN);
        let more = (more > 0).then(|| format!("fewer on {more} more"));
        let rest: Vec<String> = shown.chain(more).collect();
        format!("{most} of its {pods} pods are on {node}, {}", rest.join(", "))
    }
}

/// What is uneven about where the pods of an owner are; none where they are spread, or have no other place.
pub(super) fn uneven(view: &View<'_>, cluster: &mut Cluster, owner: Owner<'_>) -> Option<Hindrance> {
    let (selector, meta) = match owner {
        Owner::Deployment(owner) => (&owner.spec.as_ref()?.selector, &owner.metadata),
        Owner::ReplicaSet(owner) => (&owner.spec.as_ref()?.selector, &owner.metadata),
        Owner::StatefulSet(owner) => (&owner.spec.as_ref()?.selector, &owner.metadata),
        _ => return None,
    };
    let own = || view.pods.iter().filter(|pod| pod.owner.is(&owner));
    let pods: Vec<&PodView<'_>> = own().filter(|pod| pod.counts()).collect();
    // A rollout under way, and pods without a place, are other questions.
    let settled = own().all(|pod| pod.counts() && pod.state.is_present() && pod.node.is_some());
    let first = pods.first().filter(|_| settled)?;
    let mut counts = Counts(BTreeMap::new());
    for node in cluster.reconsider(first.pod).ok()?.feasible() {
        if let Some((node, _)) = view.nodes.get_key_value(&**node) {
            counts.0.entry(*node).or_default();
        }
    }
    for pod in &pods {
        *counts.0.entry(pod.node?).or_default() += 1;
    }
    if !counts.is_crowded() {
        return None;
    }
    let crowded = counts.most().0;
    let spare = counts.spare();
    let wanted = |to: Destination<'_>| matches!(to, Destination::Node(node) if counts.0.contains_key(node));
    let settles = |_: &[&PodView<'_>], nodes: &[String]| {
        let mut new = Counts(counts.0.keys().map(|node| (*node, 0)).collect());
        for node in nodes {
            *new.0.entry(node).or_default() += 1;
        }
        new.is_even()
    };
    let mut by = |edit: Edit| -> Option<Suggestion> {
        let remedies = steer(view, &pods, &[edit], &wanted, &settles, cluster);
        remedies.into_iter().find(|remedy| remedy.edits.len() == 1).map(|remedy| remedy.suggestion)
    };
    let restart = by(Edit::Restart);
    let spread = by(Edit::SpreadOver { key: HOSTNAME.to_owned(), max_skew: 1, own: selector.clone() });
    let spec = first.pod.spec.as_ref()?;
    let why = match (&restart, late(view, &spare, &pods)) {
        (_, Some(late)) => late,
        (Some(_), None) => "the cluster no longer shows what kept them together; new pods would spread".to_owned(),
        (None, None) => favoured(cluster, &pods, crowded, &spare)?,
    };
    let what = format!("{}: {why}; {}", counts.words(pods.len()), rule(spec, first, selector));
    let namespace = meta.namespace.as_deref().unwrap_or("default");
    let subjects = vec![format!("{namespace}/{}", super::kubectl::named(owner))];
    let suggestions = restart.into_iter().chain(spread).collect();
    Some(Hindrance { cause: Cause { code: Code::Uneven, subjects, what, nodes: Vec::new() }, suggestions })
}

/// Nodes that came, or became ready, after all the pods had their places.
fn late(view: &View<'_>, spare: &[&str], pods: &[&PodView<'_>]) -> Option<String> {
    let placed = pods.iter().filter_map(|pod| placed_at(pod)).max()?;
    let created = |node: &Node| node.metadata.creation_timestamp.as_ref().is_some_and(|time| time.0 > placed);
    let ready = |node: &Node| {
        let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let since = conditions.find(|it| it.type_ == "Ready" && it.status == "True")?.last_transition_time.as_ref()?.0;
        Some(since)
    };
    let nodes: Vec<&Node> = spare.iter().filter_map(|name| view.nodes.get(name).copied()).collect();
    if nodes.is_empty() || !nodes.iter().all(|node| created(node) || ready(node).is_some_and(|since| since > placed)) {
        return None;
    }
    let verb = if nodes.iter().all(|node| created(node)) { "came" } else { "became ready" };
    let names: Vec<&str> = spare.iter().take(SHOWN).copied().collect();
    let more = spare.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!("{}{more} {verb} after the pods had their places", listed(&names)))
}

/// When a pod got its node.
fn placed_at(pod: &PodView<'_>) -> Option<Timestamp> {
    let scheduled = crate::verify::pod::condition(pod.pod, "PodScheduled").filter(|it| it.status == "True");
    let scheduled = scheduled.and_then(|it| it.last_transition_time.as_ref());
    scheduled.or(pod.pod.metadata.creation_timestamp.as_ref()).map(|time| time.0)
}

/// The rule that favours a node when the pods are placed again, one after the other.
fn favoured(cluster: &Cluster, pods: &[&PodView<'_>], crowded: &str, spare: &[&str]) -> Option<String> {
    let mut cluster = cluster.clone();
    for pod in pods {
        cluster.remove_pod(pod.namespace, pod.name);
    }
    let mut found = None;
    for pod in pods {
        let pod = unbound(pod.pod);
        let attempt = cluster.attempt(&pod).ok()?;
        let Outcome::Scheduled { node } = &attempt.decision.outcome else { return None };
        if let Some(table) = attempt.scores.as_ref() {
            let here = table.rows.iter().find(|row| row.node == *node)?;
            let others = table.rows.iter().filter(|row| spare.contains(&&*row.node) && row.node != *node);
            // The last time that a node which has pods already wins against one that could have more.
            if let Some(other) = others.max_by_key(|row| row.total).filter(|_| **node == *crowded) {
                let each = table.plugins.iter().zip(here.scores.iter().zip(&other.scores));
                let most = each.map(|((plugin, _), (here, there))| (here.weighted - there.weighted, *plugin));
                found = most.max_by_key(|(ahead, _)| *ahead).filter(|(ahead, _)| *ahead > 0).or(found);
            }
        }
        cluster.bind(&pod, node).ok()?;
    }
    let (ahead, plugin) = found?;
    let because = match plugin {
        PluginName::ImageLocality => "has their image already".to_owned(),
        PluginName::NodeAffinity => "is what their preferred node affinity asks for".to_owned(),
        PluginName::InterPodAffinity => "is where their preferred pod affinity draws them".to_owned(),
        PluginName::TaintToleration => "has no `PreferNoSchedule` taint that they do not tolerate".to_owned(),
        PluginName::NodeResourcesFit => "has more free room".to_owned(),
        PluginName::NodeResourcesBalancedAllocation => "has its CPU and memory more evenly used".to_owned(),
        other => format!("is favoured by {}", other.as_str()),
    };
    Some(format!("{crowded} {because}, for which {} gives it {ahead} points more than the others", plugin.as_str()))
}

/// What the pods themselves ask about being spread over nodes.
fn rule(spec: &PodSpec, pod: &PodView<'_>, own: &LabelSelector) -> String {
    let constraint =
        spec.topology_spread_constraints.iter().flatten().find(|constraint| constraint.topology_key == HOSTNAME);
    if let Some(constraint) = constraint {
        let counts = Selector::from_api(constraint.label_selector.as_ref());
        if counts.is_ok_and(|selector| !selector.matches(pod.pod.labels())) {
            return format!("their spread over {HOSTNAME} counts other pods: its `labelSelector` matches none of them");
        }
        if constraint.when_unsatisfiable == "ScheduleAnyway" {
            return format!("their spread over {HOSTNAME} is only a preference: `ScheduleAnyway`");
        }
        return format!("their spread over {HOSTNAME} allows a difference of {}", constraint.max_skew);
    }
    let apart = spec.affinity.as_ref().and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let wishes = apart.and_then(|apart| apart.preferred_during_scheduling_ignored_during_execution.as_ref());
    let is_own = |term: &k8s_openapi::api::core::v1::WeightedPodAffinityTerm| {
        term.pod_affinity_term.label_selector.as_ref() == Some(own)
            || Selector::from_api(term.pod_affinity_term.label_selector.as_ref())
                .is_ok_and(|selector| selector.matches(pod.pod.labels()))
    };
    if wishes.is_some_and(|terms| terms.iter().any(is_own)) {
        return "their anti-affinity is only a preference, not required".to_owned();
    }
    "they have no topology spread over nodes, and the default of the scheduler is only a preference".to_owned()
}
