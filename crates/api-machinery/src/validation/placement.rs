//! What a pod says about where it may go: node selectors, affinity, tolerations, spreading, gates.

// upstream: pkg/apis/core/validation/validation.go validateAffinity, ValidateTolerations, validateTopologySpreadConstraints (v1.36)

use std::collections::{HashMap, HashSet};

use klab_cel::names;
use klab_scheduler::features::Gate;
use serde_json::json;

use super::metadata::selector;
use super::{Errors, Place};
use crate::views::{
    Affinity, NodeSelector, NodeSelectorTerm, PodAffinity, PodAffinityTerm, PodSchedulingGate, PodSpec, Taint,
    Toleration, TopologySpreadConstraint, Views,
};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// What has to be lifted before a pod is looked at.
pub(super) fn gates<'a>(list: &Place<'_, Views<'a, PodSchedulingGate<'a>>>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for gate in list.each() {
        let name = gate.name();
        name.called(gate.path).check(names::qualified, errors);
        if !seen.insert(*name) {
            errors.duplicate(gate, name.json);
        }
    }
}

/// A pod that is not looked at yet has no node.
pub(super) fn gated(spec: &Place<'_, PodSpec<'_>>, errors: &mut Errors) {
    if !spec.scheduling_gates().is_empty() && !spec.node_name().is_empty() {
        errors.forbidden(spec.node_name(), "cannot be set until all schedulingGates have been cleared");
    }
}

pub(super) fn affinity(affinity: &Place<'_, Affinity<'_>>, errors: &mut Errors) {
    let node = affinity.node_affinity();
    if node.required_during_scheduling_ignored_during_execution().is_set() {
        node_selector(&node.required_during_scheduling_ignored_during_execution(), errors);
    }
    for preference in node.preferred_during_scheduling_ignored_during_execution().each() {
        weight(&preference.weight(), errors);
        node_term(&preference.preference(), errors);
    }
    for pod in [affinity.pod_affinity(), affinity.pod_anti_affinity().cast::<PodAffinity<'_>>()] {
        pod.required_during_scheduling_ignored_during_execution().each().for_each(|term| pod_term(&term, errors));
        for preference in pod.preferred_during_scheduling_ignored_during_execution().each() {
            weight(&preference.weight(), errors);
            pod_term(&preference.pod_affinity_term(), errors);
        }
    }
}

fn weight(weight: &Place<'_, i64>, errors: &mut Errors) {
    weight.within(1..=100, "must be in the range 1-100", errors);
}

/// A selector of nodes.
pub(super) fn node_selector(selector: &Place<'_, NodeSelector<'_>>, errors: &mut Errors) {
    let terms = selector.node_selector_terms();
    terms.needed_for("must have at least one node selector term", errors);
    terms.each().for_each(|term| node_term(&term, errors));
}

