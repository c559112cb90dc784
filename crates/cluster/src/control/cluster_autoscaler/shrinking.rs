//! Nodes that no pod needs: found, marked, and removed when their time has come.

// upstream: cluster-autoscaler/core/static_autoscaler.go scaleDown, updateSoftDeletionTaints (v1.36)
// upstream: cluster-autoscaler/core/scaledown/planner/planner.go UpdateClusterState, NodesToDelete (v1.36)
// upstream: cluster-autoscaler/processors/nodes/pre_filtering_processor.go GetScaleDownCandidates (v1.36)

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use klab_api_machinery::resource::POD_DISRUPTION_BUDGETS;
use klab_api_machinery::views::Node;
use serde_json::json;

use super::component::set_taint;
use super::removal::Removals;
use crate::clock::later;
use crate::control::plane::Plane;
use crate::control::view::NodeInfo;
use klab_api_machinery::node_pools::{NodePool, POOL_LABEL};
use klab_scheduler::autoscaler::{
    Budgets, Candidate, DELETION_CANDIDATE, Judgement, NodeGroup, Obstacle, Owner, Profile, SCALE_DOWN_DISABLED,
    TAINTS, Unneeded, Verdict, judge,
};
use klab_scheduler::owner::controller;
use klab_scheduler::typed::Typed;

/// A node that could not go is looked at again after so long (`--unremovable-node-recheck-timeout`).
const RECHECK: SignedDuration = SignedDuration::from_mins(5);
/// Most nodes that are marked in one turn (`--max-bulk-soft-taint-count`).
const MARKED_AT_ONCE: usize = 10;

/// What is remembered of nodes that no pod needs.
#[derive(Debug, Default)]
pub(super) struct Shrinking {
    unneeded: Unneeded,
    /// Whether it has looked before: then the nodes' taints say nothing that it does not know.
    has_looked: bool,
    /// Nodes that could not go, and when they are looked at again.
    recheck: BTreeMap<Arc<str>, Timestamp>,
    judgements: Vec<Judgement>,
}

/// A node of an autoscaled pool, as it was when the autoscaler began to look.
pub(super) struct Member {
    info: Arc<NodeInfo>,
    name: Arc<str>,
    group: Arc<str>,
    is_ready: bool,
}

impl Shrinking {
    /// Forgets since when nodes have been unneeded.
    pub(super) fn clear(&mut self) {
        self.unneeded.clear();
        self.judgements.clear();
    }

    /// How many nodes of each group no pod needs.
    pub(super) fn candidates(&self, members: &[Member]) -> BTreeMap<Arc<str>, usize> {
        let mut counts = BTreeMap::new();
        for member in members.iter().filter(|member| self.unneeded.contains(&member.name)) {
            *counts.entry(Arc::clone(&member.group)).or_insert(0) += 1;
        }
        counts
    }

    /// Finds the nodes that no pod needs.
    pub(super) fn find(
        &mut self,
        plane: &Plane,
        profile: &Profile,
        groups: &[NodeGroup],
        members: &[Member],
        removals: &Removals,
    ) {
        let now = plane.now();
        self.recheck.retain(|node, until| *until > now && plane.view.node(node).is_some());
        let above_least =
            |member: &&Member| groups.iter().any(|group| group.name == member.group && group.target > group.min);
        let mut looked_at: Vec<(&Member, Vec<Pod>, bool)> = members
            .iter()
            .filter(|member| above_least(member) && !removals.contains(&member.name))
            .filter(|member| !self.recheck.contains_key(&member.name))
            .map(|member| {
                let pods = plane.view.pods_on(&member.name);
                let is_empty = pods.iter().all(|pod| pod.of_daemon_set());
                let pods =
                    pods.iter().filter(|pod| !pod.finished()).filter_map(|pod| Pod::from_json(&pod.object.json).ok());
                (member, pods.collect(), is_empty)
            })
            .collect();
        looked_at.sort_by_key(|(member, _, is_empty)| {
            (!*is_empty, !self.unneeded.contains(&member.name), Arc::clone(&member.name))
        });
        let candidates: Vec<Candidate<'_>> = looked_at
            .iter()
            .map(|(member, pods, _)| {
                let value = member.info.object.value();
                let is_disabled = Node(&value).metadata().annotations().get(SCALE_DOWN_DISABLED) == Some("true");
                Candidate { node: Arc::clone(&member.name), is_disabled, pods: pods.iter().collect() }
            })
            .collect();
        let (budgets, _) = plane.cluster.list(POD_DISRUPTION_BUDGETS, None);
        let budgets: Vec<PodDisruptionBudget> =
            budgets.iter().filter_map(|budget| Typed::from_json(&budget.json).ok()).collect();
        let owner = |pod: &Pod| {
            let is_gone = controller(&pod.metadata).is_some_and(|owner| plane.view.find(&owner.uid).is_none());
            if is_gone { Owner::Gone } else { Owner::Present }
        };
        self.judgements = judge(&plane.scheduler_cache, &candidates, Budgets::new(&budgets), &owner, profile, now);
        for judgement in &self.judgements {
            if let Verdict::Needed(Obstacle::BlockedByPod(..) | Obstacle::NoPlaceToMovePods) = judgement.verdict {
                self.recheck.insert(Arc::clone(&judgement.node), later(now, RECHECK));
            }
        }
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        let marked = |node: &str| marked_since(plane.view.node(node).filter(|_| is_first)?);
        self.unneeded.update(&self.judgements, now, marked);
    }

