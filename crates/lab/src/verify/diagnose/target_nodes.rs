//! Where a check wants its pods, and whether it would hold if they were there.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodCondition;

use crate::spec::{Check, Condition, NodeSet};
use crate::verify::conditions::rule;
use crate::verify::context::Context;
use crate::verify::evaluate::evaluate;
use crate::verify::explain::Destination;
use crate::verify::snapshot::Snapshot;
use crate::verify::view::{PodView, View};

/// The nodes where a check wants its pods.
pub(crate) struct Homes<'c, 'v, 'a> {
    check: &'c Check,
    view: &'v View<'a>,
}

impl<'c, 'v, 'a> Homes<'c, 'v, 'a> {
    pub(crate) fn of(check: &'c Check, view: &'v View<'a>) -> HomesOwned {
        let homes = Self { check, view };
        let nodes = view.nodes.keys().filter(|name| homes.accept_node(name)).map(|name| (*name).to_owned()).collect();
        let pools: BTreeSet<&str> = view.nodes.values().filter_map(|node| view.pool_of_node(node)).collect();
        let pools = pools.into_iter().filter(|pool| homes.accept_pool(pool)).map(str::to_owned).collect();
        HomesOwned { nodes, pools }
    }

    fn accept_node(&self, name: &str) -> bool {
        self.check.conditions.iter().all(|condition| rule(&condition.value).accepts(self.view, name))
    }

    /// Whether a new node of a pool would be one: as the nodes it has, unless their names distinguish them.
    fn accept_pool(&self, pool: &str) -> bool {
        let by_name = self.check.conditions.iter().any(|condition| {
            matches!(&condition.value, Condition::On(NodeSet::Node(_)) | Condition::OnePerNode(NodeSet::Node(_)))
        });
        let mut members = self.view.members(pool);
        !by_name && members.any(|(name, _)| self.accept_node(name))
    }
}

/// The nodes where a check wants its pods, by name.
pub(crate) struct HomesOwned {
    pub(crate) nodes: BTreeSet<String>,
    pub(crate) pools: BTreeSet<String>,
}

impl HomesOwned {
    pub(super) fn accept(&self, place: Destination<'_>) -> bool {
        match place {
            Destination::Node(node) => self.nodes.contains(node),
            Destination::NewNodeOf(pool) => self.pools.contains(pool),
        }
    }
}

/// Whether pods would no longer keep a check from holding if they ran on these nodes: the check is asked.
pub(super) fn settles(
    check: &Check,
    context: Context<'_>,
    snapshot: &Snapshot,
    pods: &[&PodView<'_>],
    nodes: &[String],
) -> bool {
    let mut changed = snapshot.clone();
    for (pod, node) in pods.iter().zip(nodes) {
        let mut moved = pod.pod.clone();
        moved.spec.get_or_insert_default().node_name = Some(node.clone());
        let ready = PodCondition { type_: "Ready".to_owned(), status: "True".to_owned(), ..PodCondition::default() };
        let status = moved.status.get_or_insert_default();
        status.phase = Some("Running".to_owned());
        status.conditions = Some(vec![ready]);
        if let Some(slot) = changed.pods.get_mut(pod.index) {
            *slot = Arc::new(moved);
        }
    }
    let report = evaluate(std::slice::from_ref(check), &changed, &context);
    let failing = report.checks.iter().flat_map(|result| &result.findings).filter(|finding| !finding.holds);
    let offenders: BTreeSet<&String> = failing.flat_map(|finding| &finding.offenders).collect();
    pods.iter().all(|pod| !offenders.contains(&pod.id()))
}
