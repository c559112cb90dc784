//! The scheduler's reasons in words, and nodes grouped by them.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::amounts::amount;
use super::devices;
use super::requests;
use super::volumes;
use crate::code::Code;
use crate::verify::cause::{NodeGroup, NodeReason};
use crate::verify::view::View;
use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm};
use klab_scheduler::selector::{Requirement, Selector};
use klab_scheduler::taint::Taint;
use klab_scheduler::{DeviceShortage, Reason};
use kube_core::ResourceExt;

/// The pod that reasons are about, and the cluster around it.
#[derive(Clone, Copy)]
pub(crate) struct About<'p, 'a> {
    pub(crate) view: &'p View<'a>,
    pub(crate) pod: &'p Pod,
}

impl About<'_, '_> {
    /// What the objects around a reason say of it, where that is more than the reason itself.
    fn said(self, reason: &Reason) -> Option<String> {
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or("default");
        match reason {
            Reason::ClaimNotFound { claim }
            | Reason::UnboundImmediateClaim { claim }
            | Reason::NoVolumeToBind { claim } => volumes::said(self.view, namespace, claim),
            Reason::VolumeNodeAffinity { claim, volume } => volumes::reached(self.view, claim, volume),
            Reason::PodAffinity { term, topology_key, domain: Some(_) } => {
                let affinity = self.pod.spec.as_ref()?.affinity.as_ref()?.pod_affinity.as_ref()?;
                let term = affinity.required_during_scheduling_ignored_during_execution.as_ref()?.get(*term)?;
                let labels = Selector::from_api(term.label_selector.as_ref()).ok()?;
                let place = together(topology_key);
                let found = elsewhere(self.view, namespace, term).map_or(String::new(), |other| {
                    format!("; there is one in namespace {other}, and the pod affinity looks into {namespace} alone")
                });
                Some(format!("no pod with {labels} is {place}, as the pod affinity asks{found}"))
            }
            _ => None,
        }
    }
}

/// Another namespace in which pods are that a term of pod affinity asks for, where it looks into the pod's own alone, and none is there.
pub(super) fn elsewhere<'v>(view: &'v View<'_>, own: &str, term: &PodAffinityTerm) -> Option<&'v str> {
    if term.namespaces.as_ref().is_some_and(|names| !names.is_empty()) || term.namespace_selector.is_some() {
        return None;
    }
    let labels = Selector::from_api(term.label_selector.as_ref()).ok()?;
    let mut meant = view.pods.iter().filter(|pod| pod.state.is_present() && labels.matches(pod.pod.labels()));
    let first = meant.next()?.namespace;
    (first != own && meant.all(|pod| pod.namespace != own)).then_some(first)
}

/// Nodes of one pool that the same rules keep a pod from.
pub(crate) struct Refusal<'r> {
    /// The pool.
    pub(crate) pool: Option<&'r str>,
    /// The nodes, by name, each with its reasons.
    pub(crate) nodes: Vec<(&'r str, &'r [Reason])>,
}

impl<'r> Refusal<'r> {
    /// The reasons at one position of all nodes' lists.
    fn at(&self, position: usize) -> Vec<&'r Reason> {
        self.nodes.iter().filter_map(|(_, reasons)| reasons.get(position)).collect()
    }

    /// The reasons of the first node; those of the others differ in numbers only.
    pub(crate) fn first(&self) -> &'r [Reason] {
        self.nodes.first().map_or(&[], |(_, reasons)| reasons)
    }

    /// The group in words.
    pub(crate) fn describe(&self, about: About<'_, '_>) -> NodeGroup {
        NodeGroup {
            nodes: self.nodes.iter().map(|(name, _)| (*name).to_owned()).collect(),
            pool: self.pool.map(str::to_owned),
            reasons: (0..self.first().len()).map(|position| describe(&self.at(position), Some(about))).collect(),
        }
    }
}

/// Groups nodes by pool and by what keeps the pod out, numbers left aside; the fewest reasons first.
pub(crate) fn group<'r>(
    nodes: impl IntoIterator<Item = (&'r str, &'r [Reason])>,
    pool_of: impl Fn(&str) -> Option<&'r str>,
) -> Vec<Refusal<'r>> {
    type Key<'k> = (Option<&'k str>, Vec<Likeness<'k>>);
    let mut groups: HashMap<Key<'_>, Vec<(&str, &[Reason])>> = HashMap::new();
    for (name, reasons) in nodes {
        let key = (pool_of(name), reasons.iter().map(Likeness::of).collect());
        groups.entry(key).or_default().push((name, reasons));
    }
    let mut refusals: Vec<Refusal<'r>> = groups
        .into_iter()
        .map(|((pool, _), mut nodes)| {
            nodes.sort_unstable_by_key(|(name, _)| *name);
            Refusal { pool, nodes }
        })
        .collect();
    refusals.sort_by_key(|refusal| (refusal.first().len(), refusal.pool, refusal.nodes.first().map(|(name, _)| *name)));
    refusals
}

