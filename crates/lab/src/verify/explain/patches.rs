//! Commands that change what the pods of a workload ask for.

use k8s_openapi::api::core::v1::{PodSpec, Toleration};
use serde_json::{Value, json};

use crate::verify::view::{Owner, PodView};
use klab_scheduler::taint::Taint;

/// The object to edit, as kubectl takes it: `deployment/web`.
pub(super) fn object(pod: &PodView<'_>) -> String {
    match pod.owner {
        Owner::None => format!("pod/{}", pod.name),
        owner => format!("{}/{}", owner.kind().to_lowercase(), owner.name()),
    }
}

/// The option of kubectl for a namespace, with a blank before it.
pub(crate) fn in_namespace(namespace: &str) -> String {
    if namespace == "default" { String::new() } else { format!(" -n {namespace}") }
}

/// The command that merges a change into the specification of a workload's pods; none where pods are made by hand.
pub(super) fn patch(pod: &PodView<'_>, change: &Value) -> Option<String> {
    is_changeable(pod).then_some(())?;
    let patch = json!({ "spec": { "template": { "spec": change } } });
    Some(format!("kubectl{} patch {} -p '{patch}'", in_namespace(pod.namespace), object(pod)))
}

/// The command that opens a workload in an editor; none where pods are made by hand.
pub(super) fn edit_by_hand(pod: &PodView<'_>) -> Option<String> {
    is_changeable(pod).then_some(())?;
    Some(format!("kubectl{} edit {}", in_namespace(pod.namespace), object(pod)))
}

/// Whether the pod has an owner whose template can be changed.
fn is_changeable(pod: &PodView<'_>) -> bool {
    matches!(pod.owner, Owner::Deployment(_) | Owner::StatefulSet(_) | Owner::DaemonSet(_))
}

/// What the owner of a pod makes pods from, where it can be changed.
fn template<'a>(pod: &PodView<'a>) -> Option<&'a PodSpec> {
    match pod.owner {
        Owner::Deployment(owner) => owner.spec.as_ref()?.template.spec.as_ref(),
        Owner::StatefulSet(owner) => owner.spec.as_ref()?.template.spec.as_ref(),
        Owner::DaemonSet(owner) => owner.spec.as_ref()?.template.spec.as_ref(),
        _ => None,
    }
}

/// The tolerations that people wrote: controllers add some to pods.
pub(super) fn tolerations(pod: &PodView<'_>) -> Vec<Toleration> {
    template(pod).and_then(|spec| spec.tolerations.clone()).unwrap_or_default()
}

/// A toleration as taints are written.
pub(super) fn written(toleration: &Toleration) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let value = toleration.value.as_ref().map(|value| format!("={value}")).unwrap_or_default();
    let effect = toleration.effect.as_ref().map(|effect| format!(":{effect}")).unwrap_or_default();
    format!("{}{value}{effect}", text(&toleration.key))
}

/// Whether a toleration looks as if it was to be one of this taint, and is none.
pub(super) fn is_slip_of(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.as_deref().unwrap_or_default();
    let value = toleration.value.as_deref().unwrap_or_default();
    let near = |one: &str, two: &str| one == two || strsim::osa_distance(one, two) <= 2.min(two.len() / 3);
    !key.is_empty() && near(key, &taint.key) && (near(value, &taint.value) || key == taint.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_pen_in_tolerations() {
        let taint = |text: &str| -> Taint {
            let (key, rest) = text.split_once('=').unwrap();
            let (value, effect) = rest.split_once(':').unwrap();
            Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() }
        };
        let own = taint("dedicated=special:NoSchedule");
        for (key, value, slip) in [
            ("dedicate", "special", true),
            ("dedicated", "specal", true),
            ("dedicated", "other", true),
            ("sku", "special", false),
            ("", "", false),
        ] {
            let toleration = Toleration {
                key: Some(key.to_owned()),
                value: Some(value.to_owned()),
                effect: Some("NoSchedule".to_owned()),
                ..Toleration::default()
            };
            assert_eq!(is_slip_of(&toleration, &own), slip, "{}", written(&toleration));
        }
    }
}
