//! Which events can help a pod that certain plugins refused (KEP-4247).

use super::event::{Event, PodFacts};
use crate::devices::may_be_devices;
use crate::node_info::NodeSpec;
use crate::pod_info::{AffinityTerm, SpreadConstraint};
use crate::reason::PluginName;
use crate::selector::Labels;
use crate::taint::{NO_SCHEDULE, Taint, UNSCHEDULABLE_TAINT, tolerated, untolerated};

/// Whether an event can make a pod schedulable that these plugins refused; if none is known, every event can.
pub(super) fn can_help(event: &Event, pod: &PodFacts, refused_by: &[PluginName]) -> bool {
    refused_by.is_empty() || refused_by.iter().any(|plugin| helps(event, pod, *plugin))
}

fn helps(event: &Event, pod: &PodFacts, plugin: PluginName) -> bool {
    match plugin {
        PluginName::NodeUnschedulable => node_now(event, |node| !shut(node, pod)),
        PluginName::TaintToleration => {
            node_now(event, |node| untolerated(&node.taints, &pod.info.tolerations).next().is_none())
        }
        PluginName::NodeAffinity => node_now(event, |node| pod.info.node_affinity.matches(&node.labels, &node.name)),
        PluginName::NodePorts => match event {
            Event::NodeAdded(_) => true,
            Event::PodRemoved(gone) => {
                let wanted = || pod.info.host_ports.iter();
                gone.info.host_ports.iter().any(|port| wanted().any(|other| port.conflicts_with(other)))
            }
            _ => false,
        },
        PluginName::NodeResourcesFit => resources_help(event, pod),
        PluginName::VolumeRestrictions | PluginName::VolumeBinding | PluginName::VolumeZone => match event {
            Event::VolumesChanged | Event::NodeAdded(_) => true,
            Event::NodeChanged { old, new } => old.labels != new.labels,
            Event::PodRemoved(gone) => gone.info.claims.iter().any(|claim| pod.info.claims.contains(claim)),
            _ => false,
        },
        PluginName::DynamicResources => match event {
            Event::ResourceClaimChanged { deallocated, .. } => *deallocated || uses(event, pod),
            Event::DevicesChanged | Event::NodeAdded(_) => true,
            Event::NodeChanged { old, new } => old.labels != new.labels || old.allocatable != new.allocatable,
            _ => false,
        },
        PluginName::PodTopologySpread => spread_helps(event, pod),
        PluginName::InterPodAffinity => affinity_helps(event, pod),
        _ => true,
    }
}

/// Whether an event is about a resource claim of the pod.
pub(super) fn uses(event: &Event, pod: &PodFacts) -> bool {
    matches!(event, Event::ResourceClaimChanged { namespace, name, .. }
        if **namespace == *pod.info.namespace && pod.resource_claims.contains(name))
}

/// A node that came, or that satisfies a condition it did not satisfy before.
fn node_now(event: &Event, satisfies: impl Fn(&NodeSpec) -> bool) -> bool {
    match event {
        Event::NodeAdded(node) => satisfies(node),
        Event::NodeChanged { old, new } => satisfies(new) && !satisfies(old),
        _ => false,
    }
}

fn shut(node: &NodeSpec, pod: &PodFacts) -> bool {
    let taint = Taint { key: UNSCHEDULABLE_TAINT.to_owned(), value: String::new(), effect: NO_SCHEDULE.to_owned() };
    node.unschedulable && !tolerated(&pod.info.tolerations, &taint)
}

