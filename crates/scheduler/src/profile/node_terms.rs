//! Terms of node affinity in a configuration, and what is wrong with them.

// upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go newNodeSelectorTerm (v1.36)
// upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go NewRequirement (v1.36)

use serde_json::Value;

use super::document::Fields;
use crate::selector::{Operator, key_problems, value_problems};

/// The keys of a term.
pub(super) const KEYS: [&str; 2] = ["matchExpressions", "matchFields"];
const KEYS_OF_REQUIREMENT: [&str; 3] = ["key", "operator", "values"];

/// Notes what is wrong with a term.
pub(super) fn check(term: &Fields<'_>) {
    let [expressions, fields] = KEYS;
    term.objects(expressions, &KEYS_OF_REQUIREMENT).iter().for_each(of_label);
    term.objects(fields, &KEYS_OF_REQUIREMENT).iter().for_each(of_field);
}

fn of_label(requirement: &Fields<'_>) {
    let name = requirement.text("operator").unwrap_or_default();
    let Some(operator) = Operator::parse(name) else {
        return requirement.unsupported("operator", name, &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]);
    };
    let key = requirement.text("key").unwrap_or_default();
    let problems = key_problems(key).join("; ");
    if !problems.is_empty() {
        requirement.invalid("key", format_args!("{key:?}"), &problems);
    }
    let values = requirement.texts("values");
    let why = match operator {
        Operator::In | Operator::NotIn => {
            values.is_empty().then_some("for 'in', 'notin' operators, values set can't be empty")
        }
        Operator::Exists | Operator::DoesNotExist => {
            (!values.is_empty()).then_some("values set must be empty for exists and does not exist")
        }
        Operator::Gt | Operator::Lt => {
            (values.len() != 1).then_some("for 'Gt', 'Lt' operators, exactly one value is required")
        }
    };
    if let Some(why) = why {
        requirement.invalid("values", requirement.value("values").unwrap_or(&Value::Null), why);
    }
    let compares = matches!(operator, Operator::Gt | Operator::Lt);
    for (path, value) in values.iter().filter(|(_, value)| compares && value.parse::<i64>().is_err()) {
        let why = "for 'Gt', 'Lt' operators, the value must be an integer";
        requirement.problem(format!("{path}: Invalid value: {value:?}: {why}"));
    }
    for (path, value) in &values {
        let problems = value_problems(value).join("; ");
        if !problems.is_empty() {
            requirement.problem(format!("{path}[{key}]: Invalid value: {value:?}: {problems}"));
        }
    }
}

fn of_field(requirement: &Fields<'_>) {
    let operator = requirement.text("operator").unwrap_or_default();
    requirement.text("key");
    if !["In", "NotIn"].contains(&operator) {
        requirement.unsupported("operator", operator, &["In", "NotIn"]);
    } else if requirement.texts("values").len() != 1 {
        requirement.invalid("values", requirement.value("values").unwrap_or(&Value::Null), "must have one element");
    }
}
