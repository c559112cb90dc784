//! Defaults of Jobs and CronJobs, and the labels a Job knows its pods by.

// upstream: pkg/apis/batch/v1/defaults.go SetDefaults_Job (v1.36)

use serde_json::{Value, json};

use super::field::set;
use super::pod;

pub fn job(value: &mut Value) {
    let spec = &mut value["spec"];
    pod::template(&mut spec["template"]);
    let counted = !spec["completions"].is_null() || !spec["parallelism"].is_null();
    if !counted {
        set(spec, "completions", 1);
    }
    set(spec, "parallelism", 1);
    let unlimited = !spec["backoffLimitPerIndex"].is_null();
    set(spec, "backoffLimit", if unlimited { i64::from(i32::MAX) } else { 6 });
    set(spec, "completionMode", "NonIndexed");
    set(spec, "suspend", false);
    // Not by index: that would add what is not there.
    let rules = spec.pointer_mut("/podFailurePolicy/rules").and_then(Value::as_array_mut);
    for rule in rules.into_iter().flatten() {
        for pattern in rule.get_mut("onPodConditions").and_then(Value::as_array_mut).into_iter().flatten() {
            if pattern["status"].as_str().is_none_or(str::is_empty) {
                pattern["status"] = json!("True");
            }
        }
    }
    let policy = if spec["podFailurePolicy"].is_object() { "Failed" } else { "TerminatingOrFailed" };
    set(spec, "podReplacementPolicy", policy);
    set(spec, "manualSelector", false);
}

/// A Job without labels has those of its template, with the ones by which it knows its pods.
pub fn inherit_labels(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    let none = job["metadata"]["labels"].as_object().is_none_or(serde_json::Map::is_empty);
    if labels.is_object() && none {
        job["metadata"]["labels"] = labels;
    }
}

pub fn cron_job(value: &mut Value) {
    let spec = &mut value["spec"];
    pod::template(&mut spec["jobTemplate"]["spec"]["template"]);
    set(spec, "concurrencyPolicy", "Allow");
    set(spec, "suspend", false);
    set(spec, "successfulJobsHistoryLimit", 3);
    set(spec, "failedJobsHistoryLimit", 1);
}

/// Gives a new Job's pods labels by which the Job, and no other, finds them.
pub fn generate_selector(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let (uid, name) = (job["metadata"]["uid"].clone(), job["metadata"]["name"].clone());
    let labels = &mut job["spec"]["template"]["metadata"];
    if !labels.is_object() {
        return;
    }
    set(labels, "labels", json!({}));
    for prefix in ["", "batch.kubernetes.io/"] {
        set(&mut labels["labels"], &format!("{prefix}controller-uid"), uid.clone());
        set(&mut labels["labels"], &format!("{prefix}job-name"), name.clone());
    }
    let spec = &mut job["spec"];
    set(spec, "selector", json!({}));
    set(&mut spec["selector"], "matchLabels", json!({}));
    set(&mut spec["selector"]["matchLabels"], "batch.kubernetes.io/controller-uid", uid);
}
