//! What nodes may do: what a kubelet needs, and of Secrets, ConfigMaps, claims and volumes only what pods on it use.

// upstream: plugin/pkg/auth/authorizer/node/node_authorizer.go, graph.go AddPod;
// plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go NodeRules (v1.36)

use klab_api_machinery::resource::{PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES};
use klab_api_machinery::views::{
    PersistentVolumeClaim, Pod, PodResourceClaim, PodResourceClaimStatus, PodSpec, ResourceSlice,
};
use serde_json::Value;

use super::{Attributes, ResourceSubject, Subject, User};
use crate::store::Store;

const PREFIX: &str = "system:node:";
const GROUP: &str = "system:nodes";
const LEASES: &str = "kube-node-lease";
const READ: &[&str] = &["get", "list", "watch"];
const OWN: &[&str] = &["get", "create", "update", "patch", "delete"];

/// What all nodes may do, where it is not further divided: groups, resources, verbs.
const RULES: &[(&[&str], &[&str], &[&str])] = &[
    (&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
    (&["authorization.k8s.io"], &["subjectaccessreviews", "localsubjectaccessreviews"], &["create"]),
    (&[""], &["services"], READ),
    (&["", "events.k8s.io"], &["events"], &["create", "update", "patch"]),
    (&[""], &["endpoints"], &["get"]),
    (&["certificates.k8s.io"], &["certificatesigningrequests"], &["create", "get", "list", "watch"]),
    (&["certificates.k8s.io"], &["clustertrustbundles"], READ),
    (&["storage.k8s.io"], &["csidrivers"], READ),
    (&["node.k8s.io"], &["runtimeclasses"], READ),
];

/// Whether the node that a user is may do it, or why not; `None` for users that are no nodes.
pub(crate) fn authorize_node(store: &Store, user: &User, asked: &Attributes<'_>) -> Option<Result<(), String>> {
    let node = user.name.strip_prefix(PREFIX).filter(|_| user.groups.iter().any(|group| group == GROUP))?;
    let Subject::Resource(subject) = &asked.to else { return Some(Err(String::new())) };
    Some(may(store, node, asked.verb, subject))
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn may(store: &Store, node: &str, verb: &str, asked: &ResourceSubject<'_>) -> Result<(), String> {
    let unrelated = || format!("no relationship found between node '{node}' and this object");
    let no = |because: &str| Err(because.to_owned());
    let related = |kind: Related| {
        if asked.name.is_empty() {
            return no("No Object name found");
        }
        if is_related(store, node, kind, asked) { Ok(()) } else { Err(unrelated()) }
    };
    let get = |kind: Related| {
        if verb != "get" {
            return no("can only get individual resources of this type");
        }
        if asked.subresource.is_empty() { related(kind) } else { no("cannot get subresource") }
    };
    let read = |kind: Related| {
        if !READ.contains(&verb) {
            return no("can only read resources of this type");
        }
        if !asked.subresource.is_empty() {
            return no("cannot read subresource");
        }
        if asked.namespace.is_empty() {
            return no("can only read namespaced object of this type");
        }
        related(kind)
    };
    let own = |what: &str| {
        if !OWN.contains(&verb) {
            return Err(format!("can only get, create, update, patch, or delete a {what}"));
        }
        if verb == "create" || asked.name == node {
            return Ok(());
        }
        Err(format!("can only access {what} with the same name as the requesting node"))
    };
    match (asked.group, asked.resource) {
        ("", "secrets") => read(Related::Secret),
        ("", "configmaps") => read(Related::ConfigMap),
        ("", "persistentvolumeclaims") if asked.subresource == "status" => {
            if matches!(verb, "update" | "patch") {
                related(Related::Claim)
            } else {
                no("can only get/update/patch this type")
            }
        }
        ("", "persistentvolumeclaims") => get(Related::Claim),
        ("", "persistentvolumes") => get(Related::Volume),
        ("resource.k8s.io", "resourceclaims") => get(Related::ResourceClaim),
        ("resource.k8s.io", "resourceslices") => match verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => related(Related::Slice),
            _ if asked.selects("spec.nodeName", node) => Ok(()),
            _ => no("can only list/watch/deletecollection resourceslices with nodeName field selector"),
        },
        ("", "serviceaccounts") if verb == "get" && asked.subresource.is_empty() => read(Related::Account),
        ("", "serviceaccounts") if verb != "create" || asked.name.is_empty() => {
            no("can only create tokens for individual service accounts")
        }
        ("", "serviceaccounts") if asked.subresource != "token" => {
            no("can only create token subresource of serviceaccount")
        }
        ("", "serviceaccounts") => related(Related::Account),
        ("coordination.k8s.io", "leases") if asked.namespace != LEASES => {
            Err(format!("can only access leases in the \"{LEASES}\" system namespace"))
        }
        ("coordination.k8s.io", "leases") => own("node lease"),
        ("storage.k8s.io", "csinodes") => own("CSINode"),
        ("", "nodes") => nodes(node, verb, asked),
        ("", "pods") => match (asked.subresource, verb) {
            ("", "list" | "watch") if asked.selects("spec.nodeName", node) => Ok(()),
            ("", "list" | "watch") if asked.name.is_empty() => {
                no("can only list/watch pods with spec.nodeName field selector")
            }
            // Of its own alone, as the NodeRestriction plugin has it; mirror pods are the cluster's own.
            ("", "get" | "list" | "watch" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                related(Related::Pod)
            }
            _ => no(""),
        },
        _ => {
            let name = asked.with_subresource();
            let allowed = RULES.iter().any(|(groups, resources, verbs)| {
                groups.contains(&asked.group) && resources.contains(&name.as_str()) && verbs.contains(&verb)
            });
            if allowed { Ok(()) } else { no("") }
        }
    }
}

fn nodes(node: &str, verb: &str, asked: &ResourceSubject<'_>) -> Result<(), String> {
    match (asked.subresource, verb) {
        // Of its own node alone, as the NodeRestriction plugin has it; which one is made is not known here.
        ("" | "status", "update" | "patch") | ("", "get" | "list" | "watch") if asked.name == node => Ok(()),
        ("", "get" | "list" | "watch") if asked.name.is_empty() => {
            Err(format!("node '{node}' cannot read all nodes, only its own Node object"))
        }
        ("", "get" | "list" | "watch") => {
            Err(format!("node '{node}' cannot read '{}', only its own Node object", asked.name))
        }
        _ => Err(String::new()),
    }
}

/// What pods on a node lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Related {
    Secret,
    ConfigMap,
    Claim,
    Volume,
    ResourceClaim,
    Slice,
    Account,
    Pod,
}

