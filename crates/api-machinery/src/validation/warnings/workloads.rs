//! Workloads: warnings about their names and the pods they make.

// upstream: pkg/registry/apps/<kind>/strategy.go, pkg/registry/batch/<kind>/strategy.go, pkg/api/job/warnings.go (v1.36)

use serde_json::Value;

use super::super::Place;
use super::collected::{Warnings, host_name};
use super::{pod, storage};
use crate::views::{CronJob, Deployment, Job, JobSpec, PodTemplate, StatefulSet};

const HOSTS: &str = "Pod names and hostnames";
const MANY_COMPLETIONS: i64 = 100_000;
const PARALLELISM_OF_MANY: i64 = 10_000;

/// Whether there is something to say of a spec: it is new, or it changed. A new one may have a name that hosts cannot have.
fn is_news(old: Option<&Value>, new: &Value, warnings: &mut Warnings) -> bool {
    if old.is_none() {
        host_name(new, HOSTS, warnings);
    }
    old.is_none_or(|old| Deployment(old).spec() != Deployment(new).spec())
}

/// The template of any workload stands where that of a Deployment does.
fn template(new: &Value, warnings: &mut Warnings) {
    pod::template(&Place::<Deployment<'_>>::root(new).spec().template(), warnings);
}

/// A Deployment or a ReplicaSet.
pub fn replica_set(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    if is_news(old, new, warnings) {
        template(new, warnings);
    }
}

/// A ReplicationController. Upstream looks at the template that it had.
pub fn replication_controller(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    if is_news(old, new, warnings) {
        template(old.unwrap_or(new), warnings);
    }
}

/// A DaemonSet.
pub fn daemon_set(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    if old.is_none_or(|old| Deployment(old).spec().template() != Deployment(new).spec().template()) {
        template(new, warnings);
    }
}

/// A StatefulSet.
pub fn stateful_set(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let set = Place::<StatefulSet<'_>>::root(new);
    let spec = set.spec();
    if old.is_none_or(|old| StatefulSet(old).spec() != *spec) {
        template(new, warnings);
    }
    for claim in spec.volume_claim_templates().each() {
        // Upstream names the field only where a set is changed, and with a capital.
        let inner = claim.path.field("Spec");
        let path = if old.is_some() { inner } else { claim.path };
        storage::claim_spec(&claim.spec().called(path), warnings);
    }
    if spec.revision_history_limit().is_some_and(|limit| limit < 0) {
        let text = "a negative value retains all historical revisions; a value >= 0 is recommended";
        warnings.at(spec.revision_history_limit(), text);
    }
}

/// A Job.
pub fn job(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    if is_news(old, new, warnings) {
        job_spec(&Place::<Job<'_>>::root(new).spec(), warnings);
    }
}

/// A CronJob.
pub fn cron_job(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    let job = Place::<CronJob<'_>>::root(new);
    if is_news(old, new, warnings) {
        job_spec(&job.spec().job_template().spec(), warnings);
    }
    if old.is_some() && job.spec().schedule().contains("TZ") {
        // The place is upstream's.
        warnings.add("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details");
    }
}

fn job_spec(spec: &Place<'_, JobSpec<'_>>, warnings: &mut Warnings) {
    let has_many = spec.completions().is_some_and(|count| count > MANY_COMPLETIONS)
        && spec.parallelism().is_some_and(|count| count > PARALLELISM_OF_MANY);
    if *spec.completion_mode() == Some("Indexed") && has_many {
        let text = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail";
        warnings.at(spec, text);
    }
    pod::template(&spec.template(), warnings);
}

/// A PodTemplate, when it is new.
pub fn pod_template(old: Option<&Value>, new: &Value, warnings: &mut Warnings) {
    if old.is_none() {
        pod::template(&Place::<PodTemplate<'_>>::root(new).template(), warnings);
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
        assert_eq!(warnings_of(replica_set, &of(-1)), [name, grace]);
        let changed = |old: i64, new: i64| {
            let mut warnings = Warnings::default();
            replica_set(Some(&of(old)), &of(new), &mut warnings);
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
