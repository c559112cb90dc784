//! The commands of kubectl that change pods: by the template of what makes them, or a pod itself where Kubernetes lets it.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use serde_json::{Value, json};

use super::edit::{Edit, Topology};
use super::restore::Drift;
use super::slip;
use crate::verify::view::{Owner, PodView};

/// The object to edit, as kubectl takes it: `deployment/web`.
pub(super) fn object(pod: &PodView<'_>) -> String {
    match pod.owner {
        Owner::None => format!("pod/{}", pod.name),
        owner => named(owner),
    }
}

/// An owner as kubectl takes it.
pub(super) fn named(owner: Owner<'_>) -> String {
    format!("{}/{}", owner.kind().to_lowercase(), owner.name())
}

/// What an owner makes its pods from.
pub(super) fn template(owner: Owner<'_>) -> Option<&PodSpec> {
    match owner {
        Owner::Deployment(owner) => owner.spec.as_ref()?.template.spec.as_ref(),
        Owner::StatefulSet(owner) => owner.spec.as_ref()?.template.spec.as_ref(),
        Owner::DaemonSet(owner) => owner.spec.as_ref()?.template.spec.as_ref(),
        Owner::ReplicaSet(owner) => owner.spec.as_ref()?.template.as_ref()?.spec.as_ref(),
        Owner::Job(owner) => owner.spec.as_ref()?.template.spec.as_ref(),
        Owner::None | Owner::Other(_) => None,
    }
}

/// The command that changes what an owner makes its pods from, by a strategic merge; none of a Job, whose template is fixed.
pub(super) fn patched(owner: Owner<'_>, namespace: &str, spec: &Value) -> Option<String> {
    let changes =
        matches!(owner, Owner::Deployment(_) | Owner::StatefulSet(_) | Owner::DaemonSet(_) | Owner::ReplicaSet(_));
    let patch = within(true, spec.clone());
    changes.then(|| format!("kubectl{} patch {} -p {}", in_namespace(namespace), named(owner), quoted(&patch)))
}

/// The command that gives the pods of an owner what the lab says.
pub(super) fn restored(owner: Owner<'_>, namespace: &str, drift: &Drift) -> Option<String> {
    let changes = matches!(owner, Owner::Deployment(_) | Owner::StatefulSet(_) | Owner::DaemonSet(_));
    let patch = at(true, drift.operations());
    let object = named(owner);
    changes.then(|| format!("kubectl{} patch {object} --type json -p {}", in_namespace(namespace), quoted(&patch)))
}

/// The command after which a rollout removes old pods before it makes new ones, this many at once; none where it cannot.
pub(super) fn old_first(owner: Owner<'_>, namespace: &str, unavailable: i64) -> Option<String> {
    let field = match owner {
        Owner::Deployment(_) => "strategy",
        Owner::DaemonSet(_) => "updateStrategy",
        _ => return None,
    };
    let rolling = json!({ "rollingUpdate": { "maxSurge": 0, "maxUnavailable": unavailable } });
    let patch = json!({ "spec": { field: rolling } });
    Some(format!("kubectl{} patch {} -p {}", in_namespace(namespace), named(owner), quoted(&patch)))
}

/// JSON as a shell takes it as one word.
pub(super) fn quoted(value: &Value) -> String {
    format!("'{}'", value.to_string().replace('\'', r"'\''"))
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
    Some(format!("kubectl{} patch {}{option} -p {}", in_namespace(pod.namespace), object(pod), quoted(&patch)))
}

/// The command that opens what makes a pod in an editor; none where pods are made by hand.
pub(super) fn edit_by_hand(pod: &PodView<'_>) -> Option<String> {
    let (_, is_template) = spec_of(pod)?;
    is_template.then(|| format!("kubectl{} edit {}", in_namespace(pod.namespace), object(pod)))
}

/// What is patched: the pod's own spec, or that of the template from which its controller makes it anew.
pub(super) fn spec_of<'a>(pod: &PodView<'a>) -> Option<(&'a PodSpec, bool)> {
    match pod.owner {
        Owner::None => Some((pod.pod.spec.as_ref()?, false)),
        // A template without a spec is one that was not read.
        Owner::Deployment(_) | Owner::StatefulSet(_) | Owner::DaemonSet(_) => {
            Some((template(pod.owner).or(pod.pod.spec.as_ref())?, true))
        }
        // Templates of Jobs cannot be changed, those of ReplicaSets make no new pods, others are unknown.
        Owner::ReplicaSet(_) | Owner::Job(_) | Owner::Other(_) => None,
    }
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
        Edit::Restore(drift) => Change::Listed(drift.operations()),
        Edit::HonorTaints { constraint, .. } => {
            spread(spec, *constraint, &[("nodeTaintsPolicy", Some(json!("Honor")))])?
        }
        Edit::FewerDomains { constraint, to, .. } => spread(spec, *constraint, &[("minDomains", Some(json!(to)))])?,
        Edit::ScheduleAnyway(at) => {
            let mut fields = vec![("whenUnsatisfiable", Some(json!("ScheduleAnyway")))];
            let constraint = spec.topology_spread_constraints.as_ref()?.get(*at)?;
            fields.extend(constraint.min_domains.map(|_| ("minDomains", None)));
            spread(spec, *at, &fields)?
        }
        Edit::Prioritize { class, .. } => Change::Merged(json!({ "priorityClassName": class })),
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

/// Fields of a topology spread constraint, set or taken out.
fn spread(spec: &PodSpec, at: usize, fields: &[(&str, Option<Value>)]) -> Option<Change> {
    spec.topology_spread_constraints.as_ref()?.get(at)?;
    let operation = |(field, value): &(&str, Option<Value>)| {
        let verb = if value.is_some() { "add" } else { "remove" };
        (verb, format!("/topologySpreadConstraints/{at}/{field}"), value.clone())
    };
    Some(Change::Listed(fields.iter().map(operation).collect()))
}

/// Where containers name a host port.
fn host_ports<'s>(list: &'s str, containers: &'s [Container], port: i32) -> impl Iterator<Item = String> + 's {
    containers.iter().enumerate().flat_map(move |(container, of)| {
        let ports = of.ports.iter().flatten().enumerate().filter(move |(_, declared)| declared.host_port == Some(port));
        ports.map(move |(number, _)| format!("{list}/{container}/ports/{number}/hostPort"))
    })
}
