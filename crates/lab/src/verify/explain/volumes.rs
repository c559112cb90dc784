//! Why a claim has no volume that a pod can use.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeAffinity, PersistentVolume, PersistentVolumeClaim, PodSpec, TopologySelectorTerm,
};
use k8s_openapi::api::storage::v1::StorageClass;
use kube_core::ResourceExt;

use crate::verify::node::nearest;
use crate::verify::view::View;
use crate::words::listed;
use klab_scheduler::node_selector::RequiredNodeAffinity;
use klab_scheduler::quantity::Quantity;

pub(super) const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// What is the matter with a claim.
pub(super) enum Trouble<'a> {
    /// It is not there.
    Missing { near: Option<&'a str> },
    /// It names no class, and there is no default class.
    NoClass,
    /// Its class does not exist.
    UnknownClass(&'a str),
    /// A volume would do, but is kept for a claim that is gone.
    Released(&'a PersistentVolume),
    /// Its class makes volumes only in places where no node of the cluster, or not the one that is asked about, is.
    Elsewhere(&'a StorageClass),
    /// Nothing makes volumes of its class, and of those that are there none will do.
    ByHand { best: Option<&'a PersistentVolume> },
    /// What makes volumes of its class has not made one.
    Awaited(&'a StorageClass),
}

fn amount(resources: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>) -> Quantity {
    resources.and_then(|all| Quantity::parse(&all.get("storage")?.0).ok()).unwrap_or_default()
}

fn size(volume: &PersistentVolume) -> Quantity {
    amount(volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()))
}

pub(super) fn wanted(claim: &PersistentVolumeClaim) -> Quantity {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    amount(resources.and_then(|resources| resources.requests.as_ref()))
}

fn modes(list: Option<&Vec<String>>) -> Vec<&str> {
    list.into_iter().flatten().map(String::as_str).collect()
}

/// Whether a volume is large enough for a claim, and used as it asks.
fn suits(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let has = modes(volume.spec.as_ref().and_then(|spec| spec.access_modes.as_ref()));
    let asks = modes(claim.spec.as_ref().and_then(|spec| spec.access_modes.as_ref()));
    size(volume) >= wanted(claim) && asks.iter().all(|mode| has.contains(mode))
}

fn phase(volume: &PersistentVolume) -> &str {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Available")
}

pub(super) fn makes_volumes(class: &StorageClass) -> bool {
    !matches!(class.provisioner.as_str(), "" | NO_PROVISIONER)
}

pub(super) fn is_default(class: &StorageClass) -> bool {
    class.annotations().get(DEFAULT_CLASS).is_some_and(|value| value == "true")
}

pub(super) fn trouble<'a>(view: &View<'a>, namespace: &str, name: &str) -> Option<Trouble<'a>> {
    let snapshot = view.snapshot;
    let Some(claim) = snapshot.volume_claim(namespace, name) else {
        let here =
            snapshot.persistent_volume_claims.iter().filter(|claim| claim.namespace().as_deref() == Some(namespace));
        return Some(Trouble::Missing { near: nearest(name, here.filter_map(|claim| claim.metadata.name.as_deref())) });
    };
    let class_name = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    let of_class = snapshot.persistent_volumes.iter().filter(|volume| {
        let class = volume.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
        class.unwrap_or_default() == class_name.unwrap_or_default()
    });
    if let Some(volume) = of_class.clone().find(|volume| phase(volume) == "Released" && suits(volume, claim)) {
        return Some(Trouble::Released(volume));
    }
    let best = of_class.max_by_key(|volume| (phase(volume) == "Available", size(volume))).map(|volume| &**volume);
    let Some(class_name) = class_name else {
        let any_default = snapshot.storage_classes.iter().any(|class| is_default(class));
        return Some(if any_default { return None } else { Trouble::NoClass });
    };
    let class = snapshot.storage_classes.iter().find(|class| class.metadata.name.as_deref() == Some(class_name));
    Some(match class {
        _ if class_name.is_empty() => Trouble::ByHand { best },
        // Volumes made by hand may be of a class that is only a name.
        None if best.is_some() => Trouble::ByHand { best },
        None => Trouble::UnknownClass(class_name),
        Some(class) if !makes_volumes(class) => Trouble::ByHand { best },
        Some(class) if class.allowed_topologies.as_ref().is_some_and(|terms| !terms.is_empty()) => {
            Trouble::Elsewhere(class)
        }
        Some(class) => Trouble::Awaited(class),
    })
}

/// `topology.kubernetes.io/zone b or c`, term by term.
fn places(terms: &[TopologySelectorTerm]) -> String {
    let term = |term: &TopologySelectorTerm| {
        let all = term.match_label_expressions.iter().flatten();
        all.map(|one| format!("{} is {}", one.key, one.values.join(" or "))).collect::<Vec<_>>().join(" and ")
    };
    terms.iter().map(term).collect::<Vec<_>>().join(", or ")
}

/// What is the matter with an unbound claim, in words.
pub(super) fn said(view: &View<'_>, namespace: &str, name: &str) -> Option<String> {
    let classes = || {
        let names: Vec<&str> =
            view.snapshot.storage_classes.iter().filter_map(|it| it.metadata.name.as_deref()).collect();
        match names.as_slice() {
            [] => "the cluster has no storage class".to_owned(),
            [one] => format!("there is {one}"),
            many => format!("there are {}", listed(many)),
        }
    };
    Some(match trouble(view, namespace, name)? {
        Trouble::Missing { near } => {
            let near = near.map(|near| format!("; there is {near}")).unwrap_or_default();
            format!("there is no volume claim {name} in namespace {namespace}{near}")
        }
        Trouble::NoClass => {
            format!("claim {name} names no storage class, and no class is the default; {}", classes())
        }
        Trouble::UnknownClass(class) => {
            format!("claim {name} asks for the storage class {class}, which does not exist; {}", classes())
        }
        Trouble::Released(volume) => {
            let former = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
            let former = former.map(|claim| {
                format!(
                    "{}/{}",
                    claim.namespace.as_deref().unwrap_or_default(),
                    claim.name.as_deref().unwrap_or_default()
                )
            });
            format!(
                "volume {} would do for claim {name}, but is Released: it is kept for the claim {} that is gone",
                volume.name_any(),
                former.unwrap_or_default()
            )
        }
        Trouble::Elsewhere(class) => {
            let terms = class.allowed_topologies.as_deref().unwrap_or_default();
            let nowhere =
                if view.nodes.values().any(|node| is_allowed(class, node)) { "" } else { ", and no node is there" };
            format!(
                "the storage class {} of claim {name} makes volumes only where {}{nowhere}",
                class.name_any(),
                places(terms)
            )
        }
        Trouble::ByHand { best: None } => {
            format!("there is no volume for claim {name}, and nothing makes volumes of its class")
        }
        Trouble::ByHand { best: Some(best) } => unfit(view, namespace, name, best)?,
        Trouble::Awaited(class) => {
            format!("claim {name} waits for {} to make its volume ({})", class.provisioner, class.name_any())
        }
    })
}

/// Why the volume that is most like what a claim asks for will not do.
fn unfit(view: &View<'_>, namespace: &str, name: &str, best: &PersistentVolume) -> Option<String> {
    let claim = view.snapshot.volume_claim(namespace, name)?;
    let volume = best.name_any();
    let asks = modes(claim.spec.as_ref().and_then(|spec| spec.access_modes.as_ref()));
    let has = modes(best.spec.as_ref().and_then(|spec| spec.access_modes.as_ref()));
    let why = if phase(best) != "Available" {
        format!("volume {volume} is {}", phase(best))
    } else if size(best) < wanted(claim) {
        format!("volume {volume} has {}, and {} is asked for", size(best), wanted(claim))
    } else if let Some(mode) = asks.iter().find(|mode| !has.contains(mode)) {
        format!("volume {volume} does not allow {mode}")
    } else {
        reachable_words(view, best).map(|places| format!("volume {volume} can be reached only where {places}"))?
    };
    Some(format!("no volume fits claim {name}: {why}"))
}

fn is_allowed(class: &StorageClass, node: &Node) -> bool {
    let fits = |term: &TopologySelectorTerm| {
        let all = term.match_label_expressions.iter().flatten();
        all.into_iter().all(|one| node.labels().get(&one.key).is_some_and(|value| one.values.contains(value)))
    };
    class.allowed_topologies.iter().flatten().any(fits)
}

/// The node affinity of a volume as that of a pod.
pub(super) fn affinity(volume: &PersistentVolume) -> Option<RequiredNodeAffinity> {
    let required = volume.spec.as_ref()?.node_affinity.as_ref()?.required.clone()?;
    let of_nodes =
        NodeAffinity { required_during_scheduling_ignored_during_execution: Some(required), ..NodeAffinity::default() };
    let affinity = Affinity { node_affinity: Some(of_nodes), ..Affinity::default() };
    RequiredNodeAffinity::from_api(&PodSpec { affinity: Some(affinity), ..PodSpec::default() }).ok()
}

/// Where a volume can be reached, and whether a node is there.
fn reachable_words(view: &View<'_>, volume: &PersistentVolume) -> Option<String> {
    let affinity = affinity(volume)?;
    let terms: Vec<String> = affinity
        .terms
        .iter()
        .flatten()
        .map(|term| term.expressions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and "))
        .collect();
    let there = view.nodes.iter().any(|(name, node)| affinity.matches(node.labels(), name));
    Some(format!("{}{}", terms.join(" or "), if there { "" } else { ", and no node is there" }))
}

/// Where the volume of a claim can be reached, in words.
pub(super) fn reached(view: &View<'_>, claim: &str, volume: &str) -> Option<String> {
    let places = reachable_words(view, view.snapshot.volume(volume)?)?;
    Some(format!("volume {volume} of claim {claim} can be reached only where {places}"))
}
