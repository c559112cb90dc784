//! Which events can help a pod that certain plugins refused (KEP-4247): the table of what each plugin registers for, and its
//! hints.

// upstream: pkg/scheduler/framework/plugins/*/ EventsToRegister (v1.36)
// upstream: pkg/scheduler/scheduler.go buildQueueingHintMap (v1.36)

use super::event::{Event, Kind, PodFacts};
use crate::node_info::NodeSpec;
use crate::pod_info::{AffinityTerm, SpreadConstraint};
use crate::profile::{DefaultConstraint, Profile};
use crate::reason::PluginName;
use crate::selector::Labels;
use crate::taint::{NO_SCHEDULE, Taint, UNSCHEDULABLE_TAINT, tolerated, untolerated};

/// What a hint looks at.
pub(super) struct Occasion<'a> {
    pub(super) event: &'a Event,
    /// The pod that waits.
    pub(super) pod: &'a PodFacts,
    /// By which it is placed.
    pub(super) profile: &'a Profile,
    /// Whether a resource is the devices of a class.
    pub(super) is_devices: &'a dyn Fn(&str) -> bool,
}

/// Whether an event can help a pod that a plugin refused.
type Hint = fn(&Occasion<'_>) -> bool;

const ALWAYS: Hint = |_| true;

/// What plugins register for. A row's hint decides for all of its kinds.
static REGISTERED: &[(PluginName, &[Kind], Hint)] = &[
    (PluginName::NodeUnschedulable, &[Kind::NodeAdd, Kind::NodeTaint], node_is_open),
    (PluginName::NodeUnschedulable, &[Kind::PodToleration], tolerates_cordon),
    (PluginName::NodeName, &[Kind::NodeAdd], ALWAYS),
    (PluginName::TaintToleration, &[Kind::NodeAdd, Kind::NodeTaint], node_is_tolerated),
    (PluginName::TaintToleration, &[Kind::PodToleration], is_itself),
    (PluginName::NodeAffinity, &[Kind::NodeAdd, Kind::NodeLabel], node_matches),
    (PluginName::NodePorts, &[Kind::NodeAdd], ALWAYS),
    (PluginName::NodePorts, &[Kind::PodDelete], port_is_free),
    (PluginName::NodeResourcesFit, &[Kind::NodeAdd, Kind::NodeAllocatable], node_is_large_enough),
    (PluginName::NodeResourcesFit, &[Kind::PodDelete], ALWAYS),
    (PluginName::NodeResourcesFit, &[Kind::PodScaleDown], room_is_made),
    (PluginName::NodeResourcesFit, &[Kind::DeviceClass], resource_is_devices),
    (PluginName::VolumeRestrictions, &[Kind::NodeAdd], ALWAYS),
    (PluginName::VolumeRestrictions, &[Kind::PodDelete], claim_is_free),
    (PluginName::VolumeRestrictions, &[Kind::VolumeClaimAdd], is_named_claim),
    (PluginName::VolumeBinding, &[Kind::NodeAdd, Kind::NodeLabel, Kind::Volume, Kind::StorageDriver], ALWAYS),
    (PluginName::VolumeBinding, &[Kind::StorageClassAdd, Kind::StorageClassUpdate], volumes_are_made_elsewhere),
    (PluginName::VolumeBinding, &[Kind::VolumeClaimAdd, Kind::VolumeClaimUpdate], is_own_claim),
    (PluginName::VolumeZone, &[Kind::NodeAdd, Kind::NodeLabel], ALWAYS),
    (PluginName::VolumeZone, &[Kind::StorageClassAdd], class_binds_late),
    (PluginName::VolumeZone, &[Kind::VolumeClaimAdd, Kind::VolumeClaimUpdate], is_named_claim),
    (PluginName::VolumeZone, &[Kind::Volume], volume_moved),
    (
        PluginName::PodTopologySpread,
        &[Kind::PodAdd, Kind::PodLabel, Kind::PodToleration, Kind::PodDelete],
        counted_pods_change,
    ),
    (
        PluginName::PodTopologySpread,
        &[Kind::NodeAdd, Kind::NodeDelete, Kind::NodeLabel, Kind::NodeTaint],
        domains_change,
    ),
    (PluginName::InterPodAffinity, &[Kind::PodAdd, Kind::PodLabel, Kind::PodDelete], neighbours_change),
    (PluginName::InterPodAffinity, &[Kind::NodeAdd, Kind::NodeLabel], neighbourhood_changes),
    (
        PluginName::DynamicResources,
        &[Kind::NodeAdd, Kind::NodeLabel, Kind::NodeAllocatable, Kind::DeviceClass, Kind::ResourceSlice],
        ALWAYS,
    ),
    (PluginName::DynamicResources, &[Kind::ResourceClaim], devices_are_free),
    (PluginName::DynamicResources, &[Kind::PodResourceClaim], is_itself),
];

/// Whether an event can make a pod schedulable that these plugins refused; if none is known, every event can.
pub(super) fn can_help(occasion: &Occasion<'_>, kinds: &[Kind], refused_by: &[PluginName]) -> bool {
    if let Event::NominationWithdrawn(other) = occasion.event
        && occasion.pod.info.priority > other.info.priority
    {
        return false;
    }
    let helps = |plugin: PluginName| kinds.iter().any(|kind| asks(plugin, *kind, occasion));
    !kinds.is_empty() && (refused_by.is_empty() || refused_by.iter().any(|plugin| helps(*plugin)))
}

/// Whether a plugin registers for a kind of event.
#[cfg(test)]
pub(super) fn registers(plugin: PluginName, kind: Kind) -> bool {
    REGISTERED.iter().any(|(name, kinds, _)| *name == plugin && kinds.contains(&kind))
}

fn asks(plugin: PluginName, kind: Kind, occasion: &Occasion<'_>) -> bool {
    let registered = |wanted: Kind| {
        let rows = REGISTERED.iter().filter(move |(name, kinds, _)| *name == plugin && kinds.contains(&wanted));
        rows.map(|(_, _, hint)| hint)
    };
    // A plugin that registers for new nodes gets every taint event, too: a new node may have had a taint at first.
    let implied =
        kind == Kind::NodeTaint && registered(kind).next().is_none() && registered(Kind::NodeAdd).next().is_some();
    implied || registered(kind).any(|hint| hint(occasion))
}

fn is_itself(occasion: &Occasion<'_>) -> bool {
    matches!(occasion.event, Event::ItselfChanged { .. })
}

/// A node that came, or that satisfies a condition it did not satisfy before.
fn node_now(event: &Event, satisfies: impl Fn(&NodeSpec) -> bool) -> bool {
    match event {
        Event::NodeAdded(node) => satisfies(node),
        Event::NodeChanged { old, new } => satisfies(new) && !satisfies(old),
        _ => false,
    }
}

fn node_is_open(occasion: &Occasion<'_>) -> bool {
    node_now(occasion.event, |node| !node.unschedulable)
}

fn tolerates_cordon(occasion: &Occasion<'_>) -> bool {
    let taint = Taint { key: UNSCHEDULABLE_TAINT.to_owned(), value: String::new(), effect: NO_SCHEDULE.to_owned() };
    is_itself(occasion) && tolerated(&occasion.pod.info.tolerations, &taint)
}

fn node_is_tolerated(occasion: &Occasion<'_>) -> bool {
    let tolerations = &occasion.pod.info.tolerations;
    node_now(occasion.event, |node| untolerated(&node.taints, tolerations).next().is_none())
}

fn node_matches(occasion: &Occasion<'_>) -> bool {
    let added = occasion.profile.arguments.added.required.as_ref();
    let enforced =
        |node: &NodeSpec| added.is_none_or(|terms| terms.iter().any(|term| term.matches(&node.labels, &node.name)));
    // A node that meets what the profile adds only now does not bring the pod back, as in kube-scheduler.
    if let Event::NodeAdded(node) | Event::NodeChanged { new: node, .. } = occasion.event
        && !enforced(node)
    {
        return false;
    }
    node_now(occasion.event, |node| occasion.pod.info.node_affinity.matches(&node.labels, &node.name))
}

/// The pod that left, or for which a node is no longer kept.
fn gone(event: &Event) -> Option<&PodFacts> {
    match event {
        Event::PodRemoved(pod) | Event::NominationWithdrawn(pod) => Some(pod),
        _ => None,
    }
}

fn port_is_free(occasion: &Occasion<'_>) -> bool {
    let wanted = &occasion.pod.info.host_ports;
    let frees =
        |gone: &PodFacts| gone.info.host_ports.iter().any(|port| wanted.iter().any(|other| port.conflicts_with(other)));
    gone(occasion.event).is_some_and(frees)
}

/// What a pod requests, by resource.
fn amounts(pod: &PodFacts) -> impl Iterator<Item = (&str, i64)> {
    let requests = &pod.info.resources.requests;
    let plain = [("cpu", requests.cpu), ("memory", requests.memory), ("ephemeral-storage", requests.ephemeral_storage)];
    let scalars = requests.scalars.iter().map(|(name, amount)| (name.as_ref(), *amount));
    plain.into_iter().chain(scalars).filter(|(_, amount)| *amount > 0)
}

/// A node that the pod would fit if it were empty, and that came or has more of what the pod wants than before.
fn node_is_large_enough(occasion: &Occasion<'_>) -> bool {
    let as_devices = |node: &NodeSpec, name: &str| node.allocatable.get(name) == 0 && (occasion.is_devices)(name);
    let fits = |node: &NodeSpec| {
        let mut wanted = amounts(occasion.pod);
        node.allowed_pods > 0
            && wanted.all(|(name, amount)| amount <= node.allocatable.get(name) || as_devices(node, name))
    };
    match occasion.event {
        Event::NodeAdded(node) => fits(node),
        Event::NodeChanged { old, new } => {
            let grew = |name: &str| new.allocatable.get(name) > old.allocatable.get(name) || as_devices(new, name);
            fits(new) && (new.allowed_pods > old.allowed_pods || amounts(occasion.pod).any(|(name, _)| grew(name)))
        }
        _ => false,
    }
}

fn room_is_made(occasion: &Occasion<'_>) -> bool {
    match occasion.event {
        Event::PodChanged { old, new } => {
            let (old, new) = (&old.info.resources.requests, &new.info.resources.requests);
            amounts(occasion.pod).any(|(name, _)| new.get(name) < old.get(name))
        }
        _ => is_itself(occasion),
    }
}

fn resource_is_devices(occasion: &Occasion<'_>) -> bool {
    let Event::DeviceClass { resources } = occasion.event else { return false };
    amounts(occasion.pod).any(|(name, _)| resources.iter().any(|resource| resource == name))
}

/// The claims that the pod names itself, as opposed to those that are made for its ephemeral volumes.
fn named_claims(pod: &PodFacts) -> impl Iterator<Item = &String> {
    pod.info.claims.iter().filter(|claim| !pod.info.ephemeral.contains(claim))
}

fn claim_is_free(occasion: &Occasion<'_>) -> bool {
    let frees = |gone: &PodFacts| {
        gone.info.namespace == occasion.pod.info.namespace
            && named_claims(gone).any(|claim| named_claims(occasion.pod).any(|own| own == claim))
    };
    gone(occasion.event).is_some_and(frees)
}

fn is_claim_of<'a>(occasion: &Occasion<'_>, mut claims: impl Iterator<Item = &'a String>) -> bool {
    let Event::VolumeClaim { namespace, name, .. } = occasion.event else { return false };
    **namespace == *occasion.pod.info.namespace && claims.any(|claim| claim == name)
}

