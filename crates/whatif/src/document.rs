//! Answers for programs: as JSON, and as JUnit.

use klab_scheduler::message::without_preemption;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde_json::{Map, Value, json};

use crate::answer::{Answer, COPIES, PoolState, WorkloadChange};

/// The version of the JSON document.
const SCHEMA: &str = "klab.whatif/1";

/// An answer as JSON.
pub fn json(answer: &Answer) -> Value {
    let pool = |pool: &PoolState| {
        json!({
            "nodes": pool.nodes, "pods": pool.pods, "dollarsAnHour": pool.price,
            "allocatable": { "cpuMillis": pool.allocatable.cpu, "memoryBytes": pool.allocatable.memory },
            "requested": { "cpuMillis": pool.requested.cpu, "memoryBytes": pool.requested.memory },
        })
    };
    let pools: Map<String, Value> = answer
        .pools
        .iter()
        .map(|(name, change)| (name.clone(), json!({ "before": pool(&change.before), "after": pool(&change.after) })))
        .collect();
    let blocked = answer.blocked.iter();
    json!({
        "schema": SCHEMA,
        "changes": answer.changes,
        "runs": !answer.fails(),
        "pools": pools,
        "workloads": answer.workloads.iter().map(workload).collect::<Vec<_>>(),
        "blocked": blocked.map(|it| json!({ "node": it.node, "pod": it.pod, "why": it.why })).collect::<Vec<_>>(),
        "ignored": answer.ignored,
        "copies": { "tried": COPIES, "agreeing": answer.agreeing },
        "open": answer.open,
    })
}

fn workload(change: &WorkloadChange) -> Value {
    let moves = change.moves.iter().map(|((from, to), pods)| json!({ "from": from, "to": to, "pods": pods }));
    let waiting = change.waiting.iter().map(|(message, pods)| json!({ "message": message, "pods": pods }));
    json!({
        "kind": change.workload.kind, "namespace": change.workload.namespace, "name": change.workload.name,
        "runs": !change.fails, "desired": change.desired, "placedBefore": change.placed.0, "placedAfter": change.placed.1,
        "moves": moves.collect::<Vec<_>>(), "added": change.added, "removed": change.removed,
        "waiting": waiting.collect::<Vec<_>>(), "refused": change.refused,
    })
}

/// An answer as JUnit: a case for each workload that something happens to, and one for each pod that cannot be evicted.
///
/// # Errors
/// When the XML cannot be written, which a text in memory does not give cause for.
pub fn junit(answer: &Answer) -> Result<String, quick_junit::SerializeError> {
    let mut suite = TestSuite::new(format!("what if {}", answer.changes.join(", and ")));
    let failure = |message: String| {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
        status.set_message(message);
        status
    };
    for change in &answer.workloads {
        let (before, after) = change.placed;
        let status = if change.fails {
            let waits: Vec<&str> = change.waiting.keys().map(|message| without_preemption(message)).collect();
            failure(format!("{after} of {} pods run, {before} before. {}", change.desired, waits.join(" ")))
        } else {
            TestCaseStatus::success()
        };
        suite.add_test_case(TestCase::new(change.workload.to_string(), status));
    }
    for blocked in &answer.blocked {
        suite.add_test_case(TestCase::new(format!("evict {}", blocked.pod), failure(blocked.why.clone())));
    }
    if answer.workloads.is_empty() && answer.blocked.is_empty() {
        suite.add_test_case(TestCase::new("everything runs as before", TestCaseStatus::success()));
    }
    let mut report = Report::new("klab");
    report.add_test_suite(suite);
    report.to_string()
}
