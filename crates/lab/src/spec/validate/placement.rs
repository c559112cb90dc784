//! What the API server refuses in affinities and topology spread constraints although their structure is right.

use k8s_openapi::api::core::v1::{
    Affinity, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use klab_scheduler::selector::{Selector, check_key};

/// Something that the API server refuses.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Problem {
    /// In a sentence.
    pub text: String,
    /// The value that is wrong, where another one would do.
    pub value: Option<String>,
    /// What may stand in its place.
    pub choices: &'static [&'static str],
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self { text, value: None, choices: &[] }
    }
}

impl From<&str> for Problem {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

const OPERATORS: &[&str] = &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
const WHEN_UNSATISFIABLE: &[&str] = &["DoNotSchedule", "ScheduleAnyway"];
const POLICIES: &[&str] = &["Honor", "Ignore"];

/// Everything that is wrong.
pub(super) fn affinity_problems(affinity: &Affinity) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let Some(node) = &affinity.node_affinity {
        if let Some(required) = &node.required_during_scheduling_ignored_during_execution {
            if required.node_selector_terms.is_empty() {
                problems.push("required node affinity needs `nodeSelectorTerms`".into());
            }
            required.node_selector_terms.iter().for_each(|term| node_term(term, &mut problems));
        }
        for preferred in node.preferred_during_scheduling_ignored_during_execution.iter().flatten() {
            weight(preferred.weight, &mut problems);
            node_term(&preferred.preference, &mut problems);
        }
    }
    let pod = affinity.pod_affinity.as_ref();
    let anti = affinity.pod_anti_affinity.as_ref();
    let required = pod
        .and_then(|pod| pod.required_during_scheduling_ignored_during_execution.as_ref())
        .into_iter()
        .chain(anti.and_then(|anti| anti.required_during_scheduling_ignored_during_execution.as_ref()));
    required.flatten().for_each(|term| pod_term(term, &mut problems));
    let preferred = pod
        .and_then(|pod| pod.preferred_during_scheduling_ignored_during_execution.as_ref())
        .into_iter()
        .chain(anti.and_then(|anti| anti.preferred_during_scheduling_ignored_during_execution.as_ref()));
    for term in preferred.flatten() {
        weight(term.weight, &mut problems);
        pod_term(&term.pod_affinity_term, &mut problems);
    }
    problems.sort_unstable();
    problems.dedup();
    problems
}

/// Everything that is wrong.
pub(super) fn spread_problems(constraint: &TopologySpreadConstraint) -> Vec<Problem> {
    let mut problems = Vec::new();
    if constraint.max_skew < 1 {
        problems.push("`maxSkew` must be 1 or more".into());
    }
    topology_key(&constraint.topology_key, &mut problems);
    let when = &constraint.when_unsatisfiable;
    if !WHEN_UNSATISFIABLE.contains(&when.as_str()) {
        let text = format!("`whenUnsatisfiable` is DoNotSchedule or ScheduleAnyway, not `{when}`");
        problems.push(Problem { text, value: Some(when.clone()), choices: WHEN_UNSATISFIABLE });
    }
    if let Some(domains) = constraint.min_domains {
        if domains < 1 {
            problems.push("`minDomains` must be 1 or more".into());
        }
        if constraint.when_unsatisfiable == "ScheduleAnyway" {
            problems.push("`minDomains` needs `whenUnsatisfiable = \"DoNotSchedule\"`".into());
        }
    }
    for (name, policy) in
        [("nodeAffinityPolicy", &constraint.node_affinity_policy), ("nodeTaintsPolicy", &constraint.node_taints_policy)]
    {
        if let Some(policy) = policy
            && !matches!(policy.as_str(), "Honor" | "Ignore")
        {
            let text = format!("`{name}` is Honor or Ignore, not `{policy}`");
            problems.push(Problem { text, value: Some(policy.clone()), choices: POLICIES });
        }
    }
    label_selector(constraint.label_selector.as_ref(), &mut problems);
    problems
}

fn weight(weight: i32, problems: &mut Vec<Problem>) {
    if !(1..=100).contains(&weight) {
        problems.push("`weight` must be from 1 to 100".into());
    }
}

fn topology_key(key: &str, problems: &mut Vec<Problem>) {
    if key.is_empty() {
        problems.push("`topologyKey` is missing, for example \"kubernetes.io/hostname\"".into());
    } else if check_key(key).is_err() {
        problems.push(format!("`topologyKey` is not a label key: `{key}`").into());
    }
}

fn label_selector(selector: Option<&LabelSelector>, problems: &mut Vec<Problem>) {
    if let Err(error) = Selector::from_api(selector) {
        problems.push(format!("`labelSelector`: {error}").into());
    }
}

fn pod_term(term: &PodAffinityTerm, problems: &mut Vec<Problem>) {
    topology_key(&term.topology_key, problems);
    label_selector(term.label_selector.as_ref(), problems);
    label_selector(term.namespace_selector.as_ref(), problems);
}

fn node_term(term: &NodeSelectorTerm, problems: &mut Vec<Problem>) {
    for requirement in term.match_expressions.iter().flatten() {
        node_requirement(requirement, problems);
        if check_key(&requirement.key).is_err() {
            problems.push(format!("`{}` is not a label key", requirement.key).into());
        }
    }
    for requirement in term.match_fields.iter().flatten() {
        if requirement.key != "metadata.name" {
            problems.push(format!("`matchFields` knows only `metadata.name`, not `{}`", requirement.key).into());
        } else if !matches!(requirement.operator.as_str(), "In" | "NotIn")
            || requirement.values.as_ref().map(Vec::len) != Some(1)
        {
            problems.push("`matchFields` takes In or NotIn with exactly one value".into());
        }
    }
}

fn node_requirement(requirement: &NodeSelectorRequirement, problems: &mut Vec<Problem>) {
    let values = requirement.values.as_deref().unwrap_or_default();
    let key = &requirement.key;
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            problems.push(format!("`{key}`: `{}` needs `values`", requirement.operator).into());
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            problems.push(format!("`{key}`: `{}` takes no `values`", requirement.operator).into());
        }
        "Gt" | "Lt" if values.len() != 1 || values[0].parse::<i64>().is_err() => {
            problems.push(format!("`{key}`: `{}` takes one whole number, as a string", requirement.operator).into());
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        "" => problems.push(format!("`{key}`: `operator` is missing").into()),
        other => {
            let text = format!(
                "`{key}`: there is no operator `{other}`; there are In, NotIn, Exists, DoesNotExist, Gt and Lt"
            );
            problems.push(Problem { text, value: Some(other.to_owned()), choices: OPERATORS });
        }
    }
}
