//! Topology domains: which value of a label each node has, and which existing pods' affinity terms hold where.

// upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go topologyToMatchedTermCount (v1.36)

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::pod_info::{AffinityTerm, PodInfo};
use super::selector::Labels;

/// A node without the label.
pub(crate) const NO_VALUE: u32 = u32::MAX;

/// Index of a topology key.
pub(crate) type ColumnId = usize;
/// Index of an existing pods' affinity term.
pub(crate) type HeldId = usize;

/// One topology key: its values by number, and each node's value.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) key: Arc<str>,
    ids: HashMap<String, u32>,
    names: Vec<String>,
    of_node: Vec<u32>,
}

impl Column {
    /// The value a node has, [`NO_VALUE`] if it lacks the label.
    pub(crate) fn value(&self, node: u32) -> u32 {
        self.of_node.get(node as usize).copied().unwrap_or(NO_VALUE)
    }

    /// The text of a value.
    pub(crate) fn name(&self, value: u32) -> &str {
        self.names.get(value as usize).map_or("", String::as_str)
    }

    /// How many values were ever seen.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    fn set(&mut self, node: u32, labels: Option<&Labels>) {
        let value = labels.and_then(|labels| labels.get(self.key.as_ref())).map_or(NO_VALUE, |text| {
            self.ids.get(text).copied().unwrap_or_else(|| {
                let id = self.names.len() as u32;
                self.ids.insert(text.clone(), id);
                self.names.push(text.clone());
                id
            })
        });
        let node = node as usize;
        if self.of_node.len() <= node {
            self.of_node.resize(node + 1, NO_VALUE);
        }
        self.of_node[node] = value;
    }
}

/// How an existing pod's term acts on an incoming pod that it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum HeldKind {
    /// Keeps the incoming pod out of the domain.
    RequiredAntiAffinity,
    /// Adds to the domain's score: preferred terms with their weight (negative for anti-affinity), required affinity
    /// (`None`) with the profile's `hardPodAffinityWeight`.
    Scoring(Option<i32>),
}

/// An affinity term of existing pods, with the number of its holders per domain.
#[derive(Debug, Clone)]
pub(crate) struct HeldTerm {
    pub(crate) kind: HeldKind,
    pub(crate) term: AffinityTerm,
    pub(crate) column: ColumnId,
    domains: Vec<i64>,
    /// Holders on nodes that have the key.
    pub(crate) total: i64,
}

impl HeldTerm {
    /// Holders in a domain.
    pub(crate) fn holders(&self, value: u32) -> i64 {
        self.domains.get(value as usize).copied().unwrap_or(0)
    }

    /// Domains with holders.
    pub(crate) fn domains(&self) -> impl Iterator<Item = (u32, i64)> + '_ {
        self.domains.iter().enumerate().filter(|(_, count)| **count != 0).map(|(value, count)| (value as u32, *count))
    }

    /// Whether the term is about a pod with these labels in a namespace with those.
    pub(crate) fn matches(&self, labels: &Labels, namespace: &str, namespace_labels: &Labels) -> bool {
        (self.term.namespaces.iter().any(|name| name == namespace)
            || self.term.namespace_selector.matches(namespace_labels))
            && self.term.selector.matches(labels)
    }
}

/// All topology keys in use and all terms existing pods hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Topology {
    columns: Vec<Column>,
    by_key: HashMap<Arc<str>, ColumnId>,
    pub(crate) held: Vec<HeldTerm>,
    held_ids: HashMap<(HeldKind, AffinityTerm), HeldId>,
}

impl Topology {
    pub(crate) fn column(&self, id: ColumnId) -> &Column {
        &self.columns[id]
    }

    /// The column of a key, filled from the nodes when the key is new.
    pub(crate) fn column_for<'a>(
        &mut self,
        key: &Arc<str>,
        nodes: impl Iterator<Item = (u32, &'a Labels)>,
    ) -> ColumnId {
        if let Some(&id) = self.by_key.get(key) {
            return id;
        }
        let mut column = Column { key: Arc::clone(key), ids: HashMap::new(), names: Vec::new(), of_node: Vec::new() };
        for (node, labels) in nodes {
            column.set(node, Some(labels));
        }
        let id = self.columns.len();
        self.columns.push(column);
        self.by_key.insert(Arc::clone(key), id);
        id
    }

    /// Takes over a node's labels; `None` when the node is gone. Its pods must be detached meanwhile.
    pub(crate) fn set_node(&mut self, node: u32, labels: Option<&Labels>) {
        for column in &mut self.columns {
            column.set(node, labels);
        }
    }

    /// The index of a term in a column.
    pub(crate) fn held_id(&mut self, kind: HeldKind, term: &AffinityTerm, column: ColumnId) -> HeldId {
        let key = (kind, term.clone());
        if let Some(&id) = self.held_ids.get(&key) {
            return id;
        }
        let id = self.held.len();
        self.held.push(HeldTerm { kind, term: term.clone(), column, domains: Vec::new(), total: 0 });
        self.held_ids.insert(key, id);
        id
    }

    /// Counts (`sign` 1) or forgets (−1) the terms a pod on a node holds.
    pub(crate) fn count_held(&mut self, held: &[HeldId], node: u32, sign: i64) {
        for &id in held {
            let term = &mut self.held[id];
            let value = self.columns[term.column].value(node);
            if value == NO_VALUE {
                continue;
            }
            let value = value as usize;
            if term.domains.len() <= value {
                term.domains.resize(value + 1, 0);
            }
            term.domains[value] += sign;
            term.total += sign;
        }
    }
}

/// The terms a pod holds against or for others once it is placed.
pub(crate) fn held_terms(info: &PodInfo) -> impl Iterator<Item = (HeldKind, &AffinityTerm)> {
    let anti = info.anti_affinity.iter().map(|term| (HeldKind::RequiredAntiAffinity, term));
    let required = info.affinity.iter().map(|term| (HeldKind::Scoring(None), term));
    let preferred = info.preferred_affinity.iter().map(|(weight, term)| (HeldKind::Scoring(Some(*weight)), term));
    let avoided = info.preferred_anti_affinity.iter().map(|(weight, term)| (HeldKind::Scoring(Some(-*weight)), term));
    anti.chain(required).chain(preferred).chain(avoided)
}
