//! FlowSchemas and PriorityLevelConfigurations.

// upstream: pkg/apis/flowcontrol/validation/validation.go (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::Errors;
use super::field::{entries, supported, text};
use crate::schema::Path;

const HIGHEST_PRECEDENCE: i64 = 10_000;
const MAX_QUEUES: i64 = 10_000_000;
/// How many bits a hand of queues may be drawn from.
const HASH_BITS: u32 = 60;
const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
/// The kinds of subjects, with their fields.
const SUBJECTS: [(&str, &str); 3] = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];

/// A FlowSchema.
pub(crate) fn flow(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    let precedence = &spec["matchingPrecedence"];
    let place = path.field("matchingPrecedence");
    match precedence.as_i64() {
        Some(..=0) => errors.invalid(place, precedence, "must be a positive value"),
        Some(1) if text(&value["metadata"], "name") != "exempt" => {
            errors.invalid(place, precedence, "only the schema named 'exempt' may have matchingPrecedence 1");
        }
        Some(number) if number > HIGHEST_PRECEDENCE => {
            errors.invalid(place, precedence, format!("must not be greater than {HIGHEST_PRECEDENCE}"));
        }
        _ => {}
    }
    let method = &spec["distinguisherMethod"];
    if method.is_object() && !matches!(text(method, "type"), "ByNamespace" | "ByUser") {
        let place = path.field("distinguisherMethod");
        let shown = json!({ "Type": text(method, "type") });
        errors.unsupported(place.field("type"), &shown, &["ByNamespace", "ByUser"]);
    }
    let level = text(&spec["priorityLevelConfiguration"], "name");
    let place = path.field("priorityLevelConfiguration");
    if level.is_empty() {
        errors.required(place.field("name"), "must reference a priority level");
    } else {
        for fault in names::subdomain(level) {
            errors.invalid(place.field("name"), &json!(level), fault);
        }
    }
    let list = path.field("rules");
    for (at, one) in entries(spec, "rules") {
        rule(one, &list.index(at), errors);
    }
}

fn rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field("subjects");
    if entries(rule, "subjects").next().is_none() {
        errors.required(list, "subjects must contain at least one value");
    }
    for (at, one) in entries(rule, "subjects") {
        subject(one, &list.index(at), errors);
    }
    let is_empty = |field: &str| entries(rule, field).next().is_none();
    if is_empty("resourceRules") && is_empty("nonResourceRules") {
        errors.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    let list = path.field("resourceRules");
    for (at, one) in entries(rule, "resourceRules") {
        resources(one, &list.index(at), errors);
    }
    let list = path.field("nonResourceRules");
    for (at, one) in entries(rule, "nonResourceRules") {
        let path = list.index(at);
        verbs(one, &path, errors);
        let needed = "nonResourceURLs must contain at least one value";
        if all_or_some(one, "nonResourceURLs", Some(needed), "non-resource URLs", &path, errors) {
            let list = path.field("nonResourceURLs");
            for (at, url) in entries(one, "nonResourceURLs") {
                if let Some(fault) = fault_of_url(url.as_str().unwrap_or_default()) {
                    errors.invalid(list.index(at), url, fault);
                }
            }
        }
    }
}

fn subject(subject: &Value, path: &Path<'_>, errors: &mut Errors) {
    let kind = text(subject, "kind");
    let Some((_, field)) = SUBJECTS.iter().find(|(known, _)| *known == kind) else {
        return errors.unsupported(path.field("kind"), &json!(kind), &["Group", "ServiceAccount", "User"]);
    };
    let who = &subject[*field];
    let place = path.field(field);
    if who.is_null() {
        errors.required(place, &format!("{field} is required when subject kind is '{kind}'"));
    } else {
        let name = text(who, "name");
        if name.is_empty() {
            errors.required(place.field("name"), "");
        }
        if kind == "ServiceAccount" {
            for fault in names::subdomain(name).into_iter().filter(|_| !matches!(name, "" | "*")) {
                errors.invalid(place.field("name"), &who["name"], fault);
            }
            let namespace = text(who, "namespace");
            if namespace.is_empty() {
                errors.required(place.field("namespace"), "must specify namespace for service account");
            } else {
                for fault in names::label(namespace) {
                    errors.invalid(place.field("namespace"), &who["namespace"], fault);
                }
            }
        }
    }
    for (other, field) in SUBJECTS.iter().filter(|(other, field)| *other != kind && !subject[*field].is_null()) {
        errors.forbidden(path.field(field), format!("{field} is forbidden when subject kind is not '{other}'"));
    }
}

fn resources(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    verbs(rule, path, errors);
    for (field, one, many) in [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")] {
        let needed = format!("resource rules must supply at least one {one}");
        all_or_some(rule, field, Some(&needed), many, path, errors);
    }
    let needed = "resource rules that are not cluster scoped must supply at least one namespace";
    let needed = (rule["clusterScope"] != true).then_some(needed);
    if all_or_some(rule, "namespaces", needed, "namespaces", path, errors) {
        let list = path.field("namespaces");
        for (at, namespace) in entries(rule, "namespaces") {
            for fault in names::label(namespace.as_str().unwrap_or_default()) {
                let fault = format!("each member of this list must be '*' or a DNS-1123 label; {fault}");
                errors.invalid(list.index(at), namespace, fault);
            }
        }
    }
}

