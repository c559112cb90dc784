//! The smallest changes after which the scheduler places pods: proposed from its reasons, proved by asking it again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;

use super::edit::Edit;
use super::reasons::Refusal;
use super::sandbox::Sandbox;
use super::wording;
use crate::scheduling::quantity::Quantity;
use crate::scheduling::selector::Operator;
use crate::scheduling::{Cluster, Reason, pod_requests};
use crate::verify::cause::Suggestion;
use crate::verify::view::{Owner, PodView, View, pool_of};

/// Most changes shown.
const SHOWN: usize = 3;
/// Most combinations put to the scheduler.
const TRIED: usize = 32;
/// Most combinations per group of nodes.
const PER_GROUP: usize = 12;
/// Most nodes a pool is extended by, and most pods a workload loses, in one change.
const STEPS: usize = 50;
/// Most pools and workloads looked at as sources of room.
const SOURCES: usize = 6;

/// What the scheduler is asked about.
pub(crate) struct Question<'q, 'a> {
    pub(crate) view: &'q View<'a>,
    /// The pods, all alike and without a place.
    pub(crate) pods: &'q [&'q PodView<'a>],
    /// What keeps the first of them from the nodes.
    pub(crate) refusals: &'q [Refusal<'q>],
    /// Whether a node (or a new one of a pool) is where the pods are wanted.
    pub(crate) wanted: &'q dyn Fn(Destination<'_>) -> bool,
}