    /// Begins to remove the nodes whose time has come; says whether any goes.
    pub(super) fn remove(
        &self,
        plane: &mut Plane,
        profile: &Profile,
        groups: &[NodeGroup],
        members: &[Member],
        removals: &mut Removals,
    ) -> bool {
        let members: BTreeMap<&str, &Member> = members.iter().map(|member| (&*member.name, member)).collect();
        let spare = groups.iter().map(|group| {
            // Machines that are still to come count, those that go already count no more.
            let there = group.target.saturating_sub(removals.of_group(&group.name));
            (Arc::clone(&group.name), there.saturating_sub(group.min))
        });
        let node = |name: &str| members.get(name).map(|member| (Arc::clone(&member.group), member.is_ready));
        let now = plane.now();
        let going =
            self.unneeded.removable(&self.judgements, profile, now, spare.collect(), node, removals.in_progress());
        for removal in &going {
            let Verdict::Unneeded { moved, .. } = &removal.judgement.verdict else { continue };
            let Some(member) = members.get(&*removal.judgement.node) else { continue };
            let moved: Vec<String> = moved.iter().map(|pod| pod.name.to_string()).collect();
            let moved = removal.drains.then_some(&*moved);
            removals.begin(plane, &member.name, &member.group, moved, removal.judgement.utilization);
        }
        !going.is_empty()
    }

    /// When time alone may change what is to be done.
    pub(super) fn again(&self, plane: &Plane, profile: &Profile) -> Option<Timestamp> {
        let due = self.unneeded.iter().filter_map(|(node, _)| {
            let is_ready = plane.view.node(node).is_some_and(|node| &*node.ready == "True");
            self.unneeded.due(node, is_ready, profile)
        });
        due.chain(self.recheck.values().copied()).min()
    }

    /// Marks the nodes that no pod needs, and takes the mark off the others.
    pub(super) fn mark(&self, plane: &Plane, members: &[Member], removals: &Removals) {
        let mut budget = MARKED_AT_ONCE;
        for member in members {
            let is_marked = member.info.taints().any(|taint| taint.key() == DELETION_CANDIDATE);
            let is_unneeded = self.unneeded.contains(&member.name);
            if is_marked == is_unneeded || removals.contains(&member.name) || budget == 0 {
                continue;
            }
            budget -= 1;
            let since = self.unneeded.iter().find(|(node, _)| **node == member.name).map(|(_, since)| since);
            let taint = since.map(|since| {
                json!({ "key": DELETION_CANDIDATE, "value": since.as_second().to_string(), "effect": "PreferNoSchedule" })
            });
            set_taint(plane, &member.name, DELETION_CANDIDATE, taint);
        }
    }
}

/// Takes the marks off nodes that the autoscaler has no business with any more.
pub(super) fn unmark_others(plane: &Plane, pools: &BTreeMap<String, NodePool>) {
    let others = plane.view.nodes().filter(|node| {
        let pool = node.object.label(POOL_LABEL);
        !pool.is_some_and(|pool| pools.contains_key(pool)) && is_marked(node)
    });
    let others: Vec<Arc<NodeInfo>> = others.map(Arc::clone).collect();
    for node in others {
        for key in TAINTS {
            set_taint(plane, &node.object.name, key, None);
        }
    }
}

fn is_marked(node: &NodeInfo) -> bool {
    node.taints().any(|taint| TAINTS.contains(&taint.key()))
}

/// Since when a node has been marked, as its taint says.
fn marked_since(node: &NodeInfo) -> Option<Timestamp> {
    let taint = node.taints().find(|taint| taint.key() == DELETION_CANDIDATE)?;
    Timestamp::from_second(taint.value().parse().ok()?).ok()
}

/// The nodes of autoscaled pools.
pub(super) fn members(plane: &Plane, pools: &BTreeMap<String, NodePool>) -> Vec<Member> {
    let member = |info: &Arc<NodeInfo>| {
        let pool = pools.get(info.object.label(POOL_LABEL)?)?;
        Some(Member {
            info: Arc::clone(info),
            name: Arc::from(&*info.object.name),
            group: Arc::from(pool.group.as_str()),
            is_ready: &*info.ready == "True",
        })
    };
    plane.view.nodes().filter_map(member).collect()
}
