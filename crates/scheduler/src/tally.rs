//! Counts of matching pods per topology domain, kept up to date node by node.

use super::delta::Delta;
use super::ids::{LabelsId, NodeId};
use super::pod_info::AffinityTerm;
use super::selector::{Labels, Selector};
use super::state::{LabelSet, PodEntry, State};
use super::topology::{ColumnId, NO_VALUE};

/// Which pods are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Matcher {
    /// Topology spread: pods of one namespace that are not terminating.
    Spread {
        /// Their namespace.
        namespace: String,
        /// Their labels.
        selector: Selector,
    },
    /// Pod affinity: pods that match all the terms of an incoming pod.
    Terms(Vec<AffinityTerm>),
}

impl Matcher {
    /// Whether pods with these labels match, terminating or not.
    pub(crate) fn matches(&self, state: &State, set: &LabelSet) -> bool {
        match self {
            Self::Spread { namespace, selector } => {
                set.namespace.as_ref() == namespace && selector.matches(&set.labels)
            }
            Self::Terms(terms) => terms.iter().all(|term| own_term_matches(state, term, set)),
        }
    }

    /// Whether nothing that exists is counted, as for the selector `{}` of a spread constraint.
    fn counts_nothing(&self) -> bool {
        matches!(self, Self::Spread { selector, .. } if selector.is_empty())
    }

    fn counts_terminating(&self) -> bool {
        matches!(self, Self::Terms(_))
    }
}

/// Whether a term of an incoming pod is about an existing pod.
///
/// The namespaces that the term's selector selects are looked up, but the selector is then asked again about a
/// namespace without labels. So one made of `NotIn` and `DoesNotExist` only takes in every namespace; the scheduler of
/// Kubernetes v1.36 does the same (fixed later, kubernetes/kubernetes#138198).
pub(crate) fn own_term_matches(state: &State, term: &AffinityTerm, set: &LabelSet) -> bool {
    let in_namespace = term.namespaces.iter().any(|name| **name == *set.namespace)
        || term.namespace_selector.matches(&Labels::new())
        || state.namespace_labels(&set.namespace).is_some_and(|labels| term.namespace_selector.matches(labels));
    in_namespace && term.selector.matches(&set.labels)
}

/// Matching pods per node and per domain of one topology key.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    pub(crate) matcher: Matcher,
    pub(crate) column: ColumnId,
    /// Matching pods on each node.
    per_node: Vec<i64>,
    /// The domain in which each node was counted.
    counted_in: Vec<u32>,
    /// Matching pods per domain.
    domains: Vec<i64>,
    /// Counted nodes per domain.
    members: Vec<u32>,
    /// Sum over all domains.
    pub(crate) total: i64,
    /// Domains with counted nodes.
    pub(crate) domain_count: i64,
    /// Per label set: 0 unknown, 1 no match, 2 match.
    known: Vec<u8>,
}

impl Tally {
    pub(crate) fn new(matcher: Matcher, column: ColumnId) -> Self {
        Self {
            matcher,
            column,
            per_node: Vec::new(),
            counted_in: Vec::new(),
            domains: Vec::new(),
            members: Vec::new(),
            total: 0,
            domain_count: 0,
            known: Vec::new(),
        }
    }

    /// Whether a label set matches, remembered.
    fn known_match(&mut self, state: &State, id: LabelsId) -> bool {
        let index = id as usize;
        if self.known.len() <= index {
            self.known.resize(index + 1, 0);
        }
        if self.known[index] == 0 {
            self.known[index] = 1 + u8::from(self.matcher.matches(state, state.label_set(id)));
        }
        self.known[index] == 2
    }

    /// Counts a node again; `eligible` says whether it takes part in domain counts.
    pub(crate) fn refresh(&mut self, state: &State, node: NodeId, eligible: bool) {
        let index = node as usize;
        if self.per_node.len() <= index {
            self.per_node.resize(index + 1, 0);
            self.counted_in.resize(index + 1, NO_VALUE);
        }
        let mut count = 0;
        let mut value = NO_VALUE;
        if let Some(info) = state.node(node) {
            if eligible {
                value = state.topology.column(self.column).value(node);
            }
            if !self.matcher.counts_nothing() {
                let terminating_too = self.matcher.counts_terminating();
                for &pod in &info.pods {
                    let Some(entry) = state.pod(pod) else { continue };
                    if (terminating_too || !entry.terminating) && self.known_match(state, entry.labels) {
                        count += 1;
                    }
                }
            }
        }
        let (old_value, old_count) = (self.counted_in[index], self.per_node[index]);
        self.per_node[index] = count;
        if old_value == value {
            if value != NO_VALUE {
                self.domains[value as usize] += count - old_count;
                self.total += count - old_count;
            }
            return;
        }
        self.counted_in[index] = value;
        if old_value != NO_VALUE {
            let old = old_value as usize;
            self.domains[old] -= old_count;
            self.total -= old_count;
            self.members[old] -= 1;
            self.domain_count -= i64::from(self.members[old] == 0);
        }
        if value != NO_VALUE {
            let new = value as usize;
            if self.domains.len() <= new {
                self.domains.resize(new + 1, 0);
                self.members.resize(new + 1, 0);
            }
            self.domains[new] += count;
            self.total += count;
            self.domain_count += i64::from(self.members[new] == 0);
            self.members[new] += 1;
        }
    }

    /// Matching pods in a domain.
    pub(crate) fn domain(&self, value: u32) -> i64 {
        self.domains.get(value as usize).copied().unwrap_or(0)
    }

    /// Domains and their counts, also those without matching pods.
    pub(crate) fn domains(&self) -> impl Iterator<Item = (u32, i64)> + '_ {
        let members = self.domains.iter().zip(&self.members).enumerate();
        members.filter(|(_, (_, members))| **members > 0).map(|(value, (count, _))| (value as u32, *count))
    }

    /// Matching pods on a node.
    pub(crate) fn on_node(&self, node: NodeId) -> i64 {
        self.per_node.get(node as usize).copied().unwrap_or(0)
    }

    /// Whether a node takes part in domain counts.
    pub(crate) fn counts_node(&self, node: NodeId) -> bool {
        self.counted_in.get(node as usize).is_some_and(|&value| value != NO_VALUE)
    }

    /// How many matching pods a change adds to the node's domain; terminating pods count here.
    pub(crate) fn delta(&self, state: &State, delta: &Delta, node: NodeId) -> i64 {
        if delta.is_empty() || !self.counts_node(node) {
            return 0;
        }
        let matching = |pods: &[u32]| {
            let entries = pods.iter().filter_map(|&pod| state.pod(pod));
            entries.filter(|entry| self.matches_entry(state, entry)).count() as i64
        };
        matching(&delta.added) - matching(&delta.removed)
    }

    /// Whether a pod matches, terminating or not.
    pub(crate) fn matches_entry(&self, state: &State, entry: &PodEntry) -> bool {
        match self.known.get(entry.labels as usize) {
            Some(1) => false,
            Some(2) => true,
            _ => self.matcher.matches(state, state.label_set(entry.labels)),
        }
    }

    /// The two emptiest domains, emptiest first.
    pub(crate) fn lowest(&self) -> [(u32, i64); 2] {
        let none = (NO_VALUE, i64::MAX);
        let mut lowest = [none, none];
        for (value, count) in self.domains() {
            if count < lowest[0].1 {
                lowest = [(value, count), lowest[0]];
            } else if count < lowest[1].1 {
                lowest[1] = (value, count);
            }
        }
        lowest
    }
}
