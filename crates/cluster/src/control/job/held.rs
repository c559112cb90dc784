//! Pods that have ended are held until their Job has counted them.

use klab_api_machinery::views::Pod;

use super::super::view::PodInfo;

/// Keeps a pod until it has been counted.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// Whether a pod is held until its Job has counted it.
pub(super) fn is_tracked(pod: &PodInfo) -> bool {
    pod.object.metadata_text().contains(TRACKING)
        && Pod(&pod.object.value()).metadata().finalizers().any(|have| have == TRACKING)
}

/// Whether a pod was deleted and its kubelet is done with it.
pub(super) fn has_stopped(pod: &PodInfo) -> bool {
    pod.object.deleting
        && !pod.node.is_empty()
        && Pod(&pod.object.value()).metadata().deletion_grace_period_seconds() == Some(0)
}
