//! Rules about workloads: pods that could never run, and objects that would never be made.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};

use super::context::{Context, equals};
use crate::code::Code;
use crate::names::{HOST_LABEL, MANAGED_BY_LABEL, PREFIX, SIZE_LABEL};
use crate::spec::diagnostic::{Diagnostic, did_you_mean};
use crate::spec::source::Location;
use crate::spec::step::Action;
use crate::spec::workload::{BundleKind, ManifestContent, VolumeSource, Workload, WorkloadKind};
use crate::words::quoted;
use klab_scheduler::quantity::Quantity;
use klab_scheduler::selector::{Operator, Requirement};
use klab_scheduler::taint::{Taint, Toleration};

/// Node requirements that must hold, as alternatives: node selector together with each term of the required affinity.
pub(super) fn node_requirements(workload: &Workload) -> Vec<Vec<Requirement>> {
    let selector: Vec<_> = workload.node_selector.iter().map(|(key, value)| equals(key, value)).collect();
    let terms = required_terms(workload);
    if terms.is_empty() {
        return vec![selector];
    }
    terms
        .iter()
        .map(|term| {
            let expressions = term.match_expressions.iter().flatten().filter_map(requirement);
            selector.iter().cloned().chain(expressions).collect()
        })
        .collect()
}

fn required_terms(workload: &Workload) -> &[NodeSelectorTerm] {
    workload
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref())
        .map_or(&[], |required| required.node_selector_terms.as_slice())
}

fn requirement(raw: &NodeSelectorRequirement) -> Option<Requirement> {
    Some(Requirement::new(&raw.key, Operator::parse(&raw.operator)?, raw.values.clone().unwrap_or_default()))
}

pub(super) fn unsatisfiable(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for workload in &context.lab.workloads {
        if context.is_meant_to_be_pending(workload) || context.is_left_out(workload) {
            continue;
        }
        let mut selector_is_met = true;
        for (key, value) in &workload.node_selector {
            if !context.satisfies(&[equals(key, value)]) {
                selector_is_met = false;
                let message = format!("workload `{}` selects nodes that the lab does not have", workload.name);
                let diagnostic = Diagnostic::error(Code::Unsatisfiable, message)
                    .at(&value.at, format!("no pool has the label `{key}={}`", value.value));
                found.push(suggest_label(context, key, value, &value.at, diagnostic));
            }
        }
        if !selector_is_met {
            continue;
        }
        let alternatives = node_requirements(workload);
        if alternatives.iter().any(|requirements| context.satisfies(requirements)) {
            continue;
        }
        let terms = required_terms(workload);
        let message = format!("workload `{}` can run on no node of the lab", workload.name);
        let affinity_at = workload.affinity.as_ref().map(|affinity| &affinity.at);
        if terms.is_empty() {
            let at = workload.node_selector.values().next().map_or(&workload.name.at, |value| &value.at);
            let labels: Vec<_> =
                workload.node_selector.iter().map(|(key, value)| format!("{key}={}", value.value)).collect();
            found.push(
                Diagnostic::error(Code::Unsatisfiable, message)
                    .at(
                        at,
                        format!(
                            "no pool has all of {}",
                            quoted(&labels.iter().map(String::as_str).collect::<Vec<_>>())
                        ),
                    )
                    .help("every label of a node selector must be on the same node"),
            );
        } else if let Some(at) = affinity_at {
            let mut diagnostic =
                Diagnostic::error(Code::Unsatisfiable, message).at(at, "no pool satisfies the required node affinity");
            let unmet = terms.iter().flat_map(|term| term.match_expressions.iter().flatten());
            for raw in unmet {
                if let Some(requirement) = requirement(raw)
                    && !context.satisfies(std::slice::from_ref(&requirement))
                {
                    diagnostic = diagnostic.note(format!("no pool has nodes with `{requirement}`"));
                    let values = context.label_values(&raw.key);
                    if values.is_empty() {
                        if let Some(near) = did_you_mean(&raw.key, context.label_keys()) {
                            diagnostic = diagnostic.help(format!("did you mean the label `{near}`?"));
                        }
                    } else {
                        diagnostic = diagnostic.help(format!("the values of `{}` are {}", raw.key, quoted(&values)));
                    }
                }
            }
            found.push(diagnostic);
        }
    }
}

