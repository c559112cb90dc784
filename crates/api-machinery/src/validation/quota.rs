//! ResourceQuotas: what they may count, and for which objects.

// upstream: pkg/apis/core/validation/validation.go ValidateResourceQuota, validateResourceQuotaScopes,
// validateScopedResourceSelectorRequirement; pkg/apis/core/helper/helpers.go (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::Errors;
use super::field::{entries, text};
use crate::schema::Path;
use klab_scheduler::quantity::Quantity;

/// What a quota may be limited to.
const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];
/// Scopes that are there or not, without a value.
const PLAIN: [&str; 5] = ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];
/// Scopes of which no object can have both.
const OPPOSITES: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];
/// Names that quotas know without a kind or a class in them.
const STANDARD: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];
const COMPUTE: [&str; 7] = ["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

pub fn check(value: &Value, errors: &mut Errors) {
    let spec = Path::Root.field("spec");
    let path = spec.field("hard");
    for (name, amount) in value["spec"]["hard"].as_object().into_iter().flatten() {
        for fault in names::qualified(name) {
            errors.invalid(path.key(name), &json!(name), fault);
        }
        let Ok(quantity) = Quantity::parse(amount.as_str().unwrap_or_default()) else { continue };
        if quantity.is_negative() {
            errors.invalid(path.key(name), amount, "must be greater than or equal to 0");
        }
        let whole = matches!(
            name.as_str(),
            "pods"
                | "services"
                | "secrets"
                | "configmaps"
                | "persistentvolumeclaims"
                | "replicationcontrollers"
                | "resourcequotas"
                | "services.nodeports"
                | "services.loadbalancers"
        ) || name.starts_with("count/");
        if whole && quantity.millis() % 1000 != 0 {
            errors.invalid(path.key(name), amount, "must be an integer");
        }
    }
    scopes(&value["spec"], &spec, errors);
    selector(&value["spec"], &spec, errors);
}

pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    if old["spec"]["scopes"] != new["spec"]["scopes"] {
        errors.invalid("spec.scopes", &new["spec"]["scopes"], "field is immutable");
    }
}

/// Whether a name is one that quotas know.
pub(super) fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name)
}

fn scopes(quota: &Value, spec: &Path<'_>, errors: &mut Errors) {
    let path = spec.field("scopes");
    let all = &quota["scopes"];
    let standard = standard_names(&quota["hard"]);
    for (_, scope) in entries(quota, "scopes") {
        let scope = scope.as_str().unwrap_or_default();
        if !SCOPES.contains(&scope) {
            errors.invalid(path, all, "unsupported scope");
        }
        for _ in not_covered(scope, &standard) {
            errors.invalid(path, all, "unsupported scope applied to resource");
        }
    }
    let named = |scope: &str| entries(quota, "scopes").any(|(_, one)| one == scope);
    for _ in OPPOSITES.iter().filter(|pair| pair.iter().all(|scope| named(scope))) {
        errors.invalid(path, all, "conflicting scopes");
    }
}

fn selector(quota: &Value, spec: &Path<'_>, errors: &mut Errors) {
    let selector = spec.field("scopeSelector");
    let path = selector.field("matchExpressions");
    let terms = &quota["scopeSelector"];
    let standard = standard_names(&quota["hard"]);
    for (_, term) in entries(terms, "matchExpressions") {
        let scope = text(term, "scopeName");
        if !SCOPES.contains(&scope) {
            errors.invalid(path.field("scopeName"), &term["scopeName"], "unsupported scope");
        }
        for _ in not_covered(scope, &standard) {
            errors.invalid(path, terms, "unsupported scope applied to resource");
        }
        let operator = text(term, "operator");
        if PLAIN.contains(&scope) && operator != "Exists" {
            errors.invalid(
                path.field("operator"),
                &term["operator"],
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
            );
        }
        let given = entries(term, "values").next().is_some();
        match operator {
            "In" | "NotIn" if !given => errors.required(
                path.field("values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            ),
            "Exists" | "DoesNotExist" if given => errors.invalid(
                path.field("values"),
                &term["values"],
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.invalid(path.field("operator"), &term["operator"], "not a valid selector operator"),
        }
    }
    let named = |scope: &str| entries(terms, "matchExpressions").any(|(_, term)| term["scopeName"] == scope);
    for _ in OPPOSITES.iter().filter(|pair| pair.iter().all(|scope| named(scope))) {
        // Upstream shows the other list.
        errors.invalid(path, &quota["scopes"], "conflicting scopes");
    }
}

/// The standard names of `hard`.
fn standard_names(hard: &Value) -> Vec<&str> {
    hard.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).filter(|name| is_standard(name)).collect()
}

/// Those of these names that no object of a scope counts for.
fn not_covered<'a>(scope: &'a str, standard: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let covers = move |name: &str| match scope {
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            COMPUTE.contains(&name)
        }
        _ => true,
    };
    standard.iter().copied().filter(move |name| !covers(name))
}
