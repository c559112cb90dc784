//! The resource claims of a pod: how it names them, and which containers use them.

// upstream: pkg/apis/core/validation/validation.go validatePodResourceClaim, validateResourceClaimNames (v1.36)

use std::collections::HashSet;

use klab_cel::names;
use serde_json::{Value, json};

use super::Errors;
use super::field::{entries, text};
use crate::schema::Path;

/// The claims of a pod.
pub(super) fn pod(spec: &Value, list: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (at, claim) in entries(spec, "resourceClaims") {
        let path = list.index(at);
        let name = text(claim, "name");
        if name.is_empty() {
            errors.required(path.field("name"), "");
        } else if !seen.insert(name) {
            errors.duplicate(path.field("name"), &claim["name"]);
        } else {
            for fault in names::label(name) {
                errors.invalid(path.field("name"), &claim["name"], fault);
            }
        }
        let ways = ["resourceClaimName", "resourceClaimTemplateName"];
        match ways.map(|way| claim[way].is_string()) {
            [true, true] => {
                let message = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                errors.invalid_as(path, &shown(claim), message);
            }
            [false, false] => {
                let message = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                errors.invalid_as(path, &shown(claim), message);
            }
            _ => {}
        }
        for way in ways {
            let Some(name) = claim[way].as_str() else { continue };
            for fault in names::subdomain(name) {
                errors.invalid(path.field(way), &json!(name), fault);
            }
        }
    }
}

/// A claim as Go prints it.
fn shown(claim: &Value) -> String {
    let (name, own, template) = (&claim["name"], &claim["resourceClaimName"], &claim["resourceClaimTemplateName"]);
    let name = json!(name.as_str().unwrap_or_default());
    format!("{{\"Name\":{name},\"ResourceClaimName\":{own},\"ResourceClaimTemplateName\":{template}}}")
}

/// The claims of a pod, by name.
pub(super) fn names(spec: &Value) -> HashSet<&str> {
    entries(spec, "resourceClaims").map(|(_, claim)| text(claim, "name")).collect()
}

/// The claims that a container of a pod with these claims uses.
pub(super) fn container(known: &HashSet<&str>, container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let resources = path.field("resources");
    let list = resources.field("claims");
    let (mut seen, mut claims): (HashSet<String>, HashSet<&str>) = (HashSet::new(), HashSet::new());
    for (at, claim) in entries(&container["resources"], "claims") {
        let path = list.index(at);
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            errors.required(path, "");
            continue;
        }
        let own = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
        if seen.contains(name) || (request.is_empty() && claims.contains(name)) {
            errors.duplicate(path, &json!(name));
        } else if !seen.insert(own.clone()) {
            errors.duplicate(path, &json!(own));
        }
        claims.insert(name.split('/').next().unwrap_or_default());
        if !request.is_empty() {
            for fault in names::label(request) {
                errors.invalid(path.field("request"), &claim["request"], fault);
            }
        }
        if !known.contains(name) {
            let mut names: Vec<&str> = known.iter().copied().filter(|name| !name.is_empty()).collect();
            names.sort_unstable();
            let listed =
                if names.is_empty() { " which is empty".to_owned() } else { format!(": {}", names.join(", ")) };
            errors.not_found_among(
                path,
                &claim["name"],
                &format!("must be one of the names in pod.spec.resourceClaims{listed}"),
            );
        }
    }
}
