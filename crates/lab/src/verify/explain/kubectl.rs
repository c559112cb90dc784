//! The commands of kubectl that change pods: by the template of what makes them, or a pod itself where Kubernetes lets it.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use serde_json::{Value, json};

use super::edit::{Edit, Topology};
use super::slip;
use crate::verify::view::{Owner, PodView};

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

/// The command that makes a change of pods; none where there is none, or where it would only concern pods to come.
pub(super) fn edited(edit: &Edit, pod: &PodView<'_>) -> Option<String> {
    let (spec, is_template) = spec_of(pod)?;
    // Of a pod that is there, tolerations can be added and gates removed, and little else.
    if !is_template && !matches!(edit, Edit::Tolerate(_) | Edit::DropGates(_)) {
        return None;
    }
    let (option, patch) = match change(edit, spec)? {
        Change::Merged(change) => ("", within(is_template, change)),
        Change::Listed(operations) => (" --type json", at(is_template, operations)),
    };
    Some(format!("kubectl{} patch {}{option} -p '{patch}'", in_namespace(pod.namespace), object(pod)))
}

/// The command that opens what makes a pod in an editor; none where pods are made by hand.
pub(super) fn edit_by_hand(pod: &PodView<'_>) -> Option<String> {
    let (_, is_template) = spec_of(pod)?;
    is_template.then(|| format!("kubectl{} edit {}", in_namespace(pod.namespace), object(pod)))
}

/// What is patched: the pod's own spec, or that of the template from which its controller makes it anew.
fn spec_of<'a>(pod: &PodView<'a>) -> Option<(&'a PodSpec, bool)> {
    let template = match pod.owner {
        Owner::None => return Some((pod.pod.spec.as_ref()?, false)),
        Owner::Deployment(owner) => &owner.spec.as_ref()?.template,
        Owner::StatefulSet(owner) => &owner.spec.as_ref()?.template,
        Owner::DaemonSet(owner) => &owner.spec.as_ref()?.template,
        // Templates of Jobs cannot be changed, those of ReplicaSets make no new pods, others are unknown.
        Owner::ReplicaSet(_) | Owner::Job(_) | Owner::Other(_) => return None,
    };
    // A template without a spec is one that was not read.
    Some((template.spec.as_ref().or(pod.pod.spec.as_ref())?, true))
}

/// What a patch says of a pod's spec.
enum Change {
    /// A strategic merge.
    Merged(Value),
    /// Operations of a JSON patch, by their paths in the spec.
    Listed(Vec<(&'static str, String, Option<Value>)>),
}

fn within(is_template: bool, spec: Value) -> Value {
    if is_template { json!({ "spec": { "template": { "spec": spec } } }) } else { json!({ "spec": spec }) }
}

fn at(is_template: bool, operations: Vec<(&str, String, Option<Value>)>) -> Value {
    let root = if is_template { "/spec/template/spec" } else { "/spec" };
    let operation = |(verb, path, value): (&str, String, Option<Value>)| {
        let mut operation = json!({ "op": verb, "path": format!("{root}{path}") });
        if let Some(value) = value {
            operation["value"] = value;
        }
        operation
    };
    operations.into_iter().map(operation).collect()
}

fn change(edit: &Edit, spec: &PodSpec) -> Option<Change> {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    Some(match edit {
        Edit::Tolerate(taints) => {
            // The list is replaced as a whole, without what looks like a slip of the pen.
            let mut changed = Pod { spec: Some(spec.clone()), ..Pod::default() };
            if let Some(slip) = slip::of_tolerations(Some(spec), taints).cloned()
                && let Some(list) = changed.spec.as_mut().and_then(|spec| spec.tolerations.as_mut())
            {
                list.retain(|toleration| *toleration != slip);
            }
            edit.apply_to_pod(&mut changed);
            Change::Merged(json!({ "tolerations": changed.spec?.tolerations? }))
        }
        Edit::Require { key, value } | Edit::ChangeSelector { key, to: value, .. } => {
            Change::Merged(json!({ "nodeSelector": { key: value } }))
        }
        Edit::DropSelector(key) => Change::Merged(json!({ "nodeSelector": { key: null } })),
        Edit::DropNodeAffinity => Change::Merged(json!({ "affinity": { "nodeAffinity": { required: null } } })),
        Edit::DropGates(_) => Change::Merged(json!({ "schedulingGates": null })),
        Edit::RelaxSpread { constraint, to, .. } => {
            spec.topology_spread_constraints.as_ref()?.get(*constraint)?;
            let path = format!("/topologySpreadConstraints/{constraint}/maxSkew");
            Change::Listed(vec![("replace", path, Some(json!(to)))])
        }
        Edit::ChangeTopologyKey { rule, to, .. } => {
            let path = match rule {
                Topology::Spread(at) => format!("/topologySpreadConstraints/{at}/topologyKey"),
                Topology::Affinity(at) => format!("/affinity/podAffinity/{required}/{at}/topologyKey"),
            };
            Change::Listed(vec![("replace", path, Some(json!(to)))])
        }
        Edit::DropPodAffinity(term) => {
            Change::Listed(vec![("remove", format!("/affinity/podAffinity/{required}/{term}"), None)])
        }
        Edit::DropPodAntiAffinity(term) => {
            Change::Listed(vec![("remove", format!("/affinity/podAntiAffinity/{required}/{term}"), None)])
        }
        Edit::DropHostPort(port) => {
            let init = spec.init_containers.as_deref().unwrap_or_default();
            let paths = host_ports("/containers", &spec.containers, *port)
                .chain(host_ports("/initContainers", init, *port))
                .map(|path| ("remove", path, None));
            Change::Listed(paths.collect())
        }
        _ => return None,
    })
}

/// Where containers name a host port.
fn host_ports<'s>(list: &'s str, containers: &'s [Container], port: i32) -> impl Iterator<Item = String> + 's {
    containers.iter().enumerate().flat_map(move |(container, of)| {
        let ports = of.ports.iter().flatten().enumerate().filter(move |(_, declared)| declared.host_port == Some(port));
        ports.map(move |(number, _)| format!("{list}/{container}/ports/{number}/hostPort"))
    })
}
