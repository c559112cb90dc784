//! The workload of the lab behind a pod, and what the cluster has otherwise.

use super::kubectl::{spec_of, template};
use super::restore::Drift;
use crate::names::WORKLOAD_LABEL;
use crate::spec::Workload;
use crate::verify::view::{PodView, View};

/// The workload of the lab that a pod belongs to.
pub(crate) fn workload_of<'a>(view: &View<'a>, pod: &PodView<'a>) -> Option<&'a Workload> {
    let labels = pod.pod.metadata.labels.as_ref();
    let named = labels.and_then(|labels| labels.get(WORKLOAD_LABEL)).map(String::as_str);
    let name = named.or_else(|| Some(pod.owner.name()).filter(|name| !name.is_empty()))?;
    view.context.workload(name).filter(|workload| workload.namespace == pod.namespace)
}

/// The workload of the lab of this name.
pub(crate) fn workload_named<'a>(view: &View<'a>, namespace: &str, name: &str) -> Option<&'a Workload> {
    view.context.workload(name).filter(|workload| workload.namespace == namespace)
}

/// What the pods ask for otherwise than the lab says, unless that is no matter of the lab file.
pub(super) fn drift(view: &View<'_>, pod: &PodView<'_>) -> Option<Drift> {
    let workload = workload_of(view, pod)?;
    let (live, _) = spec_of(pod)?;
    Drift::of(workload, live, template(pod.owner).is_some())
}
