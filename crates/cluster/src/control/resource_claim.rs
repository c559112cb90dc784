//! ResourceClaims: made from templates for the pods that ask for them, taken back when no pod uses them any more.

// upstream: pkg/controller/resourceclaim/controller.go syncPod, handleClaim, syncClaim (v1.36)

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, ResourceId};
use klab_api_machinery::value::{list_mut, map_mut};
use klab_api_machinery::views::{
    Pod, PodResourceClaim, PodResourceClaimStatus, ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate,
};
use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::view::PodInfo;
use crate::cluster::{DeleteOptions, Part, WriteOptions};

const COMPONENT: &str = "resource_claim";
/// Keeps a claim that has devices.
pub(super) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// Says which of its pod's claims a claim was made for.
const POD_CLAIM: &str = "resource.kubernetes.io/pod-claim-name";
/// Longest beginning of a name that ends in random characters.
const MAX_BASE: usize = 57;

fn writes() -> WriteOptions<'static> {
    WriteOptions::by("ResourceClaimController")
}

fn key(resource: ResourceId, name: ObjectName) -> Key {
    Key::new(Controller::ResourceClaim, resource, name)
}

/// Makes and takes back claims.
#[derive(Default)]
pub(super) struct ResourceClaims;

impl Reconciler for ResourceClaims {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        match change.resource() {
            PODS => pod_changed(plane, change),
            RESOURCE_CLAIM_TEMPLATES if !change.gone => {
                let is_of =
                    |claim: PodResourceClaim<'_>| claim.resource_claim_template_name() == Some(&*change.object.name);
                let wanted = |pod: &&Arc<PodInfo>| {
                    pod.has_claims && Pod(&pod.object.value()).spec().resource_claims().any(is_of)
                };
                let pods: Vec<ObjectName> =
                    plane.view.pods_in(&change.object.namespace).filter(wanted).map(|pod| pod.name()).collect();
                for pod in pods {
                    plane.queue.add(key(PODS, pod));
                }
            }
            RESOURCE_CLAIMS => {
                if change.gone {
                    // The pod it was made for may still need it.
                    if let Some(pod) = owner(ResourceClaim(&change.object.value())) {
                        plane.queue.add(key(PODS, ObjectName::new(&change.object.namespace, &pod.0)));
                    }
                } else {
                    plane.queue.add(key(RESOURCE_CLAIMS, change.name()));
                }
            }
            _ => {}
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        match key.object() {
            Some((PODS, name)) => {
                if let Err(message) = sync_pod(plane, name) {
                    if let Some(pod) = plane.view.pod(name).map(Arc::clone) {
                        plane.note(&pod.object, COMPONENT, true, "FailedResourceClaimCreation", &message);
                    }
                    plane.retry_later(key.clone());
                } else {
                    plane.refused.remove(key);
                }
            }
            Some((_, name)) => sync_claim(plane, name),
            None => {}
        }
    }
}

fn pod_changed(plane: &mut Plane, change: &Change<'_>) {
    let Some(pod) = change.pod.after.as_ref().or(change.pod.before.as_ref()) else { return };
    let name = change.name();
    if change.gone || is_done(pod) {
        // Made by the scheduler, for extended resources.
        let value = change.object.value();
        let extended = Pod(&value).status().extended_resource_claim_status().resource_claim_name();
        if !extended.is_empty() {
            plane.queue.add(key(RESOURCE_CLAIMS, ObjectName::new(&name.namespace, extended)));
        }
    }
    if !pod.has_claims {
        return;
    }
    if change.gone || is_done(pod) {
        for (claim, _) in claims(Pod(&change.object.value())).into_iter().flatten() {
            plane.queue.add(key(RESOURCE_CLAIMS, ObjectName::new(&name.namespace, &claim)));
        }
    } else {
        plane.queue.add(key(PODS, name));
    }
}

/// Whether a pod needs its claims no more.
fn is_done(pod: &PodInfo) -> bool {
    pod.finished() || (pod.object.deleting && pod.node.is_empty())
}

/// The claims of a pod that are named, and whether each was made for it; `None` where one is still to be made.
pub(super) fn claims(pod: Pod<'_>) -> Vec<Option<(String, bool)>> {
    let of = |claim: PodResourceClaim<'_>| {
        if let Some(name) = claim.resource_claim_name() {
            return Some(Some((name.to_owned(), false)));
        }
        match pod.status().resource_claim_statuses().named(claim.name()) {
            None => Some(None),
            // None is needed.
            Some(status) => status.resource_claim_name().map(|name| Some((name.to_owned(), true))),
        }
    };
    pod.spec().resource_claims().filter_map(of).collect()
}

