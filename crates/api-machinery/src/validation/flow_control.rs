//! FlowSchemas and PriorityLevelConfigurations.

// upstream: pkg/apis/flowcontrol/validation/validation.go (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::{Errors, Place};
use crate::views::{
    FlowSchema, FlowcontrolSubject, LimitResponse, LimitedPriorityLevelConfiguration, PolicyRulesWithSubjects,
    PriorityLevelConfiguration, QueuingConfiguration, ResourcePolicyRule, ServiceAccountSubject, Views,
};

const HIGHEST_PRECEDENCE: i64 = 10_000;
const MAX_QUEUES: i64 = 10_000_000;
/// How many bits a hand of queues may be drawn from.
const HASH_BITS: u32 = 60;
const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
/// The kinds of subjects, with their fields.
const SUBJECTS: [(&str, &str); 3] = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];

/// A FlowSchema.
pub(crate) fn flow(value: &Value, errors: &mut Errors) {
    let flow = Place::<FlowSchema<'_>>::root(value);
    let spec = flow.spec();
    let precedence = spec.matching_precedence();
    match precedence.json.as_i64() {
        Some(..=0) => errors.invalid_at(&precedence, "must be a positive value"),
        Some(1) if *flow.metadata().name() != "exempt" => {
            errors.invalid_at(&precedence, "only the schema named 'exempt' may have matchingPrecedence 1");
        }
        Some(number) if number > HIGHEST_PRECEDENCE => {
            errors.invalid_at(&precedence, format!("must not be greater than {HIGHEST_PRECEDENCE}"));
        }
        _ => {}
    }
    let method = spec.distinguisher_method();
    if method.is_set() && !matches!(*method.type_(), "ByNamespace" | "ByUser") {
        let shown = json!({ "Type": *method.type_() });
        errors.unsupported(method.type_(), &shown, &["ByNamespace", "ByUser"]);
    }
    let level = spec.priority_level_configuration();
    level.name().needed_for("must reference a priority level", errors);
    level.name().check_if_set(names::subdomain, errors);
    spec.rules().each().for_each(|one| rule(&one, errors));
}

fn rule(rule: &Place<'_, PolicyRulesWithSubjects<'_>>, errors: &mut Errors) {
    rule.subjects().needed_for("subjects must contain at least one value", errors);
    rule.subjects().each().for_each(|one| subject(&one, errors));
    if rule.resource_rules().is_empty() && rule.non_resource_rules().is_empty() {
        errors.required(rule, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    rule.resource_rules().each().for_each(|one| resources(&one, errors));
    for one in rule.non_resource_rules().each() {
        verbs(&one.verbs(), errors);
        let urls = one.non_resource_urls();
        let needed = "nonResourceURLs must contain at least one value";
        if urls.some_or_all(Some(needed), "non-resource URLs", errors) {
            for url in urls.each() {
                if let Some(fault) = fault_of_url(*url) {
                    errors.invalid_at(&url, fault);
                }
            }
        }
    }
}

fn subject(subject: &Place<'_, FlowcontrolSubject<'_>>, errors: &mut Errors) {
    let kind = *subject.kind();
    let Some((_, field)) = SUBJECTS.iter().find(|(known, _)| *known == kind) else {
        return subject.kind().one_of(&["Group", "ServiceAccount", "User"], errors);
    };
    // All have names.
    let who = subject.field(field).cast::<ServiceAccountSubject<'_>>();
    if !who.is_set() {
        errors.required(who, &format!("{field} is required when subject kind is '{kind}'"));
    } else if kind == "ServiceAccount" {
        let namespace = who.namespace();
        who.name().needed(errors);
        if *who.name() != "*" {
            who.name().check_if_set(names::subdomain, errors);
        }
        namespace.needed_for("must specify namespace for service account", errors);
        namespace.check_if_set(names::label, errors);
    } else {
        who.name().needed(errors);
    }
    for (other, field) in SUBJECTS.iter().filter(|(other, field)| *other != kind && subject.field(field).is_set()) {
        let fault = format!("{field} is forbidden when subject kind is not '{other}'");
        errors.forbidden(subject.field(field), fault);
    }
}

fn resources(rule: &Place<'_, ResourcePolicyRule<'_>>, errors: &mut Errors) {
    verbs(&rule.verbs(), errors);
    let needed = "resource rules must supply at least one api group";
    rule.api_groups().some_or_all(Some(needed), "api groups", errors);
    let needed = "resource rules must supply at least one resource";
    rule.resources().some_or_all(Some(needed), "resources", errors);
    let needed = "resource rules that are not cluster scoped must supply at least one namespace";
    let needed = (!*rule.cluster_scope()).then_some(needed);
    if rule.namespaces().some_or_all(needed, "namespaces", errors) {
        for namespace in rule.namespaces().each() {
            for fault in names::label(*namespace) {
                let fault = format!("each member of this list must be '*' or a DNS-1123 label; {fault}");
                errors.invalid_at(&namespace, fault);
            }
        }
    }
}

fn verbs<'a>(verbs: &Place<'_, Views<'a, &'a str>>, errors: &mut Errors) {
    let is_some = verbs.some_or_all(Some("verbs must contain at least one value"), "verbs", errors);
    if is_some && verbs.each().any(|verb| !VERBS.contains(&verb)) {
        errors.unsupported_at(verbs, &VERBS);
    }
}

fn fault_of_url(url: &str) -> Option<&'static str> {
    if url.is_empty() {
        Some("must not be empty")
    } else if !url.starts_with('/') {
        Some("must start with slash")
    } else if url.contains(' ') {
        Some("must not contain white-space")
    } else if url.contains("//") {
        Some("must not contain double slash")
    } else {
        let stars = url.matches('*').count();
        (stars > 1 || (stars == 1 && !url.ends_with("/*"))).then_some("wildcard can only do suffix matching")
    }
}

