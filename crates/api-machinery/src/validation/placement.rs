//! What a pod says about where it may go: node selectors, affinity, tolerations, spreading, gates.

// upstream: pkg/apis/core/validation/validation.go validateAffinity, ValidateTolerations, validateTopologySpreadConstraints (v1.36)

use std::collections::{HashMap, HashSet};

use klab_cel::names;
use klab_scheduler::features::Gate;
use serde_json::{Value, json};

use super::Errors;
use super::field::{entries, supported, text};
use super::metadata::{labels, selector};
use crate::schema::Path;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// `nodeSelector` of a pod.
pub(super) fn node_selector_labels(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    labels(&spec["nodeSelector"], &path.field("nodeSelector"), errors);
}

/// What has to be lifted before a pod is looked at.
pub(super) fn gates(spec: &Value, list: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (at, gate) in entries(spec, "schedulingGates") {
        for fault in names::qualified(text(gate, "name")) {
            errors.invalid(list.index(at), &gate["name"], fault);
        }
        if !seen.insert(&gate["name"]) {
            errors.duplicate(list.index(at), &gate["name"]);
        }
    }
}

/// A pod that is not looked at yet has no node.
pub(super) fn gated(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if entries(spec, "schedulingGates").next().is_some() && !text(spec, "nodeName").is_empty() {
        errors.forbidden(path.field("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
}

pub(super) fn affinity(affinity: &Value, path: &Path<'_>, errors: &mut Errors) {
    let node = &affinity["nodeAffinity"];
    let node_path = path.field("nodeAffinity");
    if node[REQUIRED].is_object() {
        node_selector(&node[REQUIRED], &node_path.field(REQUIRED), errors);
    }
    let list = node_path.field(PREFERRED);
    for (at, preference) in entries(node, PREFERRED) {
        let path = list.index(at);
        weight(preference, &path, errors);
        node_term(&preference["preference"], &path.field("preference"), errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let kind_path = path.field(kind);
        let list = kind_path.field(REQUIRED);
        for (at, term) in entries(&affinity[kind], REQUIRED) {
            pod_term(term, &list.index(at), errors);
        }
        let list = kind_path.field(PREFERRED);
        for (at, preference) in entries(&affinity[kind], PREFERRED) {
            let path = list.index(at);
            weight(preference, &path, errors);
            pod_term(&preference["podAffinityTerm"], &path.field("podAffinityTerm"), errors);
        }
    }
}

fn weight(preference: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !preference["weight"].as_i64().is_some_and(|weight| (1..=100).contains(&weight)) {
        errors.invalid(path.field("weight"), &preference["weight"], "must be in the range 1-100");
    }
}

/// A selector of nodes.
pub(super) fn node_selector(selector: &Value, path: &Path<'_>, errors: &mut Errors) {
    let terms = path.field("nodeSelectorTerms");
    if entries(selector, "nodeSelectorTerms").next().is_none() {
        errors.required(terms, "must have at least one node selector term");
    }
    for (at, term) in entries(selector, "nodeSelectorTerms") {
        node_term(term, &terms.index(at), errors);
    }
}

fn node_term(term: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field("matchExpressions");
    for (at, expression) in entries(term, "matchExpressions") {
        let path = list.index(at);
        let values = expression["values"].as_array().map_or(0, Vec::len);
        match text(expression, "operator") {
            "In" | "NotIn" if values == 0 => {
                errors.required(path.field("values"), "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if values > 0 => errors
                .forbidden(path.field("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
            "Gt" | "Lt" if values != 1 => {
                errors.required(path.field("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            _ => errors.invalid(path.field("operator"), &expression["operator"], "not a valid selector operator"),
        }
        for fault in names::qualified(text(expression, "key")) {
            errors.invalid(path.field("key"), &expression["key"], fault);
        }
    }
    let list = path.field("matchFields");
    for (at, expression) in entries(term, "matchFields") {
        let path = list.index(at);
        if expression["values"].as_array().map_or(0, Vec::len) != 1 {
            errors.required(
                path.field("values"),
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            );
        }
        if !matches!(text(expression, "operator"), "In" | "NotIn") {
            errors.invalid(path.field("operator"), &expression["operator"], "not a valid selector operator");
        }
        if text(expression, "key") != "metadata.name" {
            errors.invalid(path.field("key"), &expression["key"], "not a valid field selector key");
        }
    }
}

fn pod_term(term: &Value, path: &Path<'_>, errors: &mut Errors) {
    selector(&term["labelSelector"], &path.field("labelSelector"), errors);
    selector(&term["namespaceSelector"], &path.field("namespaceSelector"), errors);
    label_keys(term, path, errors);
    let key = text(term, "topologyKey");
    if key.is_empty() {
        errors.required(path.field("topologyKey"), "can not be empty");
    } else {
        for fault in names::qualified(key) {
            errors.invalid(path.field("topologyKey"), &term["topologyKey"], fault);
        }
    }
}

/// Tolerations of a pod.
pub(super) fn tolerations(spec: &Value, list: &Path<'_>, errors: &mut Errors) {
    for (at, toleration) in entries(spec, "tolerations") {
        let path = list.index(at);
        let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
        if !key.is_empty() {
            for fault in names::qualified(key) {
                errors.invalid(path.field("key"), &toleration["key"], fault);
            }
        } else if operator != "Exists" {
            errors.invalid(
                path.field("operator"),
                &json!(operator),
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            );
        }
        let effect = text(toleration, "effect");
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            errors.invalid(
                path.field("effect"),
                &json!(effect),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        match operator {
            "" | "Equal" => {
                for fault in names::label_value(text(toleration, "value")) {
                    errors.invalid(path.field("operator"), &toleration["value"], fault);
                }
            }
            "Exists" => {
                if !text(toleration, "value").is_empty() {
                    errors.invalid(
                        path.field("operator"),
                        toleration,
                        "value must be empty when `operator` is 'Exists'",
                    );
                }
            }
            "Lt" | "Gt" if errors.has(Gate::TaintTolerationComparisonOperators) => {
                number(text(toleration, "value"), &path.field("value"), errors);
            }
            "Lt" | "Gt" => {
                let known = ["Equal", "Exists", "Lt", "Gt"];
                errors.unsupported(path.field("operator"), &toleration["operator"], &known);
            }
            _ => errors.unsupported(path.field("operator"), &toleration["operator"], &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            supported(&toleration["effect"], &path.field("effect"), &EFFECTS, errors);
        }
    }
}

/// A number that a toleration compares a taint with.
// upstream: staging/src/k8s.io/apimachinery/pkg/api/validate/content/decimal_int.go, strconv.ParseInt (v1.36)
fn number(text: &str, path: &Path<'_>, errors: &mut Errors) {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if text.is_empty() {
        errors.invalid(path, &json!(text), "must be non-empty");
    } else if !is_number || (digits.starts_with('0') && text != "0") {
        let form = "must be a valid decimal integer in canonical form";
        errors.invalid(path, &json!(text), form);
    }
    if text.parse::<i64>().is_err() {
        let plain = text.strip_prefix(['+', '-']).unwrap_or(text);
        let is_long = !plain.is_empty() && plain.bytes().all(|byte| byte.is_ascii_digit());
        let why = if is_long { "value out of range" } else { "invalid syntax" };
        errors.invalid(path, &json!(text), format!("strconv.ParseInt: parsing {}: {why}", json!(text)));
    }
}

pub(super) fn spreading(spec: &Value, list: &Path<'_>, errors: &mut Errors) {
    let pair = |constraint: &'_ Value| (constraint["topologyKey"].clone(), constraint["whenUnsatisfiable"].clone());
    let mut left: HashMap<(Value, Value), usize> = HashMap::new();
    for (_, constraint) in entries(spec, "topologySpreadConstraints") {
        *left.entry(pair(constraint)).or_default() += 1;
    }
    for (at, constraint) in entries(spec, "topologySpreadConstraints") {
        let path = list.index(at);
        if constraint["maxSkew"].as_i64().unwrap_or_default() <= 0 {
            errors.invalid(path.field("maxSkew"), &constraint["maxSkew"], "must be greater than zero");
        }
        if text(constraint, "topologyKey").is_empty() {
            errors.required(path.field("topologyKey"), "can not be empty");
        } else {
            for fault in names::qualified(text(constraint, "topologyKey")) {
                errors.invalid(path.field("topologyKey"), &constraint["topologyKey"], fault);
            }
        }
        let when = &constraint["whenUnsatisfiable"];
        supported(when, &path.field("whenUnsatisfiable"), &["DoNotSchedule", "ScheduleAnyway"], errors);
        if let Some(domains) = constraint["minDomains"].as_i64() {
            if domains <= 0 {
                errors.invalid(path.field("minDomains"), &constraint["minDomains"], "must be greater than zero");
            }
            if when != "DoNotSchedule" {
                errors.invalid(
                    path.field("minDomains"),
                    &constraint["minDomains"],
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
                );
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            supported(&constraint[field], &path.field(field), &["Honor", "Ignore"], errors);
        }
        let behind = left.entry(pair(constraint)).or_default();
        *behind = behind.saturating_sub(1);
        if *behind > 0 {
            let pair = format!("{{{}, {}}}", text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
            errors.duplicate(path.field("{topologyKey, whenUnsatisfiable}"), &json!(pair));
        }
        selector(&constraint["labelSelector"], &path.field("labelSelector"), errors);
        if errors.has(Gate::MatchLabelKeysInPodTopologySpreadSelectorMerge) {
            label_keys(constraint, &path, errors);
        } else {
            unmerged_keys(constraint, &path.field("matchLabelKeys"), errors);
        }
    }
}

/// `matchLabelKeys` that the scheduler merges into the selector, and the API server does not.
// upstream: pkg/apis/core/validation/validation.go ValidateMatchLabelKeysInTopologySpread (v1.36)
fn unmerged_keys(constraint: &Value, list: &Path<'_>, errors: &mut Errors) {
    let selector = &constraint["labelSelector"];
    if entries(constraint, "matchLabelKeys").next().is_some() && !selector.is_object() {
        errors.forbidden(list, "must not be specified when labelSelector is not set");
    }
    for (at, key) in entries(constraint, "matchLabelKeys") {
        for fault in names::qualified(key.as_str().unwrap_or_default()) {
            errors.invalid(list.index(at), key, fault);
        }
        let is_label = key.as_str().is_some_and(|key| !selector["matchLabels"][key].is_null());
        if is_label || entries(selector, "matchExpressions").any(|(_, expression)| expression["key"] == *key) {
            errors.invalid(list.index(at), key, "exists in both matchLabelKeys and labelSelector");
        }
    }
}

/// `matchLabelKeys` and `mismatchLabelKeys`. In a pod, what they ask for is in its selector already.
// upstream: pkg/apis/core/validation/validation.go ValidateMatchLabelKeysAndMismatchLabelKeys (v1.36)
fn label_keys(term: &Value, path: &Path<'_>, errors: &mut Errors) {
    let selector = &term["labelSelector"];
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let list = path.field(field);
        if entries(term, field).next().is_some() && !selector.is_object() {
            errors.forbidden(list, "must not be specified when labelSelector is not set");
            continue;
        }
        for (at, key) in entries(term, field) {
            for fault in names::qualified(key.as_str().unwrap_or_default()) {
                errors.invalid(list.index(at), key, fault);
            }
        }
    }
    let places = |field: &str| -> HashMap<&Value, usize> {
        entries(term, field).collect::<Vec<_>>().into_iter().rev().map(|(at, key)| (key, at)).collect()
    };
    let (match_keys, mismatch_keys) = (places("matchLabelKeys"), places("mismatchLabelKeys"));
    let mut seen: HashSet<&str> =
        selector["matchLabels"].as_object().into_iter().flatten().map(|(key, _)| &**key).collect();
    for (_, expression) in entries(selector, "matchExpressions") {
        let key = text(expression, "key");
        if let Some(at) = match_keys.get(&json!(key)).filter(|_| seen.contains(key)) {
            errors.invalid(path.index(*at), &json!(key), "exists in both matchLabelKeys and labelSelector");
        }
        seen.insert(key);
    }
    let list = path.field("matchLabelKeys");
    for (at, key) in entries(term, "matchLabelKeys") {
        if mismatch_keys.contains_key(key) {
            errors.invalid(list.index(at), key, "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
}

/// Taints of a node.
pub(super) fn taints(spec: &Value, list: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (at, taint) in entries(spec, "taints") {
        let path = list.index(at);
        for fault in names::qualified(text(taint, "key")) {
            errors.invalid(path.field("key"), &taint["key"], fault);
        }
        for fault in names::label_value(text(taint, "value")) {
            errors.invalid(path.field("value"), &taint["value"], fault);
        }
        match text(taint, "effect") {
            "" => errors.required(path.field("effect"), ""),
            effect if EFFECTS.contains(&effect) => {}
            _ => errors.unsupported(path.field("effect"), &taint["effect"], &EFFECTS),
        }
        if !seen.insert((&taint["key"], &taint["effect"])) {
            errors.duplicate(path, taint);
        }
    }
}
