//! A report for machines: one JSON document. Codes are stable, numbers are integers with their unit in the key.

use serde_json::{Map, Value, json};

use crate::spec::Location;
use crate::verify::{
    Aside, Cause, CheckResult, Difference, Finding, Hindrance, NodeGroup, NodeReason, Report, Suggestion, Verdict,
};

/// Name and version of the document's form.
pub const SCHEMA: &str = "klab.report/1";

/// A whole report.
pub fn json(report: &Report) -> Value {
    json!({
        "schema": SCHEMA,
        "lab": report.lab,
        "ok": report.ok(),
        "elapsed_ms": u64::try_from(report.elapsed.as_millis()).unwrap_or(u64::MAX),
        "held": report.held(),
        "total": report.checks.len(),
        "checks": report.checks.iter().map(check).collect::<Vec<_>>(),
        "differences": report.differences.iter().map(difference).collect::<Vec<_>>(),
        "unasked": report.unasked.iter().map(aside).collect::<Vec<_>>(),
        "open": report.open.iter().map(aside).collect::<Vec<_>>(),
    })
}

/// What is otherwise than in the lab.
fn aside(aside: &Aside) -> Value {
    json!({ "what": aside.what, "command": aside.command })
}

/// A workload that the cluster placed otherwise than predicted.
fn difference(difference: &Difference) -> Value {
    json!({
        "kind": difference.kind, "namespace": difference.namespace, "name": difference.name,
        "predicted": { "pools": difference.predicted, "pending": difference.predicted_pending },
        "placed": { "pools": difference.actual, "pending": difference.actual_pending },
    })
}

fn check(check: &CheckResult) -> Value {
    let mut value = json!({
        "name": check.name,
        "subject": check.subject,
        "verdict": check.verdict.code(),
        "code": check.code(),
        "case": check.code().name(),
        "at": place(&check.at),
        "now": check.now(),
        "conditions": check.findings.iter().map(condition).collect::<Vec<_>>(),
        "causes": check.causes.iter().map(cause).collect::<Vec<_>>(),
        "suggestions": check.suggestions.iter().map(suggestion).collect::<Vec<_>>(),
    });
    match &check.verdict {
        Verdict::Held => {}
        Verdict::NotYet { waiting_for } => value["waiting_for"] = json!(waiting_for),
        Verdict::Impossible { because } => value["because"] = json!(because),
    }
    if let Some(hint) = &check.hint {
        value["hint"] = json!(hint);
    }
    value
}

fn condition(finding: &Finding) -> Value {
    json!({
        "code": finding.code,
        "case": finding.code.name(),
        "holds": finding.holds,
        "now": finding.now,
        "offenders": finding.offenders,
        "at": place(&finding.at),
    })
}

fn cause(cause: &Cause) -> Value {
    json!({
        "code": cause.code,
        "case": cause.code.name(),
        "subjects": cause.subjects,
        "what": cause.what,
        "nodes": groups(&cause.nodes),
    })
}

/// What keeps workloads and pods from what they are to do, with what would mend it.
pub(crate) fn hindrances(hindrances: &[Hindrance]) -> Value {
    let one = |hindrance: &Hindrance| {
        let mut value = cause(&hindrance.cause);
        value["suggestions"] = hindrance.suggestions.iter().map(suggestion).collect();
        value
    };
    hindrances.iter().map(one).collect()
}

/// What keeps a pod from a node, without the facts.
pub(crate) fn reason(reason: &NodeReason) -> Map<String, Value> {
    let fields = [("code", json!(reason.code)), ("reason", json!(reason.name)), ("text", json!(reason.text))];
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Groups of nodes with the reasons that keep a pod from them.
pub(crate) fn groups(groups: &[NodeGroup]) -> Value {
    let reasons = |group: &NodeGroup| -> Vec<Value> {
        let with_facts = |one: &NodeReason| {
            let mut fields = reason(one);
            fields.extend(one.facts.clone());
            Value::Object(fields)
        };
        group.reasons.iter().map(with_facts).collect()
    };
    groups.iter().map(|group| json!({ "nodes": group.nodes, "pool": group.pool, "reasons": reasons(group) })).collect()
}

/// A change that would mend it.
pub(crate) fn suggestion(suggestion: &Suggestion) -> Value {
    json!({
        "code": suggestion.code,
        "text": suggestion.text,
        "at": suggestion.at.as_ref().map(place),
        "command": suggestion.command,
        "changes": suggestion.changes,
        "nodes": suggestion.nodes,
    })
}

fn place(at: &Location) -> Value {
    json!({ "file": at.file(), "line": at.line(), "column": at.column() })
}
