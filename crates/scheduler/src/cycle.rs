//! One scheduling cycle: a pod, the cluster, and the topology counts that its rules need.

use std::cell::RefCell;
use std::sync::Arc;

use super::culprits::Culprits;
use super::devices::ClaimCycle;
use super::ids::{ClassId, LabelsId, NodeId};
use super::node_info::NodeInfo;
use super::pod_info::{PodInfo, SpreadConstraint};
use super::profile::{DefaultConstraint, Profile, SpreadDefaults};
use super::reason::PluginName;
use super::selector::Selector;
use super::state::State;
use super::taint;
use super::tally::{Matcher, Tally};
use super::topology::{HeldId, NO_VALUE};

/// The label whose value is a node's own name.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
/// The label that names a node's zone.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";

/// Topology counts for the rules of one class of pods.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tallies {
    /// Per `DoNotSchedule` constraint.
    pub(crate) hard: Vec<(SpreadConstraint, Tally)>,
    /// Per `ScheduleAnyway` constraint, the pod's own or by default.
    pub(crate) soft: Vec<(SpreadConstraint, Tally)>,
    /// Whether `soft` are the system default constraints, which do without labels that nodes lack.
    pub(crate) soft_by_default: bool,
    /// Per required affinity term: pods that match all the terms, by that term's key.
    pub(crate) affinity: Vec<Tally>,
    /// Per required anti-affinity term.
    pub(crate) anti_affinity: Vec<Tally>,
    /// Per preferred term, with its weight (negative for anti-affinity).
    pub(crate) preferred: Vec<(i64, Tally)>,
}

impl Tallies {
    /// Empty counts for a class.
    pub(crate) fn new(
        state: &mut State,
        info: &PodInfo,
        defaults: &SpreadDefaults,
        default_selector: Option<&Selector>,
    ) -> Self {
        let mut spread = |constraint: &SpreadConstraint| {
            let column = state.column_for(&constraint.topology_key);
            let matcher = Matcher::Spread {
                namespace: info.namespace.as_ref().to_owned(),
                selector: constraint.selector.clone(),
            };
            (constraint.clone(), Tally::new(matcher, column))
        };
        let by_default = default_selector.map(|selector| default_constraints(defaults, selector));
        let constraints = by_default.as_deref().unwrap_or(&info.spread);
        let hard = constraints.iter().filter(|constraint| constraint.hard).map(&mut spread).collect();
        let soft = constraints.iter().filter(|constraint| !constraint.hard).map(&mut spread).collect();
        let soft_by_default = by_default.is_some() && *defaults == SpreadDefaults::System;
        let mut term = |term: &super::pod_info::AffinityTerm, all: &[super::pod_info::AffinityTerm]| {
            let column = state.column_for(&term.topology_key);
            Tally::new(Matcher::Terms(all.to_vec()), column)
        };
        let affinity = info.affinity.iter().map(|one| term(one, &info.affinity)).collect();
        let anti_affinity = info.anti_affinity.iter().map(|one| term(one, std::slice::from_ref(one))).collect();
        let wanted = info.preferred_affinity.iter().map(|(weight, one)| (i64::from(*weight), one));
        let avoided = info.preferred_anti_affinity.iter().map(|(weight, one)| (-i64::from(*weight), one));
        let preferred =
            wanted.chain(avoided).map(|(weight, one)| (weight, term(one, std::slice::from_ref(one)))).collect();
        Self { hard, soft, soft_by_default, affinity, anti_affinity, preferred }
    }

    /// Whether there is nothing to count.
    pub(crate) fn is_empty(&self) -> bool {
        self.hard.is_empty()
            && self.soft.is_empty()
            && self.affinity.is_empty()
            && self.anti_affinity.is_empty()
            && self.preferred.is_empty()
    }

    /// Counts a node again.
    pub(crate) fn refresh(&mut self, state: &State, info: &PodInfo, node: NodeId) {
        let spec = state.node(node).map(|node| Arc::clone(&node.spec));
        let has = |tally: &Tally| state.topology.column(tally.column).value(node) != NO_VALUE;
        let admitted = |constraint: &SpreadConstraint| {
            spec.as_ref().is_some_and(|spec| {
                (!constraint.honor_affinity || info.node_affinity.matches(&spec.labels, &spec.name))
                    && (!constraint.honor_taints
                        || taint::untolerated(&spec.taints, &info.tolerations).next().is_none())
            })
        };
        let has_all = self.hard.iter().all(|(_, tally)| has(tally));
        for (constraint, tally) in &mut self.hard {
            tally.refresh(state, node, has_all && admitted(constraint));
        }
        let has_all = self.soft_by_default || self.soft.iter().all(|(_, tally)| has(tally));
        for (constraint, tally) in &mut self.soft {
            tally.refresh(state, node, has_all && admitted(constraint));
        }
        let preferred = self.preferred.iter_mut().map(|(_, tally)| tally);
        for tally in self.affinity.iter_mut().chain(&mut self.anti_affinity).chain(preferred) {
            tally.refresh(state, node, true);
        }
    }
}

