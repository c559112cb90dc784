//! Jobs: when one is done, how often an index is tried, which failures count, who takes care of it.

use serde_json::{Value, json};

use super::ground::Ground;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const PODS: &str = "/api/v1/namespaces/default/pods";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// A Job whose pods run until a test ends them.
fn job(name: &str, spec: Value) -> Value {
    let mut job = json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name }, "spec": spec });
    job["spec"]["template"] = json!({ "spec": {
        "restartPolicy": "Never",
        "containers": [{ "name": "main", "image": "busybox:1.36", "command": ["sleep", "infinity"] }],
    }});
    job
}

fn indexed(name: &str, completions: i64, more: Value) -> Value {
    let mut spec = json!({ "completionMode": "Indexed", "completions": completions, "parallelism": completions });
    if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
        spec.extend(more.clone());
    }
    job(name, spec)
}

fn get(ground: &Ground, name: &str) -> Value {
    ground.get(&format!("{JOBS}/{name}")).good()
}

/// The pods that have not ended, by index.
fn running(ground: &Ground) -> Vec<(i64, String, Value)> {
    let mut pods: Vec<(i64, String, Value)> = ground.get(PODS).good()["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|pod| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null())
        .map(|pod| {
            let index = pod["metadata"]["labels"][INDEX].as_str().and_then(|text| text.parse().ok()).unwrap_or(-1);
            (index, pod["metadata"]["name"].as_str().unwrap_or_default().to_owned(), pod.clone())
        })
        .collect();
    pods.sort_by(|left, right| (left.0, &left.1).cmp(&(right.0, &right.1)));
    pods
}

/// Ends a pod as its kubelet would.
fn end(ground: &Ground, name: &str, code: i64) {
    let path = format!("{PODS}/{name}");
    let pod = ground.get(&path).good();
    let mut container = pod["status"]["containerStatuses"][0].clone();
    let now = pod["status"]["startTime"].clone();
    container["state"] = json!({ "terminated": { "exitCode": code, "startedAt": now, "finishedAt": now } });
    container["ready"] = json!(false);
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    ground
        .merge(&format!("{path}/status"), &json!({ "status": { "phase": phase, "containerStatuses": [container] } }))
        .good();
}

fn end_index(ground: &Ground, index: i64, code: i64) {
    let name = running(ground).into_iter().find(|(have, ..)| *have == index).map(|(_, name, _)| name).unwrap();
    end(ground, &name, code);
}

/// Type and reason of the conditions that hold.
fn conditions(job: &Value) -> Vec<(String, String)> {
    let all = job["status"]["conditions"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.filter(|have| have["status"] == "True").map(|have| (text(&have["type"]), text(&have["reason"]))).collect()
}

fn held(kinds: [&str; 2], reason: &str) -> Vec<(String, String)> {
    kinds.map(|kind| (kind.to_owned(), reason.to_owned())).to_vec()
}

// upstream test: [sig-apps] Job with successPolicy should succeeded when all indexes succeeded [Conformance]
#[test]
fn all_indexes_meet_a_success_policy() {
    let ground = Ground::with_nodes(1);
    let policy = json!({ "successPolicy": { "rules": [{ "succeededIndexes": "0,1" }] } });
    ground.post(JOBS, &indexed("whole", 2, policy)).good();
    end_index(&ground, 0, 0);
    assert_eq!(conditions(&get(&ground, "whole")), []);
    end_index(&ground, 1, 0);
    ground.pass(5);
    let whole = get(&ground, "whole");
    assert_eq!(conditions(&whole), held(["SuccessCriteriaMet", "Complete"], "SuccessPolicy"));
    assert_eq!((&whole["status"]["succeeded"], &whole["status"]["completedIndexes"]), (&json!(2), &json!("0,1")));
}

// upstream test: [sig-apps] Job with successPolicy succeededIndexes rule should succeeded even when some indexes remain pending [Conformance]
// upstream test: [sig-apps] Job with successPolicy succeededCount rule should succeeded even when some indexes remain pending [Conformance]
#[test]
fn some_indexes_meet_a_success_policy_and_the_others_are_ended() {
    for rule in [json!({ "succeededIndexes": "0" }), json!({ "succeededCount": 1 })] {
        let ground = Ground::with_nodes(1);
        ground.post(JOBS, &indexed("part", 5, json!({ "successPolicy": { "rules": [rule] } }))).good();
        assert_eq!(running(&ground).len(), 5);
        end_index(&ground, 0, 0);
        ground.pass(60);
        let part = get(&ground, "part");
        assert_eq!(conditions(&part), held(["SuccessCriteriaMet", "Complete"], "SuccessPolicy"), "{rule}");
        assert_eq!(part["status"]["conditions"][0]["message"], "Matched rules at index 0");
        let status = &part["status"];
        assert_eq!((&status["succeeded"], &status["completedIndexes"]), (&json!(1), &json!("0")));
        assert!(status["active"].is_null() && status["failed"].is_null(), "{status}");
        assert_eq!(running(&ground).len(), 0);
    }
}

// upstream test: [sig-apps] Job should execute all indexes despite some failing when using backoffLimitPerIndex [Conformance]
#[test]
fn every_index_is_tried_though_others_fail() {
    let ground = Ground::with_nodes(1);
    ground.post(JOBS, &indexed("each", 4, json!({ "backoffLimitPerIndex": 1 }))).good();
    for index in 0..4 {
        end_index(&ground, index, index % 2);
    }
    ground.pass(15);
    let again: Vec<_> = running(&ground).into_iter().map(|(index, ..)| index).collect();
    assert_eq!(again, [1, 3], "what failed is tried once more");
    for index in again {
        end_index(&ground, index, 1);
    }
    ground.pass(15);
    let each = get(&ground, "each");
    assert_eq!(conditions(&each), held(["FailureTarget", "Failed"], "FailedIndexes"));
    let status = &each["status"];
    assert_eq!((&status["completedIndexes"], &status["failedIndexes"]), (&json!("0,2"), &json!("1,3")));
    assert_eq!((&status["succeeded"], &status["failed"]), (&json!(2), &json!(4)));
}

// upstream test: [sig-apps] Job should terminate job execution when the number of failed indexes exceeds maxFailedIndexes [Conformance]
#[test]
fn too_many_failed_indexes_end_the_job() {
    let ground = Ground::with_nodes(1);
    let limits = json!({ "backoffLimitPerIndex": 0, "maxFailedIndexes": 1 });
    ground.post(JOBS, &indexed("limited", 4, limits)).good();
    end_index(&ground, 1, 1);
    assert_eq!(conditions(&get(&ground, "limited")), []);
    end_index(&ground, 3, 1);
    ground.pass(60);
    let limited = get(&ground, "limited");
    assert_eq!(conditions(&limited), held(["FailureTarget", "Failed"], "MaxFailedIndexesExceeded"));
    assert_eq!(limited["status"]["failedIndexes"], "1,3");
    assert_eq!(running(&ground).len(), 0);
}

// upstream test: [sig-apps] Job should mark indexes as failed when the FailIndex action is matched in podFailurePolicy [Conformance]
#[test]
fn a_failure_may_end_its_index() {
    let ground = Ground::with_nodes(1);
    let rules = json!([{ "action": "FailIndex", "onExitCodes": { "operator": "In", "values": [42] } }]);
    let more = json!({ "backoffLimitPerIndex": 3, "podFailurePolicy": { "rules": rules } });
    ground.post(JOBS, &indexed("fatal", 2, more)).good();
    end_index(&ground, 0, 42);
    end_index(&ground, 1, 0);
    ground.pass(15);
    let fatal = get(&ground, "fatal");
    assert_eq!(conditions(&fatal), held(["FailureTarget", "Failed"], "FailedIndexes"));
    assert_eq!((&fatal["status"]["failedIndexes"], &fatal["status"]["failed"]), (&json!("0"), &json!(1)));
}

// upstream test: [sig-apps] Job should record the failure-count in the Pod annotation when using backoffLimitPerIndex
#[test]
fn a_pod_knows_how_often_its_index_failed() {
    let ground = Ground::with_nodes(1);
    ground.post(JOBS, &indexed("counted", 1, json!({ "backoffLimitPerIndex": 1 }))).good();
    let failures = |ground: &Ground| {
        let (_, _, pod) = running(ground).remove(0);
        pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"].clone()
    };
    assert_eq!(failures(&ground), "0");
    end_index(&ground, 0, 1);
    assert_eq!(running(&ground).len(), 0, "the next one waits ten seconds");
    ground.pass(15);
    assert_eq!(failures(&ground), "1");
    end_index(&ground, 0, 1);
    ground.pass(15);
    assert_eq!(conditions(&get(&ground, "counted")), held(["FailureTarget", "Failed"], "FailedIndexes"));
}

// upstream test: [sig-apps] Job should allow to delegate reconciliation to external controller
#[test]
fn a_job_that_another_controller_manages_is_left_alone() {
    let ground = Ground::with_nodes(1);
    ground
        .post(JOBS, &job("foreign", json!({ "managedBy": "example.com/boss", "parallelism": 2, "completions": 2 })))
        .good();
    ground.pass(5);
    assert_eq!(running(&ground).len(), 0);
    let path = format!("{JOBS}/foreign");
    assert!(get(&ground, "foreign")["status"].as_object().is_none_or(serde_json::Map::is_empty));
    let status = json!({ "status": { "active": 2, "ready": 1, "startTime": "2026-01-01T00:00:00Z" } });
    ground.merge(&format!("{path}/status"), &status).good();
    ground.pass(60);
    assert_eq!(get(&ground, "foreign")["status"], status["status"]);
    let done = json!({ "status": { "conditions": [{ "type": "Complete", "status": "True" }] } });
    let fault = ground.merge(&format!("{path}/status"), &done).refused(422);
    assert!(
        fault.contains("cannot set Complete=True condition without the SuccessCriteriaMet=true condition"),
        "{fault}"
    );
}

#[test]
fn a_pod_that_is_ending_is_replaced_when_it_has_gone() {
    let ground = Ground::with_nodes(1);
    let mut patient = job("patient", json!({ "podReplacementPolicy": "Failed", "completions": 1, "parallelism": 1 }));
    patient["spec"]["template"]["metadata"] = json!({ "finalizers": ["example.com/hold"] });
    patient["spec"]["template"]["spec"]["nodeSelector"] = json!({ "no": "such-node" });
    ground.post(JOBS, &patient).good();
    let names = |ground: &Ground| -> Vec<String> {
        let pods = ground.get(PODS).good();
        let names = pods["items"].as_array().into_iter().flatten().map(|pod| pod["metadata"]["name"].as_str());
        names.map(|name| name.unwrap_or_default().to_owned()).collect()
    };
    let first = names(&ground).remove(0);
    ground.delete(&format!("{PODS}/{first}")).good();
    ground.pass(5);
    let status = get(&ground, "patient")["status"].clone();
    assert_eq!((&status["terminating"], &status["active"]), (&json!(1), &Value::Null));
    assert_eq!(names(&ground), [first.as_str()]);
    ground.merge(&format!("{PODS}/{first}"), &json!({ "metadata": { "finalizers": null } })).good();
    ground.pass(60);
    let second = names(&ground);
    assert!(second.len() == 1 && second[0] != first, "{second:?}");
}

#[test]
fn suspended_jobs_have_no_pods_and_begin_anew() {
    let ground = Ground::with_nodes(1);
    ground.post(JOBS, &job("paused", json!({ "completions": 2, "parallelism": 2, "suspend": true }))).good();
    let path = format!("{JOBS}/paused");
    assert_eq!(conditions(&get(&ground, "paused")), [("Suspended".to_owned(), "JobSuspended".to_owned())]);
    assert!(get(&ground, "paused")["status"]["startTime"].is_null());
    ground.merge(&path, &json!({ "spec": { "suspend": false } })).good();
    assert_eq!(running(&ground).len(), 2);
    assert_eq!(conditions(&get(&ground, "paused")), []);
    ground.merge(&path, &json!({ "spec": { "suspend": true } })).good();
    ground.pass(60);
    assert_eq!(running(&ground).len(), 0);
    let status = get(&ground, "paused")["status"].clone();
    assert!(status["startTime"].is_null() && status["active"].is_null(), "{status}");
}
