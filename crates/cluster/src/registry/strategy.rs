//! What the registry does to versions of objects of some kinds, and which changes count as a new generation.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::admission::policy::type_check;
use crate::builtin;
use crate::cluster::Transaction;
use crate::defaults::Addresses;
use crate::defaults::job::{generate_selector, inherit_labels};
use crate::object::Object;
use crate::resource::PRIORITY_LEVEL_CONFIGURATIONS;
use crate::validation::Errors;
use crate::validation::service::is_asked_for_health;
use crate::value::time_text;

/// What a DaemonSet is told about its template by, for clients older than its generation.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// A namespace is labelled with its name, so that selectors can find it.
pub(super) fn label_namespace(_: Option<&Value>, new: &mut Value) {
    let name = new["metadata"]["name"].clone();
    if new["metadata"].is_object() {
        new["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
    }
}

/// Counts the versions of a DaemonSet's template in its annotation.
pub(super) fn count_template(old: Option<&Value>, new: &mut Value) {
    let generation = match old {
        None => 1,
        Some(old) => {
            let had = old["metadata"]["annotations"][TEMPLATE_GENERATION].as_str();
            let had: i64 = had.and_then(|text| text.parse().ok()).unwrap_or(1);
            had + i64::from(old["spec"]["template"] != new["spec"]["template"])
        }
    };
    if new["metadata"].is_object() {
        new["metadata"]["annotations"][TEMPLATE_GENERATION] = json!(generation.to_string());
    }
}

/// A Service that becomes one of another type loses what only the old one has, unless somebody changed that, too. What it
/// still has and nobody says stays.
// upstream: pkg/registry/core/service/strategy.go dropTypeDependentFields, patchAllocatedValues (v1.36)
pub(super) fn drop_by_type(old: Option<&Value>, new: &mut Value) {
    let Some(old) = old.map(|old| &old["spec"]) else { return };
    let spec = &mut new["spec"];
    let kind = |spec: &Value, kinds: &[&str]| spec["type"].as_str().is_some_and(|kind| kinds.contains(&kind));
    let on_nodes = |spec: &Value| kind(spec, &["NodePort", "LoadBalancer"]);
    let external = |spec: &Value| {
        let addresses = spec["externalIPs"].as_array().is_some_and(|addresses| !addresses.is_empty());
        on_nodes(spec) || (kind(spec, &["ClusterIP"]) && addresses)
    };
    let balancer = |spec: &Value| kind(spec, &["LoadBalancer"]);
    if on_nodes(old) && !on_nodes(spec) && node_ports(old) == node_ports(spec) {
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            port.as_object_mut().map(|port| port.remove("nodePort"));
        }
    }
    if is_asked_for_health(old) && is_asked_for_health(spec) && spec["healthCheckNodePort"].is_null() {
        spec["healthCheckNodePort"] = old["healthCheckNodePort"].clone();
    }
    for (field, lost) in [
        ("healthCheckNodePort", is_asked_for_health(old) && !is_asked_for_health(spec)),
        ("allocateLoadBalancerNodePorts", balancer(old) && !balancer(spec)),
        ("loadBalancerClass", balancer(old) && !balancer(spec)),
        ("externalTrafficPolicy", external(old) && !external(spec)),
    ] {
        if lost && old[field] == spec[field] {
            spec.as_object_mut().map(|spec| spec.remove(field));
        }
    }
}

/// The ports of nodes that a Service has.
fn node_ports(spec: &Value) -> BTreeSet<i64> {
    let ports = spec["ports"].as_array().into_iter().flatten();
    ports.filter_map(|port| port["nodePort"].as_i64().filter(|number| *number != 0)).collect()
}

