//! Workloads whose number of pods an autoscaler sets: it undoes scaling by hand.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use crate::code::Code;
use crate::spec::{Check, Condition};
use crate::verify::cause::{Cause, Hindrance, Suggestion};
use crate::verify::explain::{in_namespace, named};
use crate::verify::rollout::wish;
use crate::verify::view::{Owner, View};

/// The autoscaler that keeps an owner from having as many pods as a check wants.
pub(super) fn autoscaled(check: &Check, view: &View<'_>, owner: Owner<'_>) -> Option<Hindrance> {
    let namespace = owner.meta()?.namespace.as_deref().unwrap_or("default");
    let now = wish(&owner, &[], view.snapshot).pods?;
    let counts: Vec<_> = check
        .conditions
        .iter()
        .filter_map(|condition| match &condition.value {
            Condition::Running(count) | Condition::Pending { count, .. } => Some(*count),
            _ => None,
        })
        .collect();
    let least: u32 = counts.iter().map(|count| count.min).sum();
    let most = counts.iter().try_fold(0_u32, |sum, count| Some(sum.saturating_add(count.max?)));
    let is_wrong = now < least || most.is_some_and(|most| now > most);
    if counts.is_empty() || !is_wrong {
        return None;
    }
    let is_its = |autoscaler: &HorizontalPodAutoscaler| {
        let target = &autoscaler.spec.scale_target_ref;
        autoscaler.metadata.namespace.as_deref().unwrap_or("default") == namespace
            && (target.kind.as_str(), target.name.as_str()) == (owner.kind(), owner.name())
    };
    let autoscaler = view.snapshot.autoscalers.iter().find(|autoscaler| is_its(autoscaler))?;
    let (name, spec) = (autoscaler.metadata.name.as_deref()?, &autoscaler.spec);
    let (from, to) = (spec.min_replicas.unwrap_or(1), spec.max_replicas);
    let object = named(owner);
    let what = format!(
        "the HorizontalPodAutoscaler {name} sets its number of pods, from {from} to {to} and {now} now; it undoes `kubectl scale`"
    );
    let kubectl = format!("kubectl{}", in_namespace(namespace));
    let command = format!("{kubectl} delete hpa {name} && {kubectl} scale {object} --replicas={least}");
    let text = format!("delete the HorizontalPodAutoscaler {name}, and scale `{object}` to {least}");
    let cause =
        Cause { code: Code::Autoscaled, subjects: vec![format!("{namespace}/{object}")], what, nodes: Vec::new() };
    Some(Hindrance { cause, suggestions: vec![Suggestion::of("delete-autoscaler", text, Some(command))] })
}
