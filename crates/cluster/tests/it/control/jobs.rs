//! Jobs: completion, failure, time to live.

use super::*;

fn job(name: &str, spec: Value, command: &[&str]) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name }, "spec": spec,
    });
    let labels = json!({ "job-name": name, "batch.kubernetes.io/job-name": name });
    job["spec"]["selector"] = json!({ "matchLabels": { "batch.kubernetes.io/job-name": name } });
    job["spec"]["template"] = json!({
        "metadata": { "labels": labels },
        "spec": { "restartPolicy": "Never", "containers": [{ "name": "work", "image": "busybox:1.36", "command": command }] },
    });
    job["spec"]["manualSelector"] = json!(true);
    job
}

#[test]
fn complete_with_the_recorded_status() {
    let mut lab = Lab::with(2, recorded());
    lab.apply(job("pi", json!({ "completions": 3, "parallelism": 2, "backoffLimit": 2 }), &["sh", "-c", "echo done"]));
    assert_eq!(lab.pods().len(), 2);
    lab.seconds(10);
    let pi = lab.get(JOBS, "pi");
    assert_eq!(pi["spec"].get("podFailurePolicy"), None);
    let at = pi["status"]["completionTime"].clone();
    let message = "Reached expected number of succeeded pods";
    assert_eq!(
        pi["status"],
        json!({
            "conditions": [
                { "type": "SuccessCriteriaMet", "status": "True", "lastProbeTime": at, "lastTransitionTime": at,
                  "reason": "CompletionsReached", "message": message },
                { "type": "Complete", "status": "True", "lastProbeTime": at, "lastTransitionTime": at,
                  "reason": "CompletionsReached", "message": message },
            ],
            "startTime": "2026-06-01T08:00:00Z", "completionTime": at, "succeeded": 3, "terminating": 0,
            "uncountedTerminatedPods": {}, "ready": 0,
        })
    );
    assert_eq!(lab.messages("Completed"), ["Job completed"]);
    assert!(lab.pods().iter().all(|pod| pod["metadata"]["finalizers"].is_null()));
}

#[test]
fn fail_at_the_backoff_limit() {
    let mut lab = Lab::new(1);
    lab.apply(job("bad", json!({ "backoffLimit": 1, "completions": 1, "parallelism": 1 }), &["sh", "-c", "exit 1"]));
    lab.seconds(5);
    assert_eq!(lab.get(JOBS, "bad")["status"]["failed"], 1);
    assert_eq!(lab.pods().len(), 1, "the next try waits ten seconds");
    lab.seconds(20);
    let bad = lab.get(JOBS, "bad");
    assert_eq!(condition(&bad, "Failed")["reason"], "BackoffLimitExceeded");
    assert_eq!(bad["status"]["failed"], 2);
    assert_eq!(lab.messages("BackoffLimitExceeded"), ["Job has reached the specified backoff limit"]);
}

#[test]
fn a_failure_after_which_no_other_is_to_try_ends_the_job() {
    let mut lab = Lab::new(1);
    let rules = json!([{ "action": "FailJob", "onExitCodes": { "operator": "In", "values": [42] } }]);
    let spec = json!({ "backoffLimit": 6, "completions": 1, "parallelism": 1, "podFailurePolicy": { "rules": rules } });
    lab.apply(job("fatal", spec, &["sh", "-c", "exit 42"]));
    lab.seconds(5);
    let fatal = lab.get(JOBS, "fatal");
    let name = lab.pods()[0]["metadata"]["name"].as_str().expect("a name").to_owned();
    let message =
        format!("Container work for pod default/{name} failed with exit code 42 matching FailJob rule at index 0");
    for kind in ["FailureTarget", "Failed"] {
        let have = condition(&fatal, kind);
        assert_eq!((have["reason"].as_str(), have["message"].as_str()), (Some("PodFailurePolicy"), Some(&*message)));
    }
    assert_eq!(fatal["status"]["failed"], 1);
    assert_eq!(lab.pods().len(), 1);
}

#[test]
fn disruptions_that_are_ignored_do_not_count() {
    let mut lab = Lab::new(2);
    let rules = json!([{ "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget" }] }]);
    let spec = json!({ "backoffLimit": 0, "completions": 1, "parallelism": 1, "podFailurePolicy": { "rules": rules } });
    lab.apply(job("long", spec, &["sleep", "3600"]));
    lab.seconds(2);
    let node = lab.pods()[0]["spec"]["nodeName"].as_str().expect("a node").to_owned();
    lab.change(NODES, &node, |node| {
        node["spec"]["taints"] = json!([{ "key": "maintenance", "effect": "NoExecute" }]);
    });
    lab.seconds(60);
    let long = lab.get(JOBS, "long");
    assert!(long["status"]["failed"].is_null(), "{}", long["status"]);
    assert_eq!(long["status"]["active"], 1, "another pod took its place");
    assert_ne!(lab.pods()[0]["spec"]["nodeName"], json!(node));
}

#[test]
fn pods_that_sleep_run_as_long() {
    let mut lab = Lab::new(1);
    lab.apply(job("nap", json!({ "completions": 1, "parallelism": 1 }), &["sleep", "90"]));
    lab.seconds(60);
    assert_eq!(lab.get(JOBS, "nap")["status"]["active"], 1);
    lab.seconds(40);
    assert_eq!(lab.get(JOBS, "nap")["status"]["succeeded"], 1);
}

#[test]
fn a_finished_job_is_deleted_after_its_time_to_live() {
    let mut lab = Lab::new(1);
    lab.apply(job("brief", json!({ "completions": 1, "parallelism": 1, "ttlSecondsAfterFinished": 30 }), &["true"]));
    lab.seconds(20);
    assert_eq!(lab.list(JOBS).len(), 1);
    lab.seconds(20);
    assert!(lab.list(JOBS).is_empty() && lab.pods().is_empty());
}

#[test]
fn deleting_a_running_job_leaves_no_pods() {
    let mut lab = Lab::new(1);
    lab.apply(job("nap", json!({ "completions": 2, "parallelism": 2 }), &["sleep", "infinity"]));
    assert_eq!(lab.running(), 2);
    lab.delete(JOBS, "nap", Propagation::Background);
    lab.seconds(29);
    assert_eq!(lab.pods().len(), 2, "sleep does not heed the signal");
    lab.seconds(1);
    assert!(lab.pods().is_empty());
}

#[test]
fn an_indexed_job_runs_each_index_once() {
    let mut lab = Lab::new(2);
    lab.apply(job("parts", json!({ "completions": 4, "parallelism": 2, "completionMode": "Indexed" }), &["true"]));
    lab.seconds(10);
    assert_eq!(lab.get(JOBS, "parts")["status"]["completedIndexes"], "0-3");
    assert_eq!(lab.pods().len(), 4);
}