/// What two reasons must share to be one message.
#[derive(PartialEq, Eq, Hash)]
struct Likeness<'r> {
    kind: std::mem::Discriminant<Reason>,
    text: &'r str,
    found: Option<&'r str>,
    number: i64,
    taints: &'r [Taint],
    unmet: &'r [Option<Requirement>],
    devices: String,
}

impl<'r> Likeness<'r> {
    fn of(reason: &'r Reason) -> Self {
        let mut like = Self {
            kind: std::mem::discriminant(reason),
            text: "",
            found: None,
            number: 0,
            taints: &[],
            unmet: &[],
            devices: String::new(),
        };
        match reason {
            Reason::UntoleratedTaints { taints } => like.taints = taints,
            Reason::NodeSelector { key, found, .. } => (like.text, like.found) = (key, found.as_deref()),
            Reason::NodeAffinity { unmet } => like.unmet = unmet,
            Reason::HostPort { wanted, .. } => like.number = i64::from(wanted.port),
            Reason::Insufficient { resource, requested, allocatable, .. } => {
                (like.text, like.number) = (resource, i64::from(requested > allocatable));
            }
            Reason::SpreadMissingLabel { constraint: at, .. }
            | Reason::Spread { constraint: at, .. }
            | Reason::PodAntiAffinity { term: at, .. } => like.number = *at as i64,
            Reason::PodAffinity { term, domain, .. } => {
                (like.text, like.number) = (if domain.is_some() { "domain" } else { "" }, *term as i64);
            }
            Reason::ExistingAntiAffinity { topology_key, .. } => like.text = topology_key,
            Reason::ClaimNotFound { claim }
            | Reason::ClaimAwaited { claim }
            | Reason::ClaimOfOther { claim, .. }
            | Reason::ClaimLost { claim, .. }
            | Reason::ClaimTerminating { claim }
            | Reason::UnboundImmediateClaim { claim }
            | Reason::NoVolumeToBind { claim }
            | Reason::VolumeNotFound { claim, .. }
            | Reason::VolumeNodeAffinity { claim, .. }
            | Reason::VolumeZone { volume: claim, .. }
            | Reason::ClaimInUse { claim }
            | Reason::DevicesElsewhere { claim }
            | Reason::NoDeviceClass { class: claim, .. }
            | Reason::BrokenDeviceRequest { message: claim, .. } => like.text = claim,
            Reason::NoDevices { shortage: Some(shortage) } => like.devices = devices::likeness(shortage),
            _ => {}
        }
        like
    }
}

/// The code of a reason.
fn code(reason: &Reason) -> Code {
    match reason {
        Reason::Unschedulable => Code::Cordoned,
        Reason::NodeName { .. } => Code::NodeName,
        Reason::UntoleratedTaints { .. } => Code::UntoleratedTaint,
        Reason::NodeSelector { .. } => Code::NodeSelector,
        Reason::NodeAffinity { .. } | Reason::EnforcedNodeAffinity => Code::NodeAffinity,
        Reason::NotAmongNamedNodes { .. } => Code::NotAmongNamedNodes,
        Reason::ConflictingNodeNames => Code::ConflictingNodeNames,
        Reason::HostPort { .. } => Code::HostPort,
        Reason::TooManyPods { .. } => Code::TooManyPods,
        Reason::Insufficient { .. } => Code::Insufficient,
        Reason::ClaimNotFound { .. } => Code::ClaimNotFound,
        Reason::ClaimAwaited { .. } => Code::ClaimAwaited,
        Reason::ClaimOfOther { .. } => Code::ClaimOfAnother,
        Reason::ClaimLost { .. } => Code::ClaimLost,
        Reason::ClaimTerminating { .. } => Code::ClaimTerminating,
        Reason::UnboundImmediateClaim { .. } => Code::ClaimUnbound,
        Reason::NoVolumeToBind { .. } => Code::NoVolumeToBind,
        Reason::VolumeNotFound { .. } => Code::VolumeNotFound,
        Reason::VolumeNodeAffinity { .. } => Code::VolumeNodeAffinity,
        Reason::VolumeZone { .. } => Code::VolumeZone,
        Reason::ClaimInUse { .. } => Code::ClaimInUse,
        Reason::SpreadMissingLabel { .. } => Code::SpreadMissingLabel,
        Reason::Spread { .. } => Code::SpreadSkew,
        Reason::PodAffinity { .. } => Code::PodAffinity,
        Reason::PodAntiAffinity { .. } => Code::PodAntiAffinity,
        Reason::ExistingAntiAffinity { .. } => Code::ExistingAntiAffinity,
        Reason::NoDeviceClass { .. } => Code::NoDeviceClass,
        Reason::NoDevices { .. } => Code::NoDevicesFree,
        Reason::InvalidDevicePools => Code::InvalidDevicePools,
        Reason::DevicesElsewhere { .. } => Code::DevicesElsewhere,
        Reason::BrokenDeviceRequest { .. } => Code::BrokenDeviceRequest,
    }
}