fn resources_help(event: &Event, pod: &PodFacts) -> bool {
    let requests = &pod.info.resources.requests;
    let amounts = || {
        let plain =
            [("cpu", requests.cpu), ("memory", requests.memory), ("ephemeral-storage", requests.ephemeral_storage)];
        let scalars = requests.scalars.iter().map(|(name, amount)| (name.as_ref(), *amount));
        plain.into_iter().chain(scalars).filter(|(_, amount)| *amount > 0)
    };
    // An empty node of that size would do.
    let fits =
        |node: &NodeSpec| node.allowed_pods > 0 && amounts().all(|(name, amount)| amount <= node.allocatable.get(name));
    match event {
        // A class may say now that a resource is its devices.
        Event::DevicesChanged => requests.scalars.iter().any(|(name, amount)| *amount > 0 && may_be_devices(name)),
        Event::NodeAdded(node) => fits(node),
        Event::NodeChanged { old, new } => {
            let more = new.allowed_pods > old.allowed_pods
                || amounts().any(|(name, _)| new.allocatable.get(name) > old.allocatable.get(name));
            fits(new) && more
        }
        Event::PodRemoved(_) => true,
        Event::PodChanged { old, new } => {
            let (old, new) = (&old.info.resources.requests, &new.info.resources.requests);
            amounts().any(|(name, _)| new.get(name) < old.get(name))
        }
        _ => false,
    }
}

fn spread_helps(event: &Event, pod: &PodFacts) -> bool {
    let hard = || pod.info.spread.iter().filter(|constraint| constraint.hard);
    let counts = |other: &PodFacts| {
        let selected = |constraint: &SpreadConstraint| constraint.selector.matches(&other.labels);
        other.info.namespace == pod.info.namespace && hard().any(selected)
    };
    let in_domains = |labels: &Labels| hard().all(|constraint| labels.contains_key(constraint.topology_key.as_ref()));
    match event {
        Event::PodAssigned(other) | Event::PodRemoved(other) => counts(other),
        Event::PodChanged { old, new } => {
            let selects = |labels: &Labels| hard().map(|c| c.selector.matches(labels)).collect::<Vec<_>>();
            new.info.namespace == pod.info.namespace && selects(&old.labels) != selects(&new.labels)
        }
        Event::NodeAdded(node) | Event::NodeRemoved(node) => in_domains(&node.labels),
        Event::NodeChanged { old, new } => {
            let (was, is) = (in_domains(&old.labels), in_domains(&new.labels));
            let moved = || {
                hard().any(|constraint| {
                    let key = constraint.topology_key.as_ref();
                    old.labels.get(key) != new.labels.get(key)
                })
            };
            was != is || (is && (moved() || old.taints != new.taints || old.unschedulable != new.unschedulable))
        }
        Event::VolumesChanged | Event::ResourceClaimChanged { .. } | Event::DevicesChanged => false,
    }
}

/// As in kube-scheduler, a `namespaceSelector` of the pod's own terms is not looked up here: such pods may have to wait
/// for the sweep.
fn about(term: &AffinityTerm, other: &PodFacts) -> bool {
    let in_namespace = term.namespaces.iter().any(|name| **name == *other.info.namespace)
        || term.namespace_selector.matches(&Labels::new());
    in_namespace && term.selector.matches(&other.labels)
}

fn affinity_helps(event: &Event, pod: &PodFacts) -> bool {
    let wanted = &pod.info.affinity;
    let avoided = &pod.info.anti_affinity;
    let joins = |other: &PodFacts| !wanted.is_empty() && wanted.iter().all(|term| about(term, other));
    let repels = |other: &PodFacts| {
        avoided.iter().any(|term| about(term, other)) || other.info.anti_affinity.iter().any(|term| about(term, pod))
    };
    match event {
        Event::PodAssigned(other) => joins(other),
        Event::PodChanged { old, new } => (joins(new) && !joins(old)) || (repels(old) && !repels(new)),
        Event::PodRemoved(other) => repels(other),
        Event::NodeAdded(_) => true,
        Event::NodeChanged { old, new } => old.labels != new.labels,
        Event::NodeRemoved(_) | Event::VolumesChanged | Event::ResourceClaimChanged { .. } | Event::DevicesChanged => {
            false
        }
    }
}
