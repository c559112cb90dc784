//! ResourceQuotas: what they may count, and for which objects.

// upstream: pkg/apis/core/validation/validation.go ValidateResourceQuota, validateResourceQuotaScopes,
// validateScopedResourceSelectorRequirement; pkg/apis/core/helper/helpers.go (v1.36)

use klab_cel::names;
use klab_scheduler::quantity::Quantity;
use serde_json::Value;

use super::{Errors, Place};
use crate::views::{Entries, ResourceQuota, ResourceQuotaSpec, ScopedResourceSelectorRequirement};

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
/// Names of what is counted, and not measured.
const COUNTS: [&str; 9] = [
    "pods",
    "services",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "services.nodeports",
    "services.loadbalancers",
];
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
    let spec = Place::<ResourceQuotaSpec<'_>>::of_spec(value);
    for (name, amount) in spec.hard().each() {
        errors.faults(&amount, name, names::qualified);
        let Ok(quantity) = Quantity::parse(amount.text()) else { continue };
        if quantity.is_negative() {
            errors.invalid_at(&amount, "must be greater than or equal to 0");
        }
        if (COUNTS.contains(&name) || name.starts_with("count/")) && quantity.millis() % 1000 != 0 {
            errors.invalid_at(&amount, "must be an integer");
        }
    }
    scopes(&spec, errors);
    selector(&spec, errors);
}

pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let (old, new) = (Place::<ResourceQuota<'_>>::root(old), Place::<ResourceQuota<'_>>::root(new));
    new.spec().scopes().stays(&old.spec().scopes(), errors);
}

/// Whether a name is one that quotas know.
pub(super) fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name)
}

fn scopes(quota: &Place<'_, ResourceQuotaSpec<'_>>, errors: &mut Errors) {
    let (list, standard) = (quota.scopes(), standard_names(*quota.hard()));
    for scope in list.each() {
        if !SCOPES.contains(&scope) {
            errors.invalid_at(&list, "unsupported scope");
        }
        for _ in not_covered(*scope, &standard) {
            errors.invalid_at(&list, "unsupported scope applied to resource");
        }
    }
    conflicts(quota, &list, |named| list.each().any(|scope| *scope == named), errors);
}

/// Scopes of which no object can have both. Upstream shows the same list, whichever has them.
fn conflicts<T>(
    quota: &Place<'_, ResourceQuotaSpec<'_>>,
    list: &Place<'_, T>,
    has: impl Fn(&str) -> bool,
    errors: &mut Errors,
) {
    for _ in OPPOSITES.iter().filter(|pair| pair.iter().all(|scope| has(scope))) {
        errors.invalid(list, quota.scopes().json, "conflicting scopes");
    }
}

fn selector(quota: &Place<'_, ResourceQuotaSpec<'_>>, errors: &mut Errors) {
    let (selector, standard) = (quota.scope_selector(), standard_names(*quota.hard()));
    let list = selector.match_expressions();
    for term in list.each() {
        // Upstream leaves out which one it is.
        let term = term.called(list.path);
        if !SCOPES.contains(&*term.scope_name()) {
            errors.invalid_at(&term.scope_name(), "unsupported scope");
        }
        for _ in not_covered(*term.scope_name(), &standard) {
            errors.invalid(&list, selector.json, "unsupported scope applied to resource");
        }
        requirement(&term, errors);
    }
    conflicts(quota, &list, |named| list.each().any(|term| *term.scope_name() == named), errors);
}

fn requirement(term: &Place<'_, ScopedResourceSelectorRequirement<'_>>, errors: &mut Errors) {
    let (operator, values) = (term.operator(), term.values());
    if PLAIN.contains(&*term.scope_name()) && *operator != "Exists" {
        errors.invalid_at(
            &operator,
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
        );
    }
    match *operator {
        "In" | "NotIn" if values.is_empty() => {
            let fault = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.required(values, fault);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let fault = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.invalid_at(&values, fault);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => errors.invalid_at(&operator, "not a valid selector operator"),
    }
}

/// The standard names of `hard`.
fn standard_names<'a>(hard: Entries<'a, &'a Value>) -> Vec<&'a str> {
    hard.iter().map(|(name, _)| name).filter(|name| is_standard(name)).collect()
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
