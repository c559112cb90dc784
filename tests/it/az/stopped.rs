//! Pools that az stopped: what they are until somebody starts them.

use serde_json::json;

use super::{OF_LAB, document, up};

const SEEN: &str = "--query [powerState.code,count,enableAutoScaling,minCount,maxCount]";

#[test]
fn stopped_pool_keeps_its_nodes_and_the_bounds_of_its_autoscaler() {
    let environment = up();
    let pool = |line: &str| document(&environment, &format!("aks nodepool {line} {OF_LAB} -n extra {SEEN}"));
    assert_eq!(pool("add -c 2 -e --min-count 2 --max-count 5"), json!(["Running", 2, true, 2, 5]));
    assert_eq!(pool("stop"), json!(["Stopped", 2, true, 2, 5]));
    assert_eq!(environment.json(&["pool", "list", "--format", "json"])["pools"][1]["nodes"], 0);
    assert_eq!(pool("start"), json!(["Running", 2, true, 2, 5]));
}

#[test]
fn pool_that_was_started_without_az_is_not_stopped() {
    let environment = up();
    let pool = |line: &str| document(&environment, &format!("aks nodepool {line} {OF_LAB} -n extra {SEEN}"));
    pool("add -c 2");
    assert_eq!(pool("stop"), json!(["Stopped", 2, false, null, null]));
    environment.succeeds(&["pool", "scale", "extra", "--nodes", "3"]);
    assert_eq!(pool("show"), json!(["Running", 3, false, null, null]));
    assert_eq!(pool("scale -c 1"), json!(["Running", 1, false, null, null]));
    assert_eq!(pool("stop"), json!(["Stopped", 1, false, null, null]));
    assert_eq!(pool("start"), json!(["Running", 1, false, null, null]));
}