/// The exact case of a reason: that of its code, and which resource is short.
fn name(reason: &Reason) -> String {
    match reason {
        Reason::Insufficient { resource, .. } => format!("insufficient-{}", resource.replace('/', "-")),
        other => code(other).name().to_owned(),
    }
}

/// `cpu` as `cpu_milli`, bytes as `…_bytes`, the rest by name: how a resource is called in a key with its unit.
fn unit(resource: &str) -> &'static str {
    match resource {
        "cpu" => "milli",
        "memory" | "ephemeral-storage" => "bytes",
        name if name.starts_with("hugepages-") => "bytes",
        _ => "count",
    }
}

fn span(values: impl Iterator<Item = i64> + Clone) -> (i64, i64) {
    (values.clone().min().unwrap_or_default(), values.max().unwrap_or_default())
}

/// Alike reasons of several nodes, as one.
pub(crate) fn describe(reasons: &[&Reason], about: Option<About<'_, '_>>) -> NodeReason {
    let Some(first) = reasons.first() else {
        return NodeReason {
            code: Code::Unschedulable,
            name: Code::Unschedulable.name().to_owned(),
            text: String::new(),
            details: Vec::new(),
            facts: Map::new(),
        };
    };
    let shortages: Vec<_> = reasons.iter().filter_map(|reason| shortage_of(reason)).collect();
    if !shortages.is_empty() {
        let devices::Described { text, details, facts } = devices::describe(&shortages);
        let text = match first {
            // What fails is said once, in the words of the scheduler.
            Reason::BrokenDeviceRequest { message, .. } => message.clone(),
            _ => text,
        };
        return NodeReason { code: code(first), name: name(first), text, details, facts };
    }
    let (text, facts) = match first {
        Reason::Insufficient { resource, requested, .. } => {
            let origin = about.map(|about| requests::origin(about.pod, resource)).unwrap_or_default();
            insufficient(resource, *requested, &origin, reasons)
        }
        Reason::TooManyPods { .. } => too_many(reasons),
        Reason::Spread { .. } => spread(reasons),
        reason => one(reason, reasons.len() > 1),
    };
    let text = about.and_then(|about| about.said(first)).unwrap_or(text);
    let facts = match facts {
        Value::Object(facts) => facts,
        _ => Map::new(),
    };
    NodeReason { code: code(first), name: name(first), text, details: Vec::new(), facts }
}

fn shortage_of(reason: &Reason) -> Option<&DeviceShortage> {
    match reason {
        Reason::NoDevices { shortage } | Reason::BrokenDeviceRequest { shortage, .. } => shortage.as_deref(),
        _ => None,
    }
}

fn insufficient(resource: &str, requested: i64, origin: &str, reasons: &[&Reason]) -> (String, Value) {
    let numbers = || {
        reasons.iter().filter_map(|reason| match reason {
            Reason::Insufficient { used, allocatable, .. } => Some((allocatable - used, *allocatable)),
            _ => None,
        })
    };
    let (free_min, free_max) = span(numbers().map(|(free, _)| free));
    let (all_min, all_max) = span(numbers().map(|(_, all)| all));
    let said = |base: i64| amount(resource, base);
    let noun = if resource == "cpu" { "cpu".to_owned() } else { resource.to_owned() };
    let text = if all_max == 0 {
        format!("{} {noun} requested{origin}, the node has none", said(requested))
    } else if requested > all_max {
        let has = if all_min == all_max { said(all_max) } else { format!("{} to {}", said(all_min), said(all_max)) };
        format!("{} {noun} requested{origin}, more than the {has} a node has", said(requested))
    } else if free_min == free_max && all_min == all_max {
        format!("{} {noun} requested{origin}, {} of {} free", said(requested), said(free_max), said(all_max))
    } else {
        format!("{} {noun} requested{origin}, {} to {} free", said(requested), said(free_min), said(free_max))
    };
    let unit = unit(resource);
    let facts = json!({
        "resource": resource,
        format!("requested_{unit}"): requested,
        format!("free_{unit}"): free_max,
        format!("least_free_{unit}"): free_min,
        format!("allocatable_{unit}"): all_max,
    });
    (text, facts)
}