/// A PriorityLevelConfiguration.
pub(crate) fn level(value: &Value, errors: &mut Errors) {
    let level = Place::<PriorityLevelConfiguration<'_>>::root(value);
    let spec = level.spec();
    let (kind, limited, exempt) = (spec.type_(), spec.limited(), spec.exempt());
    if (*level.metadata().name() == "exempt") != (*kind == "Exempt") {
        errors.invalid_text(&kind, "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    match *kind {
        "Exempt" => {
            limited.absent("must be nil if the type is not Limited", errors);
            // These have some of the limits.
            limits(&exempt.cast(), errors);
        }
        "Limited" => {
            exempt.absent("must be nil if the type is Limited", errors);
            if !limited.is_set() {
                errors.required(limited, "must not be empty when type is Limited");
            }
            limits(&limited, errors);
        }
        _ => kind.one_of(&["Exempt", "Limited"], errors),
    }
}

fn limits(level: &Place<'_, LimitedPriorityLevelConfiguration<'_>>, errors: &mut Errors) {
    level.nominal_concurrency_shares().within(0.., "must be a non-negative integer", errors);
    if level.limit_response().is_set() {
        response(&level.limit_response(), errors);
    }
    level.lendable_percent().within(0..=100, "must be between 0 and 100, inclusive", errors);
    let fault = "if specified, must be a non-negative integer";
    level.borrowing_limit_percent().within(0.., fault, errors);
}

fn response(response: &Place<'_, LimitResponse<'_>>, errors: &mut Errors) {
    let queuing = response.queuing();
    match (*response.type_(), queuing.is_set()) {
        ("Reject", true) => errors.forbidden(queuing, "must be nil if limited.limitResponse.type is not Limited"),
        ("Queue", false) => errors.required(queuing, "must not be empty if limited.limitResponse.type is Limited"),
        ("Queue", true) => queues(&queuing, errors),
        _ => response.type_().one_of(&["Queue", "Reject"], errors),
    }
}

fn queues(queuing: &Place<'_, QueuingConfiguration<'_>>, errors: &mut Errors) {
    let (limit, queues, hand) = (queuing.queue_length_limit(), queuing.queues(), queuing.hand_size());
    let (decks, drawn) = (*queues, *hand);
    for number in [&limit, &queues].into_iter().filter(|number| ***number <= 0) {
        errors.invalid_at(number, "must be positive");
    }
    if decks > MAX_QUEUES {
        errors.invalid_at(&queues, format!("must not be greater than {MAX_QUEUES}"));
    }
    if drawn <= 0 {
        errors.invalid_at(&hand, "must be positive");
    } else if drawn > decks {
        errors.invalid_at(&hand, format!("should not be greater than queues ({decks})"));
    } else if !is_drawn(decks, drawn) {
        let text = format!(
            "required entropy bits of deckSize {decks} and handSize {drawn} should not be greater than {HASH_BITS}"
        );
        errors.invalid_at(&hand, text);
    }
}

/// Whether a hand can be drawn with the bits of a hash.
// upstream: staging/src/k8s.io/apiserver/pkg/util/shufflesharding/shufflesharding.go RequiredEntropyBits (v1.36)
fn is_drawn(queues: i64, hand: i64) -> bool {
    let hands = u32::try_from(hand).ok().and_then(|hand| i128::from(queues).checked_pow(hand));
    hands.is_some_and(|hands| hands <= 1 << HASH_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(check: fn(&Value, &mut Errors), name: &str, spec: Value) -> Vec<String> {
        Errors::found(|errors| check(&json!({ "metadata": { "name": name }, "spec": spec }), errors))
    }

    #[test]
    fn flows_say_whose_requests_go_where() {
        let of = |rule: Value| {
            let spec =
                json!({ "matchingPrecedence": 50, "priorityLevelConfiguration": { "name": "l" }, "rules": [rule] });
            faults(flow, "f", spec)
        };
        let user = json!({ "kind": "User", "user": { "name": "noxu" } });
        let every = json!({ "verbs": ["*"], "nonResourceURLs": ["/healthz/*"] });
        assert_eq!(of(json!({ "subjects": [user], "nonResourceRules": [every] })), [""; 0]);
        for (rule, wanted) in [
            (
                json!({ "subjects": [user] }),
                vec![": Required value: at least one of resourceRules and nonResourceRules has to be non-empty"],
            ),
            (
                json!({ "nonResourceRules": [every] }),
                vec![".subjects: Required value: subjects must contain at least one value"],
            ),
            (
                json!({ "subjects": [{ "kind": "User", "group": { "name": "g" } }], "nonResourceRules": [every] }),
                vec![
                    ".subjects[0].user: Required value: user is required when subject kind is 'User'",
                    ".subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'",
                ],
            ),
            (
                json!({ "subjects": [user], "nonResourceRules": [{ "verbs": ["feed"], "nonResourceURLs": ["healthz"] }] }),
                vec![
                    ".nonResourceRules[0].verbs: Unsupported value: [\"feed\"]: supported values: \"create\", \"delete\", \"deletecollection\", \"get\", \"list\", \"patch\", \"proxy\", \"update\", \"watch\"",
                    ".nonResourceRules[0].nonResourceURLs[0]: Invalid value: \"healthz\": must start with slash",
                ],
            ),
            (
                json!({ "subjects": [user], "resourceRules": [{ "verbs": ["*", "get"], "apiGroups": ["*"], "resources": ["*"] }] }),
                vec![
                    ".resourceRules[0].verbs: Invalid value: [\"*\",\"get\"]: if '*' is present, must not specify other verbs",
                    ".resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace",
                ],
            ),
        ] {
            let wanted: Vec<String> = wanted.iter().map(|fault| format!("spec.rules[0]{fault}")).collect();
            assert_eq!(of(rule.clone()), wanted, "{rule}");
        }
        assert_eq!(
            faults(flow, "f", json!({ "matchingPrecedence": 1, "distinguisherMethod": { "type": "x" } })),
            [
                "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
                "spec.distinguisherMethod.type: Unsupported value: {\"Type\":\"x\"}: supported values: \"ByNamespace\", \"ByUser\"",
                "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
            ]
        );
    }

    #[test]
    fn levels_have_queues_or_none() {
        let limited = |response: Value| {
            faults(level, "l", json!({ "type": "Limited", "limited": { "limitResponse": response } }))
        };
        let queue = |queues: i64, hand: i64| {
            limited(
                json!({ "type": "Queue", "queuing": { "queues": queues, "handSize": hand, "queueLengthLimit": 10 } }),
            )
        };
        assert_eq!(limited(json!({ "type": "Reject" })), [""; 0]);
        assert_eq!(queue(64, 8), [""; 0]);
        let path = "spec.limited.limitResponse.queuing";
        assert_eq!(
            queue(8, 10),
            [format!("{path}.handSize: Invalid value: 10: should not be greater than queues (8)")]
        );
        assert_eq!(
            queue(512, 8),
            [format!(
                "{path}.handSize: Invalid value: 8: required entropy bits of deckSize 512 and handSize 8 should not be greater than 60"
            )]
        );
        assert_eq!(
            limited(json!({ "type": "Queue" })),
            [format!("{path}: Required value: must not be empty if limited.limitResponse.type is Limited")]
        );
        assert_eq!(
            faults(level, "l", json!({ "type": "Limited" })),
            ["spec.limited: Required value: must not be empty when type is Limited"]
        );
        assert_eq!(
            faults(level, "l", json!({ "type": "Exempt" })),
            ["spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"]
        );
    }
}