/// Name and UID of the pod that a claim was made for.
pub(super) fn owner(claim: ResourceClaim<'_>) -> Option<(String, String)> {
    let mut owners = claim.metadata().owner_references();
    let pod = owners.find(|owner| owner.controller() == Some(true) && owner.kind() == "Pod")?;
    (pod.api_version() == "v1").then(|| (pod.name().to_owned(), pod.uid().to_owned()))
}

/// Makes the claims that a pod asks for and that are not there, and reserves for it those that it was bound without.
fn sync_pod(plane: &mut Plane, name: &ObjectName) -> Result<(), String> {
    let Some(info) = plane.view.pod(name).map(Arc::clone) else { return Ok(()) };
    if info.object.deleting || info.finished() {
        return Ok(());
    }
    let Some(object) = plane.cluster.get(PODS, &name.namespace, &name.name) else { return Ok(()) };
    let value = object.value();
    let pod = Pod(&value);
    let mut made = Vec::new();
    for wanted in pod.spec().resource_claims() {
        let own = wanted.name();
        if let Some(claim) =
            make(plane, &object, pod, wanted).map_err(|fault| format!("PodResourceClaim {own}: {fault}"))?
        {
            made.push((own.to_owned(), claim));
        }
    }
    if !made.is_empty() {
        let (namespace, name) = (&*name.namespace, &*name.name);
        let _written = plane.cluster.modify(PODS, Part::Status, namespace, name, &writes(), |pod| {
            let statuses = list_mut(&mut pod["status"]["resourceClaimStatuses"]);
            let name = |status: &Value| PodResourceClaimStatus(status).name().to_owned();
            for (own, claim) in made {
                statuses.retain(|status| name(status) != own);
                statuses.push(json!({ "name": own, "resourceClaimName": claim }));
            }
            statuses.sort_by_cached_key(name);
        });
        return Ok(());
    }
    if !info.node.is_empty() {
        reserve_bound(plane, &object, pod);
    }
    Ok(())
}

/// The scheduler reserves claims for the pods it binds; who binds them otherwise does not.
fn reserve_bound(plane: &Plane, object: &Object, pod: Pod<'_>) {
    for (claim, made) in claims(pod).into_iter().flatten() {
        let Some(found) = plane.cluster.get(RESOURCE_CLAIMS, &object.namespace, &claim) else { return };
        let value = found.value();
        let (own, status) = (owner(ResourceClaim(&value)), ResourceClaim(&value).status());
        let own = own.is_some_and(|(_, uid)| *uid == *object.uid);
        let reserved = status.reserved_for().any(|consumer| consumer.uid() == &*object.uid);
        if !status.allocation().is_set() || reserved || (made && !own) {
            continue;
        }
        let consumer = json!({ "resource": "pods", "name": object.name, "uid": object.uid });
        let _written =
            plane.cluster.modify(RESOURCE_CLAIMS, Part::Status, &object.namespace, &claim, &writes(), |claim| {
                list_mut(&mut claim["status"]["reservedFor"]).push(consumer);
            });
    }
}

/// Makes one claim of a pod where it is missing, and gives its name if the pod does not know it yet.
fn make(plane: &Plane, object: &Object, pod: Pod<'_>, wanted: PodResourceClaim<'_>) -> Result<Option<String>, String> {
    let Some(template) = wanted.resource_claim_template_name() else { return Ok(None) };
    let (namespace, own) = (&*object.namespace, wanted.name());
    let is_own = |claim: ResourceClaim<'_>| owner(claim).is_some_and(|(_, uid)| *uid == *object.uid);
    if let Some(status) = pod.status().resource_claim_statuses().named(own) {
        let Some(name) = status.resource_claim_name() else { return Ok(None) };
        let known = plane.cluster.get(RESOURCE_CLAIMS, namespace, name);
        if known.is_some_and(|claim| is_own(ResourceClaim(&claim.value()))) {
            return Ok(None);
        }
    }
    // One may have been made before the pod's status could name it.
    let (all, _) = plane.cluster.list(RESOURCE_CLAIMS, Some(namespace));
    let orphan = all.iter().find(|claim| {
        let value = claim.value();
        let value = ResourceClaim(&value);
        is_own(value) && value.metadata().annotations().get(POD_CLAIM) == Some(own)
    });
    if let Some(orphan) = orphan {
        return Ok(Some(orphan.name.to_string()));
    }
    let found = plane.cluster.get(RESOURCE_CLAIM_TEMPLATES, namespace, template).ok_or_else(|| {
        format!(
            "resource claim template \"{template}\": resourceclaimtemplate.resource.k8s.io \"{template}\" not found"
        )
    })?;
    let template = found.value();
    let template = ResourceClaimTemplate(&template).spec();
    let given = template.metadata();
    let mut annotations = given.0["annotations"].clone();
    map_mut(&mut annotations).insert(POD_CLAIM.to_owned(), json!(own));
    let mut claim = json!({
        "metadata": {
            "generateName": base(&object.name, own), "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": object.name, "uid": object.uid, "controller": true,
            }],
        },
        "spec": template.spec().0,
    });
    if !given.labels().is_empty() {
        claim["metadata"]["labels"] = given.0["labels"].clone();
    }
    match plane.cluster.create(RESOURCE_CLAIMS, namespace, claim, &writes()) {
        Ok(claim) => Ok(Some(claim.name.to_string())),
        Err(status) => Err(format!("create ResourceClaim : {status}")),
    }
}