fn too_many(reasons: &[&Reason]) -> (String, Value) {
    let numbers = || {
        reasons.iter().filter_map(|reason| match reason {
            Reason::TooManyPods { pods, allowed } => Some((*pods, *allowed)),
            _ => None,
        })
    };
    let (least, most) = span(numbers().map(|(_, allowed)| allowed));
    let pods = numbers().map(|(pods, _)| pods).max().unwrap_or_default();
    let text = if least == most {
        format!("it holds {pods} pods, its maximum")
    } else {
        format!("each holds as many pods as it may ({least} to {most})")
    };
    (text, json!({ "pods": pods, "allowed_pods": most }))
}

fn spread(reasons: &[&Reason]) -> (String, Value) {
    let Some(Reason::Spread {
        topology_key: key,
        domain,
        matching,
        minimum,
        emptiest,
        domains,
        min_domains,
        max_skew,
        ..
    }) = reasons.first()
    else {
        return (String::new(), Value::Null);
    };
    let counts = || {
        reasons.iter().filter_map(|reason| match reason {
            Reason::Spread { domain, matching, .. } => Some((domain, *matching)),
            _ => None,
        })
    };
    let noun = short_key(key);
    let same_domain = counts().all(|(other, _)| other == domain);
    let place = if same_domain { domain.clone() } else { format!("each {noun}") };
    let most = counts().map(|(_, matching)| matching).max().unwrap_or(*matching);
    let count = if same_domain || most == *matching { most.to_string() } else { format!("up to {most}") };
    let fewest = match emptiest {
        Some(emptiest) => format!("the emptiest {noun}, {emptiest}, has {minimum}"),
        None => {
            format!("minDomains asks for {min_domains} of {noun} and there are {domains}, so the fewest counts as 0")
        }
    };
    let text = format!("{place} has {count} of the pods the spread over {key} counts, {fewest}; maxSkew is {max_skew}");
    let facts = json!({
        "topology_key": key, "domain": same_domain.then_some(domain),
        "matching_pods": most, "minimum_pods": minimum, "max_skew": max_skew,
        "emptiest": emptiest, "domains": domains, "min_domains": min_domains,
    });
    (text, facts)
}

/// `on the same node`, or `in the same zone`.
fn together(key: &str) -> String {
    if key == "kubernetes.io/hostname" {
        "on the same node".to_owned()
    } else {
        format!("in the same {}", short_key(key))
    }
}

