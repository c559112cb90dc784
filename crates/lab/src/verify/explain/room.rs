//! Room for pods: more nodes, fewer pods of others, smaller requests.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube_core::ResourceExt;

use super::edit::Edit;
use super::question::Question;
use super::reasons::Refusal;
use crate::names::SIZE_LABEL;
use crate::spec::VmSize;
use crate::verify::node::{is_cordoned, is_ready};
use crate::verify::view::{Owner, PodView, View};
use klab_scheduler::quantity::Quantity;
use klab_scheduler::{Reason, pod_requests};

/// Most pools and workloads looked at as sources of room.
const SOURCES: usize = 6;

/// Where room may come from, counted once for all groups of nodes.
pub(super) struct Sources<'q, 'a> {
    view: &'q View<'a>,
    /// Nodes by pool, by name.
    pools: BTreeMap<&'a str, Vec<&'a Arc<Node>>>,
    /// Other people's workloads with pods that have a node.
    workloads: Vec<Scalable<'q, 'a>>,
    /// Per group of nodes, the workloads with pods there and how many, most first.
    holders: Vec<Vec<(usize, usize)>>,
}

/// A workload that can be scaled down.
struct Scalable<'q, 'a> {
    owner: Owner<'a>,
    namespace: &'a str,
    pods: Vec<&'q PodView<'a>>,
}

impl<'q, 'a> Sources<'q, 'a> {
    pub(super) fn of(question: &Question<'q, 'a>) -> Self {
        let view = question.view;
        let mut pools: BTreeMap<&str, Vec<&Arc<Node>>> = BTreeMap::new();
        for node in &view.snapshot.nodes {
            if let Some(pool) = view.pool_of_node(node) {
                pools.entry(pool).or_default().push(node);
            }
        }
        for nodes in pools.values_mut() {
            nodes.sort_by_key(|node| node.metadata.name.as_deref());
        }
        let own = question.pods.first().map(|pod| pod.owner);
        let mut workloads: Vec<Scalable<'_, '_>> = Vec::new();
        let mut known: HashMap<(&str, &str, &str), usize> = HashMap::new();
        let groups = question.refusals.iter().enumerate();
        let group_of: HashMap<&str, usize> =
            groups.flat_map(|(at, refusal)| refusal.nodes.iter().map(move |(name, _)| (*name, at))).collect();
        let mut counts: Vec<HashMap<usize, usize>> = vec![HashMap::new(); question.refusals.len()];
        for pod in &view.pods {
            let scales = matches!(pod.owner, Owner::Deployment(_) | Owner::ReplicaSet(_) | Owner::StatefulSet(_));
            let Some(node) = pod.node.filter(|_| scales && pod.namespace != "kube-system" && pod.counts()) else {
                continue;
            };
            if own.is_some_and(|own| own.is(&pod.owner)) {
                continue;
            }
            let at = *known.entry((pod.owner.kind(), pod.namespace, pod.owner.name())).or_insert_with(|| {
                workloads.push(Scalable { owner: pod.owner, namespace: pod.namespace, pods: Vec::new() });
                workloads.len() - 1
            });
            workloads[at].pods.push(pod);
            if let Some(group) = group_of.get(node) {
                *counts[*group].entry(at).or_default() += 1;
            }
        }
        let ranked = |counts: HashMap<usize, usize>| {
            let mut ranked: Vec<(usize, usize)> = counts.into_iter().collect();
            ranked.sort_unstable_by_key(|(at, pods)| (std::cmp::Reverse(*pods), *at));
            ranked.truncate(SOURCES);
            ranked
        };
        Self { view, pools, workloads, holders: counts.into_iter().map(ranked).collect() }
    }

    /// How many nodes a pool has.
    pub(super) fn pool_size(&self, pool: &str) -> usize {
        self.pools.get(pool).map_or(0, Vec::len)
    }

    /// Ways to make room beside what is on the nodes of a group: more nodes in the pool, or fewer pods of another
    /// workload.
    pub(super) fn rooms(&self, group: usize, refusal: &Refusal<'_>) -> Vec<Edit> {
        let more = refusal.pool.and_then(|pool| self.add_nodes(pool));
        let holders = self.holders.get(group).into_iter().flatten();
        more.into_iter().chain(holders.map(|(at, _)| self.scale_down(&self.workloads[*at]))).collect()
    }

    /// Every pool may get a node that takes the pods as they are; where no node belongs to a pool, there may be one more like them.
    pub(super) fn all_pools(&self) -> impl Iterator<Item = Edit> {
        let template = self.view.snapshot.nodes.iter().find(|node| is_ready(node) && !is_cordoned(node));
        let template = template.filter(|_| self.pools.is_empty());
        let like = template.map(|template| Edit::AddNodes {
            pool: String::new(),
            template: Arc::clone(template),
            zones: Vec::new(),
        });
        self.pools.keys().take(SOURCES).filter_map(|pool| self.add_nodes(pool)).chain(like)
    }

