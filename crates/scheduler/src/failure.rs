//! The node that is kept for a pod; and if no node takes the pod, what preemption and claims that can be taken back come to.

// upstream: pkg/scheduler/schedule_one.go schedulingAlgorithm (v1.36)
// upstream: pkg/scheduler/framework/runtime/framework.go RunPostFilterPlugins (v1.36)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::cycle::Cycle;
use super::decision::Outcome;
use super::devices::ClaimCycle;
use super::ids::NodeId;
use super::message;
use super::plugins::{self, Preempt, verdict_with_nominated};
use super::reason::{Code, PluginName, Reason};
use super::state::State;
use super::tie::TieBreak;
use super::verdict::{UNSCHEDULABLE, Verdict};

/// What is kept for the pod.
#[derive(Clone, Copy)]
pub(crate) struct Nomination {
    /// Whether `status.nominatedNodeName` is set.
    pub(crate) made: bool,
    /// The node of that name, if it still exists.
    pub(crate) node: Option<NodeId>,
}

impl Nomination {
    pub(crate) fn of(state: &State, pod: &Pod) -> Self {
        let name = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
        let name = name.filter(|name| !name.is_empty());
        Self { made: name.is_some(), node: name.and_then(|name| state.node_id(name)) }
    }
}

/// The node that is kept for the pod, if it takes it. If not, the cycle notes which plugin refused it.
pub(crate) fn kept_node(cycle: &mut Cycle<'_>, nominated: Nomination) -> Option<Arc<str>> {
    let id = nominated.node?;
    let node = cycle.node(id)?;
    let Some(refused) = verdict_with_nominated(cycle, id, node, &[]) else { return Some(Arc::clone(&node.spec.name)) };
    cycle.tried = refused.plugin;
    None
}

/// The verdicts on all nodes, when none is feasible.
#[derive(Default)]
pub(crate) struct Refusals {
    pub(crate) codes: Vec<(NodeId, Code)>,
    /// How often each reason's text occurs.
    pub(crate) texts: BTreeMap<String, usize>,
    pub(crate) plugins: BTreeSet<PluginName>,
}

impl Refusals {
    /// Counts a verdict that several nodes share. Nodes left out by name count for node affinity.
    pub(crate) fn count(&mut self, plugin: Option<PluginName>, texts: impl IntoIterator<Item = String>, nodes: usize) {
        self.plugins.insert(plugin.unwrap_or(PluginName::NodeAffinity));
        for text in texts {
            *self.texts.entry(text).or_default() += nodes;
        }
    }
}

/// What becomes of a pod that a plugin refused for every node at once.
pub(crate) fn refused_for_all(
    cycle: &Cycle<'_>,
    nominated: Nomination,
    plugin: PluginName,
    reasons: &[Reason],
    tie_break: TieBreak,
) -> Verdict {
    let nodes = cycle.state.node_count();
    let place = |plugin: PluginName| cycle.profile.pre_filters.iter().position(|its| *its == plugin);
    if place(plugin) < place(PluginName::DynamicResources) {
        return Verdict::refused_for_all(nodes, plugin, reasons);
    }
    let codes: Vec<_> = cycle.state.live_nodes().map(|(id, _)| (id, plugins::code_of(reasons))).collect();
    let texts: Vec<_> = reasons.iter().map(ToString::to_string).collect();
    let message = format!("0/{nodes} nodes are available: {}.", texts.join(", "));
    let refused_by = BTreeSet::from([plugin]);
    if plugin != PluginName::DynamicResources {
        return give_up(cycle, nominated, &codes, &message, refused_by, tie_break);
    }
    // The plugin that looks for claims to take back is the one that refused: it knows that there is nothing to do.
    after_filters(cycle, nominated, &codes, &message, message::claims::NONE, refused_by, tie_break)
}

/// No node is feasible: preempt, or say why not.
pub(crate) fn fail(cycle: &Cycle<'_>, nominated: Nomination, all: Refusals, tie_break: TieBreak) -> Verdict {
    let message = message::nodes_available(all.codes.len(), &all.texts);
    give_up(cycle, nominated, &all.codes, &message, all.plugins, tie_break)
}

/// Looks for claims whose devices can be taken back, then for pods to evict.
fn give_up(
    cycle: &Cycle<'_>,
    nominated: Nomination,
    codes: &[(NodeId, Code)],
    message: &str,
    refused_by: BTreeSet<PluginName>,
    tie_break: TieBreak,
) -> Verdict {
    let deallocate = cycle.claims.as_ref().and_then(ClaimCycle::to_deallocate);
    let claims = match (&cycle.claims, &deallocate) {
        (None, _) => message::claims::NONE,
        (Some(_), None) => message::claims::UNCHANGED,
        (Some(_), Some(_)) => message::claims::DEALLOCATED,
    };
    let verdict = after_filters(cycle, nominated, codes, message, claims, refused_by, tie_break);
    Verdict { deallocate, ..verdict }
}

/// Looks for pods to evict, when there is a message that no node is feasible.
fn after_filters(
    cycle: &Cycle<'_>,
    nominated: Nomination,
    codes: &[(NodeId, Code)],
    message: &str,
    claims: &str,
    refused_by: BTreeSet<PluginName>,
    tie_break: TieBreak,
) -> Verdict {
    if !cycle.profile.preempts {
        return Verdict { refused_by, ..Verdict::plain(UNSCHEDULABLE, format!("{message} {claims}")) };
    }
    let (outcome, message) = match plugins::preempt(cycle, nominated.node, codes, tie_break) {
        Preempt::Found(preemption) => (Outcome::Preempting(preemption), message.to_owned()),
        Preempt::Useless(why) => {
            let outcome = Outcome::Unschedulable { withdraw_nomination: nominated.made };
            (outcome, message::with_preemption(message, claims, &why))
        }
        Preempt::NotEligible(why) => (UNSCHEDULABLE, message::with_preemption(message, claims, why)),
    };
    Verdict { refused_by, ..Verdict::plain(outcome, message) }
}
