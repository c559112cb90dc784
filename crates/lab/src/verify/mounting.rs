//! Pods that wait for a volume that cannot be filled: their status does not say so, events do.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Event, Pod};

use super::pod;
use super::snapshot::Snapshot;

/// The reason of events about a volume that cannot be set up.
pub(crate) const FAILED_MOUNT: &str = "FailedMount";
/// The reason of events about a volume that cannot be attached.
pub(crate) const FAILED_ATTACH: &str = "FailedAttachVolume";
/// The reason of events about a probe that fails.
pub(crate) const UNHEALTHY: &str = "Unhealthy";
/// So often a kubelet has tried before what it says counts: objects of one lab come one after the other.
const TRIES: i32 = 3;

impl Snapshot {
    /// Whether a pod has come to a node where none of its containers could be made yet: events may say why.
    pub fn has_pods_being_made(&self) -> bool {
        self.pods.iter().any(|pod| is_being_made(pod))
    }

    /// Whether the events that were read say of one of those pods nothing that lasts.
    pub fn has_pods_made_for_all_that_is_known(&self) -> bool {
        let unmounted = Unmounted::of(self);
        let lasts = |pod: &Pod| unmounted.of_pod(pod).is_some_and(|failure| failure.is_lasting);
        self.pods.iter().any(|pod| is_being_made(pod) && !lasts(pod))
    }
}

fn is_being_made(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let is_pending = status.and_then(|status| status.phase.as_deref()).is_none_or(|phase| phase == "Pending");
    is_pending && pod.metadata.deletion_timestamp.is_none() && pod::node(pod).is_some() && pod::all_wait_to_be_made(pod)
}

/// The messages about a pod's volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Volumes<'s> {
    pub(crate) message: &'s str,
    /// Whether that stays so until somebody changes something.
    pub(crate) is_lasting: bool,
}

/// What keeps pods from being made, by the pod's uid.
pub(super) struct Unmounted<'s>(BTreeMap<&'s str, Volumes<'s>>);

impl<'s> Unmounted<'s> {
    pub(super) fn of(snapshot: &'s Snapshot) -> Self {
        // What lasts counts more than what passes; of equals the latest.
        let rank = |event: &Event| (is_lasting(event), event.last_timestamp.as_ref().map(|time| time.0));
        let mut first: BTreeMap<&str, &Event> = BTreeMap::new();
        for event in snapshot.events.iter().filter(|event| event.reason.as_deref() == Some(FAILED_MOUNT)) {
            let Some(uid) = event.involved_object.uid.as_deref() else { continue };
            let known = first.entry(uid).or_insert(event);
            if rank(known) < rank(event) {
                *known = event;
            }
        }
        let failure =
            |event: &'s Event| Some(Volumes { message: event.message.as_deref()?, is_lasting: is_lasting(event) });
        Self(first.into_iter().filter_map(|(uid, event)| Some((uid, failure(event)?))).collect())
    }

    /// The message about a pod that has come to a node and is being made.
    pub(super) fn of_pod(&self, pod: &Pod) -> Option<Volumes<'s>> {
        let failure = self.0.get(pod.metadata.uid.as_deref()?)?;
        is_being_made(pod).then_some(*failure)
    }
}

/// Whether an event says that an object, or a part of it, is not there. Other volumes take their time, or are tried with more luck; the
/// certificates of a namespace come by themselves.
// upstream: pkg/volume/configmap/configmap.go, pkg/volume/secret/secret.go MakePayload (v1.36)
fn is_lasting(event: &Event) -> bool {
    let message = event.message.as_deref().unwrap_or_default();
    let tries = event.count.or(event.series.as_ref().and_then(|series| series.count)).unwrap_or(1);
    tries >= TRIES
        && message.starts_with("MountVolume.SetUp failed")
        && (message.contains(" not found") || message.contains("references non-existent"))
        && !message.contains("\"kube-root-ca.crt\"")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    const MISSING: &str = "MountVolume.SetUp failed for volume \"v\" : configmap \"c\" not found";

    fn pod(waits_for: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": "web", "uid": "u" }, "spec": { "nodeName": "a", "containers": [] },
            "status": { "phase": "Pending", "containerStatuses": [{
                "name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": { "waiting": { "reason": waits_for } },
            }]},
        }))
        .unwrap()
    }

    /// The message about a pod, and whether that lasts.
    fn told(pod: &Pod, events: &Value) -> Option<(String, bool)> {
        let events: Vec<Event> = serde_json::from_value(events.clone()).unwrap();
        let events = events.into_iter().map(Arc::new).collect();
        let snapshot = Snapshot { pods: vec![Arc::new(pod.clone())], events, ..Snapshot::default() };
        let told = Unmounted::of(&snapshot).of_pod(pod).map(|told| (told.message.to_owned(), told.is_lasting));
        let lasts = told.as_ref().is_some_and(|(_, lasts)| *lasts);
        assert_eq!(snapshot.has_pods_made_for_all_that_is_known(), !lasts && is_being_made(pod));
        told
    }

    fn event(reason: &str, message: &str, count: i32, last: &str) -> Value {
        json!({
            "metadata": {}, "involvedObject": { "uid": "u" }, "reason": reason, "message": message, "count": count,
            "lastTimestamp": last,
        })
    }

    #[test]
    fn what_is_missing_lasts_and_other_volumes_may_come() {
        let time = "2026-01-01T00:00:00Z";
        let made = pod("ContainerCreating");
        let failed = |why: &str| format!("MountVolume.SetUp failed for volume \"v\" : {why}");
        for (message, tries, is_lasting) in [
            (MISSING.to_owned(), 3, true),
            (MISSING.to_owned(), 2, false),
            (failed("references non-existent secret key: k"), 3, true),
            (failed("configmap \"kube-root-ca.crt\" not found"), 9, false),
            (failed("timed out waiting for the condition"), 9, false),
            ("Unable to attach or mount volumes: unmounted volumes=[v]".to_owned(), 9, false),
        ] {
            let events = json!([event(FAILED_MOUNT, &message, tries, time)]);
            assert_eq!(told(&made, &events), Some((message, is_lasting)));
        }
        assert_eq!(told(&made, &json!([event("FailedScheduling", MISSING, 9, time)])), None);
        let unable = "Unable to attach or mount volumes: unmounted volumes=[v]";
        let later = MISSING.replace("\"c\"", "\"d\"");
        let all = json!([
            event(FAILED_MOUNT, &later, 4, "2026-01-01T00:01:00Z"),
            event(FAILED_MOUNT, MISSING, 9, time),
            event(FAILED_MOUNT, unable, 1, "2026-01-01T00:02:00Z"),
        ]);
        assert_eq!(told(&made, &all), Some((later, true)), "the latest one that lasts");
        assert_eq!(told(&pod("ImagePullBackOff"), &all), None);
    }
}
