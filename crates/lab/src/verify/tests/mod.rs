//! Tables: every condition held, not yet, impossible, and never vacuous.

mod before;
mod counts;
pub(crate) mod fixture;
mod placement;
mod subjects;
mod windows;

use std::time::Duration;

use serde_json::json;

use self::fixture::*;
use super::*;
use crate::spec::{Check, Condition, Count, NodeSet, ObjectRef, Subject};

const SELECTOR: &str = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.";

/// `held`, or `not-yet` or `impossible` with why; then what is true now.
fn look(check: &Check, cluster: &Cluster) -> (String, String) {
    let report = evaluate(std::slice::from_ref(check), &cluster.snapshot, &Context::default());
    let result = &report.checks[0];
    let verdict = match &result.verdict {
        Verdict::Held => "held".to_owned(),
        Verdict::NotYet { waiting_for } => format!("not yet: {waiting_for}"),
        Verdict::Impossible { because } => format!("impossible: {because}"),
    };
    (verdict, result.now())
}

fn expect(rows: impl IntoIterator<Item = (Condition, Cluster, &'static str, &'static str)>) {
    for (condition, cluster, verdict, now) in rows {
        let check = check(workload("web"), [condition.clone()]);
        let seen = look(&check, &cluster);
        assert_eq!((seen.0.as_str(), seen.1.as_str()), (verdict, now), "{condition:?}");
    }
}

/// Pools `extra` (1 node) and `main` (2 nodes), a Deployment `web`.
fn cluster(replicas: u32) -> Cluster {
    Cluster::default().pool("extra", 1).pool("main", 2).deployment("web", replicas)
}

fn mixed() -> Cluster {
    cluster(2).running("web", "extra-0", 1).running("web", "main-0", 1)
}
