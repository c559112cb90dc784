//! Which pools grow for the pods that wait, and why they do not.

// upstream: cluster-autoscaler/core/podlistprocessor/filter_out_schedulable.go filterOutSchedulableByPacking (v1.36)
// upstream: cluster-autoscaler/core/scaleup/orchestrator/orchestrator.go ScaleUp, prepareScaleUp (v1.36)
// upstream: cluster-autoscaler/processors/status/eventing_scale_up_processor.go ReasonsMessage (v1.36)

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::estimate::{Alike, Estimate, estimate};
use super::expander::{Choice, choose};
use super::group::NodeGroup;
use super::profile::Profile;
use super::simulation::{Kind, Simulation};
use super::{MAX_AT_ONCE, balance};
use crate::cluster::Cluster;
use crate::error::ObjectError;
use crate::pod_key::PodKey;
use crate::reason::Reason;

/// What is to be done for the pods that wait.
#[derive(Debug, Clone, Default)]
pub struct ScaleUp {
    /// The pools that grow; none where that would help no pod.
    pub resizes: Vec<Resize>,
    /// The pods for which they grow, by their places in the list that was handed in.
    pub triggered: Vec<usize>,
    /// The pods that no pool can help now.
    pub remaining: Vec<Remaining>,
    /// The pods for which there is room on nodes that are there or on their way.
    pub fitting: Vec<usize>,
}

/// A pool that grows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resize {
    /// Its name.
    pub group: Arc<str>,
    /// How many nodes it was to have.
    pub from: u32,
    /// How many it is to have.
    pub to: u32,
    /// Most nodes it may have.
    pub max: u32,
}

impl fmt::Display for Resize {
    /// As the event `TriggeredScaleUp` shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{} {}->{} (max: {})}}", self.group, self.from, self.to, self.max)
    }
}

/// A pod that no pool can help.
#[derive(Debug, Clone)]
pub struct Remaining {
    /// Its place in the list that was handed in.
    pub pod: usize,
    /// Why each pool does not take it.
    pub refused: Arc<BTreeMap<Arc<str>, Refused>>,
}

/// Why a pool does not help a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// A new node would not take it.
    Rejected(Vec<Reason>),
    /// The pool was not asked.
    Skipped(Skipped),
}

/// Why a pool was not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skipped {
    /// It has as many nodes as it may have.
    AtMaximum,
    /// It failed to grow a while ago.
    BackedOff,
}

impl NodeGroup {
    /// Why the pool is not to grow at all, whatever for.
    fn skipped(&self) -> Option<Skipped> {
        if self.is_backed_off {
            return Some(Skipped::BackedOff);
        }
        (self.target >= self.max).then_some(Skipped::AtMaximum)
    }

    /// How many nodes a pool below its least lacks, if they may come.
    pub fn lacking(&self) -> Option<u32> {
        let lacking = self.min.checked_sub(self.target).filter(|lacking| *lacking > 0)?;
        (!self.is_backed_off).then_some(lacking.min(MAX_AT_ONCE))
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtMaximum => "max node group size reached",
            Self::BackedOff => "in backoff after failed scale-up",
        })
    }
}

impl Remaining {
    /// What the event `NotTriggerScaleUp` says: the reasons, and how many pools have each.
    pub fn message(&self) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for refused in self.refused.values() {
            let texts = match refused {
                Refused::Rejected(reasons) => reasons.iter().map(ToString::to_string).collect(),
                Refused::Skipped(reason) => BTreeSet::from([reason.to_string()]),
            };
            for text in texts {
                *counts.entry(text).or_default() += 1;
            }
        }
        let counts: Vec<String> = counts.into_iter().map(|(text, count)| format!("{count} {text}")).collect();
        format!("pod didn't trigger scale-up: {}", counts.join(", "))
    }
}

/// Decides for the pods that wait, which the scheduler found no node for.
///
/// `cluster` has the nodes that are ready with their pods; nodes on their way are known to the groups. `priorities` are
/// those of the ConfigMap, for the expander of that name; `seed` decides where chance does.
pub fn scale_up(
    cluster: &Cluster,
    pods: &[&Pod],
    groups: &[NodeGroup],
    profile: &Profile,
    priorities: Option<&BTreeMap<Arc<str>, i64>>,
    seed: u64,
) -> ScaleUp {
    let mut simulation = Simulation::of(cluster);
    for group in groups {
        for number in 0..group.upcoming {
            simulation.add_new(&group.template, &format!("upcoming-{}-{number}", group.name));
        }
    }
    let waiting = kinds(&mut simulation, pods);
    let mut result = ScaleUp::default();
    let unfit = without_fitting(&mut simulation, waiting, &mut result.fitting);
    if unfit.is_empty() {
        return result;
    }
    let refused = ask_groups(&simulation, &unfit, groups);
    let estimates: Vec<Estimate> = groups
        .iter()
        .enumerate()
        .map(|(at, group)| {
            let fitting: Vec<&Alike> = unfit
                .iter()
                .zip(&refused)
                .filter(|(_, refused)| !refused.contains_key(&at))
                .map(|(it, _)| it)
                .collect();
            let room: u32 =
                alike_groups(groups, &refused, at, profile).map(|(_, group)| group.max - group.target).sum();
            if fitting.is_empty() || room == 0 {
                return Estimate::default();
            }
            estimate(&simulation, &group.template, &fitting, room)
        })
        .collect();
    let could = |(_, estimate): &(usize, &Estimate)| estimate.nodes > 0;
    let choices: Vec<Choice<'_>> =
        estimates.iter().enumerate().filter(could).map(|(group, estimate)| Choice { group, estimate }).collect();
    if let Some(best) = choose(&profile.expanders, &choices, groups, priorities, seed) {
        let together: Vec<_> = alike_groups(groups, &refused, best, profile).collect();
        result.triggered.clone_from(&estimates[best].pods);
        result.resizes = balance::share(&together, estimates[best].nodes)
            .into_iter()
            .filter(|(at, to)| *to > groups[*at].target)
            .map(|(at, to)| {
                let group = &groups[at];
                Resize { group: Arc::clone(&group.name), from: group.target, to, max: group.max }
            })
            .collect();
    }
    for (alike, refused) in unfit.iter().zip(&refused).filter(|(_, refused)| refused.len() == groups.len()) {
        let named = refused.iter().map(|(at, refused)| (Arc::clone(&groups[*at].name), refused.clone()));
        let refused = Arc::new(named.collect::<BTreeMap<_, _>>());
        result
            .remaining
            .extend(alike.pods.iter().map(|(pod, _)| Remaining { pod: *pod, refused: Arc::clone(&refused) }));
    }
    result
}

