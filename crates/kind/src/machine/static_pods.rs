//! Static pods: what the kubelet makes of the files in its folder.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::files::Files;
use super::kube_scheduler;
use super::kubeadm_files::MANIFESTS;
use super::surroundings::{Effect, Place, SERVING};

/// Pods by namespace and name.
type Pods = BTreeMap<(String, String), Value>;

/// The pods that a folder's files ask for, and why others are none.
fn pods(files: &[(String, String)], node: &str) -> (Pods, Vec<String>) {
    let (mut pods, mut notes) = (Pods::new(), Vec::new());
    for (path, text) in files {
        let name = path.strip_prefix(MANIFESTS).and_then(|rest| rest.strip_prefix('/')).unwrap_or_default();
        if name.is_empty() || name.starts_with('.') || name.contains('/') {
            continue;
        }
        let mut document: Value = match serde_saphyr::from_str(text) {
            Ok(document) => document,
            Err(error) => {
                notes.push(format!("the kubelet takes no pod from {path}: {}", error.without_snippet()));
                continue;
            }
        };
        let metadata = &document["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        if document["kind"] != "Pod" || document["apiVersion"] != "v1" || name.is_empty() {
            notes.push(format!("the kubelet takes no pod from {path}: it is no v1 Pod with a name"));
            continue;
        }
        let namespace = metadata["namespace"].as_str().unwrap_or("default").to_owned();
        let name = format!("{name}-{node}");
        document["metadata"]["namespace"] = json!(namespace);
        document["metadata"]["name"] = json!(name);
        pods.insert((namespace, name), document);
    }
    (pods, notes)
}

/// A static pod as the API shows it.
fn mirror(pod: &Value, node: &str, uid: &str) -> Value {
    let hash = format!("{:016x}{:016x}", hash(pod, 1), hash(pod, 2));
    let mut mirror = pod.clone();
    let annotations = &mut mirror["metadata"]["annotations"];
    for (key, value) in [("hash", hash.as_str()), ("mirror", hash.as_str()), ("source", "file")] {
        annotations[format!("kubernetes.io/config.{key}")] = json!(value);
    }
    mirror["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": true }]);
    mirror["spec"]["nodeName"] = json!(node);
    mirror["spec"]["tolerations"] = json!([{ "effect": "NoExecute", "operator": "Exists" }]);
    mirror["spec"].as_object_mut().map(|spec| spec.remove("priority"));
    mirror
}

fn hash(pod: &Value, salt: u64) -> u64 {
    klab_scheduler::hash::fnv64_closed(&[&pod.to_string()], 0xff).wrapping_mul(salt.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// What follows when the files of a node are other ones.
///
/// # Errors
/// Where a component of the control plane would run in another way than klab's does.
pub(super) fn effects(
    place: &Place<'_>,
    kubeadm: &[(String, String)],
    before: &[(String, String)],
    after: &[(String, String)],
    files: &Files,
) -> Result<(Vec<Effect>, Vec<String>), String> {
    let ((old, _), (new, notes)) = (pods(before, place.node), pods(after, place.node));
    let (kubeadm_pods, _) = pods(kubeadm, place.node);
    // Only a control plane has any.
    let own = |key| kubeadm_pods.get(key)?["metadata"]["labels"]["component"].as_str().map(str::to_owned);
    let mut effects = Vec::new();
    for (key, pod) in &old {
        let kept = new.get(key);
        if kept == Some(pod) {
            continue;
        }
        match own(key) {
            Some(component) if kept.is_some() && component == kube_scheduler::NAME => {}
            Some(component) if kept.is_some() => {
                return Err(format!("{component} of an embedded cluster has kubeadm's arguments and no others"));
            }
            Some(component) if place.has_peers && SERVING.contains(&component.as_str()) => {
                return Err(format!(
                    "what the other control planes do without {component} of this one is not followed"
                ));
            }
            Some(component) => effects.push(Effect::Component { component, runs: false }),
            None => {}
        }
        effects.push(Effect::Remove { namespace: key.0.clone(), name: key.1.clone() });
    }
    for (key, pod) in &new {
        if old.get(key) == Some(pod) {
            continue;
        }
        if let Some(component) = own(key) {
            let kubeadm = &kubeadm_pods[key];
            if component == kube_scheduler::NAME {
                effects.push(Effect::Scheduler(kube_scheduler::configuration(pod, kubeadm, files)?));
            } else if kubeadm != pod {
                return Err(format!("{component} of an embedded cluster has kubeadm's arguments and no others"));
            }
            effects.push(Effect::Component { component, runs: true });
        }
        effects.push(Effect::Add(mirror(pod, place.node, place.uid)));
    }
    Ok((effects, notes))
}