    fn add_nodes(&self, pool: &str) -> Option<Edit> {
        let members = self.pools.get(pool)?;
        let mut by_zone: BTreeMap<&str, usize> = BTreeMap::new();
        for node in members {
            if let Some(zone) = node.labels().get("topology.kubernetes.io/zone") {
                *by_zone.entry(zone).or_default() += 1;
            }
        }
        let mut zones: Vec<(usize, &str)> = by_zone.into_iter().map(|(zone, nodes)| (nodes, zone)).collect();
        zones.sort_unstable();
        let zones = zones.into_iter().map(|(_, zone)| zone.to_owned()).collect();
        // Of several sizes the largest takes most pods; of equal nodes it is the first.
        let cpus = |node: &&&Arc<Node>| {
            node.labels().get(SIZE_LABEL).and_then(|size| VmSize::find(size)).map_or(0, |size| size.cpus)
        };
        let template = members.iter().rev().max_by_key(cpus)?;
        Some(Edit::AddNodes { pool: pool.to_owned(), template: Arc::clone(template), zones })
    }

    /// The old pods of the pods' own owner, where its rollout keeps them until new ones run.
    pub(super) fn old_pods(&self, question: &Question<'q, 'a>) -> Option<Edit> {
        let first = question.pods.first().filter(|pod| pod.current)?;
        let (replicas, keeps) = match first.owner {
            Owner::Deployment(owner) => {
                let spec = owner.spec.as_ref()?;
                let kind = spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
                (spec.replicas.unwrap_or(1), kind != Some("Recreate"))
            }
            Owner::DaemonSet(owner) => {
                let strategy = owner.spec.as_ref()?.update_strategy.as_ref();
                (1, strategy.is_none_or(|strategy| strategy.type_.as_deref() != Some("OnDelete")))
            }
            _ => return None,
        };
        let own = || self.view.pods.iter().filter(|pod| pod.owner.is(&first.owner));
        let old: Vec<&PodView<'_>> = own().filter(|pod| pod.is_old() && pod.node.is_some()).collect();
        if old.is_empty() || !keeps {
            return None;
        }
        // A controller removes old pods down to the replicas less `maxUnavailable`, counting those of both templates that are
        // available (upstream: pkg/controller/deployment/rolling.go reconcileOldReplicaSets, v1.36).
        let available = own().filter(|pod| pod.counts() && pod.state.is_ready()).count() + old.len();
        let spare = match first.owner {
            Owner::Deployment(_) => i64::from(replicas) - i64::try_from(available).unwrap_or(i64::MAX),
            _ => 0,
        };
        let order = deletion_order(first.owner.kind(), &old);
        let victims = order.into_iter().filter_map(|pod| self.view.snapshot.pods.get(pod.index).cloned()).collect();
        Some(Edit::OldFirst { spare, victims })
    }

    fn scale_down(&self, workload: &Scalable<'q, 'a>) -> Edit {
        let victims = deletion_order(workload.owner.kind(), &workload.pods);
        Edit::ScaleDown {
            kind: workload.owner.kind().to_owned(),
            namespace: workload.namespace.to_owned(),
            name: workload.owner.name().to_owned(),
            from: workload.pods.len(),
            victims: victims.into_iter().filter_map(|pod| self.view.snapshot.pods.get(pod.index).cloned()).collect(),
        }
    }
}

/// The node of a group where least is missing, or any where nothing is short.
pub(super) fn roomiest<'r>(refusal: &Refusal<'r>) -> Option<&'r str> {
    let shortage = |reasons: &[Reason]| {
        let ratios = reasons.iter().filter_map(|reason| match reason {
            Reason::Insufficient { requested, used, allocatable, .. } => {
                Some((allocatable - used).max(0) as f64 / (*requested).max(1) as f64)
            }
            _ => None,
        });
        ratios.fold(1.0, f64::min)
    };
    let nodes = refusal.nodes.iter().map(|(name, reasons)| (shortage(reasons), *name));
    nodes.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, name)| name)
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
pub(super) fn lowered_requests(
    question: &Question<'_, '_>,
    refusal: &Refusal<'_>,
    pod: &Pod,
) -> BTreeMap<String, (i64, i64)> {
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
    // A tenth of what a pod asks for is another pod.
    if amounts.iter().any(|(name, amount)| wanted.get(name).is_some_and(|wanted| amount * 10 < *wanted)) {
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