/// Adds what the author may have meant by a label that no node has.
pub(super) fn suggest_label(
    context: &Context<'_>,
    key: &str,
    value: &str,
    at: &Location,
    diagnostic: Diagnostic,
) -> Diagnostic {
    let values = context.label_values(key);
    if values.is_empty() {
        return match did_you_mean(key, context.label_keys()) {
            Some(near) => diagnostic.help(format!("did you mean the label `{near}`?")),
            None => diagnostic.help(format!("give a pool the label: `labels = {{ {key} = \"{value}\" }}`")),
        };
    }
    match did_you_mean(value, values.iter().copied()) {
        Some(near) => diagnostic.patch("did you mean", at, format!("\"{near}\"")),
        None => diagnostic.help(format!("the values of `{key}` are {}", quoted(&values))),
    }
}

/// Taints that nodes get without the lab's doing.
const TAINTS_OF_KUBERNETES: [&str; 4] =
    ["node.kubernetes.io/", "node-role.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "CriticalAddonsOnly"];

pub(super) fn unused_toleration(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let of_pools = context.nodes.iter().flat_map(|group| group.taints.iter());
    let of_steps = context.actions().filter_map(|action| match action {
        Action::Taint { taint, .. } => Some(taint),
        _ => None,
    });
    let taints: Vec<Taint> = of_pools.chain(of_steps).map(Taint::from).collect();
    for workload in &context.lab.workloads {
        for toleration in &workload.tolerations {
            let Some(key) = toleration.key.as_deref() else { continue };
            let of_kubernetes = TAINTS_OF_KUBERNETES
                .iter()
                .any(|known| key == *known || known.ends_with('/') && key.starts_with(known));
            if of_kubernetes || taints.iter().any(|taint| Toleration::from(&toleration.value).tolerates(taint)) {
                continue;
            }
            let mut diagnostic = Diagnostic::warning(
                Code::UnusedToleration,
                format!("workload `{}` tolerates a taint that no node has", workload.name),
            )
            .at(&toleration.at, "neither a pool nor a step has this taint");
            let near: Vec<String> = taints
                .iter()
                .filter(|taint| taint.key == key || did_you_mean(key, [taint.key.as_str()]).is_some())
                .map(ToString::to_string)
                .collect();
            if let Some(near) = near.first() {
                diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
            }
            found.push(diagnostic);
        }
    }
}

/// The topology keys that keep pods from nodes without them, each with its place.
fn topology_keys(workload: &Workload) -> impl Iterator<Item = (&str, &Location)> {
    let spread = workload.topology_spread.iter().filter(|one| one.value.when_unsatisfiable == "DoNotSchedule");
    let spread = spread.map(|one| (one.value.topology_key.as_str(), &one.at));
    let affinity = workload.affinity.iter().flat_map(|affinity| {
        let pods = affinity.value.pod_affinity.as_ref();
        let terms = pods.and_then(|pods| pods.required_during_scheduling_ignored_during_execution.as_ref());
        let anti = affinity.value.pod_anti_affinity.as_ref();
        let anti = anti.and_then(|pods| pods.required_during_scheduling_ignored_during_execution.as_ref());
        terms.into_iter().chain(anti).flatten().map(|term| (term.topology_key.as_str(), &affinity.at))
    });
    spread.chain(affinity)
}

pub(super) fn unknown_topology(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let keys = context.label_keys();
    for workload in &context.lab.workloads {
        if context.is_meant_to_be_pending(workload) || context.is_left_out(workload) {
            continue;
        }
        for (key, at) in topology_keys(workload) {
            if key.is_empty() || key == HOST_LABEL || keys.contains(&key) || context.is_set_by_a_step(key) {
                continue;
            }
            let message = format!("workload `{}` asks for the topology `{key}`, which no node has", workload.name);
            let diagnostic = Diagnostic::warning(Code::UnknownTopology, message)
                .at(at, format!("no pool has the label `{key}`"))
                .note("a node without the label takes no such pod, and no other pod counts there");
            // `zone` is the last part of a key, and `topology.kubernetes.io/zon` a slip in one. Among the sorted keys those of
            // `failure-domain.beta.kubernetes.io`, which Kubernetes has replaced, stand before those of `topology`.
            let last = |known: &&&str| known.rsplit('/').next() == Some(key);
            let near = keys.iter().rfind(last).copied().or_else(|| did_you_mean(key, keys.iter().copied()));
            found.push(match near {
                Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
                None => diagnostic,
            });
        }
    }
}

/// The amount of a resource in the scheduler's units that a node of this group gives to pods; none: it has no such resource.
fn offered(group: &super::context::NodeGroup<'_>, resource: &str) -> Option<i64> {
    let amount = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    match resource {
        "cpu" => Some(amount(group.allocatable.cpu_millis)),
        "memory" => Some(amount(group.allocatable.memory)),
        "ephemeral-storage" => Some(amount(group.allocatable.ephemeral_storage)),
        other => {
            let own = group.pool.resources.get(other).and_then(|amount| Quantity::parse(&amount.value.0).ok());
            let gpus = (other == "nvidia.com/gpu" && group.allocatable.gpus > 0).then_some(group.allocatable.gpus);
            own.map(Quantity::units).or(gpus.map(i64::from))
        }
    }
}

pub(super) fn no_load(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let profile = context.lab.provider.profile();
    if profile.is_embedded {
        return;
    }
    let workloads = context.lab.workloads.iter().filter_map(|workload| Some(&workload.load.as_ref()?.at));
    let actions = context.lab.steps.iter().flat_map(|step| &step.actions).filter_map(|action| match &action.value {
        Action::Set { fields, .. } if fields.load.is_some() => Some(&action.at),
        _ => None,
    });
    for at in workloads.chain(actions) {
        found.push(
            Diagnostic::warning(Code::NoLoad, format!("klab makes no load on {}", profile.title))
                .at(at, "containers use what they use")
                .help("leave a step that needs the load out there with `skip`, or let an image of your own make it"),
        );
    }
}

pub(super) fn too_large(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for workload in &context.lab.workloads {
        if context.is_meant_to_be_pending(workload) || context.is_left_out(workload) {
            continue;
        }
        let alternatives = node_requirements(workload);
        let candidates: Vec<_> = context
            .nodes
            .iter()
            .filter(|group| alternatives.iter().any(|requirements| context.group_satisfies(group, requirements)))
            .collect();
        let before = found.len();
        for (resource, request) in &workload.requests {
            let Ok(wanted) = Quantity::parse(&request.value.0) else { continue };
            let largest = candidates
                .iter()
                .filter_map(|group| offered(group, resource).map(|amount| (amount, group)))
                .max_by_key(|(amount, _)| *amount);
            let Some((amount, group)) = largest else { continue };
            if wanted.base_units(resource) <= amount {
                continue;
            }
            let whole = candidates.len() == context.nodes.len();
            let scope = if whole { "the lab" } else { "those it selects" };
            found.push(
                Diagnostic::error(Code::TooLarge, format!("workload `{}` can never fit on a node", workload.name))
                    .at(&request.at, format!("requests {} of {resource}", request.value.0))
                    .note(format!(
                        "of {scope}, nodes of pool `{}`{} have most: {} of {resource} allocatable",
                        group.pool.name,
                        group.labels.get(SIZE_LABEL).map(|size| format!(" ({size})")).unwrap_or_default(),
                        readable(resource, amount),
                    )),
            );
        }
        // Two requests that fit, each on another pool.
        let fits = |group: &&&super::context::NodeGroup<'_>| {
            workload.requests.iter().all(|(resource, request)| {
                let wanted = Quantity::parse(&request.value.0).map_or(0, |amount| amount.base_units(resource));
                offered(group, resource).is_some_and(|amount| wanted <= amount)
            })
        };
        let each_fits =
            workload.requests.keys().all(|resource| candidates.iter().any(|group| offered(group, resource).is_some()));
        if found.len() == before && each_fits && !candidates.is_empty() && !candidates.iter().any(|group| fits(&group))
        {
            let at = workload.requests.values().next().map_or(&workload.name.at, |request| &request.at);
            found.push(
                Diagnostic::error(Code::TooLarge, format!("workload `{}` can never fit on a node", workload.name))
                    .at(at, "each of its requests fits a node, but all of them fit none"),
            );
        }
    }
}

