//! RuntimeClasses: the overhead and the places that a pod's class brings, and pods whose class is not there.

// upstream: plugin/pkg/admission/runtimeclass/admission.go Admit, setOverhead, setScheduling, validateOverhead (v1.36)

use std::sync::Arc;

use klab_api_machinery::pod_resources::amounts;
use klab_api_machinery::resource::{PODS, RUNTIME_CLASSES};
use klab_api_machinery::status::Status;
use klab_api_machinery::value::list_mut;
use klab_api_machinery::views::{Entries, Pod, RuntimeClass, Toleration, Views};
use serde_json::Value;

use super::forbidden::forbidden;
use crate::transaction::Transaction;

/// Gives a new pod what its RuntimeClass says.
pub(super) fn add_runtime_class(transaction: &Transaction<'_>, pod: &mut Value) -> Result<(), Status> {
    let class = match Pod(pod).spec().runtime_class_name() {
        None => Arc::default(),
        Some(name) => {
            let Some(class) = transaction.state.store.get(RUNTIME_CLASSES, "", name) else {
                return Err(forbidden(PODS, pod, &format!("pod rejected: RuntimeClass \"{name}\" not found")));
            };
            class.value()
        }
    };
    let class = RuntimeClass(&class);
    add_overhead(class.overhead().pod_fixed(), pod)?;
    add_node_selector(class.scheduling().node_selector(), pod)?;
    add_tolerations(class.scheduling().tolerations(), pod);
    Ok(())
}

fn add_overhead(overhead: Entries<'_, &Value>, pod: &mut Value) -> Result<(), Status> {
    let own = amounts(Pod(pod).spec().overhead());
    if overhead.is_empty() {
        return if own.is_empty() {
            Ok(())
        } else {
            let because = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
            Err(forbidden(PODS, pod, because))
        };
    }
    if !own.is_empty() && own != amounts(overhead) {
        let because = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
        return Err(forbidden(PODS, pod, because));
    }
    pod["spec"]["overhead"] = overhead.iter().map(|(name, amount)| (name, amount.clone())).collect();
    Ok(())
}

fn add_node_selector(selector: Entries<'_, &str>, pod: &mut Value) -> Result<(), Status> {
    for (key, value) in selector.iter() {
        if let Some(own) = Pod(pod).spec().node_selector().get(key).filter(|own| *own != value) {
            let because = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
            );
            return Err(forbidden(PODS, pod, &because));
        }
    }
    for (key, value) in selector.iter() {
        pod["spec"]["nodeSelector"][key] = value.into();
    }
    Ok(())
}

/// Adds the tolerations of the class that the pod does not have.
fn add_tolerations(tolerations: Views<'_, Toleration<'_>>, pod: &mut Value) {
    for toleration in tolerations {
        let own = list_mut(&mut pod["spec"]["tolerations"]);
        if !own.contains(toleration.0) {
            own.push(toleration.0.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use klab_api_machinery::views::View;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_class_and_a_pod_say_goes_together_or_is_refused() {
        let class = json!({ "zone": "a" });
        let class = || Entries::of(&class);
        let pod = |spec: Value| json!({ "metadata": { "name": "web" }, "spec": spec });
        let mut same = pod(json!({ "nodeSelector": { "zone": "a", "disk": "ssd" } }));
        assert!(add_node_selector(class(), &mut same).is_ok());
        let refused = add_node_selector(class(), &mut pod(json!({ "nodeSelector": { "zone": "b" } }))).unwrap_err();
        assert!(refused.message.ends_with("nodeSelector[zone] = a; pod.spec.nodeSelector[zone] = b"), "{refused}");

        let overhead = json!({ "cpu": "250m" });
        let mut equal = pod(json!({ "overhead": { "cpu": "0.25" } }));
        assert!(add_overhead(View::of(&overhead), &mut equal).is_ok());
        assert_eq!(equal["spec"]["overhead"], overhead);
        for (overhead, own, wanted) in [
            (&overhead, json!({ "cpu": "1" }), "doesn't match"),
            (&Value::Null, json!({ "cpu": "1" }), "without corresponding"),
        ] {
            let refused = add_overhead(View::of(overhead), &mut pod(json!({ "overhead": own }))).unwrap_err();
            assert!(refused.message.contains(wanted), "{refused}");
        }

        let toleration = json!({ "key": "sandboxed", "operator": "Exists" });
        let mut twice = pod(json!({ "tolerations": [toleration] }));
        add_tolerations(View::of(&json!([toleration, { "key": "other" }])), &mut twice);
        assert_eq!(twice["spec"]["tolerations"], json!([toleration, { "key": "other" }]));
    }
}
