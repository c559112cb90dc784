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
pub(crate) fn named(owner: Owner<'_>) -> String {
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
    changes.then(|| merged(&named(owner), namespace, true, template(owner), spec.clone()))
}

/// The command that merges a change into the template from which a pod is made again; none of a pod that nothing makes.
pub(super) fn remade(pod: &PodView<'_>, change: Value) -> Option<String> {
    let (spec, is_template) = spec_of(pod)?;
    is_template.then(|| merged(&object(pod), pod.namespace, true, Some(spec), change))
}

/// The command that merges a change into what an object makes its pods from, as far as that was read, or into a pod.
fn merged(object: &str, namespace: &str, is_template: bool, spec: Option<&PodSpec>, change: Value) -> String {
    let namespace = in_namespace(namespace);
    if let Some(options) = spec.filter(|_| is_template).and_then(|spec| set_resources(spec, &change)) {
        return format!("kubectl{namespace} set resources {object}{options}");
    }
    format!("kubectl{namespace} patch {object} -p {}", quoted(&within(is_template, change)))
}

/// The options of `kubectl set resources` that make the same change of a template, where that says amounts of containers and nothing
/// else, the same for all of them or for one.
fn set_resources(template: &PodSpec, change: &Value) -> Option<String> {
    let lists = change.as_object()?;
    let mut each = Vec::new();
    for (list, containers) in lists {
        matches!(list.as_str(), "containers" | "initContainers").then_some(())?;
        for container in containers.as_array()? {
            let fields = container.as_object()?;
            (fields.len() == 2).then_some(())?;
            each.push((fields.get("name")?.as_str()?, fields.get("resources")?.as_object()?));
        }
    }
    let (name, resources) = *each.first().filter(|(_, resources)| !resources.is_empty())?;
    each.iter().all(|(_, other)| *other == resources).then_some(())?;
    let all = template.containers.len() + template.init_containers.as_ref().map_or(0, Vec::len);
    let mut options = match each.len() {
        some if some == all => String::new(),
        1 => format!(" -c {name}"),
        _ => return None,
    };
    for (field, amounts) in resources {
        // What is taken out cannot be said.
        let amount = |(name, amount): (&String, &Value)| Some(format!("{name}={}", amount.as_str()?));
        let amounts: Option<Vec<String>> = amounts.as_object()?.iter().map(amount).collect();
        options.push_str(&format!(" --{field}={}", amounts.filter(|some| !some.is_empty())?.join(",")));
    }
    Some(options)
}

/// The command that gives the pods of an owner what the lab says.
pub(super) fn restored(owner: Owner<'_>, namespace: &str, drift: &Drift) -> Option<String> {
    let changes = matches!(owner, Owner::Deployment(_) | Owner::StatefulSet(_) | Owner::DaemonSet(_));
    let live = template(owner)?;
    changes.then(|| drawn(&named(owner), namespace, live, true, restoring(drift, live)))
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

/// JSON, quoted as one word for a shell.
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
    let mut change = change(edit, spec)?;
    if let (Edit::SpreadOver { .. }, Owner::Deployment(_), Change::Merged(change)) = (edit, pod.owner, &mut change) {
        // The pods that a rollout replaces are not counted: it would end as uneven as it began.
        change["topologySpreadConstraints"][0]["matchLabelKeys"] = json!(["pod-template-hash"]);
    }
    Some(drawn(&object(pod), pod.namespace, spec, is_template, change))
}

/// The command for a change of a pod's spec, or of a template.
fn drawn(object: &str, namespace: &str, spec: &PodSpec, is_template: bool, change: Change) -> String {
    match change {
        Change::Merged(change) => merged(object, namespace, is_template, Some(spec), change),
        Change::Listed(operations) => {
            let patch = at(is_template, operations);
            format!("kubectl{} patch {object} --type json -p {}", in_namespace(namespace), quoted(&patch))
        }
    }
}

/// What restores what the lab says: amounts alone where only those differ, so that a short command can do it.
fn restoring(drift: &Drift, live: &PodSpec) -> Change {
    drift.amounts(live).map_or_else(|| Change::Listed(drift.operations()), Change::Merged)
}

/// The command that opens what makes a pod in an editor; none where pods are made by hand.
pub(super) fn edit_by_hand(pod: &PodView<'_>) -> Option<String> {
    let (_, is_template) = spec_of(pod)?;
    is_template.then(|| format!("kubectl{} edit {}", in_namespace(pod.namespace), object(pod)))
}

/// The object to patch: the pod's own spec, or the template of the controller that recreates it.
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
        Edit::Restore(drift) => restoring(drift, spec),
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
        // Lists of constraints are merged by their `topologyKey`.
        Edit::SpreadOver { key, max_skew, own } => Change::Merged(json!({ "topologySpreadConstraints": [{
            "topologyKey": key, "maxSkew": max_skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": own,
        }] })),
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
        Edit::LookInto { term, namespace } => {
            let path = format!("/affinity/podAffinity/{required}/{term}/namespaces");
            Change::Listed(vec![("add", path, Some(json!([namespace])))])
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