/// What the name of a claim begins with: of long names both parts are cut.
fn base(pod: &str, claim: &str) -> String {
    let whole = format!("{pod}-{claim}-");
    if whole.len() <= MAX_BASE {
        return whole;
    }
    let cut = |part: &str| part.chars().take(part.len() * MAX_BASE / whole.len()).collect::<String>();
    format!("{}-{}", cut(pod), cut(claim))
}

/// Takes away reservations of pods that are no more, the devices when none is left, and the claim when it was made for
/// a pod that will not run.
fn sync_claim(plane: &mut Plane, name: &ObjectName) {
    let Some(claim) = plane.cluster.get(RESOURCE_CLAIMS, &name.namespace, &name.name) else { return };
    let value = claim.value();
    let value = ResourceClaim(&value);
    let reserved = value.status().reserved_for();
    let is_kept = |consumer: &ResourceClaimConsumerReference<'_>| {
        let of_pod = consumer.resource() == "pods" && consumer.api_group().is_empty();
        let pod = plane.view.pod(&ObjectName::new(&name.namespace, consumer.name()));
        !of_pod || pod.is_some_and(|pod| *pod.object.uid == *consumer.uid() && !is_done(pod))
    };
    let kept: Vec<Value> = reserved.clone().filter(is_kept).map(|consumer| consumer.0.clone()).collect();
    let protected = value.metadata().finalizers().any(|finalizer| finalizer == FINALIZER);
    let released = kept.is_empty();
    if kept.len() < reserved.len() {
        take_back(plane, name, &kept, released && protected);
        if released && protected {
            plane.release(RESOURCE_CLAIMS, name, FINALIZER);
        }
    } else if protected && claim.deleting && released {
        if value.status().allocation().is_set() {
            take_back(plane, name, &kept, true);
        }
        plane.release(RESOURCE_CLAIMS, name, FINALIZER);
    }
    if released
        && !claim.deleting
        && let Some((pod, uid)) = owner(value)
    {
        let pod = plane.view.pod(&ObjectName::new(&name.namespace, &pod));
        if pod.is_some_and(|pod| *pod.object.uid != *uid || is_done(pod)) {
            let options = DeleteOptions { uid: Some(claim.uid.to_string()), ..DeleteOptions::default() };
            let _deleted = plane.cluster.delete(RESOURCE_CLAIMS, &name.namespace, &name.name, &options);
        }
    }
}

/// Leaves only these reservations, and takes the devices back if asked.
fn take_back(plane: &Plane, name: &ObjectName, kept: &[Value], deallocate: bool) {
    let (namespace, name) = (&*name.namespace, &*name.name);
    let _written = plane.cluster.modify(RESOURCE_CLAIMS, Part::Status, namespace, name, &writes(), |claim| {
        let status = map_mut(&mut claim["status"]);
        if kept.is_empty() {
            status.remove("reservedFor");
        } else {
            status.insert("reservedFor".to_owned(), json!(kept));
        }
        if deallocate {
            status.remove("allocation");
            // What drivers said of the devices is about them as they were used.
            status.remove("devices");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::base;

    #[test]
    fn long_names_are_cut_in_both_parts() {
        assert_eq!(base("pod", "claim"), "pod-claim-");
        let cut = base(&"p".repeat(63), &"c".repeat(63));
        assert_eq!(cut, format!("{}-{}", "p".repeat(28), "c".repeat(28)));
    }
}