/// A new namespace is held until what it contains is gone.
// upstream: pkg/registry/core/namespace/strategy.go PrepareForCreate (v1.36)
pub(super) fn finalize_namespace(
    _: &mut Transaction<'_>,
    replaced: Option<(&Object, &Value)>,
    new: &mut Value,
    _: &mut Errors,
) -> Option<Addresses> {
    if replaced.is_none() {
        let mut finalizers = new["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
        if !finalizers.iter().any(|finalizer| finalizer == "kubernetes") {
            finalizers.push(json!("kubernetes"));
        }
        new["spec"]["finalizers"] = json!(finalizers);
    }
    None
}

/// A new Job selects its own pods, unless it says otherwise.
pub(super) fn select_own_pods(
    _: &mut Transaction<'_>,
    replaced: Option<(&Object, &Value)>,
    new: &mut Value,
    _: &mut Errors,
) -> Option<Addresses> {
    if replaced.is_none() {
        generate_selector(new);
    }
    inherit_labels(new);
    None
}

/// The generation counts the versions of the spec.
pub(super) fn spec(old: &Value, new: &Value) -> bool {
    old["spec"] != new["spec"]
}

/// A Deployment's annotations go to its ReplicaSets, so that they count, too.
// upstream: pkg/registry/apps/deployment/strategy.go PrepareForUpdate (v1.36)
pub(super) fn spec_or_annotations(old: &Value, new: &Value) -> bool {
    let annotations = |value: &Value| {
        let annotations = value["metadata"]["annotations"].as_object();
        annotations.filter(|annotations| !annotations.is_empty()).cloned()
    };
    spec(old, new) || annotations(old) != annotations(new)
}

/// The expressions of a policy are held against the types of the kinds it is for.
pub(super) fn check_types(
    transaction: &mut Transaction<'_>,
    replaced: Option<(&Object, &Value)>,
    new: &mut Value,
    _: &mut Errors,
) -> Option<Addresses> {
    let generation = replaced
        .map_or(1, |(_, old)| old["metadata"]["generation"].as_i64().unwrap_or_default() + i64::from(spec(old, new)));
    if replaced.is_none_or(|(_, old)| spec(old, new)) {
        let state = &transaction.state;
        let of_custom = |group: &str, version: &str, plural: &str| {
            let definition = state.definitions.named(&state.store, &format!("{plural}.{group}"))?;
            let version = definition.versions.iter().find(|known| known.id.row().version == version)?;
            Some((version.id, version.declaration()?))
        };
        new["status"] = type_check::status(new, generation, &of_custom);
    }
    None
}

/// A certificate request is its sender's, and stays as it was sent.
// upstream: pkg/registry/certificates/certificates/strategy.go PrepareForCreate, PrepareForUpdate (v1.36)
pub(super) fn sign_request(
    transaction: &mut Transaction<'_>,
    replaced: Option<(&Object, &Value)>,
    new: &mut Value,
    _: &mut Errors,
) -> Option<Addresses> {
    if let Some((_, old)) = replaced {
        new["spec"] = old["spec"].clone();
    } else if let Some(user) = transaction.options.user
        && let Some(spec) = new["spec"].as_object_mut()
    {
        for field in ["username", "uid", "groups", "extra"] {
            spec.remove(field);
        }
        spec.insert("username".to_owned(), json!(user.name));
        if !user.uid.is_empty() {
            spec.insert("uid".to_owned(), json!(user.uid));
        }
        if !user.groups.is_empty() {
            spec.insert("groups".to_owned(), json!(user.groups));
        }
        if !user.extra.is_empty() {
            spec.insert("extra".to_owned(), json!(user.extra));
        }
    }
    None
}

/// Says whether the level that a flow names is there.
// upstream: staging/src/k8s.io/apiserver/pkg/util/flowcontrol/apf_controller.go syncFlowSchemaStatus (v1.36)
pub(super) fn find_level(
    transaction: &mut Transaction<'_>,
    _: Option<(&Object, &Value)>,
    new: &mut Value,
    _: &mut Errors,
) -> Option<Addresses> {
    let level = new["spec"]["priorityLevelConfiguration"]["name"].as_str().unwrap_or_default().to_owned();
    let found =
        transaction.state.store.get(PRIORITY_LEVEL_CONFIGURATIONS, "", &level).is_some() || builtin::has_level(&level);
    let (status, reason, rest) =
        if found { ("False", "Found", "and it exists") } else { ("True", "NotFound", "but there is no such object") };
    let before = new["status"]["conditions"].as_array().into_iter().flatten();
    let same = before.into_iter().any(|have| have["type"] == "Dangling" && have["status"] == status);
    if !same {
        new["status"]["conditions"] = json!([{
            "type": "Dangling", "status": status, "reason": reason, "lastTransitionTime": time_text(transaction.now),
            "message": format!("This FlowSchema references the PriorityLevelConfiguration object named \"{level}\" {rest}"),
        }]);
    }
    None
}

/// The webhooks of a configuration.
pub(super) fn webhooks(old: &Value, new: &Value) -> bool {
    old["webhooks"] != new["webhooks"]
}

/// The fields of an EndpointSlice.
pub(super) fn endpoints(old: &Value, new: &Value) -> bool {
    ["addressType", "endpoints", "ports"].iter().any(|field| old[field] != new[field])
}

/// New objects have a generation, which stays as it is.
pub(super) fn nothing(_: &Value, _: &Value) -> bool {
    false
}

/// Of kinds that CustomResourceDefinitions define, all that is neither metadata nor status.
pub(super) fn all_but_metadata_and_status(old: &Value, new: &Value) -> bool {
    let fields = |value: &Value| {
        let mut value = value.clone();
        if let Some(map) = value.as_object_mut() {
            map.retain(|name, _| !matches!(name.as_str(), "metadata" | "status"));
        }
        value
    };
    fields(old) != fields(new)
}