fn verbs(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    let needed = "verbs must contain at least one value";
    let is_some = all_or_some(rule, "verbs", Some(needed), "verbs", path, errors);
    if is_some && entries(rule, "verbs").any(|(_, verb)| !VERBS.iter().any(|known| verb == known)) {
        errors.unsupported(path.field("verbs"), &rule["verbs"], &VERBS);
    }
}

/// A list with entries, or with `*` alone. Whether it has entries.
fn all_or_some(
    rule: &Value,
    field: &str,
    needed: Option<&str>,
    many: &str,
    path: &Path<'_>,
    errors: &mut Errors,
) -> bool {
    let count = entries(rule, field).count();
    let all = entries(rule, field).any(|(_, one)| one == "*");
    if let Some(needed) = needed.filter(|_| count == 0) {
        errors.required(path.field(field), needed);
    }
    if all && count > 1 {
        let fault = format!("if '*' is present, must not specify other {many}");
        errors.invalid(path.field(field), &rule[field], fault);
    }
    count > 0 && !all
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
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    let kind = text(spec, "type");
    if (text(&value["metadata"], "name") == "exempt") != (kind == "Exempt") {
        let fault = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.invalid(path.field("type"), &json!(kind), fault);
    }
    let (limited, exempt) = (&spec["limited"], &spec["exempt"]);
    let (limited_path, exempt_path) = (path.field("limited"), path.field("exempt"));
    match kind {
        "Exempt" => {
            if !limited.is_null() {
                errors.forbidden(limited_path, "must be nil if the type is not Limited");
            }
            shares(exempt, &exempt_path, errors);
        }
        "Limited" => {
            if !exempt.is_null() {
                errors.forbidden(exempt_path, "must be nil if the type is Limited");
            }
            if limited.is_null() {
                errors.required(limited_path, "must not be empty when type is Limited");
            } else {
                limits(limited, &limited_path, errors);
            }
        }
        _ => errors.unsupported(path.field("type"), &json!(kind), &["Exempt", "Limited"]),
    }
}

fn shares(level: &Value, path: &Path<'_>, errors: &mut Errors) {
    let shares = &level["nominalConcurrencyShares"];
    if shares.as_i64().is_some_and(|shares| shares < 0) {
        errors.invalid(path.field("nominalConcurrencyShares"), shares, "must be a non-negative integer");
    }
    if level["limitResponse"].is_object() {
        response(&level["limitResponse"], &path.field("limitResponse"), errors);
    }
    let lendable = &level["lendablePercent"];
    if lendable.as_i64().is_some_and(|percent| !(0..=100).contains(&percent)) {
        errors.invalid(path.field("lendablePercent"), lendable, "must be between 0 and 100, inclusive");
    }
}

fn limits(limited: &Value, path: &Path<'_>, errors: &mut Errors) {
    shares(limited, path, errors);
    let borrowed = &limited["borrowingLimitPercent"];
    if borrowed.as_i64().is_some_and(|percent| percent < 0) {
        let fault = "if specified, must be a non-negative integer";
        errors.invalid(path.field("borrowingLimitPercent"), borrowed, fault);
    }
}

fn response(response: &Value, path: &Path<'_>, errors: &mut Errors) {
    let queuing = &response["queuing"];
    let place = path.field("queuing");
    match (text(response, "type"), queuing.is_null()) {
        ("Reject", false) => errors.forbidden(place, "must be nil if limited.limitResponse.type is not Limited"),
        ("Queue", true) => errors.required(place, "must not be empty if limited.limitResponse.type is Limited"),
        ("Queue", false) => queues(queuing, &place, errors),
        ("Reject", true) => {}
        (kind, _) => supported(&json!(kind), &path.field("type"), &["Queue", "Reject"], errors),
    }
}

fn queues(queuing: &Value, path: &Path<'_>, errors: &mut Errors) {
    let number = |field: &str| queuing[field].as_i64().unwrap_or_default();
    let (queues, hand) = (number("queues"), number("handSize"));
    let fault = |field: &str, text: String, errors: &mut Errors| {
        errors.invalid(path.field(field), &queuing[field], text);
    };
    if number("queueLengthLimit") <= 0 {
        fault("queueLengthLimit", "must be positive".to_owned(), errors);
    }
    if queues <= 0 {
        fault("queues", "must be positive".to_owned(), errors);
    } else if queues > MAX_QUEUES {
        fault("queues", format!("must not be greater than {MAX_QUEUES}"), errors);
    }
    if hand <= 0 {
        fault("handSize", "must be positive".to_owned(), errors);
    } else if hand > queues {
        fault("handSize", format!("should not be greater than queues ({queues})"), errors);
    } else if !is_drawn(queues, hand) {
        let text = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        );
        fault("handSize", text, errors);
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