/// `zone` of `topology.kubernetes.io/zone`.
fn short_key(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

#[expect(clippy::too_many_lines, reason = "a row for each reason")]
fn one(reason: &Reason, many: bool) -> (String, Value) {
    let holder = |pod: Option<String>| match pod {
        Some(pod) if !many => pod,
        _ => "another pod".to_owned(),
    };
    match reason {
        Reason::Unschedulable => ("cordoned".to_owned(), Value::Null),
        Reason::NodeName { requested } => {
            (format!("the pod asks for node {requested}"), json!({ "requested_node": requested }))
        }
        Reason::UntoleratedTaints { taints } => {
            let taints: Vec<String> = taints.iter().map(ToString::to_string).collect();
            let (noun, verb) = if taints.len() == 1 { ("taint", "is") } else { ("taints", "are") };
            (format!("{noun} {} {verb} not tolerated", taints.join(", ")), json!({ "taints": taints }))
        }
        Reason::NodeSelector { key, wanted, found } => {
            let text = match found {
                Some(found) => format!("label {key} is {found}, nodeSelector asks for {wanted}"),
                None => format!("no label {key}, nodeSelector asks for {key}={wanted}"),
            };
            (text, json!({ "key": key, "wanted": wanted, "found": found }))
        }
        Reason::NodeAffinity { unmet } => {
            let wanted: Vec<String> = unmet.iter().flatten().map(ToString::to_string).collect();
            let text = if wanted.is_empty() {
                "the required node affinity has only empty terms, which match no node".to_owned()
            } else {
                format!("the required node affinity asks for {}", wanted.join(" or "))
            };
            (text, json!({ "unmet": wanted }))
        }
        Reason::EnforcedNodeAffinity => {
            ("the scheduler's profile adds a node affinity that the node does not meet".to_owned(), Value::Null)
        }
        Reason::NotAmongNamedNodes { names, .. } => {
            (format!("the node affinity names {}", names.join(", ")), json!({ "names": names }))
        }
        Reason::ConflictingNodeNames => ("the node affinity asks for two node names at once".to_owned(), Value::Null),
        Reason::HostPort { wanted, holder: pod } => {
            let pod = Some(pod.to_string());
            let text = format!("host port {}/{} is taken by {}", wanted.port, wanted.protocol, holder(pod.clone()));
            (text, json!({ "port": wanted.port, "protocol": wanted.protocol, "holder": pod }))
        }
        Reason::ClaimNotFound { claim } => (format!("there is no volume claim {claim}"), json!({ "claim": claim })),
        Reason::ClaimAwaited { claim } => {
            let text = format!("volume claim {claim}, of an ephemeral volume, is not made yet");
            (text, json!({ "claim": claim }))
        }
        Reason::ClaimOfOther { claim, .. } => {
            let text = format!("volume claim {claim} was not made for an ephemeral volume of the pod");
            (text, json!({ "claim": claim }))
        }
        Reason::ClaimLost { claim, volume } => {
            let text = format!("volume claim {claim} has lost its volume {volume}");
            (text, json!({ "claim": claim, "volume": volume }))
        }
        Reason::ClaimTerminating { claim } => {
            (format!("volume claim {claim} is being deleted"), json!({ "claim": claim }))
        }
        Reason::UnboundImmediateClaim { claim } => {
            (format!("volume claim {claim} is not bound to a volume"), json!({ "claim": claim }))
        }
        Reason::NoVolumeToBind { claim } => (
            format!("there is no volume for claim {claim} to be bound to, and none can be made"),
            json!({ "claim": claim }),
        ),
        Reason::VolumeNotFound { claim, volume } => (
            format!("volume claim {claim} is bound to volume {volume}, which does not exist"),
            json!({ "claim": claim, "volume": volume }),
        ),
        Reason::VolumeNodeAffinity { claim, volume } => (
            format!("volume {volume} of claim {claim} cannot be reached from there"),
            json!({ "claim": claim, "volume": volume }),
        ),
        Reason::VolumeZone { volume, key } => {
            (format!("volume {volume} belongs to another {}", short_key(key)), json!({ "volume": volume, "key": key }))
        }
        Reason::ClaimInUse { claim } => {
            (format!("volume claim {claim} is in use by a pod and admits only one"), json!({ "claim": claim }))
        }
        Reason::SpreadMissingLabel { topology_key, .. } => (
            format!("no label {topology_key}, over which the pods should spread"),
            json!({ "topology_key": topology_key }),
        ),
        Reason::PodAffinity { topology_key, domain, .. } => {
            let text = match domain {
                Some(_) => format!("no pod that the pod affinity asks for is {}", together(topology_key)),
                None => format!("no label {topology_key}, by which the pod affinity compares nodes"),
            };
            (text, json!({ "topology_key": topology_key, "domain": domain }))
        }
        Reason::PodAntiAffinity { topology_key, domain, pod, .. } => {
            let pod = pod.as_ref().map(ToString::to_string);
            let text =
                format!("{} is {}, which the pod's anti-affinity forbids", holder(pod.clone()), together(topology_key));
            (text, json!({ "topology_key": topology_key, "domain": (!many).then_some(domain), "pod": pod }))
        }
        Reason::ExistingAntiAffinity { topology_key, domain, pod } => {
            let pod = pod.as_ref().map(ToString::to_string);
            let text =
                format!("the anti-affinity of {} forbids this pod {}", holder(pod.clone()), together(topology_key));
            (text, json!({ "topology_key": topology_key, "domain": (!many).then_some(domain), "pod": pod }))
        }
        Reason::NoDeviceClass { request, class } => (
            format!("request {request} is for devices of class {class}, which does not exist"),
            json!({ "request": request, "class": class }),
        ),
        Reason::NoDevices { .. } => {
            ("the devices that the claims ask for are not there, or taken".to_owned(), Value::Null)
        }
        Reason::InvalidDevicePools => ("the slices of a pool of devices contradict each other".to_owned(), Value::Null),
        Reason::DevicesElsewhere { claim } => (
            format!("resource claim {claim} has devices already, which cannot be used there"),
            json!({ "claim": claim }),
        ),
        Reason::BrokenDeviceRequest { message, .. } => (message.clone(), Value::Null),
        other => (other.to_string(), Value::Null),
    }
}