/// The workloads whose pods are put on one node by name and stay there, by that node.
fn put_on_nodes<'a>(context: &Context<'a>) -> BTreeMap<String, Vec<&'a Workload>> {
    let mut found: BTreeMap<String, Vec<&Workload>> = BTreeMap::new();
    for workload in &context.lab.workloads {
        let stays = workload.restart_policy.as_deref().is_none_or(|policy| policy == "Always");
        let is_set = !matches!(workload.kind, WorkloadKind::Job | WorkloadKind::DaemonSet);
        if let Some(node) = workload.node_name.as_ref().filter(|_| stays && is_set && !workload.deferred) {
            found.entry(node.value.to_string()).or_default().push(workload);
        }
    }
    found
}

pub(super) fn overfull_node(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for (node, workloads) in put_on_nodes(context) {
        refuse_sum(context, &node, &workloads, found);
    }
}

/// Refuses workloads of one node whose requests are together more than it has.
fn refuse_sum(context: &Context<'_>, node: &str, workloads: &[&Workload], found: &mut Vec<Diagnostic>) {
    let Some(named) = workloads.first().and_then(|workload| workload.node_name.as_ref()) else { return };
    let pools = context.pools_of(&named.value);
    let resources: std::collections::BTreeSet<&str> =
        workloads.iter().flat_map(|workload| workload.requests.keys()).map(String::as_str).collect();
    for resource in resources {
        let groups = context.nodes.iter().filter(|group| pools.contains(&group.pool.name.value.as_str()));
        let Some(room) = groups.filter_map(|group| offered(group, resource)).max() else { continue };
        let mut all = Vec::new();
        for workload in workloads {
            let Some(request) = workload.requests.get(resource) else { continue };
            let Ok(amount) = Quantity::parse(&request.value.0) else { continue };
            let copies = workload.replicas.as_ref().map_or(1, |copies| i64::from(copies.value));
            let each = amount.base_units(resource);
            all.push((*workload, (request, each, each.saturating_mul(copies))));
        }
        let sum = all.iter().fold(0_i64, |sum, (_, (.., all))| sum.saturating_add(*all));
        let fits_alone = all.iter().all(|(_, (_, each, _))| *each <= room);
        let Some((last, (request, ..))) = all.last().filter(|_| sum > room && fits_alone) else { continue };
        let names: Vec<&str> = all.iter().map(|(workload, _)| workload.name.value.as_str()).collect();
        found.push(
            Diagnostic::error(Code::OverfullNode, format!("pods on `{node}` ask for more {resource} than the node has"))
                .at(&request.at, format!("with this, {} of {resource}, and it has {}", readable(resource, sum), readable(resource, room)))
                .note(format!("its pods are those of {}", quoted(&names)))
                .note(format!(
                    "the scheduler does not choose their node: a pod of `{}` that does not fit fails, and its owner makes the next",
                    last.name
                ))
                .help("ask for less, or take `node_name` away from one of them"),
        );
    }
}

