//! Which pods are on a node beside others: what `with` and `apart_from` share.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube_core::ResourceExt;

use crate::spec::Selector;
use crate::verify::view::{PodView, View};
use klab_scheduler::selector::Requirement;

/// Pods that others can share a node with, by node, among those of these labels in all namespaces.
pub(super) fn companions<'v, 'a>(view: &'v View<'a>, selector: &Selector) -> BTreeMap<&'a str, Vec<&'v PodView<'a>>> {
    let mut by_node: BTreeMap<&str, Vec<&PodView<'_>>> = BTreeMap::new();
    for pod in view.pods.iter().filter(|pod| pod.state.is_present() && selector.matches(pod.pod.labels())) {
        if let Some(node) = pod.node {
            by_node.entry(node).or_default().push(pod);
        }
    }
    by_node
}

/// A selector of the lab file as the API writes it.
pub(super) fn label_selector(selector: &Selector) -> LabelSelector {
    let requirement = |requirement: &Requirement| LabelSelectorRequirement {
        key: requirement.key.clone(),
        operator: requirement.operator.as_str().to_owned(),
        values: (!requirement.values.is_empty()).then(|| requirement.values.clone()),
    };
    LabelSelector {
        match_expressions: Some(selector.requirements().iter().map(requirement).collect()),
        match_labels: None,
    }
}