fn is_related(store: &Store, node: &str, kind: Related, asked: &ResourceSubject<'_>) -> bool {
    if kind == Related::Slice {
        let slice = store.get(RESOURCE_SLICES, "", asked.name);
        return slice.is_some_and(|slice| ResourceSlice(&slice.value()).spec().node_name() == Some(node));
    }
    let place = (kind != Related::Volume).then_some(asked.namespace);
    store.list(PODS, place).any(|pod| {
        let value = pod.value();
        let (spec, status) = (Pod(&value).spec(), Pod(&value).status());
        spec.node_name() == node
            && match kind {
                Related::Pod => *pod.name == *asked.name,
                Related::Account => spec.service_account_name() == asked.name,
                Related::Secret => names(spec.0, &SECRETS, asked.name),
                Related::ConfigMap => names(spec.0, &CONFIG_MAPS, asked.name),
                Related::Claim => claims(&pod.name, spec).any(|claim| claim == asked.name),
                Related::Volume => claims(&pod.name, spec).any(|claim| {
                    let claim = store.get(PERSISTENT_VOLUME_CLAIMS, &pod.namespace, &claim);
                    claim.is_some_and(|claim| PersistentVolumeClaim(&claim.value()).spec().volume_name() == asked.name)
                }),
                Related::ResourceClaim => {
                    let made = status.resource_claim_statuses().map(PodResourceClaimStatus::resource_claim_name);
                    let listed = spec.resource_claims().map(PodResourceClaim::resource_claim_name);
                    made.chain(listed).any(|claim| claim == Some(asked.name))
                        && store.get(RESOURCE_CLAIMS, asked.namespace, asked.name).is_some()
                }
                Related::Slice => false,
            }
    })
}

/// The fields that hold a reference, and the field of its name in it.
const SECRETS: [(&str, &str); 6] = [
    ("secret", "secretName"),
    ("secret", "name"),
    ("secretKeyRef", "name"),
    ("secretRef", "name"),
    ("imagePullSecrets", "name"),
    ("nodePublishSecretRef", "name"),
];
const CONFIG_MAPS: [(&str, &str); 3] = [("configMap", "name"), ("configMapKeyRef", "name"), ("configMapRef", "name")];

/// Whether a pod's spec refers to an object of this name in one of these fields.
fn names(value: &Value, fields: &[(&str, &str)], name: &str) -> bool {
    match value {
        Value::Array(list) => list.iter().any(|value| names(value, fields, name)),
        Value::Object(map) => map.iter().any(|(key, value)| {
            let here = fields.iter().filter(|(field, _)| field == key).any(|(_, inner)| match value {
                Value::Array(list) => list.iter().any(|value| value[*inner] == name),
                _ => value[*inner] == name,
            });
            here || names(value, fields, name)
        }),
        _ => false,
    }
}

/// The claims of a pod, those among them that are made for its ephemeral volumes.
fn claims<'a>(pod: &'a str, spec: PodSpec<'a>) -> impl Iterator<Item = String> + 'a {
    spec.volumes().filter_map(move |volume| match volume.persistent_volume_claim().claim_name() {
        _ if volume.ephemeral().is_set() => Some(format!("{pod}-{}", volume.name())),
        "" => None,
        name => Some(name.to_owned()),
    })
}
