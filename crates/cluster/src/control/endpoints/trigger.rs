//! When what led to a change of endpoints happened: pods that became ready or unready, a Service that was made.

// upstream: staging/src/k8s.io/endpointslice/util/trigger_time_tracker.go ComputeEndpointLastChangeTriggerTime (v1.36)

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use klab_api_machinery::object::Object;
use klab_api_machinery::value::time_text;
use klab_api_machinery::views::Service;
use klab_scheduler::hash::fnv64;

use super::super::queue::ObjectName;
use super::super::view::PodInfo;

/// What was known of each Service when it was last looked at.
#[derive(Debug, Default)]
pub(super) struct Triggers {
    seen: HashMap<ObjectName, Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    service: Option<Timestamp>,
    /// By hash of the uid: when readiness last changed, and what it is. Conditions have whole seconds, in one of which
    /// it may change more than once.
    pods: HashMap<u64, (Timestamp, bool)>,
}

impl Triggers {
    /// The Service is gone.
    pub(super) fn forget(&mut self, name: &ObjectName) {
        self.seen.remove(name);
    }

    /// When the first of the changes since the last look happened.
    pub(super) fn of(&mut self, service: &Object, value: Service<'_>, pods: &[Arc<PodInfo>]) -> Option<String> {
        let before = self.seen.entry(ObjectName::of(service)).or_default();
        let created = value.metadata().creation_timestamp();
        let mut changed: Option<Timestamp> = created.filter(|_| before.service < created);
        let mut after = HashMap::with_capacity(pods.len());
        for pod in pods {
            let Some(at) = pod.ready_changed else { continue };
            let uid = fnv64(&[pod.object.uid.as_bytes()]);
            let known = before.pods.get(&uid);
            if known.is_none_or(|(then, ready)| *then < at || (*then == at && *ready != pod.ready)) {
                changed = Some(changed.map_or(at, |first| first.min(at)));
            }
            after.insert(uid, (at, pod.ready));
        }
        *before = Seen { service: created, pods: after };
        changed.map(time_text)
    }
}