fn is_named_claim(occasion: &Occasion<'_>) -> bool {
    is_claim_of(occasion, named_claims(occasion.pod))
}

fn is_own_claim(occasion: &Occasion<'_>) -> bool {
    is_claim_of(occasion, occasion.pod.info.claims.iter())
}

fn volumes_are_made_elsewhere(occasion: &Occasion<'_>) -> bool {
    matches!(occasion.event, Event::StorageClass { moved: true, .. })
}

fn class_binds_late(occasion: &Occasion<'_>) -> bool {
    matches!(occasion.event, Event::StorageClass { late: true, .. })
}

fn volume_moved(occasion: &Occasion<'_>) -> bool {
    matches!(occasion.event, Event::Volume { moved: true })
}

fn hard(pod: &PodFacts) -> impl Iterator<Item = &SpreadConstraint> {
    pod.info.spread.iter().filter(|constraint| constraint.hard)
}

/// The hard constraints of the profile, if the pod has none of its own.
fn hard_by_default<'a>(occasion: &Occasion<'a>) -> impl Iterator<Item = &'a DefaultConstraint> {
    let applies = occasion.pod.info.spread.is_empty();
    occasion.profile.arguments.spread.hard().filter(move |_| applies)
}

fn counted_pods_change(occasion: &Occasion<'_>) -> bool {
    let pod = occasion.pod;
    if hard_by_default(occasion).next().is_some() {
        // Which pods its Services select is not known here: every pod of the namespace may be counted.
        return match occasion.event {
            Event::PodAssigned(other) | Event::PodRemoved(other) | Event::NominationWithdrawn(other) => {
                other.info.namespace == pod.info.namespace
            }
            Event::PodChanged { new, .. } => new.info.namespace == pod.info.namespace,
            event => matches!(event, Event::ItselfChanged { .. }),
        };
    }
    let selects = |labels: &Labels| hard(pod).map(|it| it.selector.matches(labels)).collect::<Vec<_>>();
    match occasion.event {
        Event::PodAssigned(other) | Event::PodRemoved(other) | Event::NominationWithdrawn(other) => {
            other.info.namespace == pod.info.namespace && selects(&other.labels).contains(&true)
        }
        Event::PodChanged { old, new } => {
            new.info.namespace == pod.info.namespace && selects(&old.labels) != selects(&new.labels)
        }
        Event::ItselfChanged { old, new } => {
            let tolerates_more = old.info.tolerations != new.info.tolerations;
            (tolerates_more && hard(pod).any(|it| it.honor_taints)) || selects(&old.labels) != selects(&new.labels)
        }
        _ => false,
    }
}

