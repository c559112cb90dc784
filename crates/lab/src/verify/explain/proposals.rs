//! What may be tried: per group of nodes the remedies for its reasons, combined.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube_core::ResourceExt;

use super::device_edits;
use super::edit::{Edit, Names, Topology};
use super::node_condition::condition;
use super::of_lab::drift;
use super::question::Question;
use super::reasons::{Refusal, elsewhere};
use super::restore::Field;
use super::room::{Sources, lowered_requests, roomiest};
use super::volume_remedies;
use crate::membership::POOL_LABELS;
use crate::verify::node::is_cordoned;
use crate::verify::view::Owner;
use klab_scheduler::Reason;
use klab_scheduler::selector::Operator;

/// The value of the class for what a node needs, which every cluster has.
const SYSTEM_NODE_CRITICAL: i32 = 2_000_001_000;
/// Labels that say what a node is made of.
const NATURE: [&str; 3] = ["kubernetes.io/arch", "kubernetes.io/os", "node.kubernetes.io/instance-type"];
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
    let old = sources.old_pods(question);
    let urgent = prioritized(question).filter(|_| old.is_none());
    let whole: Vec<Edit> = old.into_iter().chain(urgent).collect();
    all.extend(
        whole
            .into_iter()
            .map(|edit| Proposal { edits: gate_edit.iter().cloned().chain([edit]).collect(), sample: None }),
    );
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
    let drift = question.pods.first().and_then(|pod| drift(question.view, pod));
    // Where the cluster differs from the lab, the lab's value comes first.
    let restored = |reason: &Reason| {
        let drift = drift.as_ref().and_then(|drift| drift.only(field(reason)?));
        drift.map(|drift| Edit::Restore(Arc::new(drift)))
    };
    let others = |reason: &Reason| match reason {
        Reason::Unschedulable => vec![Edit::Uncordon(Arc::clone(&few))],
        Reason::UntoleratedTaints { taints } => {
            if taints.iter().any(|taint| condition(&taint.key).is_some()) {
                return Vec::new();
            }
            vec![
                Edit::Tolerate(taints.clone()),
                Edit::Untaint { pool: pool.clone(), nodes: Arc::clone(&some), taints: taints.clone() },
            ]
        }
        Reason::NodeSelector { key, wanted, found } => {
            let mut edits = Vec::new();
            let near = near_value(question, key, wanted);
            if let Some(to) = near.filter(|near| found.as_deref() == Some(*near)) {
                edits.push(Edit::ChangeSelector { key: key.clone(), from: wanted.clone(), to: to.to_owned() });
            }
            if found.is_none() && may_be_set(key) && near.is_none() {
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
                if let Some(to) = near_value(question, &key, &value).map(str::to_owned) {
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
        Reason::Spread {
            constraint,
            topology_key,
            matching,
            minimum,
            emptiest,
            max_skew,
            domains,
            min_domains,
            ..
        } => {
            let mut edits = vec![Edit::HonorTaints {
                constraint: *constraint,
                is_cordon: has_cordon(question, topology_key, emptiest.as_deref()),
            }];
            if domains < min_domains {
                let (from, to) = (*min_domains, *domains);
                edits.push(Edit::FewerDomains { constraint: *constraint, from, to });
            }
            let pods = question.pods.len() as i64;
            let least = (matching + 1 - minimum).max(max_skew + 1);
            // As little as may do for one pod, and as much as surely does for all.
            let relaxed = [least, matching + pods - minimum].map(|to| Edit::RelaxSpread {
                constraint: *constraint,
                from: *max_skew,
                to,
            });
            edits.extend(relaxed.into_iter().chain([Edit::ScheduleAnyway(*constraint)]).chain(rooms()));
            edits
        }
        Reason::SpreadMissingLabel { constraint, topology_key } => {
            let other = other_topology(question, Topology::Spread(*constraint), topology_key);
            let (nodes, key) = (Arc::clone(&some), topology_key.clone());
            let domain = rarest_value(question, topology_key);
            let label = domain.map(|value| Edit::Label { pool: pool.clone(), nodes, key, value });
            other.into_iter().chain(label).chain([Edit::ScheduleAnyway(*constraint)]).collect()
        }
        Reason::PodAffinity { term, topology_key, domain: None } => {
            let other = other_topology(question, Topology::Affinity(*term), topology_key);
            other.into_iter().chain([Edit::DropPodAffinity(*term)]).collect()
        }
        Reason::PodAffinity { term, .. } => {
            let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()?.pod_affinity.as_ref());
            let terms = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
            let own = pod.metadata.namespace.as_deref().unwrap_or("default");
            let other = terms.and_then(|terms| elsewhere(question.view, own, terms.get(*term)?));
            let look = other.map(|namespace| Edit::LookInto { term: *term, namespace: namespace.to_owned() });
            look.into_iter().chain([Edit::DropPodAffinity(*term)]).collect()
        }
        Reason::PodAntiAffinity { term, .. } => rooms().into_iter().chain([Edit::DropPodAntiAffinity(*term)]).collect(),
        Reason::ClaimNotFound { .. }
        | Reason::UnboundImmediateClaim { .. }
        | Reason::NoVolumeToBind { .. }
        | Reason::VolumeNotFound { .. }
        | Reason::ClaimLost { .. }
        | Reason::VolumeNodeAffinity { .. } => volume_remedies::remedies(question, reason),
        Reason::NoDevices { .. } => device_edits::remedies(question, refusal).into_iter().chain(rooms()).collect(),
        // A label that names the node's place is not to be invented.
        _ => Vec::new(),
    };
    refusal.first().iter().map(|reason| restored(reason).into_iter().chain(others(reason)).collect()).collect()
}

/// The field of pods that a reason is about.
fn field(reason: &Reason) -> Option<Field> {
    Some(match reason {
        Reason::Insufficient { .. } => Field::Requests,
        Reason::NodeSelector { .. } => Field::NodeSelector,
        Reason::NodeAffinity { .. }
        | Reason::NotAmongNamedNodes { .. }
        | Reason::ConflictingNodeNames
        | Reason::PodAffinity { .. }
        | Reason::PodAntiAffinity { .. } => Field::Affinity,
        Reason::UntoleratedTaints { .. } => Field::Tolerations,
        Reason::Spread { .. } | Reason::SpreadMissingLabel { .. } => Field::Spread,
        _ => return None,
    })
}

/// Whether the nodes of a domain are only cordoned.
fn has_cordon(question: &Question<'_, '_>, key: &str, domain: Option<&str>) -> bool {
    let mut nodes = question.view.nodes.values().filter(|node| node.labels().get(key).map(String::as_str) == domain);
    nodes.all(|node| is_cordoned(node))
}

/// A priority for the pods of a DaemonSet, whose place only less important pods can make.
fn prioritized(question: &Question<'_, '_>) -> Option<Edit> {
    let pod = question.pods.first().filter(|pod| matches!(pod.owner, Owner::DaemonSet(_)))?;
    let now = pod.pod.spec.as_ref()?.priority.unwrap_or(0);
    let own = question.view.snapshot.priority_classes.iter().filter(|class| {
        let name = class.metadata.name.as_deref().unwrap_or_default();
        class.value.is_some_and(|value| value > now) && !name.starts_with("system-")
    });
    let own = own.max_by_key(|class| class.value);
    let own = own.and_then(|class| Some((class.metadata.name.clone()?, class.value?)));
    let (class, value) = own.unwrap_or_else(|| ("system-node-critical".to_owned(), SYSTEM_NODE_CRITICAL));
    (value > now).then_some(Edit::Prioritize { class, value })
}

/// The value of this label that fewest nodes have.
fn rarest_value(question: &Question<'_, '_>, key: &str) -> Option<String> {
    let mut counts: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    for value in question.view.nodes.values().filter_map(|node| node.labels().get(key)) {
        *counts.entry(value).or_default() += 1;
    }
    counts.into_iter().min_by_key(|(value, nodes)| (*nodes, *value)).map(|(value, _)| value.to_owned())
}

/// A value of this label that nodes have and that looks like the one that no node has.
fn near_value<'q>(question: &Question<'q, '_>, key: &str, wanted: &str) -> Option<&'q str> {
    // Another architecture or another system is no slip of the pen: images are made for one.
    if NATURE.iter().any(|nature| key.ends_with(nature)) {
        return None;
    }
    let values = || question.view.nodes.values().filter_map(|node| node.labels().get(key)).map(String::as_str);
    let is_slip = |value: &&str| {
        let letters = wanted.chars().count() > 2 && value.chars().all(|letter| !letter.is_ascii_digit());
        value.eq_ignore_ascii_case(wanted)
            || alike(value, wanted)
            || (letters && strsim::osa_distance(value, wanted) == 1)
    };
    if values().any(|value| value == wanted) { None } else { values().find(is_slip) }
}

/// The label of nodes that looks like the one that is meant, where no node has that one.
fn other_topology(question: &Question<'_, '_>, rule: Topology, key: &str) -> Option<Edit> {
    let keys = || question.view.nodes.values().flat_map(|node| node.labels().keys()).map(String::as_str);
    if keys().any(|known| known == key) {
        return None;
    }
    let near = |known: &&str| strsim::osa_distance(known, key) <= 2.min(key.len() / 3);
    let to = keys().filter(near).min_by_key(|known| (strsim::osa_distance(known, key), *known))?;
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
