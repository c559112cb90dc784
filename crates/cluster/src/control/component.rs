//! Parts of the control plane that can be stopped alone, and what says that they are.

use std::collections::BTreeSet;

use klab_api_machinery::views::metadata;
use serde_json::Value;

/// Annotation of the namespace `kube-system` with the components that do not run, separated by commas: `kube-scheduler`,
/// `kube-controller-manager`; both, where it names `kube-apiserver` or `etcd`, without which they do nothing.
pub const STOPPED_COMPONENTS_ANNOTATION: &str = "klab.dev/stopped-components";

/// A part of the control plane that can be stopped alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Component {
    Scheduler,
    ControllerManager,
}

/// The components that an annotation of kube-system has stopped.
pub(super) fn stopped(namespace: &Value) -> BTreeSet<Component> {
    let names = metadata(namespace).annotations().get(STOPPED_COMPONENTS_ANNOTATION).unwrap_or_default();
    let components: fn(&str) -> &[Component] = |name| match name.trim() {
        "kube-scheduler" => &[Component::Scheduler],
        "kube-controller-manager" => &[Component::ControllerManager],
        "kube-apiserver" | "etcd" => &[Component::Scheduler, Component::ControllerManager],
        _ => &[],
    };
    names.split(',').flat_map(components).copied().collect()
}
