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

// upstream: pkg/controller/cronjob/utils.go getJobFromTemplate2 (v1.36)
#[test]
fn say_when_a_job_was_due_in_their_time_zone() {
    for (zone, wanted) in [("Europe/Berlin", "2026-06-01T10:05:00+02:00"), ("Etc/UTC", "2026-06-01T08:05:00Z")] {
        let mut lab = Lab::new(1);
        let mut tick = cron_job("Allow", &["date"]);
        tick["spec"]["timeZone"] = json!(zone);
        lab.apply(tick);
        lab.seconds(6 * 60);
        let job = &lab.list(JOBS)[0];
        assert_eq!(job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"], wanted);
    }
}

#[test]
fn of_intervals_start_a_job_after_each() {
    let mut lab = Lab::new(1);
    let mut tick = cron_job("Allow", &["date"]);
    tick["spec"]["schedule"] = json!("@every 7m");
    lab.apply(tick);
    lab.seconds(15 * 60);
    assert_eq!(lab.list(JOBS).len(), 2);
    assert_eq!(lab.get(CRON_JOBS, "tick")["status"]["lastScheduleTime"], "2026-06-01T08:14:00Z");
}

#[test]
fn whose_times_never_come_say_so() {
    let mut lab = Lab::new(1);
    let mut tick = cron_job("Allow", &["date"]);
    tick["spec"]["schedule"] = json!("59 23 31 2 *");
    lab.apply(tick);
    let never = "invalid schedule: 59 23 31 2 * : time difference between two schedules is less than 1 second";
    assert_eq!(lab.messages("InvalidSchedule"), [never]);
}

// upstream: pkg/controller/cronjob/cronjob_controllerv2.go syncCronJob (v1.36)
#[test]
fn see_jobs_that_somebody_else_has_made_of_them() {
    let mut lab = Lab::new(1);
    lab.apply(cron_job("Allow", &["sleep", "60"]));
    let tick = lab.get(CRON_JOBS, "tick");
    let owner = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": tick["metadata"]["uid"], "controller": true,
    });
    lab.apply(json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "by-hand", "ownerReferences": [owner] },
        "spec": tick["spec"]["jobTemplate"]["spec"],
    }));
    let unexpected = "Saw a job that the controller did not create or forgot: by-hand";
    assert!(lab.messages("UnexpectedJob").iter().all(|told| told == unexpected));
    assert!(!lab.messages("UnexpectedJob").is_empty());
    lab.seconds(120);
    let status = &lab.get(CRON_JOBS, "tick")["status"];
    assert!(status["lastSuccessfulTime"].is_string() && status["lastScheduleTime"].is_null(), "{status}");
}
