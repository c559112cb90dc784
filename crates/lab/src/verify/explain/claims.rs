//! Claims of a pod for which it waits before the scheduler looks at it: what is the matter with each.

use k8s_openapi::api::core::v1::{Pod, PodResourceClaim};

use super::kubectl::in_namespace;
use crate::code::Code;
use crate::verify::devices::DeviceObjects;
use crate::verify::node::nearest;
use crate::verify::view::{PodView, View};

/// A claim of a pod that the scheduler waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedClaim {
    /// What the pod calls it.
    pub claim: String,
    /// What is the matter; [`Code::ClaimsUnread`] where the snapshot has none.
    pub code: Code,
    /// For people.
    pub text: String,
}

impl AwaitedClaim {
    /// Whether the pod waits for it, and not only klab for being let at it.
    pub fn is_awaited(&self) -> bool {
        self.code != Code::ClaimsUnread
    }
}

/// The claims of a pod for which it waits.
pub(super) fn awaited(view: &View<'_>, pod: &PodView<'_>) -> Vec<AwaitedClaim> {
    let claims = pod.pod.spec.as_ref().and_then(|spec| spec.resource_claims.as_deref()).unwrap_or_default();
    if claims.is_empty() {
        return Vec::new();
    }
    let Some(objects) = &view.snapshot.devices else {
        let names: Vec<&str> = claims.iter().map(|claim| claim.name.as_str()).collect();
        let text = "resource claims and devices could not be read, so they are left aside here".to_owned();
        return vec![AwaitedClaim { claim: names.join(", "), code: Code::ClaimsUnread, text }];
    };
    claims.iter().filter_map(|claim| one(objects, pod, claim)).collect()
}

fn one(objects: &DeviceObjects, pod: &PodView<'_>, wanted: &PodResourceClaim) -> Option<AwaitedClaim> {
    let namespace = pod.namespace;
    let trouble = |code, text| Some(AwaitedClaim { claim: wanted.name.clone(), code, text });
    let is_made = wanted.resource_claim_name.is_none();
    let name = match (&wanted.resource_claim_name, &wanted.resource_claim_template_name) {
        (Some(name), _) => name.clone(),
        (None, Some(template)) => match made(pod.pod, &wanted.name) {
            // None is needed.
            Some(None) => return None,
            Some(Some(name)) => name,
            None => {
                let here = objects.templates.iter().filter(|it| it.metadata.namespace.as_deref() == Some(namespace));
                let mut names = here.filter_map(|it| it.metadata.name.as_deref());
                if names.clone().any(|name| name == template) {
                    return trouble(Code::ClaimNotMade, format!("it is not made yet from the template {template}"));
                }
                let similar = similar(nearest(template, &mut names));
                let text = format!(
                    "there is no resource claim template {template} in namespace {namespace} to make it from{similar}"
                );
                return trouble(Code::ClaimTemplateMissing, text);
            }
        },
        (None, None) => return None,
    };
    let Some(claim) = objects.claim(namespace, &name) else {
        let here = objects.claims.iter().filter(|it| it.metadata.namespace.as_deref() == Some(namespace));
        let similar = similar(nearest(&name, here.filter_map(|it| it.metadata.name.as_deref())));
        let text = format!("there is no resource claim {name} in namespace {namespace}{similar}");
        return trouble(Code::ClaimMissing, text);
    };
    if claim.metadata.deletion_timestamp.is_some() {
        let users = claim.status.as_ref().and_then(|status| status.reserved_for.as_ref());
        let users: Vec<&str> = users.into_iter().flatten().map(|user| user.name.as_str()).collect();
        let text = match users.as_slice() {
            [] => format!("resource claim {name} is being deleted"),
            users => format!(
                "resource claim {name} is being deleted, which waits for the end of {}: \
                 `kubectl{} delete pod {}`, then make the claim again",
                users.join(", "),
                in_namespace(namespace),
                users.join(" ")
            ),
        };
        return trouble(Code::ResourceClaimTerminating, text);
    }
    let owners = claim.metadata.owner_references.iter().flatten();
    let uid = pod.pod.metadata.uid.as_deref();
    if is_made && !owners.into_iter().any(|owner| owner.controller == Some(true) && Some(owner.uid.as_str()) == uid) {
        return trouble(Code::ClaimOfAnotherPod, format!("resource claim {name} was not made for this pod"));
    }
    None
}

fn similar(name: Option<&str>) -> String {
    name.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// The name of the claim that was made for a pod; `Some(None)` where none is needed, `None` where it is not made yet.
#[expect(clippy::option_option, reason = "whether it is known, and whether there is one")]
fn made(pod: &Pod, claim: &str) -> Option<Option<String>> {
    let statuses = pod.status.as_ref()?.resource_claim_statuses.as_ref()?;
    Some(statuses.iter().find(|status| status.name == *claim)?.resource_claim_name.clone())
}
