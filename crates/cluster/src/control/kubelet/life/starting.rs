//! Starts a container: after its back-off, with its image, unless it cannot be created.

// upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go doBackOff (v1.36)
// upstream: pkg/kubelet/images/image_manager.go EnsureImageExists (v1.36)

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::protobuf::go_duration;
use klab_api_machinery::views::Probe;
use klab_containers::create_error;

use super::super::images::{Pull, pull};
use super::super::memory::{BACK_OFF, TRIES, doubled};
use super::Look;
use crate::clock::later;

/// How long a failed pull is shown before its back-off is.
const PULL_FAILURE: SignedDuration = SignedDuration::from_secs(1);
/// Why a container waits that could not be created, and how long it does until that is tried again.
// upstream: pkg/kubelet/kubelet.go backOffPeriod (v1.36)
const CREATION_FAILURE: &str = "CreateContainerConfigError";
const CREATION_PAUSE: SignedDuration = SignedDuration::from_secs(10);

impl Look<'_, '_> {
    /// Starts a container that has ended, unless it has to wait.
    pub(super) fn start_again(&mut self, index: usize, since: Timestamp, at: Timestamp) -> bool {
        let container = &self.containers[index];
        let name = container.name();
        let wait = self.memory.back_off(name, at.duration_since(since), container.restarts(), self.span);
        let due = later(at, wait);
        if due > self.now {
            let backs_off = container.waits_for() == "CrashLoopBackOff";
            self.wake(due);
            let pod = format!("{}_{}({})", self.pod.object.name, self.pod.object.namespace, self.pod.object.uid);
            if !backs_off {
                self.say(index, true, "BackOff", format!("Back-off restarting failed container {name} in pod {pod}"));
            }
            let wait = go_duration(wait.as_secs().saturating_mul(1_000_000_000));
            let message = format!("back-off {wait} restarting failed container={name} pod={pod}");
            self.containers[index].wait("CrashLoopBackOff", &message);
            return false;
        }
        self.memory.started_again(name, wait, self.span);
        self.start(index)
    }

    /// Starts a container, if its image is to be had.
    pub(super) fn start(&mut self, index: usize) -> bool {
        let (name, image) = (self.containers[index].name(), self.containers[index].image());
        match pull(image, &self.missing) {
            Pull::Present => {}
            Pull::Missing => {
                self.fail_to_pull(index);
                return false;
            }
            Pull::Invalid(fault) => {
                let message = format!(
                    "Failed to apply default image tag \"{image}\": couldn't parse image name \"{image}\": {fault}"
                );
                self.lack_image(index, "InvalidImageName", (true, "InspectFailed", message.clone()), &message);
                return false;
            }
        }
        if !self.is_created(index) {
            return false;
        }
        let uid = self.pod.object.uid.clone();
        self.containers[index].start(&uid, self.now, !self.hollow.as_recorded);
        let seen = self.volumes.seen(self.value, self.containers[index].spec);
        if !seen.is_empty() || self.memory.known(name).is_some() {
            self.memory.of(name).seen = (!seen.is_empty()).then_some(seen);
        }
        self.leave_files(index);
        let timed = self.ends_or_is_probed(index);
        if timed || self.memory.known(name).is_some() {
            let kept = self.memory.of(name);
            (kept.since, kept.pulls, kept.creations, kept.answered) = (Some(self.now), None, None, None);
            (kept.failures_reported, kept.end_reported) = (false, false);
        }
        self.say(index, false, "Created", "Container created".to_owned());
        self.say(index, false, "Started", "Container started".to_owned());
        true
    }

    fn ends_or_is_probed(&self, index: usize) -> bool {
        let spec = self.containers[index].spec;
        [spec.startup_probe(), spec.readiness_probe(), spec.liveness_probe()].into_iter().any(Probe::is_set)
            || self.natural_end(index, &self.program(index)).is_some()
    }

    /// Whether a container whose image is there can be created; it is tried again after 10 s.
    fn is_created(&mut self, index: usize) -> bool {
        let (name, image) = (self.containers[index].name(), self.containers[index].image());
        let kept = self.memory.known(name).and_then(|kept| kept.creations);
        let tries = match kept.filter(|_| self.containers[index].waits_for() == CREATION_FAILURE) {
            Some((_, last)) if later(last, CREATION_PAUSE) > self.now => {
                self.lacks = true;
                self.wake(later(last, CREATION_PAUSE));
                return false;
            }
            kept => kept.map_or(1, |(tries, _)| tries.saturating_add(1)),
        };
        let pulled = format!("Container image \"{image}\" already present on machine and can be accessed by the pod");
        self.say(index, false, "Pulled", pulled);
        if self.hollow.as_recorded {
            return true;
        }
        let (pod, container) = (self.value.0, self.containers[index].spec.0);
        let Some(message) = create_error(&self.objects, pod, container) else { return true };
        self.memory.of(name).creations = Some((tries, self.now));
        self.say(index, true, "Failed", format!("Error: {message}"));
        self.containers[index].wait(CREATION_FAILURE, &message);
        self.lacks = true;
        if tries < TRIES {
            self.wake(later(self.now, CREATION_PAUSE));
        }
        false
    }

    /// The image cannot be pulled: it is tried again after 10 s, which double up to 5 min.
    fn fail_to_pull(&mut self, index: usize) {
        let (name, image) = (self.containers[index].name(), self.containers[index].image());
        let now = self.now;
        if self.containers[index].spec.image_pull_policy() == "Never" {
            let message = format!("Container image \"{image}\" is not present with pull policy of Never");
            self.lack_image(index, "ErrImageNeverPull", (true, "ErrImageNeverPull", message.clone()), &message);
            return;
        }
        let failure = format!("image \"{image}\": not found");
        let kept = self.memory.of(name).pulls;
        let (tries, last) = match kept {
            Some((tries, last)) if later(last, doubled(i64::from(tries) - 1, BACK_OFF)) > now => (tries, last),
            kept => {
                let tries = kept.map_or(1, |(tries, _)| tries.saturating_add(1));
                self.memory.of(name).pulls = Some((tries, now));
                self.say(index, false, "Pulling", format!("Pulling image \"{image}\""));
                self.say(index, true, "Failed", format!("Failed to pull image \"{image}\": {failure}"));
                self.say(index, true, "Failed", "Error: ErrImagePull".to_owned());
                (tries, now)
            }
        };
        let shown = later(last, PULL_FAILURE);
        if shown > now && !self.hollow.as_recorded {
            self.wake(shown);
            self.containers[index].wait("ErrImagePull", &failure);
            return;
        }
        if !self.hollow.as_recorded {
            self.wake(later(last, doubled(i64::from(tries) - 1, BACK_OFF)));
        }
        let backs_off = format!("Back-off pulling image \"{image}\"");
        let message = format!("{backs_off}: ErrImagePull: {failure}");
        self.lack_image(index, "ImagePullBackOff", (false, "BackOff", backs_off), &message);
    }

    /// The container waits for its image; an event says so when that begins.
    fn lack_image(&mut self, index: usize, reason: &str, event: (bool, &'static str, String), message: &str) {
        if self.containers[index].waits_for() != reason {
            self.say(index, event.0, event.1, event.2);
            self.say(index, true, "Failed", format!("Error: {reason}"));
        }
        self.containers[index].wait(reason, message);
    }
}
