//! The resource claims of a pod: how it names them, and which containers use them.

// upstream: pkg/apis/core/validation/validation.go validatePodResourceClaim, validateResourceClaimNames (v1.36)

use std::collections::HashSet;

use klab_cel::names;
use serde_json::json;

use super::{Errors, Place};
use crate::views::{Container, PodResourceClaim, Views};

/// The claims of a pod.
pub(super) fn pod<'a>(list: &Place<'_, Views<'a, PodResourceClaim<'a>>>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for claim in list.each() {
        let name = claim.name();
        if !name.is_empty() && !seen.insert(*name) {
            errors.duplicate_at(&name);
        } else {
            name.needed_as(names::label, errors);
        }
        let ways = [claim.resource_claim_name(), claim.resource_claim_template_name()];
        match ways.map(|way| way.is_some()) {
            [true, true] => {
                let message = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                errors.invalid_as(claim, &shown(&claim), message);
            }
            [false, false] => {
                let message = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                errors.invalid_as(claim, &shown(&claim), message);
            }
            _ => {}
        }
        for way in &ways {
            way.check_given(names::subdomain, errors);
        }
    }
}

/// A claim as Go prints it.
fn shown(claim: &Place<'_, PodResourceClaim<'_>>) -> String {
    let (name, own) = (json!(*claim.name()), claim.resource_claim_name().json);
    let template = claim.resource_claim_template_name().json;
    format!("{{\"Name\":{name},\"ResourceClaimName\":{own},\"ResourceClaimTemplateName\":{template}}}")
}

/// The claims that a container of a pod with these claims uses.
pub(super) fn container(known: &HashSet<&str>, container: &Place<'_, Container<'_>>, errors: &mut Errors) {
    let (mut seen, mut claims): (HashSet<String>, HashSet<&str>) = (HashSet::new(), HashSet::new());
    for claim in container.resources().claims().each() {
        let (name, request) = (*claim.name(), *claim.request());
        if name.is_empty() {
            errors.required(claim, "");
            continue;
        }
        let own = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
        if seen.contains(name) || (request.is_empty() && claims.contains(name)) {
            errors.duplicate(claim, &json!(name));
        } else if !seen.insert(own.clone()) {
            errors.duplicate(claim, &json!(own));
        }
        claims.insert(name.split('/').next().unwrap_or_default());
        claim.request().check_if_set(names::label, errors);
        if !known.contains(name) {
            let mut names: Vec<&str> = known.iter().copied().filter(|name| !name.is_empty()).collect();
            names.sort_unstable();
            let listed =
                if names.is_empty() { " which is empty".to_owned() } else { format!(": {}", names.join(", ")) };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{listed}");
            errors.not_found_among(claim, claim.name().json, &detail);
        }
    }
}