/// Where a change would bring a pod.
#[derive(Clone, Copy)]
pub(crate) enum Destination<'d> {
    /// A node of the snapshot.
    Node(&'d str),
    /// A node that the pool would get.
    NewNodeOf(&'d str),
}

/// A change that does what it says, with its parts.
pub(crate) struct Remedy {
    pub(crate) suggestion: Suggestion,
    /// The changes; tests make them again, on their own.
    #[cfg(test)]
    pub(crate) edits: Vec<Edit>,
    #[cfg(test)]
    pub(crate) steps: usize,
}

/// Changes after which all pods asked about are placed, the smallest first. The model is left as it was.
pub(crate) fn suggest(question: &Question<'_, '_>, cluster: &mut Cluster) -> Vec<Remedy> {
    try_all(question, proposals(question), cluster)
}

/// Changes that bring pods from where they are to where they are wanted: the node selector `key=value`, and what else it
/// takes to be let in there.
pub(crate) fn steer(
    view: &View<'_>,
    pods: &[&PodView<'_>],
    (key, value): (&str, &str),
    wanted: &dyn Fn(Destination<'_>) -> bool,
    cluster: &mut Cluster,
) -> Vec<Remedy> {
    let Some(first) = pods.first() else { return Vec::new() };
    let require = Edit::Require { key: key.to_owned(), value: value.to_owned() };
    let mut steered = unbound(first.pod);
    require.apply_to_pod(&mut steered);
    let nodes = nodes(view);
    let mut sandbox = Sandbox::new(cluster, &nodes);
    take_away(view, pods, &mut sandbox);
    let reasons = sandbox.reasons(&steered).unwrap_or_default();
    sandbox.restore();
    let refused = reasons.iter().filter(|(name, reasons)| !reasons.is_empty() && wanted(Destination::Node(name)));
    let refusals =
        super::group(refused.map(|(name, reasons)| (&**name, reasons.as_slice())), |name| view.pool_of(name));
    let question = Question { view, pods, refusals: &refusals, wanted };
    let with_remedies = proposals(&question).into_iter().map(|edits| [vec![require.clone()], edits].concat());
    let proposals = [vec![require.clone()]].into_iter().chain(with_remedies).collect();
    try_all(&question, proposals, cluster)
}

fn nodes<'a>(view: &View<'a>) -> HashMap<&'a str, &'a Arc<Node>> {
    view.snapshot.nodes.iter().filter_map(|node| Some((node.metadata.name.as_deref()?, node))).collect()
}

/// Puts combinations of changes to the scheduler, the smallest first, and keeps those that do it.
fn try_all(question: &Question<'_, '_>, mut proposals: Vec<Vec<Edit>>, cluster: &mut Cluster) -> Vec<Remedy> {
    let nodes = nodes(question.view);
    proposals.sort_by_key(|edits| (edits.len(), edits.iter().map(Edit::weight).sum::<u32>()));
    proposals.dedup();
    let mut shown: Vec<Remedy> = Vec::new();
    let mut sandbox = Sandbox::new(cluster, &nodes);
    for edits in proposals.into_iter().take(TRIED) {
        // Three ways out are enough, and a way that takes more changes is none beside one that takes fewer.
        if shown.len() >= SHOWN || shown.first().is_some_and(|first| first.suggestion.changes < edits.len()) {
            break;
        }
        let proof = prove(&edits, question, &mut sandbox);
        sandbox.restore();
        let Some(proof) = proof.filter(|proof| arrives(question, &edits, proof)) else { continue };
        let suggestion = wording::suggestion(&edits, &proof, question);
        if shown.iter().all(|other| other.suggestion.text != suggestion.text) {
            shown.push(Remedy {
                suggestion,
                #[cfg(test)]
                edits,
                #[cfg(test)]
                steps: proof.steps,
            });
        }
    }
    shown
}

/// A pod as it was before it got its node.
pub(crate) fn unbound(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    if let Some(spec) = pod.spec.as_mut() {
        spec.node_name = None;
    }
    pod
}

/// Takes pods that have a node off it: they are to be placed anew.
fn take_away(view: &View<'_>, pods: &[&PodView<'_>], sandbox: &mut Sandbox<'_>) {
    for pod in pods.iter().filter(|pod| pod.node.is_some()) {
        if let Some(object) = view.snapshot.pods.get(pod.index) {
            sandbox.remove_pod(object);
        }
    }
}

/// Whether all pods come to where they are wanted.
fn arrives(question: &Question<'_, '_>, edits: &[Edit], proof: &Proof) -> bool {
    let grown = edits.iter().find_map(|edit| match edit {
        Edit::AddNodes { pool, .. } => Some(pool.as_str()),
        _ => None,
    });
    proof.nodes.iter().all(|node| {
        let known = question.view.nodes.contains_key(node.as_str());
        let new = grown.filter(|_| !known).map(Destination::NewNodeOf);
        (question.wanted)(new.unwrap_or(Destination::Node(node)))
    })
}

/// That a combination of changes suffices.
pub(crate) struct Proof {
    /// The nodes the pods go to, in the order of the pods.
    pub(crate) nodes: Vec<String>,
    /// How many steps the stepwise change took.
    pub(crate) steps: usize,
}

/// Makes the changes in the sandbox and lets the scheduler place all pods.
fn prove(edits: &[Edit], question: &Question<'_, '_>, sandbox: &mut Sandbox<'_>) -> Option<Proof> {
    take_away(question.view, question.pods, sandbox);
    for edit in edits {
        edit.apply_to_cluster(sandbox);
    }
    let stepwise = edits.iter().find(|edit| edit.is_stepwise());
    let mut proof = Proof { nodes: Vec::new(), steps: 0 };
    for pod in question.pods {
        let mut changed = unbound(pod.pod);
        for edit in edits.iter().filter(|edit| !edit.is_stepwise()) {
            if !edit.apply_to_pod(&mut changed) {
                return None;
            }
        }
        let mut place = sandbox.place(&changed);
        while place.is_none() {
            let edit = stepwise?;
            // A new node that does not help will not help a second time; a pod less may.
            let hopeless = matches!(edit, Edit::AddNodes { .. }) && proof.steps > proof.nodes.len();
            if hopeless || proof.steps >= STEPS || !edit.step(sandbox, proof.steps) {
                return None;
            }
            proof.steps += 1;
            place = sandbox.place(&changed);
        }
        proof.nodes.extend(place);
    }
    // A stepwise change that took no step is none.
    (stepwise.is_none() || proof.steps > 0).then_some(proof)
}

/// Combinations of changes, one set per group of nodes and choice of remedies.
fn proposals(question: &Question<'_, '_>) -> Vec<Vec<Edit>> {
    let Some(pod) = question.pods.first().map(|pod| pod.pod) else { return Vec::new() };
    let gates: Vec<String> =
        pod.spec.iter().flat_map(|spec| spec.scheduling_gates.iter().flatten()).map(|gate| gate.name.clone()).collect();
    let gate_edit = (!gates.is_empty()).then_some(Edit::DropGates(gates));
    let mut all: Vec<Vec<Edit>> = Vec::new();
    if let Some(edit) = &gate_edit {
        all.push(vec![edit.clone()]);
    }
    for refusal in question.refusals {
        let remedies = remedies(question, refusal, pod);
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
        all.extend(combinations);
    }
    all.extend(other_pools(question).into_iter().map(|edit| gate_edit.iter().cloned().chain([edit]).collect()));
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
fn remedies(question: &Question<'_, '_>, refusal: &Refusal<'_>, pod: &Pod) -> Vec<Vec<Edit>> {
    let names: Vec<String> = refusal.nodes.iter().map(|(name, _)| (*name).to_owned()).collect();
    let whole_pool = refusal.pool.is_some_and(|pool| {
        question.view.nodes.values().filter(|node| pool_of(node) == Some(pool)).count() == names.len()
    });
    // The whole pool where the group is the whole pool, else its first node.
    let (pool, some) = if whole_pool {
        (refusal.pool.map(str::to_owned), names.clone())
    } else {
        (None, names.iter().take(question.pods.len().clamp(1, 3)).cloned().collect())
    };
    let rooms = || rooms(question, refusal);
    let lowered = lowered_requests(question, refusal, pod);
    refusal
        .first()
        .iter()
        .map(|reason| match reason {
            Reason::Unschedulable => {
                vec![Edit::Uncordon(names.iter().take(question.pods.len().clamp(1, 3)).cloned().collect())]
            }
            Reason::UntoleratedTaints { taints } => {
                let by_condition = taints.iter().any(|taint| taint.key.starts_with("node.kubernetes.io/"));
                if by_condition {
                    return Vec::new();
                }
                vec![
                    Edit::Tolerate(taints.clone()),
                    Edit::Untaint { pool: pool.clone(), nodes: some.clone(), taints: taints.clone() },
                ]
            }
            Reason::NodeSelector { key, wanted, found } => {
                let mut edits = Vec::new();
                if let Some(found) = found.as_ref().filter(|found| alike(found, wanted)) {
                    edits.push(Edit::ChangeSelector { key: key.clone(), from: wanted.clone(), to: found.clone() });
                }
                if found.is_none() && may_be_set(key) {
                    let (nodes, key, value) = (some.clone(), key.clone(), wanted.clone());
                    edits.push(Edit::Label { pool: pool.clone(), nodes, key, value });
                }
                edits.push(Edit::DropSelector(key.clone()));
                edits
            }
            Reason::NodeAffinity { unmet } => {
                let labels = unmet.iter().flatten().filter_map(|requirement| {
                    let value = match requirement.operator {
                        Operator::In => requirement.values.first()?.clone(),
                        Operator::Exists => "true".to_owned(),
                        _ => return None,
                    };
                    let key = requirement.key.clone();
                    may_be_set(&key).then_some(Edit::Label { pool: pool.clone(), nodes: some.clone(), key, value })
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
            Reason::PodAffinity { term, .. } => vec![Edit::DropPodAffinity(*term)],
            Reason::PodAntiAffinity { term, .. } => {
                rooms().into_iter().chain([Edit::DropPodAntiAffinity(*term)]).collect()
            }
            // A label that names the node's place is not to be invented; volumes are not the scheduler's to move.
            _ => Vec::new(),
        })
        .collect()
}

/// Whether two label values look like a slip of the pen.
fn alike(one: &str, two: &str) -> bool {
    strsim::jaro_winkler(one, two) > 0.85
}

/// Whether people set this label: those that name the node's own nature are not theirs to change.
fn may_be_set(key: &str) -> bool {
    let reserved = ["kubernetes.io/", "node.kubernetes.io/", "topology.kubernetes.io/", "kubernetes.azure.com/"];
    !reserved.iter().any(|prefix| key.starts_with(prefix)) && key != "agentpool"
}

/// Ways to make room beside what is there: more nodes in the pool, or fewer pods of another workload.
fn rooms(question: &Question<'_, '_>, refusal: &Refusal<'_>) -> Vec<Edit> {
    let more = refusal.pool.and_then(|pool| add_nodes(question.view, pool));
    more.into_iter().chain(scale_downs(question, refusal)).collect()
}

/// Every pool may get a node that takes the pods as they are.
fn other_pools(question: &Question<'_, '_>) -> Vec<Edit> {
    let pools: BTreeSet<&str> = question.view.nodes.values().filter_map(|node| pool_of(node)).collect();
    pools.into_iter().take(SOURCES).filter_map(|pool| add_nodes(question.view, pool)).collect()
}

fn add_nodes(view: &View<'_>, pool: &str) -> Option<Edit> {
    let members: Vec<&Arc<Node>> = view.snapshot.nodes.iter().filter(|node| pool_of(node) == Some(pool)).collect();
    let template = *members.iter().min_by_key(|node| node.metadata.name.as_deref())?;
    let mut by_zone: BTreeMap<&str, usize> = BTreeMap::new();
    for node in &members {
        if let Some(zone) = node.labels().get("topology.kubernetes.io/zone") {
            *by_zone.entry(zone).or_default() += 1;
        }
    }
    let mut zones: Vec<(usize, &str)> = by_zone.into_iter().map(|(zone, nodes)| (nodes, zone)).collect();
    zones.sort_unstable();
    let zones = zones.into_iter().map(|(_, zone)| zone.to_owned()).collect();
    Some(Edit::AddNodes { pool: pool.to_owned(), template: Arc::clone(template), zones })
}

/// Other people's workloads with pods on these nodes, those that hold most of the nodes' room first.
fn scale_downs(question: &Question<'_, '_>, refusal: &Refusal<'_>) -> Vec<Edit> {
    let here: BTreeSet<&str> = refusal.nodes.iter().map(|(name, _)| *name).collect();
    let own = question.pods.first().map(|pod| pod.owner);
    let mut workloads: BTreeMap<(&str, &str, &str), Vec<&PodView<'_>>> = BTreeMap::new();
    for pod in &question.view.pods {
        let scales = matches!(pod.owner, Owner::Deployment(_) | Owner::ReplicaSet(_) | Owner::StatefulSet(_));
        let is_own = own.is_some_and(|own| own.is(&pod.owner));
        if scales && !is_own && pod.namespace != "kube-system" && pod.node.is_some() && pod.counts() {
            workloads.entry((pod.owner.kind(), pod.namespace, pod.owner.name())).or_default().push(pod);
        }
    }
    let on_these =
        |pods: &[&PodView<'_>]| pods.iter().filter(|pod| pod.node.is_some_and(|node| here.contains(node))).count();
    let mut ranked: Vec<_> = workloads.into_iter().filter(|(_, pods)| on_these(pods) > 0).collect();
    ranked.sort_by_key(|(key, pods)| (std::cmp::Reverse(on_these(pods)), *key));
    ranked
        .into_iter()
        .take(SOURCES)
        .map(|((kind, namespace, name), pods)| Edit::ScaleDown {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            from: pods.len(),
            victims: deletion_order(kind, &pods)
                .into_iter()
                .filter_map(|pod| question.view.snapshot.pods.get(pod.index).cloned())
                .collect(),
        })
        .collect()
}

/// The order in which a controller deletes pods when it is scaled down: a StatefulSet by number from the end; a
/// ReplicaSet those that are not ready first, then by deletion cost, then from the nodes with most of its pods, then the
/// youngest (kubernetes/kubernetes pkg/controller/controller_utils.go, `ActivePodsWithRanks`).
fn deletion_order<'p, 'a>(kind: &str, pods: &[&'p PodView<'a>]) -> Vec<&'p PodView<'a>> {
    let mut order = pods.to_vec();
    if kind == "StatefulSet" {
        let ordinal = |pod: &PodView<'_>| pod.name.rsplit_once('-').and_then(|(_, number)| number.parse::<u64>().ok());
        order.sort_by_key(|pod| std::cmp::Reverse(ordinal(pod)));
        return order;
    }
    let mut by_node: HashMap<&str, usize> = HashMap::new();
    for node in pods.iter().filter_map(|pod| pod.node) {
        *by_node.entry(node).or_default() += 1;
    }
    order.sort_by_key(|pod| {
        let cost = pod.pod.annotations().get("controller.kubernetes.io/pod-deletion-cost");
        let created = pod.pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (
            pod.state.is_ready(),
            cost.and_then(|cost| cost.parse::<i64>().ok()).unwrap_or(0),
            std::cmp::Reverse(pod.node.and_then(|node| by_node.get(node)).copied()),
            std::cmp::Reverse(created),
            pod.name,
        )
    });
    order
}

/// The greatest requests with which all pods fit on the group's nodes: by resource, from and to. The requests that are
/// too great are lowered by one common factor.
fn lowered_requests(question: &Question<'_, '_>, refusal: &Refusal<'_>, pod: &Pod) -> BTreeMap<String, (i64, i64)> {
    let short: BTreeSet<&str> = refusal
        .first()
        .iter()
        .filter_map(|reason| match reason {
            Reason::Insufficient { resource, .. } => Some(resource.as_str()),
            _ => None,
        })
        .collect();
    let Ok(requests) = pod_requests(pod) else { return BTreeMap::new() };
    let wanted: BTreeMap<&str, i64> = short
        .iter()
        .filter_map(|resource| Some((*resource, requests.get(*resource).map(|it: &Quantity| it.base_units(resource))?)))
        .filter(|(_, amount)| *amount > 0)
        .collect();
    if wanted.is_empty() {
        return BTreeMap::new();
    }
    let free: Vec<BTreeMap<&str, i64>> = refusal
        .nodes
        .iter()
        .map(|(_, reasons)| {
            let shortages = reasons.iter().filter_map(|reason| match reason {
                Reason::Insufficient { resource, used, allocatable, .. } => {
                    Some((resource.as_str(), allocatable - used))
                }
                _ => None,
            });
            shortages.collect()
        })
        .collect();
    let lowered = |factor: f64| -> BTreeMap<&str, i64> {
        wanted.iter().map(|(name, amount)| (*name, rounded(name, (*amount as f64 * factor) as i64))).collect()
    };
    let fits = |amounts: &BTreeMap<&str, i64>| {
        if amounts.values().any(|amount| *amount <= 0) {
            return false;
        }
        let of_node = |free: &BTreeMap<&str, i64>| {
            amounts.iter().map(|(name, amount)| free.get(name).copied().unwrap_or(0) / amount).min().unwrap_or(0).max(0)
        };
        free.iter().map(of_node).sum::<i64>() >= question.pods.len() as i64
    };
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..24 {
        let middle = f64::midpoint(low, high);
        if fits(&lowered(middle)) { low = middle } else { high = middle }
    }
    let amounts = lowered(low);
    if !fits(&amounts) {
        return BTreeMap::new();
    }
    amounts.into_iter().filter_map(|(name, amount)| Some((name.to_owned(), (*wanted.get(name)?, amount)))).collect()
}

/// Down to an amount that people would write.
fn rounded(resource: &str, amount: i64) -> i64 {
    const MI: i64 = 1 << 20;
    let step = match resource {
        "cpu" if amount >= 1000 => 50,
        "cpu" if amount >= 100 => 10,
        "memory" | "ephemeral-storage" if amount >= 1024 * MI => 64 * MI,
        "memory" | "ephemeral-storage" if amount >= 64 * MI => 8 * MI,
        "memory" | "ephemeral-storage" if amount >= MI => MI,
        _ => 1,
    };
    amount / step * step
}