/// The constraints of a profile, for pods that have none of their own.
fn default_constraints(defaults: &SpreadDefaults, selector: &Selector) -> Vec<SpreadConstraint> {
    let with_selector = |index: usize, constraint: &DefaultConstraint| SpreadConstraint {
        index,
        topology_key: Arc::clone(&constraint.topology_key),
        max_skew: constraint.max_skew,
        min_domains: constraint.min_domains,
        hard: constraint.hard,
        selector: selector.clone(),
        honor_affinity: constraint.honor_affinity,
        honor_taints: constraint.honor_taints,
    };
    let all = |list: &[DefaultConstraint]| list.iter().enumerate().map(|(at, it)| with_selector(at, it)).collect();
    match defaults {
        SpreadDefaults::System => all(&[(HOSTNAME, 3), (ZONE, 5)].map(|(key, max_skew)| DefaultConstraint {
            topology_key: Arc::from(key),
            max_skew,
            min_domains: 1,
            hard: false,
            honor_affinity: true,
            honor_taints: false,
        })),
        SpreadDefaults::List(list) => all(list),
    }
}

/// A pod that looks for a node, with everything the plugins ask for.
pub(crate) struct Cycle<'a> {
    pub(crate) state: &'a State,
    pub(crate) profile: &'a Profile,
    pub(crate) info: &'a PodInfo,
    pub(crate) labels_id: LabelsId,
    /// The pod's name: it is not in its own way when it is already known.
    pub(crate) name: &'a str,
    /// `spec.nodeName`, when asked whether a pod could be there.
    pub(crate) requested_node: Option<&'a str>,
    pub(crate) tallies: &'a Tallies,
    /// Per hard constraint: the two emptiest domains, and whether the pod counts itself.
    pub(crate) hard: Vec<([(u32, i64); 2], bool)>,
    /// Whether the pod matches all its own required affinity terms.
    pub(crate) affinity_matches_self: bool,
    /// Existing pods' anti-affinity terms that match the pod.
    pub(crate) against: Vec<HeldId>,
    /// Whether pod affinity can keep the pod off any node, judged before pods are added or removed in thought.
    pub(crate) inter_pod_affinity: bool,
    /// Pods that anti-affinity is about, once somebody asked.
    pub(crate) culprits: RefCell<Culprits>,
    /// The pod's resource claims, if it has any.
    pub(crate) claims: Option<ClaimCycle<'a>>,
    /// The plugin that refused the node kept for the pod, once that was asked.
    pub(crate) tried: Option<PluginName>,
}

impl<'a> Cycle<'a> {
    pub(crate) fn new(
        state: &'a State,
        profile: &'a Profile,
        class: ClassId,
        labels_id: LabelsId,
        name: &'a str,
        requested_node: Option<&'a str>,
        tallies: &'a Tallies,
    ) -> Self {
        let info: &PodInfo = &state.class(class).info;
        let labels = state.label_set(labels_id);
        let hard = tallies
            .hard
            .iter()
            .map(|(constraint, tally)| (tally.lowest(), constraint.selector.matches(&labels.labels)))
            .collect();
        let affinity_matches_self = tallies.affinity.first().is_some_and(|tally| tally.matcher.matches(state, labels));
        let against: Vec<_> = state.matching_anti_affinity(labels_id).collect();
        let inter_pod_affinity = !tallies.affinity.is_empty()
            || !tallies.anti_affinity.is_empty()
            || against.iter().any(|&held| state.topology.held[held].total > 0);
        Self {
            state,
            profile,
            info,
            labels_id,
            name,
            requested_node,
            tallies,
            hard,
            affinity_matches_self,
            against,
            inter_pod_affinity,
            culprits: RefCell::default(),
            claims: None,
            tried: None,
        }
    }

    /// Whether a filter that looks beyond the node has anything to say.
    pub(crate) fn topology_matters(&self) -> bool {
        self.inter_pod_affinity || !self.tallies.hard.is_empty()
    }

    /// Whether a score that looks beyond the node has anything to say.
    pub(crate) fn topology_scores(&self) -> bool {
        !self.tallies.soft.is_empty()
            || !self.tallies.preferred.is_empty()
            || self.state.matching_scores(self.labels_id).any(|(held, _)| self.state.topology.held[held].total != 0)
    }

    pub(crate) fn node(&self, id: NodeId) -> Option<&'a Arc<NodeInfo>> {
        self.state.node(id)
    }

    pub(crate) fn node_name(&self, id: NodeId) -> Arc<str> {
        self.node(id).map_or_else(|| Arc::from(""), |node| Arc::clone(&node.spec.name))
    }

    /// The value of a tally's topology key on a node.
    pub(crate) fn value(&self, tally: &Tally, node: NodeId) -> Option<u32> {
        Some(self.state.topology.column(tally.column).value(node)).filter(|&value| value != NO_VALUE)
    }
}
