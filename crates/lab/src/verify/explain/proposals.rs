//! What may be tried: per group of nodes the remedies for its reasons, combined.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube_core::ResourceExt;

use super::device_edits;
use super::edit::{Edit, Names, Topology};
use super::question::Question;
use super::reasons::Refusal;
use super::room::{Sources, lowered_requests, roomiest};
use super::wording::{said_of_label, said_of_topology, workload_of};
use crate::membership::POOL_LABELS;
use klab_scheduler::Reason;
use klab_scheduler::selector::Operator;

/// Most combinations per group of nodes.
const PER_GROUP: usize = 12;

/// Changes that may place the pods.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Proposal {
    pub(super) edits: Vec<Edit>,
    /// A node that is to take the pods after them.
    pub(super) sample: Option<String>,
}

/// Combinations of changes, one set per group of nodes and choice of remedies.
pub(super) fn proposals(question: &Question<'_, '_>) -> Vec<Proposal> {
    let Some(pod) = question.pods.first().map(|pod| pod.pod) else { return Vec::new() };
    let gates: Vec<String> =
        pod.spec.iter().flat_map(|spec| spec.scheduling_gates.iter().flatten()).map(|gate| gate.name.clone()).collect();
    let gate_edit = (!gates.is_empty()).then_some(Edit::DropGates(gates));
    let mut all: Vec<Proposal> = Vec::new();
    if let Some(edit) = &gate_edit {
        all.push(Proposal { edits: vec![edit.clone()], sample: None });
    }
    let sources = Sources::of(question);
    for (at, refusal) in question.refusals.iter().enumerate() {
        let remedies = remedies(question, &sources, at, refusal, pod);
        if remedies.iter().any(Vec::is_empty) {
            continue;
        }
        let start: Vec<Edit> = gate_edit.iter().cloned().collect();
        let mut combinations = vec![start];
        for alternatives in &remedies {
            combinations = combinations
                .iter()
                .flat_map(|edits| alternatives.iter().map(move |edit| merged(edits, edit)))
                .take(PER_GROUP * 2)
                .collect();
        }
        combinations.retain(|edits| edits.iter().filter(|edit| edit.is_stepwise()).count() <= 1);
        combinations.truncate(PER_GROUP);
        let sample = roomiest(refusal);
        all.extend(combinations.into_iter().map(|edits| {
            let is_asked_of_all = edits.iter().any(Edit::is_asked_of_all);
            Proposal { edits, sample: sample.filter(|_| !is_asked_of_all).map(str::to_owned) }
        }));
    }
    all.extend(
        sources
            .all_pools()
            .map(|edit| Proposal { edits: gate_edit.iter().cloned().chain([edit]).collect(), sample: None }),
    );
    all
}

/// Adds a change to others, unless it is among them.
fn merged(edits: &[Edit], edit: &Edit) -> Vec<Edit> {
    let mut edits = edits.to_vec();
    if !edits.contains(edit) {
        edits.push(edit.clone());
    }
    edits
}

/// Per reason of a group of nodes, what would do away with it.
#[expect(clippy::too_many_lines, reason = "a row for each reason")]
fn remedies(
    question: &Question<'_, '_>,
    sources: &Sources<'_, '_>,
    at: usize,
    refusal: &Refusal<'_>,
    pod: &Pod,
) -> Vec<Vec<Edit>> {
    let few: Names = roomiest_first(refusal).take(question.pods.len().clamp(1, 3)).collect();
    // The whole pool where the group is the whole pool, else the nodes with most room.
    let whole = refusal.pool.filter(|pool| sources.pool_size(pool) == refusal.nodes.len());
    let pool = whole.map(str::to_owned);
    let some: Names = if whole.is_some() { names(refusal).collect() } else { Arc::clone(&few) };
    let rooms = || sources.rooms(at, refusal);
    let lowered = lowered_requests(question, refusal, pod);
    refusal
        .first()
        .iter()
        .map(|reason| match reason {
            Reason::Unschedulable => vec![Edit::Uncordon(Arc::clone(&few))],
            Reason::UntoleratedTaints { taints } => {
                let by_condition = taints.iter().any(|taint| taint.key.starts_with("node.kubernetes.io/"));
                if by_condition {
                    return Vec::new();
                }
                vec![
                    Edit::Tolerate(taints.clone()),
                    Edit::Untaint { pool: pool.clone(), nodes: Arc::clone(&some), taints: taints.clone() },
                ]
            }
            Reason::NodeSelector { key, wanted, found } => {
                let mut edits = Vec::new();
                if let Some(to) = otherwise(question, key, std::slice::from_ref(wanted)) {
                    // The lab says something else: that is what is to be written, not what follows from the slip.
                    return vec![Edit::ChangeSelector { key: key.clone(), from: wanted.clone(), to }];
                }
                if let Some(found) = found.as_ref().filter(|found| alike(found, wanted)) {
                    edits.push(Edit::ChangeSelector { key: key.clone(), from: wanted.clone(), to: found.clone() });
                }
                if found.is_none() && may_be_set(key) && near_value(question, key, wanted).is_none() {
                    let (nodes, key, value) = (Arc::clone(&some), key.clone(), wanted.clone());
                    edits.push(Edit::Label { pool: pool.clone(), nodes, key, value });
                }
                edits.push(Edit::DropSelector(key.clone()));
                edits
            }
            Reason::NodeAffinity { unmet } => {
                let labels = unmet.iter().flatten().filter_map(|requirement| {
                    let key = requirement.key.clone();
                    let value = match requirement.operator {
                        Operator::In => requirement.values.first()?.clone(),
                        Operator::Exists => "true".to_owned(),
                        _ => return None,
                    };
                    let meant = otherwise(question, &key, &requirement.values)
                        .or_else(|| near_value(question, &key, &value).map(str::to_owned));
                    if let Some(to) = meant {
                        return Some(Edit::ChangeAffinity { key, from: value, to });
                    }
                    may_be_set(&key).then_some(Edit::Label { pool: pool.clone(), nodes: Arc::clone(&some), key, value })
                });
                labels.take(2).chain([Edit::DropNodeAffinity]).collect()
            }
            Reason::NotAmongNamedNodes { .. } | Reason::ConflictingNodeNames => vec![Edit::DropNodeAffinity],
            Reason::HostPort { wanted, .. } => [Edit::DropHostPort(wanted.port)].into_iter().chain(rooms()).collect(),
            Reason::TooManyPods { .. } | Reason::ExistingAntiAffinity { .. } => rooms(),
            Reason::Insufficient { resource, .. } => {
                let lower = lowered.get(resource).map(|(from, to)| Edit::LowerRequest {
                    resource: resource.clone(),
                    from: *from,
                    to: *to,
                });
                lower.into_iter().chain(rooms()).collect()
            }
            Reason::Spread { constraint, matching, minimum, max_skew, .. } => {
                let pods = question.pods.len() as i64;
                let least = (matching + 1 - minimum).max(max_skew + 1);
                // As little as may do for one pod, and as much as surely does for all.
                let relaxed = [least, matching + pods - minimum].map(|to| Edit::RelaxSpread {
                    constraint: *constraint,
                    from: *max_skew,
                    to,
                });
                relaxed.into_iter().chain(rooms()).collect()
            }
            Reason::SpreadMissingLabel { constraint, topology_key } => {
                other_topology(question, Topology::Spread(*constraint), topology_key).into_iter().collect()
            }
            Reason::PodAffinity { term, topology_key, domain: None } => {
                let other = other_topology(question, Topology::Affinity(*term), topology_key);
                other.into_iter().chain([Edit::DropPodAffinity(*term)]).collect()
            }
            Reason::PodAffinity { term, .. } => vec![Edit::DropPodAffinity(*term)],
            Reason::PodAntiAffinity { term, .. } => {
                rooms().into_iter().chain([Edit::DropPodAntiAffinity(*term)]).collect()
            }
            Reason::NoDevices { .. } => device_edits::remedies(question, refusal).into_iter().chain(rooms()).collect(),
            // A label that names the node's place is not to be invented; volumes are not the scheduler's to move.
            _ => Vec::new(),
        })
        .collect()
}