/// An amount in the scheduler's units as people write it.
fn readable(resource: &str, amount: i64) -> String {
    match resource {
        "cpu" => format!("{amount}m"),
        "memory" | "ephemeral-storage" => format!("{}Mi", amount >> 20),
        _ => amount.to_string(),
    }
}

pub(super) fn resource(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let known: Vec<&str> = ["cpu", "memory", "ephemeral-storage"]
        .into_iter()
        .chain(context.lab.pools.iter().flat_map(|pool| pool.resources.keys().map(String::as_str)))
        .chain(context.nodes.iter().any(|group| group.allocatable.gpus > 0).then_some("nvidia.com/gpu"))
        .collect();
    for workload in &context.lab.workloads {
        let pending = context.is_meant_to_be_pending(workload);
        for (what, table) in [("requests", &workload.requests), ("limits", &workload.limits)] {
            for (name, amount) in table {
                if known.contains(&name.as_str()) || name.starts_with("hugepages-") {
                    continue;
                }
                // A resource of somebody's own may be meant to be missing; a plain word is none at all.
                if name.contains('/') && pending {
                    continue;
                }
                let mut diagnostic = Diagnostic::error(
                    Code::Resource,
                    format!("workload `{}`: {what} of an unknown resource", workload.name),
                )
                .at(&amount.at, format!("no node has `{name}`"));
                diagnostic = match did_you_mean(name, known.iter().copied()) {
                    Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
                    None if name.contains('/') => {
                        diagnostic.help(format!("give a pool some: `resources = {{ \"{name}\" = 1 }}`"))
                    }
                    None => diagnostic.help(format!("the resources of this lab are {}", quoted(&known))),
                };
                found.push(diagnostic);
            }
        }
    }
}

