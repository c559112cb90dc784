//! What may give a pod's claim a volume that the pod can use.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube_core::ResourceExt;
use serde_json::json;

use super::edit::Edit;
use super::kubectl::in_namespace;
use super::new_node::new_node;
use super::question::Question;
use super::storage_change::StorageChange;
use super::volumes::{DEFAULT_CLASS, Trouble, affinity, is_default, makes_volumes, trouble, wanted};
use crate::names::{HOST_LABEL, ZONE_LABEL};
use crate::verify::node::nearest;
use crate::verify::view::{Owner, PodView, View};
use klab_scheduler::Reason;
use klab_scheduler::typed::Typed;

/// What may give a pod's claim a volume that the pod can use.
pub(super) fn remedies(question: &Question<'_, '_>, reason: &Reason) -> Vec<Edit> {
    let Some(pod) = question.pods.first() else { return Vec::new() };
    let view = question.view;
    let changes = match reason {
        Reason::ClaimNotFound { claim }
        | Reason::UnboundImmediateClaim { claim }
        | Reason::NoVolumeToBind { claim } => unbound(view, pod, claim),
        Reason::VolumeNodeAffinity { claim, volume }
        | Reason::VolumeNotFound { claim, volume }
        | Reason::ClaimLost { claim, volume } => {
            let back = view.snapshot.volume(volume).and_then(|volume| node_for_volume(view, volume));
            back.into_iter().chain(afresh(view, pod, claim, volume)).collect()
        }
        _ => Vec::new(),
    };
    changes.into_iter().map(|change| Edit::Storage(Arc::new(change))).collect()
}

fn unbound(view: &View<'_>, pod: &PodView<'_>, name: &str) -> Vec<StorageChange> {
    let snapshot = view.snapshot;
    let namespace = pod.namespace;
    let Some(trouble) = trouble(view, namespace, name) else { return Vec::new() };
    let claim = snapshot.volume_claim(namespace, name);
    let mut classes: Vec<&StorageClass> =
        snapshot.storage_classes.iter().map(|class| &**class).filter(|class| makes_volumes(class)).collect();
    classes.sort_by_key(|class| (!is_default(class), class.name_any()));
    match trouble {
        Trouble::Missing { .. } => {
            let Some(class) = classes.first().filter(|class| is_default(class)) else { return Vec::new() };
            let object = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name },
                "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
            });
            let Ok(mut made) = PersistentVolumeClaim::from_value(&object) else { return Vec::new() };
            made.metadata.namespace = Some(namespace.to_owned());
            let command = format!("echo '{object}' | kubectl{} create -f -", in_namespace(namespace));
            let text = format!("make the claim {name} in namespace {namespace}, of the size that you need");
            vec![provided(&made, class, ("make-claim", 12, text, Some(command)))]
        }
        Trouble::NoClass => {
            let defaults = classes.iter().take(2).filter_map(|class| {
                let named = class.name_any();
                let patch = json!({ "metadata": { "annotations": { DEFAULT_CLASS: "true" } } });
                let command = format!("kubectl patch storageclass {named} -p '{patch}'");
                let text = format!("make {named} the default storage class");
                Some(provided(claim?, class, ("default-class", 11, text, Some(command))))
            });
            defaults.chain(claim.map(|claim| by_hand(claim))).collect()
        }
        Trouble::UnknownClass(wrong) => {
            let names: Vec<String> = classes.iter().map(|class| class.name_any()).collect();
            let near = nearest(wrong, names.iter().map(String::as_str)).map(str::to_owned);
            classes.sort_by_key(|class| Some(class.name_any()) != near);
            let others = classes.iter().take(2).filter_map(|class| Some(otherwise(claim?, wrong, class)));
            others.chain(claim.map(|claim| by_hand(claim))).collect()
        }
        Trouble::Released(volume) => {
            let mut free = volume.clone();
            if let Some(spec) = free.spec.as_mut() {
                spec.claim_ref = None;
            }
            free.status.get_or_insert_default().phase = Some("Available".to_owned());
            let named = volume.name_any();
            let patch = r#"[{"op":"remove","path":"/spec/claimRef"}]"#;
            let mut change = StorageChange {
                code: "release-volume",
                weight: 10,
                text: format!("free volume {named} of its old claim; what is on it stays"),
                command: Some(format!("kubectl patch pv {named} --type json -p '{patch}'")),
                volumes: vec![Arc::new(free.clone())],
                ..StorageChange::default()
            };
            change.claims = claim.map(|claim| bound(claim, &free, is_late(view, claim))).into_iter().collect();
            vec![change]
        }
        Trouble::Elsewhere(class) => {
            let wrong = class.name_any();
            let other = classes.iter().filter(|other| other.name_any() != wrong);
            let others = other.take(1).filter_map(|class| Some(otherwise(claim?, &wrong, class)));
            let term = class.allowed_topologies.iter().flatten().next();
            let labels = term.map(|term| {
                let all = term.match_label_expressions.iter().flatten();
                all.filter_map(|one| Some((one.key.clone(), one.values.first()?.clone()))).collect()
            });
            others.chain(labels.and_then(|labels| node_with(view, labels))).collect()
        }
        Trouble::ByHand { .. } => claim.map(|claim| by_hand(claim)).into_iter().collect(),
        Trouble::Awaited(_) => Vec::new(),
    }
}

