//! Names of checks whose author gave none, and of their subjects.

use super::conditions::rule;
use crate::spec::{Check, Subject};

/// The author's name for a check, or one made from subject and conditions: `nanomon-api: on pool:extra, 2 running`.
pub fn check(check: &Check) -> String {
    if let Some(name) = &check.name {
        return name.clone();
    }
    let subject = match &check.subject.value {
        Subject::Workload(name) => name.clone(),
        Subject::Pods { selector, .. } => format!("pods {selector}"),
        Subject::Nodes(set) => format!("nodes {set}"),
        Subject::Object(object) => object.to_string(),
    };
    let conditions: Vec<String> = check.conditions.iter().map(|condition| rule(&condition.value).title()).collect();
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
