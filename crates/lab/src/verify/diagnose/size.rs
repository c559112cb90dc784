//! Workloads that have more or fewer pods than a check wants, or that are not there.

use std::collections::BTreeSet;

use super::target_nodes::Homes;
use crate::spec::{Check, Condition, Subject};
use crate::verify::cause::Suggestion;
use crate::verify::explain::{Destination, Explainer, in_namespace, named};
use crate::verify::rollout::Group;
use crate::verify::view::View;

/// More pods where a check asks for more than the workload has, if they would find room; fewer where it asks for fewer.
pub(super) fn change(check: &Check, explainer: &mut Explainer<'_>) -> Option<Suggestion> {
    let Subject::Workload(name) = &check.subject.value else { return None };
    let count = check.conditions.iter().find_map(|condition| match &condition.value {
        Condition::Running(count) => Some(*count),
        _ => None,
    })?;
    let group = Group::of(explainer.view(), &check.subject.value)?;
    let now = u32::try_from(group.counted.len()).ok()?;
    let workload = explainer.view().context.workload(name)?;
    let declared = workload.replicas.as_ref()?;
    // Only where the owner has what it wants, and all of it runs.
    let at_rest = group.missing == 0 && group.stale.is_none() && group.counted.iter().all(|pod| pod.state.is_ready());
    if !at_rest || now == 0 {
        return None;
    }
    // A workload may have another name in the cluster than in the lab, and only its pods the lab's label.
    let owner = group.counted.first()?.owner;
    if !group.counted.iter().all(|pod| pod.owner.is(&owner)) {
        return None;
    }
    let (is_its_name, object) = (owner.name() == name, named(owner));
    let fewer = count.max.filter(|most| (1..now).contains(most) && !check.wants_pending());
    let wanted = fewer.unwrap_or(count.min);
    let (nodes, by_file) = if fewer.is_some() {
        (BTreeSet::new(), declared.value > wanted)
    } else if wanted > now {
        let model = group.counted.first()?.pod.clone();
        let homes = Homes::of(check, explainer.view());
        let nodes = explainer.place_copies(&model, wanted - now)?;
        if !nodes.iter().all(|node| homes.accept(Destination::Node(node))) {
            return None;
        }
        (nodes.into_iter().collect(), declared.value < wanted)
    } else {
        return None;
    };
    let (by_file, namespace) = (by_file && is_its_name, in_namespace(&workload.namespace));
    Some(Suggestion {
        code: if wanted > now { "scale-up" } else { "scale-down" },
        // Where the file says so already, somebody scaled the workload since.
        text: if by_file {
            format!("set `workload.{name}.replicas = {wanted}` (from {now})")
        } else {
            format!("scale {object} from {now} to {wanted}")
        },
        at: by_file.then(|| declared.at.clone()),
        command: Some(format!("kubectl{namespace} scale {object} --replicas={wanted}")),
        changes: 1,
        nodes: nodes.into_iter().collect(),
    })
}

/// What makes a workload that is not there, or stands in another namespace.
pub(super) fn missing(check: &Check, view: &View<'_>) -> Option<Suggestion> {
    let Subject::Workload(name) = &check.subject.value else { return None };
    let group = Group::of(view, &check.subject.value)?;
    let is_gone = group.counted.is_empty() && group.old.is_empty() && view.owner_of_workload(name).is_none();
    let workload = view.context.workload(name).filter(|_| is_gone)?;
    let lab = view.context.name();
    let make = format!("klab render {lab} --workload {name} | kubectl apply -f -");
    let elsewhere =
        view.pods.iter().find(|pod| pod.owner.name() == name.as_str() && pod.namespace != workload.namespace);
    let (text, command) = match elsewhere {
        Some(pod) => {
            let (kind, there) = (workload.kind.as_str(), pod.namespace);
            // A client that deleted the namespace meanwhile has deleted it, too.
            let remove = format!("kubectl -n {there} delete {kind}/{name} --ignore-not-found");
            (
                format!("make {kind}/{name} in namespace {}; it is in {there}", workload.namespace),
                format!("{remove} && {make}"),
            )
        }
        None => (format!("make {}/{name}", workload.kind.as_str()), make),
    };
    Some(Suggestion { code: "make-workload", text, at: None, command: Some(command), changes: 1, nodes: Vec::new() })
}
