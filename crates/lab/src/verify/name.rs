//! Names of checks whose author gave none, and of their subjects.

use crate::plan::taint_text;
use crate::spec::{Check, Condition, Subject};

/// The author's name for a check, or one made from subject and conditions: `nanomon-api: on pool:extra, 2 running`.
pub(crate) fn check(check: &Check) -> String {
    if let Some(name) = &check.name {
        return name.clone();
    }
    let subject = match &check.subject.value {
        Subject::Workload(name) => name.clone(),
        Subject::Pods { selector, .. } => format!("pods {selector}"),
        Subject::Nodes(set) => format!("nodes {set}"),
        Subject::Object(object) => object.to_string(),
    };
    let conditions: Vec<String> = check.conditions.iter().map(|condition| self::condition(&condition.value)).collect();
    format!("{subject}: {}", conditions.join(", "))
}

/// What a check is about.
pub(crate) fn subject(subject: &Subject) -> String {
    match subject {
        Subject::Workload(name) => format!("workload {name}"),
        Subject::Pods { selector, namespace } => format!("pods {selector} in {namespace}"),
        Subject::Nodes(set) => format!("nodes {set}"),
        Subject::Object(object) => object.to_string(),
    }
}

fn condition(condition: &Condition) -> String {
    match condition {
        Condition::On(set) => format!("on {set}"),
        Condition::NotOn(set) => format!("not on {set}"),
        Condition::Placement(pools) => {
            let parts: Vec<String> = pools.iter().map(|(pool, count)| format!("{pool} {count}")).collect();
            format!("placed {}", parts.join(", "))
        }
        Condition::Running(count) => format!("{count} running"),
        Condition::Pending { count, reason: None } => format!("{count} Pending"),
        Condition::Pending { count, reason: Some(reason) } => format!("{count} Pending, {reason}"),
        Condition::Succeeded(count) => format!("{count} succeeded"),
        Condition::Spread { over, max_skew } => format!("spread over {over}, skew at most {max_skew}"),
        Condition::OnePerNode(set) => format!("one per node of {set}"),
        Condition::With(selector) => format!("with {selector}"),
        Condition::ApartFrom(selector) => format!("apart from {selector}"),
        Condition::Exist(count) => format!("{count} exist"),
        Condition::Ready(true) => "ready".to_owned(),
        Condition::Ready(false) => "not ready".to_owned(),
        Condition::Schedulable(true) => "schedulable".to_owned(),
        Condition::Schedulable(false) => "cordoned".to_owned(),
        Condition::Tainted(taint) => format!("tainted {}", taint_text(taint)),
        Condition::Cel(expression) => expression.clone(),
    }
}
