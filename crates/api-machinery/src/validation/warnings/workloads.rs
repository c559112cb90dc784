//! Workloads: what is said of their names and of the pods they make.

// upstream: pkg/registry/apps/<kind>/strategy.go, pkg/registry/batch/<kind>/strategy.go, pkg/api/job/warnings.go (v1.36)

use serde_json::Value;

use super::super::field::{entries, text};
use super::collected::{Warnings, host_name};
use super::{pod, storage};
use crate::schema::Path;

const HOSTS: &str = "Pod names and hostnames";
const MANY_COMPLETIONS: i64 = 100_000;
const PARALLELISM_OF_MANY: i64 = 10_000;

/// Whether there is something to say of a spec: it is new, or it changed.
fn is_news(old: Option<&Value>, new: &Value) -> bool {
    old.is_none_or(|old| old["spec"] != new["spec"])
}

fn template(new: &Value, warnings: &mut Warnings) {
    let spec = Path::Root.field("spec");
    pod::template(&new["spec"]["template"], &spec.field("template"), warnings);
}

/// A Deployment.
pub fn deployment(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    replica_set(old, new, warnings);
}

/// A ReplicaSet.
pub fn replica_set(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    if old.is_none() {
        host_name(new, HOSTS, warnings);
    }
    if is_news(old, new) {
        template(new, warnings);
    }
}

/// A ReplicationController. Upstream looks at the template that it had.
pub fn replication_controller(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    if old.is_none() {
        host_name(new, HOSTS, warnings);
    }
    if is_news(old, new) {
        template(old.unwrap_or(new), warnings);
    }
}

/// A DaemonSet.
pub fn daemon_set(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    if old.is_none_or(|old| old["spec"]["template"] != new["spec"]["template"]) {
        template(new, warnings);
    }
}

/// A StatefulSet.
pub fn stateful_set(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    if is_news(old, new) {
        template(new, warnings);
    }
    let list = Path::Root.field("spec");
    let list = list.field("volumeClaimTemplates");
    for (at, claim) in entries(&new["spec"], "volumeClaimTemplates") {
        let path = list.index(at);
        // Upstream names the field only where a set is changed, and with a capital.
        let inner = path.field("Spec");
        storage::claim_spec(&claim["spec"], if old.is_some() { &inner } else { &path }, warnings);
    }
    if new["spec"]["revisionHistoryLimit"].as_i64().is_some_and(|limit| limit < 0) {
        warnings.add(
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended",
        );
    }
}

/// A Job.
pub fn job(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    if old.is_none() {
        host_name(new, HOSTS, warnings);
    }
    if is_news(old, new) {
        job_spec(&new["spec"], &Path::Root.field("spec"), warnings);
    }
}

/// A CronJob.
pub fn cron_job(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    if old.is_none() {
        host_name(new, HOSTS, warnings);
    }
    if is_news(old, new) {
        let spec = Path::Root.field("spec");
        let template = spec.field("jobTemplate");
        job_spec(&new["spec"]["jobTemplate"]["spec"], &template.field("spec"), warnings);
    }
    if old.is_some() && text(&new["spec"], "schedule").contains("TZ") {
        // The place is upstream's.
        warnings.add("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details");
    }
}

fn job_spec(spec: &Value, path: &Path<'_>, warnings: &mut Warnings) {
    let number = |field: &str| spec[field].as_i64().unwrap_or_default();
    let many = number("completions") > MANY_COMPLETIONS && number("parallelism") > PARALLELISM_OF_MANY;
    if spec["completionMode"] == "Indexed" && many {
        let text = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail";
        warnings.at(path, text);
    }
    pod::template(&spec["template"], &path.field("template"), warnings);
}

/// A PodTemplate, when it is new.
pub fn pod_template(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    if old.is_none() {
        pod::template(&new["template"], &Path::Root.field("template"), warnings);
    }
}

#[cfg(test)]
mod tests {
    use super::super::collected::warnings_of;
    use super::*;
    use serde_json::json;

    #[test]
    fn templates_are_looked_at_when_they_change() {
        let of = |seconds: i64| json!({ "metadata": { "name": "web.1" }, "spec": { "template": { "spec": { "terminationGracePeriodSeconds": seconds } } } });
        let name = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]";
        let grace = "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1";
        assert_eq!(warnings_of(deployment, &of(-1)), [name, grace]);
        let changed = |old: i64, new: i64| {
            let mut warnings = Warnings::default();
            deployment(Some(&of(old)), &of(new), &mut warnings);
            warnings.texts()
        };
        assert_eq!(changed(-1, -1), [""; 0]);
        assert_eq!(changed(1, -1), [grace]);
        assert_eq!(
            warnings_of(stateful_set, &json!({ "spec": { "revisionHistoryLimit": -1 } })),
            [
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
            ]
        );
        let armoured = json!({ "spec": { "template": { "metadata": { "annotations": { "container.apparmor.security.beta.kubernetes.io/c": "runtime/default" } }, "spec": { "containers": [{ "name": "c" }] } } } });
        assert_eq!(
            warnings_of(daemon_set, &armoured),
            [
                "spec.template.metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
            ]
        );
    }
}
