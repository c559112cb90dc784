//! Which requests webhooks and policies say they are for.

// upstream: pkg/apis/admissionregistration/validation/validation.go validateRuleWithOperations, validateResources,
// validateMatchResources (v1.36)

use std::collections::HashSet;

use klab_cel::names;

use super::{Errors, Place, metadata};
use crate::views::{MatchResources, RuleWithOperations, Views};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

/// What policies and bindings are for; webhooks have these but for the rules.
pub(super) fn resources(resources: &Place<'_, MatchResources<'_>>, errors: &mut Errors) {
    resources.match_policy().supported(&["Equivalent", "Exact"], errors);
    metadata::selector(&resources.namespace_selector(), errors);
    metadata::selector(&resources.object_selector(), errors);
    for list in [resources.resource_rules(), resources.exclude_resource_rules()] {
        for one in list.each() {
            let mut seen = HashSet::new();
            for name in one.resource_names().each() {
                name.check(names::path_segment, errors);
                name.unique(&mut seen, errors);
            }
            rule(&one.cast(), errors);
        }
    }
}

/// A rule with its operations.
pub(super) fn rule(rule: &Place<'_, RuleWithOperations<'_>>, errors: &mut Errors) {
    rule.operations().some_or_all(Some(""), "operations", errors);
    rule.operations().each().for_each(|operation| operation.supported(&OPERATIONS, errors));
    rule.api_groups().some_or_all(Some(""), "API groups", errors);
    rule.api_versions().some_or_all(Some(""), "API versions", errors);
    rule.api_versions().each().for_each(|version| version.needed(errors));
    kinds(&rule.resources(), errors);
    rule.scope().supported(&["*", "Cluster", "Namespaced"], errors);
}

fn kinds<'a>(list: &Place<'_, Views<'a, &'a str>>, errors: &mut Errors) {
    list.needed(errors);
    let (mut all_parts, mut of_all) = (HashSet::new(), HashSet::new());
    let (mut everything, mut all, mut plain) = (false, false, false);
    for one in list.each() {
        let name = *one;
        if name.is_empty() {
            errors.required(one, "");
            continue;
        }
        everything |= name == "*/*";
        all |= name == "*";
        let Some((resource, part)) = name.split_once('/') else {
            plain = name != "*";
            continue;
        };
        if all_parts.contains(resource) {
            errors.invalid_at(&one, format!("if '{resource}/*' is present, must not specify {name}"));
        }
        if of_all.contains(part) {
            errors.invalid_at(&one, format!("if '*/{part}' is present, must not specify {name}"));
        }
        if part == "*" {
            all_parts.insert(resource);
        }
        if resource == "*" {
            of_all.insert(part);
        }
    }
    if everything && list.len() > 1 {
        errors.invalid_at(list, "if '*/*' is present, must not specify other resources");
    }
    if all && plain {
        errors.invalid_at(list, "if '*' is present, must not specify other resources without subresources");
    }
}
