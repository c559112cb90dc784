//! Changes that may give claims their devices: fewer of them, tolerations, and devices that others have.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::resource::v1::{DeviceToleration, ResourceClaim};
use klab_scheduler::{DeviceObstacle, DeviceShortage, JudgedDevice, Reason, RequestShortage};

use super::claim_change::{Alternative, ClaimChange, Release, RequestChange};
use super::edit::Edit;
use super::question::Question;
use super::reasons::Refusal;
use crate::verify::devices::DeviceObjects;
use crate::verify::view::{Owner, PodView};

/// What may be done about the devices that a group of nodes lacks.
pub(super) fn remedies(question: &Question<'_, '_>, refusal: &Refusal<'_>) -> Vec<Edit> {
    let Some(objects) = &question.view.snapshot.devices else { return Vec::new() };
    let shortages = || {
        refusal.nodes.iter().flat_map(|(_, reasons)| *reasons).filter_map(|reason| match reason {
            Reason::NoDevices { shortage: Some(shortage) } => Some(&**shortage),
            _ => None,
        })
    };
    // The node where most can be had.
    let best = |judge: fn(&JudgedDevice) -> bool| {
        let count = |shortage: &&DeviceShortage| {
            let of = |request: &RequestShortage| request.devices.iter().filter(|device| judge(device)).count();
            shortage.short().map(of).min().unwrap_or(0)
        };
        shortages().max_by_key(count)
    };
    let mut edits = Vec::new();
    if let Some(shortage) = best(is_free_or_tainted) {
        let wishes = wishes(shortage, tolerated);
        edits.extend(changed(question, objects, wishes).map(|change| Edit::TolerateDevices(Arc::new(change))));
    }
    if let Some(shortage) = best(is_free) {
        // Of several pods the first may take what is left for the others.
        for least in [false, true].into_iter().take(question.pods.len().min(2)) {
            let wishes = wishes(shortage, |request| fewer(request, least));
            edits.extend(changed(question, objects, wishes).map(|change| Edit::FewerDevices(Arc::new(change))));
        }
    }
    if let Some(shortage) = best(is_taken) {
        edits.extend(release(question, objects, shortage).map(|release| Edit::Release(Arc::new(release))));
    }
    edits
}

fn is_free(device: &JudgedDevice) -> bool {
    device.obstacle.is_none()
}

fn is_free_or_tainted(device: &JudgedDevice) -> bool {
    matches!(device.obstacle, None | Some(DeviceObstacle::Tainted { .. }))
}

fn is_taken(device: &JudgedDevice) -> bool {
    matches!(device.obstacle, None | Some(DeviceObstacle::Taken { .. }))
}

/// What each request that is short could ask for instead, by claim and request; of alternatives one. None where one has no
/// way out.
fn wishes(
    shortage: &DeviceShortage,
    wish: impl Fn(&RequestShortage) -> Option<Alternative>,
) -> Option<Vec<(&RequestShortage, Alternative)>> {
    let base = |request: &RequestShortage| {
        let name = request.request.split('/').next().unwrap_or_default();
        (request.claim.clone(), name.to_owned())
    };
    let mut all: BTreeMap<(String, String), Option<(&RequestShortage, Alternative)>> = BTreeMap::new();
    for request in shortage.short() {
        let of_request = all.entry(base(request)).or_default();
        if of_request.is_none() {
            *of_request = wish(request).map(|wish| (request, wish));
        }
    }
    let all: Option<Vec<_>> = all.into_values().collect();
    all.filter(|all| !all.is_empty())
}

fn tolerated(request: &RequestShortage) -> Option<Alternative> {
    let mut taints: Vec<String> = Vec::new();
    let missing = request.wanted?.checked_sub(request.free())?;
    let tainted = request.devices.iter().filter_map(|device| match &device.obstacle {
        Some(DeviceObstacle::Tainted { taints }) => Some(taints),
        _ => None,
    });
    let tainted: Vec<&Vec<String>> = tainted.collect();
    if tainted.len() < missing {
        return None;
    }
    for taint in tainted.into_iter().take(missing).flatten() {
        if !taints.contains(taint) {
            taints.push(taint.clone());
        }
    }
    Some(Alternative::Tolerate(taints))
}

fn fewer(request: &RequestShortage, least: bool) -> Option<Alternative> {
    let from = request.wanted?;
    let to = if least { request.free().min(1) } else { request.free() };
    (to > 0 && to < from).then_some(Alternative::Fewer { from, to })
}