fn domains_change(occasion: &Occasion<'_>) -> bool {
    let by_default = hard_by_default(occasion).map(|it| it.topology_key.as_ref());
    let keys: Vec<&str> = hard(occasion.pod).map(|it| it.topology_key.as_ref()).chain(by_default).collect();
    let in_domains = |labels: &Labels| keys.iter().all(|key| labels.contains_key(*key));
    match occasion.event {
        Event::NodeAdded(node) | Event::NodeRemoved(node) => in_domains(&node.labels),
        Event::NodeChanged { old, new } => {
            let (was, is) = (in_domains(&old.labels), in_domains(&new.labels));
            let moved = || keys.iter().any(|key| old.labels.get(*key) != new.labels.get(*key));
            was != is || (is && (moved() || old.taints != new.taints))
        }
        _ => false,
    }
}

/// Whether a pod matches all of these terms, and there are any.
///
/// As in kube-scheduler, a `namespaceSelector` is not looked up here: such pods may have to wait for the sweep.
fn matches_all(terms: &[AffinityTerm], pod: &PodFacts) -> bool {
    let matches = |term: &AffinityTerm| {
        let in_namespace = term.namespaces.iter().any(|name| **name == *pod.info.namespace)
            || term.namespace_selector.matches(&Labels::new());
        in_namespace && term.selector.matches(&pod.labels)
    };
    !terms.is_empty() && terms.iter().all(matches)
}

