//! The static pod of kube-scheduler: which configuration its arguments name, and what the node has there.

use klab_scheduler::Profiles;
use serde_json::Value;

use super::files::{Files, Found};
use crate::scheduler::moved;

/// The component.
pub(super) const NAME: &str = "kube-scheduler";

/// The `KubeSchedulerConfiguration` of a manifest of kube-scheduler; `None` where it has none. `kubeadm` is the manifest as kubeadm
/// writes it.
///
/// # Errors
/// Where it differs from kubeadm's in more than `--config` and how that file comes into the container, and where kube-scheduler
/// would end.
pub(super) fn configuration(pod: &Value, kubeadm: &Value, files: &Files) -> Result<Option<Value>, String> {
    let mut plain = pod.clone();
    let Some(flag) = take_config(&mut plain) else {
        return if *pod == *kubeadm { Ok(None) } else { Err(other_arguments()) };
    };
    let paths = take_paths(&mut plain);
    if plain != *kubeadm {
        return Err(other_arguments());
    }
    let place = paths.iter().find_map(|(mount, host)| moved(&flag, mount, host));
    let Some(place) = place else {
        return Err(format!("kube-scheduler finds no file {flag}: no hostPath volume is there"));
    };
    let Found::File(text) = files.find(&place) else { return Err(format!("kube-scheduler finds no file {flag}")) };
    let read: Value = serde_saphyr::from_str(text)
        .map_err(|error| format!("kube-scheduler cannot read {flag}: {}", error.without_snippet()))?;
    Profiles::from_configuration(&read).map_err(|why| format!("kube-scheduler would end: {why}"))?;
    Ok(Some(read))
}

fn other_arguments() -> String {
    format!("{NAME} of an embedded cluster has kubeadm's arguments, and `--config` beside them")
}

/// Takes `--config` out of the command.
fn take_config(pod: &mut Value) -> Option<String> {
    let command = pod.pointer_mut("/spec/containers/0/command")?.as_array_mut()?;
    let flag = |word: &Value| word.as_str()?.strip_prefix("--config=").map(str::to_owned);
    let at = command.iter().rposition(|word| flag(word).is_some())?;
    flag(&command.remove(at))
}

/// Takes the volumes out of a pod: where the folders and files of the node are in its container.
fn take_paths(pod: &mut Value) -> Vec<(String, String)> {
    let mut take = |path: &str, key: &str| {
        let taken = pod.pointer_mut(path).and_then(Value::as_object_mut).and_then(|map| map.remove(key));
        taken.and_then(|list| list.as_array().cloned()).unwrap_or_default()
    };
    let (mounts, volumes) = (take("/spec/containers/0", "volumeMounts"), take("/spec", "volumes"));
    let host = |mount: &Value| {
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"])?;
        Some((mount["mountPath"].as_str()?.to_owned(), volume["hostPath"]["path"].as_str()?.to_owned()))
    };
    mounts.iter().filter_map(host).collect()
}
