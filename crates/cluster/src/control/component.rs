//! Parts of the control plane that can be stopped alone, and what says that they are.

use std::collections::BTreeSet;

use serde_json::Value;

/// Annotation of the namespace `kube-system` with the components that do not run, separated by commas: `kube-scheduler`,
/// `kube-controller-manager`.
pub const STOPPED_COMPONENTS_ANNOTATION: &str = "klab.dev/stopped-components";

/// A part of the control plane that can be stopped alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Component {
    Scheduler,
    ControllerManager,
}

/// The components that an annotation of kube-system has stopped.
pub(super) fn stopped(namespace: &Value) -> BTreeSet<Component> {
    let names = namespace["metadata"]["annotations"][STOPPED_COMPONENTS_ANNOTATION].as_str().unwrap_or_default();
    let component = |name: &str| match name.trim() {
        "kube-scheduler" => Some(Component::Scheduler),
        "kube-controller-manager" => Some(Component::ControllerManager),
        _ => None,
    };
    names.split(',').filter_map(component).collect()
}
