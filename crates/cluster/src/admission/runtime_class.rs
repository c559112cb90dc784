//! RuntimeClasses: the overhead and the places that a pod's class brings, and pods whose class is not there.

// upstream: plugin/pkg/admission/runtimeclass/admission.go Admit, setOverhead, setScheduling, validateOverhead (v1.36)

use klab_api_machinery::pod_resources::amounts;
use klab_api_machinery::resource::{PODS, RUNTIME_CLASSES};
use klab_api_machinery::status::Status;
use serde_json::{Value, json};

use super::forbidden::forbidden;
use crate::transaction::Transaction;

/// Gives a new pod what its RuntimeClass says.
pub(super) fn add_runtime_class(transaction: &Transaction<'_>, pod: &mut Value) -> Result<(), Status> {
    let class = match pod["spec"]["runtimeClassName"].as_str() {
        None => Value::Null,
        Some(name) => {
            let Some(class) = transaction.state.store.get(RUNTIME_CLASSES, "", name) else {
                return Err(forbidden(PODS, pod, &format!("pod rejected: RuntimeClass \"{name}\" not found")));
            };
            class.to_value()
        }
    };
    add_overhead(&class["overhead"]["podFixed"], pod)?;
    add_node_selector(&class["scheduling"]["nodeSelector"], pod)?;
    add_tolerations(&class["scheduling"]["tolerations"], pod);
    Ok(())
}

fn add_overhead(overhead: &Value, pod: &mut Value) -> Result<(), Status> {
    let own = amounts(&pod["spec"]["overhead"]);
    if !overhead.is_object() {
        return if own.is_empty() {
            Ok(())
        } else {
            let because = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
            Err(forbidden(PODS, pod, because))
        };
    }
    if pod["spec"]["overhead"].is_object() && own != amounts(overhead) {
        let because = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
        return Err(forbidden(PODS, pod, because));
    }
    pod["spec"]["overhead"] = overhead.clone();
    Ok(())
}

fn add_node_selector(selector: &Value, pod: &mut Value) -> Result<(), Status> {
    for (key, value) in selector.as_object().into_iter().flatten() {
        let own = &pod["spec"]["nodeSelector"][key.as_str()];
        if let Some(own) = own.as_str().filter(|own| Some(*own) != value.as_str()) {
            let because = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {own}",
                value.as_str().unwrap_or_default()
            );
            return Err(forbidden(PODS, pod, &because));
        }
    }
    for (key, value) in selector.as_object().into_iter().flatten() {
        pod["spec"]["nodeSelector"][key.as_str()] = value.clone();
    }
    Ok(())
}

/// Adds the tolerations of the class that the pod does not have.
fn add_tolerations(tolerations: &Value, pod: &mut Value) {
    for toleration in tolerations.as_array().into_iter().flatten() {
        let own = &mut pod["spec"]["tolerations"];
        if !own.is_array() {
            *own = json!([]);
        }
        if let Some(own) = own.as_array_mut().filter(|own| !own.contains(toleration)) {
            own.push(toleration.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_class_and_a_pod_say_goes_together_or_is_refused() {
        let class = json!({ "zone": "a" });
        let pod = |spec: Value| json!({ "metadata": { "name": "web" }, "spec": spec });
        let mut same = pod(json!({ "nodeSelector": { "zone": "a", "disk": "ssd" } }));
        assert!(add_node_selector(&class, &mut same).is_ok());
        let refused = add_node_selector(&class, &mut pod(json!({ "nodeSelector": { "zone": "b" } }))).unwrap_err();
        assert!(refused.message.ends_with("nodeSelector[zone] = a; pod.spec.nodeSelector[zone] = b"), "{refused}");

        let overhead = json!({ "cpu": "250m" });
        let mut equal = pod(json!({ "overhead": { "cpu": "0.25" } }));
        assert!(add_overhead(&overhead, &mut equal).is_ok());
        assert_eq!(equal["spec"]["overhead"], overhead);
        for (overhead, own, wanted) in [
            (&overhead, json!({ "cpu": "1" }), "doesn't match"),
            (&Value::Null, json!({ "cpu": "1" }), "without corresponding"),
        ] {
            let refused = add_overhead(overhead, &mut pod(json!({ "overhead": own }))).unwrap_err();
            assert!(refused.message.contains(wanted), "{refused}");
        }

        let toleration = json!({ "key": "sandboxed", "operator": "Exists" });
        let mut twice = pod(json!({ "tolerations": [toleration] }));
        add_tolerations(&json!([toleration, { "key": "other" }]), &mut twice);
        assert_eq!(twice["spec"]["tolerations"], json!([toleration, { "key": "other" }]));
    }
}