pub(super) fn limit(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for workload in &context.lab.workloads {
        for (name, limit) in &workload.limits {
            let Some(request) = workload.requests.get(name) else { continue };
            let amounts = Quantity::parse(&request.value.0).ok().zip(Quantity::parse(&limit.value.0).ok());
            if amounts.is_some_and(|(request, limit)| limit < request) {
                found.push(
                    Diagnostic::error(
                        Code::Limit,
                        format!("workload `{}` may use less {name} than it requests", workload.name),
                    )
                    .at(&limit.at, "the limit is below the request")
                    .and_at(&request.at, "the request"),
                );
            }
        }
    }
}

pub(super) fn unknown_bundle(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let lab = context.lab;
    for workload in &lab.workloads {
        let of_variables = workload.env_from.iter().map(|bundle| (&bundle.value, &bundle.at));
        let of_mounts = workload.mounts.iter().filter_map(|(_, source)| match &source.value {
            VolumeSource::Bundle(bundle) => Some((bundle, &source.at)),
            VolumeSource::Claim(_) | VolumeSource::ClaimTemplate(_) => None,
        });
        for (reference, at) in of_variables.chain(of_mounts) {
            let table = if reference.kind == BundleKind::Config { "config" } else { "secret" };
            let of_kind = || lab.bundles.iter().filter(|bundle| bundle.kind == reference.kind);
            let bundle = of_kind().find(|bundle| *bundle.name == reference.name);
            let what = if reference.kind == BundleKind::Config { "ConfigMap" } else { "Secret" };
            let message = format!("workload `{}` uses a {what} that is not there", workload.name);
            match bundle {
                Some(bundle) if bundle.namespace == workload.namespace => {}
                Some(bundle) => found.push(
                    Diagnostic::error(Code::UnknownBundle, message)
                        .at(at, format!("it is in namespace `{}`", bundle.namespace))
                        .and_at(&bundle.name.at, format!("not in `{}`", workload.namespace)),
                ),
                // The author's own manifests may make it.
                None if !lab.manifests.is_empty() => {}
                None => {
                    let mut diagnostic = Diagnostic::error(Code::UnknownBundle, message)
                        .at(at, format!("there is no `[{table}.{}]`", reference.name));
                    if let Some(near) = did_you_mean(&reference.name, of_kind().map(|bundle| bundle.name.as_str())) {
                        diagnostic = diagnostic.patch("did you mean", at, format!("\"{table}/{near}\""));
                    }
                    found.push(diagnostic);
                }
            }
        }
    }
}

pub(super) fn reserved_label(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for workload in &context.lab.workloads {
        for (key, value) in &workload.labels {
            if key.starts_with(PREFIX) || key == MANAGED_BY_LABEL {
                found.push(
                    Diagnostic::error(Code::ReservedWorkloadLabel, format!("the label `{key}` belongs to klab"))
                        .at(&value.at, "klab finds its objects by it"),
                );
            }
        }
    }
}

pub(super) fn duplicate_object(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    // Tables of one kind cannot repeat a name; a Service can meet one of the author's own only after rendering.
    let mut seen: BTreeMap<(&str, &str), &Location> = BTreeMap::new();
    for manifest in &context.lab.manifests {
        let content = match &manifest.content {
            ManifestContent::Path(path) => ("path", path),
            ManifestContent::Yaml(yaml) => ("yaml", yaml),
        };
        if let Some(first) = seen.insert((content.0, content.1.as_str()), &content.1.at) {
            found.push(
                Diagnostic::error(Code::DuplicateObject, "the same manifest twice")
                    .at(&content.1.at, "these objects are in the lab already")
                    .and_at(first, "here"),
            );
        }
    }
}