/// Why a new node of a pool would not take a pod: what the first filter that refuses says. None where it would take it;
/// the bounds of the pool play no part.
///
/// # Errors
/// When the scheduler cannot read the pod.
pub fn refusal(cluster: &Cluster, pod: &Pod, group: &NodeGroup) -> Result<Option<Vec<Reason>>, ObjectError> {
    let mut simulation = Simulation::of(cluster);
    let kind = simulation.kind(pod)?;
    let node = format!("template-node-for-{}", group.name);
    simulation.add_new(&group.template, &node);
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    Ok(simulation.refusal(kind, name, &node).map(|rejection| rejection.reasons))
}

/// The pods by kind, those of the greatest priority first. Pods that cannot be read are left out: no node takes them.
fn kinds(simulation: &mut Simulation, pods: &[&Pod]) -> Vec<Alike> {
    let mut places: BTreeMap<Kind, usize> = BTreeMap::new();
    let mut groups: Vec<Alike> = Vec::new();
    for (index, pod) in pods.iter().enumerate() {
        let Ok(kind) = simulation.kind(pod) else { continue };
        let key = PodKey::of(pod);
        let place = *places.entry(kind).or_insert_with(|| {
            groups.push(Alike { kind, pods: Vec::new() });
            groups.len() - 1
        });
        groups[place].pods.push((index, key));
    }
    groups.sort_by_key(|alike| std::cmp::Reverse(simulation.info(alike.kind).priority));
    groups
}

/// Puts the pods on nodes that have room for them; what is left needs new ones.
fn without_fitting(simulation: &mut Simulation, waiting: Vec<Alike>, fitting: &mut Vec<usize>) -> Vec<Alike> {
    let nodes = simulation.nodes();
    let mut left = Vec::new();
    for mut alike in waiting {
        // Where one found no room, none that is like it will.
        let mut from = 0;
        let mut placed = 0;
        for (index, key) in &alike.pods {
            let room = simulation.room(alike.kind, &key.name, nodes.len(), |place| &nodes[place], from);
            let Some(place) = room else { break };
            simulation.place(alike.kind, key.clone(), &nodes[place]);
            fitting.push(*index);
            from = place;
            placed += 1;
        }
        alike.pods.drain(..placed);
        if !alike.pods.is_empty() {
            left.push(alike);
        }
    }
    left
}

/// Of each kind, the groups that do not take it and why.
fn ask_groups(simulation: &Simulation, kinds: &[Alike], groups: &[NodeGroup]) -> Vec<BTreeMap<usize, Refused>> {
    let mut refused = vec![BTreeMap::new(); kinds.len()];
    for (at, group) in groups.iter().enumerate() {
        if let Some(reason) = group.skipped() {
            for of in &mut refused {
                of.insert(at, Refused::Skipped(reason));
            }
            continue;
        }
        let name = format!("template-node-for-{}", group.name);
        let mut tried = simulation.fork();
        tried.add_new(&group.template, &name);
        for (alike, refused) in kinds.iter().zip(&mut refused) {
            let Some((_, first)) = alike.pods.first() else { continue };
            if let Some(rejection) = tried.refusal(alike.kind, &first.name, &name) {
                refused.insert(at, Refused::Rejected(rejection.reasons));
            }
        }
    }
    refused
}

/// The group, and with the setting `balance-similar-node-groups` those like it that take the same pods.
fn alike_groups<'a>(
    groups: &'a [NodeGroup],
    refused: &'a [BTreeMap<usize, Refused>],
    at: usize,
    profile: &'a Profile,
) -> impl Iterator<Item = (usize, &'a NodeGroup)> {
    let takes = |of: usize| move |refused: &BTreeMap<usize, Refused>| !refused.contains_key(&of);
    groups.iter().enumerate().filter(move |(other, group)| {
        let same = *other == at;
        let balanced = profile.balances
            && balance::alike(&groups[at].template, &group.template)
            && refused.iter().filter(|refused| takes(at)(refused)).all(takes(*other));
        (same || balanced) && group.skipped().is_none()
    })
}
