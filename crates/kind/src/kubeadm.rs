//! Patches of kubeadm's configuration: what they say of a node, and which of them have no effect here.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What patches say of one node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Registration {
    /// Arguments of the kubelet.
    pub arguments: BTreeMap<String, String>,
    /// Taints; `None` where kubeadm's own stay.
    pub taints: Option<Vec<Value>>,
    /// What has no effect, a sentence each.
    pub notes: Vec<String>,
}

/// The kind of configuration that registers a node.
pub const INIT: &str = "InitConfiguration";
/// As [`INIT`], of all nodes but the first control plane.
pub const JOIN: &str = "JoinConfiguration";

/// The kubelet's arguments that klab takes over.
const READ: [&str; 3] = ["node-labels", "register-with-taints", "max-pods"];

/// What patches say of a node that is registered by a configuration of this kind and has Kubernetes 1.`minor`.
///
/// # Errors
/// When a patch is not YAML or a value has another form than kubeadm's.
pub fn registration<'a>(
    patches: impl IntoIterator<Item = &'a String>,
    kind: &str,
    minor: u32,
) -> Result<Registration, String> {
    let mut known = Registration::default();
    for patch in patches {
        let document: Value = serde_saphyr::from_str(patch)
            .map_err(|error| format!("failed to parse patches: {}", error.without_snippet()))?;
        let of = document["kind"].as_str().unwrap_or_default();
        let version = document["apiVersion"].as_str().unwrap_or_default();
        if of != kind {
            // A patch for nodes of the other kind is nothing to speak of.
            if of == "ClusterConfiguration" {
                known.notes.extend(unread(&document));
            } else if ![INIT, JOIN].contains(&of) {
                known.notes.push(format!("kubeadmConfigPatches: klab reads no {of}"));
            }
            continue;
        }
        if minor >= 36 && version == "kubeadm.k8s.io/v1beta3" {
            known.notes.push(format!("kubeadmConfigPatches: kind leaves out {version} for Kubernetes 1.{minor}"));
            continue;
        }
        let registration = &document["nodeRegistration"];
        known.arguments.extend(arguments(&registration["kubeletExtraArgs"])?);
        match &registration["taints"] {
            Value::Null => {}
            Value::Array(taints) => known.taints = Some(taints.clone()),
            _ => return Err("failed to parse patches: nodeRegistration.taints is no list".to_owned()),
        }
    }
    if let Some(text) = known.arguments.get("register-with-taints") {
        known.taints = Some(text.split(',').filter(|one| !one.is_empty()).map(taint).collect::<Result<_, _>>()?);
    }
    let others: Vec<&str> = known.arguments.keys().map(String::as_str).filter(|key| !READ.contains(key)).collect();
    if !others.is_empty() {
        known.notes.push(format!("kubeletExtraArgs: klab has no kubelet for {}", others.join(", ")));
    }
    Ok(known)
}

/// What has no effect of a configuration of the cluster: all but where the scheduler's configuration is.
fn unread(document: &Value) -> Option<String> {
    let fields =
        document.as_object()?.keys().filter(|key| !["apiVersion", "kind", "scheduler"].contains(&key.as_str()));
    let arguments = arguments(&document["scheduler"]["extraArgs"]).unwrap_or_default();
    let arguments = arguments.into_keys().filter(|key| key != "config").map(|key| format!("scheduler.extraArgs.{key}"));
    let all: Vec<String> = fields.cloned().chain(arguments).collect();
    (!all.is_empty()).then(|| format!("kubeadmConfigPatches: klab reads no {} of ClusterConfiguration", all.join(", ")))
}

/// Arguments as a map, or as v1beta4's list of names and values.
pub(crate) fn arguments(value: &Value) -> Result<BTreeMap<String, String>, String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match value {
        Value::Null => Ok(BTreeMap::new()),
        Value::Object(map) => Ok(map.iter().map(|(name, value)| (name.clone(), text(value))).collect()),
        Value::Array(list) => {
            let pair = |one: &Value| Some((one["name"].as_str()?.to_owned(), text(&one["value"])));
            list.iter()
                .map(pair)
                .collect::<Option<_>>()
                .ok_or_else(|| "failed to parse patches: kubeletExtraArgs".to_owned())
        }
        _ => Err("failed to parse patches: kubeletExtraArgs is neither a map nor a list".to_owned()),
    }
}

/// A taint as the kubelet's flags write it: `key=value:Effect`.
fn taint(text: &str) -> Result<Value, String> {
    let (key, effect) = text.rsplit_once(':').ok_or_else(|| format!("invalid taint spec: {text}"))?;
    if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
        return Err(format!("invalid taint effect: {effect}, unsupported taint effect"));
    }
    let (key, value) = key.split_once('=').unwrap_or((key, ""));
    Ok(json!({ "key": key, "value": value, "effect": effect }))
}

/// Labels as the kubelet's flag `node-labels` writes them.
///
/// # Errors
/// When one has no `=`.
pub fn labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let pair = |one: &str| {
        let (key, value) = one.split_once('=').ok_or_else(|| format!("{one} must be formatted as key=value"))?;
        Ok((key.trim().to_owned(), value.trim().to_owned()))
    };
    text.split(',').filter(|one| !one.trim().is_empty()).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(patch: &str, kind: &str) -> Result<Registration, String> {
        registration(&[patch.to_owned()], kind, 36)
    }

    #[test]
    fn both_forms_of_arguments_are_read() {
        let map =
            "kind: JoinConfiguration\nnodeRegistration: { kubeletExtraArgs: { max-pods: 30, node-labels: \"a=b\" } }";
        let list = "kind: JoinConfiguration\napiVersion: kubeadm.k8s.io/v1beta4\nnodeRegistration:\n  kubeletExtraArgs:\n  - { name: max-pods, value: \"30\" }\n  - { name: node-labels, value: a=b }";
        let (map, list) = (of(map, JOIN).unwrap(), of(list, JOIN).unwrap());
        assert_eq!(map, list);
        assert_eq!(map.arguments["max-pods"], "30");
        assert!(map.notes.is_empty());
    }

    #[test]
    fn a_flag_replaces_the_taints_beside_it() {
        let patch = "kind: InitConfiguration\nnodeRegistration:\n  taints: []\n  kubeletExtraArgs: { register-with-taints: \"a=b:NoSchedule,c:NoExecute\" }";
        let taints = of(patch, INIT).unwrap().taints.unwrap();
        assert_eq!(taints[0], json!({ "key": "a", "value": "b", "effect": "NoSchedule" }));
        assert_eq!(taints[1]["key"], "c");
        assert!(
            of(&patch.replace("NoExecute", "NoExec"), INIT).unwrap_err().starts_with("invalid taint effect: NoExec")
        );
    }

    #[test]
    fn what_has_no_effect_is_said_but_for_nodes_of_the_other_kind() {
        let join = "kind: JoinConfiguration\nnodeRegistration: { taints: [] }";
        assert_eq!(of(join, INIT).unwrap(), Registration::default());
        assert_eq!(of("kind: KubeletConfiguration", INIT).unwrap().notes.len(), 1);
        assert_eq!(of(&format!("{join}\napiVersion: kubeadm.k8s.io/v1beta3"), JOIN).unwrap().taints, None);
        assert!(of("kind: [", JOIN).unwrap_err().starts_with("failed to parse patches"));
    }

    #[test]
    fn labels_are_pairs() {
        assert_eq!(
            labels("a=b, c=").unwrap(),
            [("a", "b"), ("c", "")].map(|(key, value)| (key.into(), value.into())).into()
        );
        assert!(labels("a").is_err());
    }
}