fn node_term(term: &Place<'_, NodeSelectorTerm<'_>>, errors: &mut Errors) {
    for expression in term.match_expressions().each() {
        let (operator, values) = (expression.operator(), expression.values());
        match *operator {
            "In" | "NotIn" if values.is_empty() => {
                errors.required(values, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "Gt" | "Lt" if values.len() != 1 => {
                errors.required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            _ => errors.invalid_at(&operator, "not a valid selector operator"),
        }
        expression.key().check(names::qualified, errors);
    }
    for expression in term.match_fields().each() {
        if expression.values().len() != 1 {
            let fault = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.required(expression.values(), fault);
        }
        if !matches!(*expression.operator(), "In" | "NotIn") {
            errors.invalid_at(&expression.operator(), "not a valid selector operator");
        }
        if *expression.key() != "metadata.name" {
            errors.invalid_at(&expression.key(), "not a valid field selector key");
        }
    }
}

fn pod_term(term: &Place<'_, PodAffinityTerm<'_>>, errors: &mut Errors) {
    selector(&term.label_selector(), errors);
    selector(&term.namespace_selector(), errors);
    label_keys(term, errors);
    topology_key(&term.topology_key(), errors);
}

fn topology_key(key: &Place<'_, &str>, errors: &mut Errors) {
    key.needed_for("can not be empty", errors);
    key.check_if_set(names::qualified, errors);
}

/// Tolerations of a pod.
pub(super) fn tolerations<'a>(list: &Place<'_, Views<'a, Toleration<'a>>>, errors: &mut Errors) {
    for toleration in list.each() {
        let (key, operator, value) = (toleration.key(), toleration.operator(), toleration.value());
        key.check_if_set(names::qualified, errors);
        if key.is_empty() && *operator != "Exists" {
            let fault = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid_text(&operator, fault);
        }
        let effect = toleration.effect();
        if toleration.toleration_seconds().is_set() && *effect != "NoExecute" {
            errors.invalid_text(&effect, "effect must be 'NoExecute' when `tolerationSeconds` is set");
        }
        match *operator {
            "" | "Equal" => value.called(operator.path).check(names::label_value, errors),
            "Exists" => {
                if !value.is_empty() {
                    errors.invalid(operator, toleration.json, "value must be empty when `operator` is 'Exists'");
                }
            }
            "Lt" | "Gt" if errors.has(Gate::TaintTolerationComparisonOperators) => number(&value, errors),
            "Lt" | "Gt" => errors.unsupported_at(&operator, &["Equal", "Exists", "Lt", "Gt"]),
            _ => errors.unsupported_at(&operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            effect.supported(&EFFECTS, errors);
        }
    }
}

/// A number that a toleration compares a taint with.
// upstream: staging/src/k8s.io/apimachinery/pkg/api/validate/content/decimal_int.go, strconv.ParseInt (v1.36)
fn number(value: &Place<'_, &str>, errors: &mut Errors) {
    let text = **value;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if text.is_empty() {
        errors.invalid_text(value, "must be non-empty");
    } else if !is_number || (digits.starts_with('0') && text != "0") {
        errors.invalid_text(value, "must be a valid decimal integer in canonical form");
    }
    if text.parse::<i64>().is_err() {
        let plain = text.strip_prefix(['+', '-']).unwrap_or(text);
        let is_long = !plain.is_empty() && plain.bytes().all(|byte| byte.is_ascii_digit());
        let why = if is_long { "value out of range" } else { "invalid syntax" };
        errors.invalid_text(value, format!("strconv.ParseInt: parsing {}: {why}", json!(text)));
    }
}

pub(super) fn spreading<'a>(list: &Place<'_, Views<'a, TopologySpreadConstraint<'a>>>, errors: &mut Errors) {
    let mut left: HashMap<(&str, &str), usize> = HashMap::new();
    for constraint in list.each() {
        *left.entry((*constraint.topology_key(), *constraint.when_unsatisfiable())).or_default() += 1;
    }
    for constraint in list.each() {
        let (key, when) = (constraint.topology_key(), constraint.when_unsatisfiable());
        if *constraint.max_skew() <= 0 {
            errors.invalid_at(&constraint.max_skew(), "must be greater than zero");
        }
        topology_key(&key, errors);
        when.supported(&["DoNotSchedule", "ScheduleAnyway"], errors);
        let domains = constraint.min_domains();
        if domains.is_some_and(|domains| domains <= 0) {
            errors.invalid_at(&domains, "must be greater than zero");
        }
        if domains.is_some() && *when != "DoNotSchedule" {
            let fault = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway";
            errors.invalid_at(&domains, fault);
        }
        constraint.node_affinity_policy().supported(&["Honor", "Ignore"], errors);
        constraint.node_taints_policy().supported(&["Honor", "Ignore"], errors);
        let behind = left.entry((*key, *when)).or_default();
        *behind = behind.saturating_sub(1);
        if *behind > 0 {
            let pair = format!("{{{}, {}}}", *key, *when);
            errors.duplicate(constraint.path.field("{topologyKey, whenUnsatisfiable}"), &json!(pair));
        }
        selector(&constraint.label_selector(), errors);
        if errors.has(Gate::MatchLabelKeysInPodTopologySpreadSelectorMerge) {
            label_keys(&constraint.cast(), errors);
        } else {
            unmerged_keys(&constraint, errors);
        }
    }
}

/// `matchLabelKeys` that the scheduler merges into the selector, and the API server does not.
// upstream: pkg/apis/core/validation/validation.go ValidateMatchLabelKeysInTopologySpread (v1.36)
fn unmerged_keys(constraint: &Place<'_, TopologySpreadConstraint<'_>>, errors: &mut Errors) {
    let (selector, keys) = (constraint.label_selector(), constraint.match_label_keys());
    if !keys.is_empty() && !selector.is_set() {
        errors.forbidden(&keys, "must not be specified when labelSelector is not set");
    }
    for key in keys.each() {
        key.check(names::qualified, errors);
        let is_label = selector.match_labels().get(*key).is_some();
        if is_label || selector.match_expressions().each().any(|expression| *expression.key() == *key) {
            errors.invalid_at(&key, "exists in both matchLabelKeys and labelSelector");
        }
    }
}

/// `matchLabelKeys` and `mismatchLabelKeys`. In a pod, what they ask for is in its selector already.
// upstream: pkg/apis/core/validation/validation.go ValidateMatchLabelKeysAndMismatchLabelKeys (v1.36)
fn label_keys(term: &Place<'_, PodAffinityTerm<'_>>, errors: &mut Errors) {
    let selector = term.label_selector();
    let (match_keys, mismatch_keys) = (term.match_label_keys(), term.mismatch_label_keys());
    for list in [&match_keys, &mismatch_keys] {
        if !list.is_empty() && !selector.is_set() {
            errors.forbidden(list, "must not be specified when labelSelector is not set");
        } else {
            list.each().for_each(|key| key.check(names::qualified, errors));
        }
    }
    let places: HashMap<&str, usize> = Views::clone(&match_keys).enumerate().map(|(at, key)| (key, at)).rev().collect();
    let mut seen: HashSet<&str> = selector.match_labels().iter().map(|(key, _)| key).collect();
    for expression in selector.match_expressions().each() {
        let key = *expression.key();
        if let Some(at) = places.get(key).filter(|_| seen.contains(key)) {
            errors.invalid(term.path.index(*at), &json!(key), "exists in both matchLabelKeys and labelSelector");
        }
        seen.insert(key);
    }
    let mismatched: HashSet<&str> = Views::clone(&mismatch_keys).collect();
    for key in match_keys.each().filter(|key| mismatched.contains(**key)) {
        errors.invalid_at(&key, "exists in both matchLabelKeys and mismatchLabelKeys");
    }
}

/// Taints of a node.
pub(super) fn taints<'a>(list: &Place<'_, Views<'a, Taint<'a>>>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for taint in list.each() {
        taint.key().check(names::qualified, errors);
        taint.value().check(names::label_value, errors);
        taint.effect().needed_of(&EFFECTS, errors);
        if !seen.insert((*taint.key(), *taint.effect())) {
            errors.duplicate_at(&taint);
        }
    }
}
