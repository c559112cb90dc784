//! CronJobs.

use super::*;

fn cron_job(policy: &str, command: &[&str]) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "tick" },
        "spec": {
            "schedule": "*/5 * * * *", "concurrencyPolicy": policy, "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
            "jobTemplate": { "spec": { "template": { "spec": {
                "restartPolicy": "Never",
                "containers": [{ "name": "tick", "image": "busybox:1.36", "command": command }],
            }}}},
        },
    })
}

#[test]
fn start_a_job_at_each_time_and_keep_the_last_three() {
    let mut lab = Lab::new(1);
    lab.apply(cron_job("Allow", &["date"]));
    assert!(lab.list(JOBS).is_empty());
    lab.seconds(31 * 60);
    let jobs = lab.list(JOBS);
    assert_eq!(jobs.len(), 3);
    let minutes = lab.cluster.now().as_second() / 60;
    let last = format!("tick-{}", minutes - minutes % 5);
    assert!(jobs.iter().any(|job| job["metadata"]["name"] == last.as_str()));
    let tick = lab.get(CRON_JOBS, "tick");
    assert_eq!(tick["status"]["lastScheduleTime"], "2026-06-01T08:30:00Z");
    assert!(tick["status"]["active"].is_null());
    assert!(tick["status"]["lastSuccessfulTime"].is_string());
}

#[test]
fn forbidden_to_overlap_wait_for_the_running_job() {
    let mut lab = Lab::new(1);
    lab.apply(cron_job("Forbid", &["sleep", "700"]));
    lab.seconds(14 * 60);
    assert_eq!(lab.list(JOBS).len(), 1);
    assert!(!lab.messages("JobAlreadyActive").is_empty());
}

#[test]
fn suspended_start_nothing() {
    let mut lab = Lab::new(1);
    let mut tick = cron_job("Allow", &["date"]);
    tick["spec"]["suspend"] = json!(true);
    lab.apply(tick);
    lab.seconds(600);
    assert!(lab.list(JOBS).is_empty());
}