/// The claims of all pods, changed so.
fn changed(
    question: &Question<'_, '_>,
    objects: &DeviceObjects,
    wishes: Option<Vec<(&RequestShortage, Alternative)>>,
) -> Option<ClaimChange> {
    let wishes = wishes?;
    let first = question.pods.first()?;
    let mut claims: BTreeMap<(String, String), ResourceClaim> = BTreeMap::new();
    let mut requests = Vec::new();
    for (request, wish) in &wishes {
        let (own, template) =
            claims_of(first).into_iter().find(|(_, name, _)| *name == request.claim).map(|it| (it.0, it.2))?;
        let object = template.map_or_else(
            || format!("ResourceClaim {}", request.claim),
            |template| format!("ResourceClaimTemplate {template}"),
        );
        requests.push(RequestChange { object, request: request.request.clone(), wish: wish.clone() });
        for pod in question.pods {
            let (_, name, _) = claims_of(pod).into_iter().find(|(claim, ..)| *claim == own)?;
            let key = (pod.namespace.to_owned(), name);
            if !claims.contains_key(&key) {
                let claim = ResourceClaim::clone(objects.claim(&key.0, &key.1)?);
                claims.insert(key.clone(), claim);
            }
            ask(claims.get_mut(&key)?, &request.request, wish);
        }
    }
    Some(ClaimChange { claims: claims.into_values().map(Arc::new).collect(), requests })
}

/// The claims of a pod that are made: what the pod calls each, its name, and the template it is made from.
fn claims_of(pod: &PodView<'_>) -> Vec<(String, String, Option<String>)> {
    let spec = pod.pod.spec.as_ref().and_then(|spec| spec.resource_claims.as_ref());
    let made = pod.pod.status.as_ref().and_then(|status| status.resource_claim_statuses.as_ref());
    let name = |claim: &str| made?.iter().find(|status| status.name == *claim)?.resource_claim_name.clone();
    let one = |claim: &k8s_openapi::api::core::v1::PodResourceClaim| {
        let found = claim.resource_claim_name.clone().or_else(|| name(&claim.name))?;
        Some((claim.name.clone(), found, claim.resource_claim_template_name.clone()))
    };
    spec.into_iter().flatten().filter_map(one).collect()
}

fn ask(claim: &mut ResourceClaim, request: &str, wish: &Alternative) {
    let (name, alternative) = request.split_once('/').map_or((request, None), |(name, rest)| (name, Some(rest)));
    let requests = claim.spec.devices.as_mut().and_then(|devices| devices.requests.as_mut());
    let Some(request) = requests.into_iter().flatten().find(|it| it.name == name) else { return };
    let (count, tolerations) = match (&mut request.exactly, alternative) {
        (Some(exactly), _) => (&mut exactly.count, &mut exactly.tolerations),
        (None, Some(alternative)) => {
            let mut subs = request.first_available.iter_mut().flatten();
            let Some(sub) = subs.find(|sub| sub.name == alternative) else { return };
            (&mut sub.count, &mut sub.tolerations)
        }
        (None, None) => return,
    };
    match wish {
        Alternative::Fewer { to, .. } => *count = i64::try_from(*to).ok(),
        Alternative::Tolerate(taints) => {
            tolerations.get_or_insert_default().extend(taints.iter().map(|it| toleration(it)));
        }
    }
}

/// A toleration of a taint `key=value:Effect`.
fn toleration(taint: &str) -> DeviceToleration {
    let (rest, effect) = taint.rsplit_once(':').unwrap_or((taint, ""));
    let (key, value) = rest.split_once('=').map_or((rest, None), |(key, value)| (key, Some(value)));
    DeviceToleration {
        key: Some(key.to_owned()),
        operator: Some(if value.is_some() { "Equal" } else { "Exists" }.to_owned()),
        value: value.map(str::to_owned),
        effect: Some(effect.to_owned()).filter(|effect| !effect.is_empty()),
        toleration_seconds: None,
    }
}

/// Pods that no controller makes again, and unused claims, whose devices would do.
fn release(question: &Question<'_, '_>, objects: &DeviceObjects, shortage: &DeviceShortage) -> Option<Release> {
    let mut release = Release::default();
    for request in shortage.short() {
        let mut missing = request.wanted?.checked_sub(request.free())?;
        for device in &request.devices {
            let Some(DeviceObstacle::Taken { by }) = &device.obstacle else { continue };
            if missing == 0 {
                break;
            }
            let mut goes = !by.is_empty();
            for holder in by {
                if holder.pods.is_empty() {
                    match objects.claim(&holder.namespace, &holder.claim) {
                        Some(claim) if !release.claims.contains(claim) => release.claims.push(Arc::clone(claim)),
                        Some(_) => {}
                        None => goes = false,
                    }
                }
                for name in &holder.pods {
                    let here = |pod: &&PodView<'_>| pod.namespace == holder.namespace && pod.name == name;
                    let pod = question.view.pods.iter().find(here);
                    match pod.and_then(|pod| Some((pod.owner, question.view.snapshot.pods.get(pod.index)?))) {
                        Some((Owner::None, object)) if !release.pods.contains(object) => {
                            release.pods.push(Arc::clone(object));
                        }
                        Some((Owner::None, _)) => {}
                        // What has a controller comes again.
                        _ => goes = false,
                    }
                }
            }
            missing -= usize::from(goes);
        }
        if missing > 0 {
            return None;
        }
    }
    (!release.pods.is_empty() || !release.claims.is_empty()).then_some(release)
}