/// The value that the lab gives this label where pods of the workload ask for it, if they ask for others now.
fn otherwise(question: &Question<'_, '_>, key: &str, wanted: &[String]) -> Option<String> {
    let workload = workload_of(question.view, question.pods.first()?)?;
    let said: Vec<&str> = said_of_label(workload, key);
    if said.iter().any(|value| wanted.iter().any(|wanted| wanted == value)) {
        return None;
    }
    said.first().map(|value| (*value).to_owned())
}

/// A value of this label that nodes have and that looks like the one that no node has.
fn near_value<'q>(question: &Question<'q, '_>, key: &str, wanted: &str) -> Option<&'q str> {
    let values = || question.view.nodes.values().filter_map(|node| node.labels().get(key)).map(String::as_str);
    let is_slip = |value: &&str| {
        let letters = wanted.chars().count() > 2 && value.chars().all(|letter| !letter.is_ascii_digit());
        alike(value, wanted) || (letters && strsim::osa_distance(value, wanted) == 1)
    };
    if values().any(|value| value == wanted) { None } else { values().find(is_slip) }
}

/// The label that is meant where no node has one of this key: what the lab says, else the one of the nodes that looks like it.
fn other_topology(question: &Question<'_, '_>, rule: Topology, key: &str) -> Option<Edit> {
    let keys = || question.view.nodes.values().flat_map(|node| node.labels().keys()).map(String::as_str);
    if keys().any(|known| known == key) {
        return None;
    }
    let said = question.pods.first().and_then(|pod| workload_of(question.view, pod));
    let said: Vec<&str> = said.iter().flat_map(|of| said_of_topology(of, rule)).map(|(said, _)| said).collect();
    let near = |known: &&str| strsim::osa_distance(known, key) <= 2.min(key.len() / 3);
    let of_lab = said.first().copied().filter(|_| !said.contains(&key));
    let to = of_lab.or_else(|| keys().filter(near).min_by_key(|known| (strsim::osa_distance(known, key), *known)))?;
    Some(Edit::ChangeTopologyKey { rule, from: key.to_owned(), to: to.to_owned() })
}

/// Whether two label values look like a slip of the pen.
fn alike(one: &str, two: &str) -> bool {
    strsim::jaro_winkler(one, two) > 0.85
}

/// Whether people set this label: those that name the node's own nature are not theirs to change.
fn may_be_set(key: &str) -> bool {
    let reserved = [
        "kubernetes.io/",
        "node.kubernetes.io/",
        "topology.kubernetes.io/",
        "kubernetes.azure.com/",
        "eks.amazonaws.com/",
        "cloud.google.com/",
        "karpenter.sh/",
    ];
    !reserved.iter().any(|prefix| key.starts_with(prefix)) && !POOL_LABELS.contains(&key)
}

fn roomiest_first<'r>(refusal: &'r Refusal<'_>) -> impl Iterator<Item = String> + 'r {
    let best = roomiest(refusal);
    best.map(str::to_owned).into_iter().chain(names(refusal).filter(move |name| Some(name.as_str()) != best))
}

fn names<'r>(refusal: &'r Refusal<'_>) -> impl Iterator<Item = String> + 'r {
    refusal.nodes.iter().map(|(name, _)| (*name).to_owned())
}