fn is_late(view: &View<'_>, claim: &PersistentVolumeClaim) -> bool {
    let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    let mut classes = view.snapshot.storage_classes.iter();
    let class = classes.find(|it| it.metadata.name.as_deref() == class);
    class.is_some_and(|class| class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"))
}

/// A claim that may have a volume by now.
fn bound(claim: &PersistentVolumeClaim, volume: &PersistentVolume, is_late: bool) -> Arc<PersistentVolumeClaim> {
    let mut claim = claim.clone();
    if !is_late {
        claim.spec.get_or_insert_default().volume_name.clone_from(&volume.metadata.name);
        claim.status.get_or_insert_default().phase = Some("Bound".to_owned());
    }
    Arc::new(claim)
}

/// A volume that a claim asks for, of its class, reached from everywhere.
fn made_for(claim: &PersistentVolumeClaim, name: &str) -> Option<PersistentVolume> {
    let spec = claim.spec.as_ref()?;
    let size = wanted(claim).to_string();
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
        "spec": { "capacity": { "storage": size }, "accessModes": spec.access_modes, "hostPath": { "path": format!("/mnt/{name}") } },
    });
    if let Some(class) = spec.storage_class_name.as_deref().filter(|class| !class.is_empty()) {
        volume["spec"]["storageClassName"] = json!(class);
    }
    PersistentVolume::from_value(&volume).ok()
}

/// A claim to which a class gives a volume.
fn provided(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    (code, weight, text, command): (&'static str, u32, String, Option<String>),
) -> StorageChange {
    let mut of_class = claim.clone();
    of_class.spec.get_or_insert_default().storage_class_name.clone_from(&class.metadata.name);
    let mut change = StorageChange { code, weight, text, command, ..StorageChange::default() };
    if class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer") {
        change.claims = vec![Arc::new(of_class)];
    } else if let Some(volume) = made_for(&of_class, &format!("{}-made", claim.name_any())) {
        change.claims = vec![bound(&of_class, &volume, false)];
        change.volumes = vec![Arc::new(volume)];
    }
    change
}

/// The claim made again with another class.
fn otherwise(claim: &PersistentVolumeClaim, wrong: &str, class: &StorageClass) -> StorageChange {
    let (name, right, option) =
        (claim.name_any(), class.name_any(), in_namespace(&claim.namespace().unwrap_or_default()));
    let command = format!(
        "kubectl{option} get pvc {name} -o json | sed 's|\"storageClassName\": \"{wrong}\"|\"storageClassName\": \"{right}\"|' \
         | kubectl{option} replace --force -f -"
    );
    let text = format!("make the claim {name} again with the storage class {right}");
    provided(claim, class, ("change-storage-class", 20, text, Some(command)))
}

/// A volume made by hand.
fn by_hand(claim: &PersistentVolumeClaim) -> StorageChange {
    let name = format!("{}-volume", claim.name_any());
    let mut change = StorageChange {
        code: "make-volume",
        weight: 31,
        text: format!("make a volume for claim {} by hand", claim.name_any()),
        ..StorageChange::default()
    };
    if let Some(volume) = made_for(claim, &name) {
        let mut object = json!(volume);
        object["apiVersion"] = json!("v1");
        object["kind"] = json!("PersistentVolume");
        change.command = Some(format!("echo '{object}' | kubectl create -f -"));
        change.claims = vec![bound(claim, &volume, false)];
        change.volumes = vec![Arc::new(volume)];
    }
    change
}

/// A node from which a volume can be reached.
fn node_for_volume(view: &View<'_>, volume: &PersistentVolume) -> Option<StorageChange> {
    let affinity = affinity(volume)?;
    if view.nodes.iter().any(|(name, node)| affinity.matches(node.labels(), name)) {
        return None;
    }
    let term = affinity.terms.as_ref()?.first()?;
    let labels = term.expressions.iter().filter_map(|one| Some((one.key.clone(), one.values.first()?.clone())));
    node_with(view, labels.collect())
}

fn node_with(view: &View<'_>, labels: BTreeMap<String, String>) -> Option<StorageChange> {
    let template = view.snapshot.nodes.first()?;
    let mut node = new_node(template, "new", 0, &[]);
    if let Some(spec) = node.spec.as_mut() {
        spec.taints = None;
    }
    if let Some(name) = labels.get(HOST_LABEL) {
        node.metadata.name = Some(name.clone());
    }
    node.metadata.labels.get_or_insert_default().extend(labels.clone());
    let text = match (labels.get(HOST_LABEL), labels.get(ZONE_LABEL)) {
        (Some(name), _) => format!("bring the node {name} back, or add one of that name"),
        (None, Some(zone)) => format!("add a node in zone {zone}"),
        (None, None) => {
            let all: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("add a node with {}", all.join(", "))
        }
    };
    Some(StorageChange { code: "add-node", weight: 30, text, nodes: vec![Arc::new(node)], ..StorageChange::default() })
}

/// The claim of a StatefulSet's pod given up: its controller makes another, without what the volume holds.
fn afresh(view: &View<'_>, pod: &PodView<'_>, name: &str, volume: &str) -> Option<StorageChange> {
    if !matches!(pod.owner, Owner::StatefulSet(_)) {
        return None;
    }
    let claim = view.snapshot.volume_claim(pod.namespace, name)?;
    let class_name = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    let mut classes = view.snapshot.storage_classes.iter();
    let class =
        classes.find(|class| class.metadata.name.as_deref() == class_name).filter(|class| makes_volumes(class))?;
    let mut unbound = (**claim).clone();
    unbound.spec.get_or_insert_default().volume_name = None;
    unbound.status = None;
    unbound.metadata.annotations = None;
    let option = in_namespace(pod.namespace);
    let command = format!("kubectl{option} delete pvc {name} --wait=false && kubectl{option} delete pod {}", pod.name);
    let text =
        format!("give up what is on volume {volume}: delete the claim {name} and the pod, and both are made again");
    Some(provided(&unbound, class, ("give-up-volume", 60, text, Some(command))))
}