/// As in kube-scheduler, a pod that leaves helps only if it matches all terms of the anti-affinity, though one of them was
/// enough to keep the pod away.
fn neighbours_change(occasion: &Occasion<'_>) -> bool {
    let (wanted, avoided) = (&occasion.pod.info.affinity, &occasion.pod.info.anti_affinity);
    match occasion.event {
        Event::ItselfChanged { .. } => true,
        Event::PodAssigned(other) => matches_all(wanted, other),
        Event::PodChanged { old, new } => {
            (!matches_all(wanted, old) && matches_all(wanted, new))
                || (matches_all(avoided, old) && !matches_all(avoided, new))
        }
        event => gone(event)
            .is_some_and(|other| matches_all(avoided, other) || matches_all(&other.info.anti_affinity, occasion.pod)),
    }
}

fn neighbourhood_changes(occasion: &Occasion<'_>) -> bool {
    let (wanted, avoided) = (&occasion.pod.info.affinity, &occasion.pod.info.anti_affinity);
    match occasion.event {
        Event::NodeAdded(node) => {
            !avoided.is_empty() || wanted.iter().any(|term| node.labels.contains_key(term.topology_key.as_ref()))
        }
        Event::NodeChanged { old, new } => {
            let domains = |term: &AffinityTerm| {
                let key = term.topology_key.as_ref();
                (old.labels.get(key), new.labels.get(key))
            };
            wanted.iter().map(domains).any(|(was, is)| is.is_some() && was != is)
                || avoided.iter().map(domains).any(|(was, is)| was.is_some() && was != is)
        }
        _ => false,
    }
}

fn devices_are_free(occasion: &Occasion<'_>) -> bool {
    matches!(occasion.event, Event::ResourceClaimChanged { deallocated: true, .. })
        || uses(occasion.event, occasion.pod)
}

/// Whether an event is about a resource claim of the pod.
pub(super) fn uses(event: &Event, pod: &PodFacts) -> bool {
    matches!(event, Event::ResourceClaimChanged { namespace, name, .. }
        if **namespace == *pod.info.namespace && pod.resource_claims.contains(name))
}
