//! Pods that a controller asks for and does not get: what the API server answers, as conditions and events tell it.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};

use super::mounting::{FAILED_ATTACH, FAILED_MOUNT, UNHEALTHY};
use super::pod::PodState;
use super::snapshot::Snapshot;
use super::view::{Owner, PodView, revision};
use klab_scheduler::owner::controller;

/// The reason of events about a pod that could not be made.
pub(crate) const FAILED_CREATE: &str = "FailedCreate";

impl Snapshot {
    /// The reasons of the events that may say why pods are not made, not started or not ready.
    pub fn reasons_of_events(&self) -> Vec<&'static str> {
        let is_unready =
            |pod: &Arc<Pod>| matches!(PodState::of(pod), PodState::Running { ready: false, trouble: None });
        let asked = [
            (self.has_owners_that_lack_pods(), FAILED_CREATE),
            (self.has_pods_being_made(), FAILED_MOUNT),
            (self.has_pods_being_made(), FAILED_ATTACH),
            (self.pods.iter().any(is_unready), UNHEALTHY),
        ];
        asked.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, reason)| reason).collect()
    }

    /// Whether an owner has fewer pods than it wants, and only its events may say why.
    fn has_owners_that_lack_pods(&self) -> bool {
        let daemon_sets = self.daemon_sets.iter().filter_map(|set| set.status.as_ref());
        let stateful_sets =
            self.stateful_sets.iter().filter_map(|set| Some((set.spec.as_ref()?, set.status.as_ref()?)));
        let jobs = self.jobs.iter().filter(|job| !is_over(job) && !is_suspended(job));
        daemon_sets.into_iter().any(|status| status.current_number_scheduled < status.desired_number_scheduled)
            || stateful_sets.into_iter().any(|(spec, status)| status.replicas < spec.replicas.unwrap_or(1))
            || jobs.into_iter().any(|job| {
                let status = job.status.as_ref();
                status.and_then(|status| status.active).unwrap_or(0) == 0
            })
    }
}

pub(crate) fn is_over(job: &Job) -> bool {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True")
}

pub(crate) fn is_suspended(job: &Job) -> bool {
    job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true)
}

/// What the API server answers where an owner asks for a pod in vain; `pods` are those that the owner has.
pub(crate) fn refusal<'a>(snapshot: &'a Snapshot, owner: &Owner<'a>, pods: &[&PodView<'_>]) -> Option<&'a str> {
    match owner {
        Owner::Deployment(deployment) => {
            // The Deployment keeps the words about an earlier template while the reason is the same.
            // upstream: pkg/controller/deployment/util/deployment_util.go SetDeploymentCondition (v1.36)
            let uid = deployment.metadata.uid.as_deref();
            let sets = snapshot.replica_sets.iter();
            let sets = sets.filter(|set| controller(&set.metadata).map(|owner| owner.uid.as_str()) == uid);
            let newest = sets.max_by_key(|set| revision(&set.metadata));
            if let Some(message) = newest.and_then(|set| refusal(snapshot, &Owner::ReplicaSet(set), pods)) {
                return Some(message);
            }
            let conditions = deployment.status.as_ref()?.conditions.as_deref()?;
            let failed = conditions.iter().find(|it| it.type_ == "ReplicaFailure" && it.status == "True")?;
            failed.message.as_deref()
        }
        Owner::ReplicaSet(set) => {
            let conditions = set.status.as_ref()?.conditions.as_deref()?;
            let failed = conditions.iter().find(|it| it.type_ == "ReplicaFailure" && it.status == "True")?;
            failed.message.as_deref()
        }
        Owner::DaemonSet(_) | Owner::StatefulSet(_) | Owner::Job(_) => creation_message(snapshot, owner, pods),
        Owner::None | Owner::Other(_) => None,
    }
}

/// What the latest event about an owner's pods says, unless a pod was made since.
fn creation_message<'a>(snapshot: &'a Snapshot, owner: &Owner<'_>, pods: &[&PodView<'_>]) -> Option<&'a str> {
    let uid = owner.meta()?.uid.as_deref()?;
    let of_owner = snapshot.events.iter().filter(|event| {
        event.reason.as_deref() == Some(FAILED_CREATE) && event.involved_object.uid.as_deref() == Some(uid)
    });
    let latest = of_owner.max_by_key(|event| last(event))?;
    let made = pods.iter().filter_map(|pod| pod.pod.metadata.creation_timestamp.as_ref().map(|time| time.0)).max();
    let is_past = last(latest).zip(made).is_some_and(|(said, made)| said < made);
    if is_past { None } else { latest.message.as_deref() }
}

/// When an event was last seen.
pub(super) fn last(event: &Event) -> Option<jiff::Timestamp> {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    series.or(event.last_timestamp.as_ref().map(|time| time.0)).or(event.event_time.as_ref().map(|time| time.0))
}

/// The words of a refusal, without who says them and of which pod.
pub(crate) fn words(message: &str) -> &str {
    // upstream: client-go tools/record/events_cache.go aggregatedMessage (v1.36)
    let message = message.strip_prefix("(combined from similar events): ").unwrap_or(message);
    let message = message.strip_prefix("Error creating: ").unwrap_or(message);
    let message = message.split_once(" failed error: ").map_or(message, |(_, rest)| rest);
    match message.split_once(" is forbidden: ") {
        Some((pod, rest)) if pod.starts_with("pods ") => rest,
        _ => message,
    }
}
