//! Node selectors: `nodeSelector` and the terms of node affinity, matched against labels and the node's name.

// upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go NodeSelector, NewPreferredSchedulingTerms (v1.36)

use k8s_openapi::api::core::v1::{
    Affinity, NodeSelectorRequirement as ApiRequirement, NodeSelectorTerm as ApiTerm, PodSpec,
};

use super::selector::{Labels, Operator, Requirement, SelectorError};

/// One term of node affinity: all its expressions and fields must hold; a term with neither matches no node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NodeSelectorTerm {
    /// Conditions on labels.
    pub expressions: Vec<Requirement>,
    /// Conditions on fields; the API allows `metadata.name` only.
    pub fields: Vec<Requirement>,
}

impl NodeSelectorTerm {
    /// Reads a term of the API.
    pub fn from_api(term: &ApiTerm) -> Result<Self, SelectorError> {
        let read =
            |list: &Option<Vec<ApiRequirement>>| list.iter().flatten().map(requirement).collect::<Result<Vec<_>, _>>();
        Ok(Self { expressions: read(&term.match_expressions)?, fields: read(&term.match_fields)? })
    }

    /// Whether the term has no condition, so that it matches no node.
    pub const fn is_empty(&self) -> bool {
        self.expressions.is_empty() && self.fields.is_empty()
    }

    /// The first condition a node does not satisfy; `None` also for an empty term, which matches no node either.
    pub fn first_unmet(&self, labels: &Labels, name: &str) -> Option<&Requirement> {
        let label_unmet = |r: &&Requirement| !r.accepts(labels.get(&r.key).map(String::as_str));
        // A field that nodes are not known by is empty.
        let field = |key: &str| if key == "metadata.name" { name } else { "" };
        let field_unmet = |r: &&Requirement| !r.accepts(Some(field(&r.key)));
        self.expressions.iter().find(label_unmet).or_else(|| self.fields.iter().find(field_unmet))
    }

    /// Whether a node satisfies the term.
    pub fn matches(&self, labels: &Labels, name: &str) -> bool {
        !self.is_empty() && self.first_unmet(labels, name).is_none()
    }

    /// The node names the term is bound to by `metadata.name In […]`; `None` if it is not bound to names.
    fn names(&self) -> Option<Vec<&str>> {
        let mut fields =
            self.fields.iter().filter(|field| field.key == "metadata.name" && field.operator == Operator::In);
        let mut names: Vec<&str> = fields.next()?.values.iter().map(String::as_str).collect();
        for field in fields {
            names.retain(|name| field.values.iter().any(|value| value == name));
        }
        Some(names)
    }
}

fn requirement(requirement: &ApiRequirement) -> Result<Requirement, SelectorError> {
    let operator = Operator::parse(&requirement.operator)
        .ok_or_else(|| SelectorError(format!("{:?} is not a valid node selector operator", requirement.operator)))?;
    Ok(Requirement::new(&requirement.key, operator, requirement.values.clone().unwrap_or_default()))
}

/// What a pod requires of a node: its `nodeSelector` and one of its required affinity terms.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct RequiredNodeAffinity {
    /// `spec.nodeSelector`: labels that must be equal.
    pub node_selector: Labels,
    /// `requiredDuringSchedulingIgnoredDuringExecution`: one of the terms must match; `None` if not given.
    pub terms: Option<Vec<NodeSelectorTerm>>,
}

/// The nodes that required affinity by name leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedNodes<'a> {
    /// Names play no part.
    Any,
    /// Only these nodes.
    Only(Vec<&'a str>),
    /// Every term asks for contradictory names.
    Conflict,
}

impl RequiredNodeAffinity {
    /// Reads what a pod spec requires.
    pub fn from_api(spec: &PodSpec) -> Result<Self, SelectorError> {
        let terms = spec
            .affinity
            .as_ref()
            .and_then(|affinity| affinity.node_affinity.as_ref())
            .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref())
            .map(|selector| selector.node_selector_terms.iter().map(NodeSelectorTerm::from_api).collect())
            .transpose()?;
        Ok(Self { node_selector: spec.node_selector.clone().unwrap_or_default(), terms })
    }

    /// Whether every node satisfies it because nothing is required.
    pub fn is_empty(&self) -> bool {
        self.node_selector.is_empty() && self.terms.is_none()
    }

    /// Whether a node satisfies it.
    pub fn matches(&self, labels: &Labels, name: &str) -> bool {
        self.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(labels, name)))
    }

    /// The nodes left by `metadata.name` conditions: bound only if every term has one.
    pub fn named_nodes(&self) -> NamedNodes<'_> {
        let Some(terms) = self.terms.as_ref().filter(|terms| !terms.is_empty()) else { return NamedNodes::Any };
        let mut names = Vec::new();
        for term in terms {
            match term.names() {
                None => return NamedNodes::Any,
                Some(more) => names.extend(more),
            }
        }
        if names.is_empty() {
            return NamedNodes::Conflict;
        }
        names.sort_unstable();
        names.dedup();
        NamedNodes::Only(names)
    }
}

/// The weighted terms of preferred node affinity; terms without weight or condition are left out.
pub fn preferred_terms(affinity: Option<&Affinity>) -> Result<Vec<(i32, NodeSelectorTerm)>, SelectorError> {
    let preferred = affinity
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_ref());
    let mut terms = Vec::new();
    for preference in preferred.into_iter().flatten() {
        let term = NodeSelectorTerm::from_api(&preference.preference)?;
        if preference.weight != 0 && !term.is_empty() {
            terms.push((preference.weight, term));
        }
    }
    Ok(terms)
}
