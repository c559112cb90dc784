//! Pods that are deleted: what the grace period is for.

// upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go killContainer (v1.36)
// upstream: pkg/kubelet/kubelet.go SyncTerminatingPod (v1.36)

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::resource::PODS;
use klab_api_machinery::views::Pod;

use super::super::plane::Plane;
use super::super::view::{NodeInfo, Phase, PodInfo};
use super::container::Container;
use super::memory::{Memory, Step};
use super::status::container_reference;
use super::volumes::Volumes;
use super::work::key;
use crate::clock::earlier;
use crate::cluster::DeleteOptions;

impl Plane {
    /// Ends a pod that is deleted: those containers at once that heed the signal, the others when their time is over.
    pub(super) fn stop_pod(
        &mut self,
        memory: &mut Memory,
        volumes: &mut Volumes,
        pod: &PodInfo,
        node: &NodeInfo,
        now: Timestamp,
    ) {
        let value = pod.object.value();
        let value = Pod(&value);
        let deadline = value.metadata().deletion_timestamp().unwrap_or(now);
        let grace = SignedDuration::from_secs(value.metadata().deletion_grace_period_seconds().unwrap_or_default());
        let (due, first) = memory.due(pod, Step::Stop, now, self.settings.hollow.stop);
        let mut look = self.look(pod, value, memory, volumes);
        let running: Vec<usize> =
            (0..look.containers.len()).filter(|index| look.containers[*index].is_running()).collect();
        if first && !pod.finished() && pod.phase == Phase::Running {
            for index in &running {
                let container = &look.containers[*index];
                let about = container_reference(pod, container.role.field(), container.name());
                let message = format!("Stopping container {}", container.name());
                self.say(&pod.node, &about, false, "Killing", &message);
            }
        }
        let due = due.min(deadline.max(now));
        if due > now {
            self.queue.add_at(key(pod.name()), due);
            return;
        }
        if !self.settings.hollow.as_recorded && !pod.finished() && !running.is_empty() {
            let since = earlier(deadline, grace);
            let ended: Vec<bool> = running.iter().map(|index| look.stop(*index, since, grace)).collect();
            let over = ended.into_iter().all(|ended| ended);
            let (next, changed) =
                (look.next, look.containers.iter().any(|container: &Container<'_>| container.changed));
            if over || changed {
                let report = self.report(&look, node, over);
                self.write_pod_status(pod, report);
            }
            if !over {
                if let Some(next) = next {
                    self.queue.add_at(key(pod.name()), next);
                }
                return;
            }
        }
        let options =
            DeleteOptions { grace_seconds: Some(0), uid: Some(pod.object.uid.to_string()), ..DeleteOptions::default() };
        let _gone = self.cluster.delete(PODS, &pod.object.namespace, &pod.object.name, &options);
    }
}
