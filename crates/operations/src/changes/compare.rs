//! Pure: two sets of objects compared, without what differs between any two clusters.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Taint as ApiTaint;
use serde_json::{Map, Value};

use super::change::{Change, Named, Objects, Scope};
use klab_api_machinery::node_pools::{NAMESPACE, NODE_POOLS, STATUS};
use klab_api_machinery::pool_upgrades::POOL_UPGRADES;
use klab_cluster::VERSION_ANNOTATION;
use klab_lab::names::{
    LAB_LABEL, MANAGED_BY_LABEL, MANAGER, POOL_LABEL, WORKLOAD_LABEL, is_system_namespace as system,
};
use klab_scheduler::autoscaler::TAINTS;
use klab_scheduler::taint::Taint;
use klab_scheduler::typed::Typed;

/// Annotations that controllers and tools write by themselves.
const OTHERS_ANNOTATIONS: [&str; 9] = [
    "kubectl.kubernetes.io/",
    "deployment.kubernetes.io/",
    "deprecated.daemonset.template.generation",
    "batch.kubernetes.io/",
    "pv.kubernetes.io/",
    "volume.kubernetes.io/",
    "volume.beta.kubernetes.io/",
    "kubernetes.io/",
    VERSION_ANNOTATION,
];
/// Fields that the cluster fills in, by kind (empty: of any) and path.
const OTHERS_FIELDS: [(&str, &[&str]); 9] = [
    ("", &["status"]),
    ("Service", &["spec", "clusterIP"]),
    ("Service", &["spec", "clusterIPs"]),
    ("Service", &["spec", "healthCheckNodePort"]),
    ("PersistentVolumeClaim", &["spec", "volumeName"]),
    ("Namespace", &["spec"]),
    ("ServiceAccount", &["secrets"]),
    ("Pod", &["spec", "nodeName"]),
    ("Deployment", &["spec", "template", "metadata", "creationTimestamp"]),
];
/// Labels with which a Job's controller ties its pods to it: its uid, which every cluster makes another one.
// upstream: pkg/registry/batch/job/strategy.go, generateSelector
const UIDS_OF_JOBS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
/// What the name of a pod's token volume begins with; the rest is chance.
// upstream: plugin/pkg/admission/serviceaccount/admission.go, ServiceAccountVolumeName
const TOKEN_VOLUME: &str = "kube-api-access-";
/// Where workloads keep the labels and annotations of their pods.
const TEMPLATES: [&str; 2] = ["/spec/template/metadata", "/spec/jobTemplate/spec/template/metadata"];
/// Where a template pins its pods to a node.
const PINS: [&str; 2] = ["/spec/template/spec/nodeName", "/spec/jobTemplate/spec/template/spec/nodeName"];
/// Where pods and those who make them have tolerations: one that does not say how it compares means `Equal`.
const TOLERATIONS: [&str; 3] =
    ["/spec/tolerations", "/spec/template/spec/tolerations", "/spec/jobTemplate/spec/template/spec/tolerations"];
/// ConfigMaps in which an embedded cluster keeps what its autoscaler and its upgrades did.
const OF_ITS_POOLS: [&str; 3] = [NODE_POOLS, STATUS, POOL_UPGRADES];
/// ConfigMaps in which a cluster keeps its own certificates and dates.
const OF_THE_CLUSTER: [&str; 6] = [
    "kube-root-ca.crt",
    "cluster-info",
    "extension-apiserver-authentication",
    "kube-apiserver-legacy-service-account-token-tracking",
    // Those that add-ons put into every namespace, and put back where somebody deletes them.
    "istio-ca-root-cert",
    "openshift-service-ca.crt",
];
/// Parts of `metadata` that are compared.
const METADATA: [&str; 2] = ["labels", "annotations"];

/// What differs in `found` from `wanted`, sorted by object.
pub(super) fn compare(wanted: &Objects, found: &Objects, scope: Scope) -> Vec<Change> {
    let mut changes = Vec::new();
    let wanted_nodes = nodes(wanted);
    let found_nodes = nodes(found);
    nodes_differ(&wanted_nodes, &found_nodes, scope, &autoscaled(wanted, found), &mut changes);
    let others = |objects: &Objects| -> BTreeMap<Named, Value> {
        let own = objects.iter().filter(|(name, object)| is_compared(name, object, scope));
        let essence = |(name, object): (&Named, &Value)| {
            let mut essence = essence(name, object);
            // Another provider names its nodes otherwise.
            if scope == Scope::OwnOnly {
                pin_to_pool(&mut essence, objects);
            }
            (name.clone(), essence)
        };
        own.map(essence).collect()
    };
    let (wanted, found) = (others(wanted), others(found));
    let names: BTreeSet<&Named> = wanted.keys().chain(found.keys()).collect();
    // A namespace that is new or gone says it of all that is in it.
    let of_namespace = |objects: &BTreeMap<Named, Value>, namespace: &str| {
        objects.contains_key(&Named::of_cluster("Namespace", namespace))
    };
    for name in names {
        let whole = !name.namespace.is_empty()
            && of_namespace(&wanted, &name.namespace) != of_namespace(&found, &name.namespace);
        match (wanted.get(name), found.get(name)) {
            (Some(_), None) if !whole => changes.push(Change::Gone(name.clone())),
            (None, Some(_)) if !whole => changes.push(Change::New(name.clone())),
            (Some(wanted), Some(found)) => {
                let mut at = At { object: name, changes: &mut changes };
                at.value("", Some(wanted), Some(found));
            }
            _ => {}
        }
    }
    changes
}

fn nodes(objects: &Objects) -> BTreeMap<&str, &Value> {
    objects.iter().filter(|(name, _)| name.kind == "Node").map(|(name, object)| (name.name.as_str(), object)).collect()
}

/// Nodes are compared by name, those of pools that the autoscaler changes only where both have them; on a provider that names them
/// otherwise than the twin, by their place in the pool.
fn nodes_differ(
    wanted: &BTreeMap<&str, &Value>,
    found: &BTreeMap<&str, &Value>,
    scope: Scope,
    autoscaled: &BTreeSet<String>,
    changes: &mut Vec<Change>,
) {
    let is_autoscaled = |node: &Value| pool_of(node).is_some_and(|pool| autoscaled.contains(pool));
    let (wanted_pools, found_pools) = (by_pool(wanted), by_pool(found));
    let whole = |name: &str, node: &Value, is_there: bool| {
        let pool = pool_of(node);
        let size = |pools: &BTreeMap<&str, Vec<&str>>| pool.and_then(|pool| pools.get(pool)).map_or(0, Vec::len);
        let (wanted, present) = (size(&wanted_pools), size(&found_pools));
        Change::Node { node: name.to_owned(), pool: pool.map(str::to_owned), found: is_there, wanted, present }
    };
    if scope == Scope::All {
        for (name, node) in found {
            match wanted.get(name) {
                Some(wanted) => node_differs(name, wanted, node, scope, changes),
                None if is_autoscaled(node) => {}
                None => changes.push(whole(name, node, true)),
            }
        }
        let gone = wanted.iter().filter(|(name, node)| !found.contains_key(*name) && !is_autoscaled(node));
        changes.extend(gone.map(|(name, node)| whole(name, node, false)));
        return;
    }
    for (pool, names) in found_pools {
        for (name, twin) in names.into_iter().zip(wanted_pools.get(pool).into_iter().flatten()) {
            if let (Some(wanted), Some(found)) = (wanted.get(twin), found.get(name)) {
                node_differs(name, wanted, found, scope, changes);
            }
        }
    }
}

/// The pool that a node names.
fn pool_of(node: &Value) -> Option<&str> {
    node["metadata"]["labels"][POOL_LABEL].as_str()
}

/// The names of nodes by their pools, in order.
fn by_pool<'o>(nodes: &BTreeMap<&'o str, &'o Value>) -> BTreeMap<&'o str, Vec<&'o str>> {
    let mut pools: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, node) in nodes {
        if let Some(pool) = pool_of(node) {
            pools.entry(pool).or_default().push(name);
        }
    }
    pools
}

/// Whether this is the autoscaler's ConfigMap of that name; anybody may have others that are called the same.
fn is_map(named: &Named, name: &str) -> bool {
    named.kind == "ConfigMap" && named.namespace == NAMESPACE && named.name == name
}

/// The pools of which the autoscaler decides how many nodes there are, in both.
fn autoscaled(wanted: &Objects, found: &Objects) -> BTreeSet<String> {
    let pools = |objects: &Objects| -> BTreeSet<String> {
        let map = objects.iter().find(|(name, _)| is_map(name, NODE_POOLS));
        let data = map.and_then(|(_, map)| map["data"].as_object());
        data.into_iter().flatten().map(|(pool, _)| pool.clone()).collect()
    };
    pools(wanted).intersection(&pools(found)).cloned().collect()
}

fn node_differs(name: &str, wanted: &Value, found: &Value, scope: Scope, changes: &mut Vec<Change>) {
    let labels = |node: &Value| -> BTreeMap<String, String> {
        let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
        let own = labels.filter(|(key, _)| scope == Scope::All || !key.contains('/'));
        own.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    };
    let (wanted_labels, found_labels) = (labels(wanted), labels(found));
    let keys: BTreeSet<&String> = wanted_labels.keys().chain(found_labels.keys()).collect();
    for key in keys {
        let (wanted, found) = (wanted_labels.get(key), found_labels.get(key));
        if wanted != found {
            changes.push(Change::Label {
                node: name.to_owned(),
                key: key.clone(),
                found: found.cloned(),
                wanted: wanted.cloned(),
            });
        }
    }
    let (wanted_taints, found_taints) = (taints(wanted), taints(found));
    let taint = |taint: &Taint, found| Change::Taint { node: name.to_owned(), taint: taint.clone(), found };
    changes.extend(found_taints.difference(&wanted_taints).map(|one| taint(one, true)));
    changes.extend(wanted_taints.difference(&found_taints).map(|one| taint(one, false)));
    let cordoned = |node: &Value| node["spec"]["unschedulable"] == true;
    if cordoned(found) != cordoned(wanted) {
        changes.push(Change::Cordon { node: name.to_owned(), found: cordoned(found) });
    }
}

/// The taints that people put on a node; those of its condition follow from it, and the autoscaler's come and go.
fn taints(node: &Value) -> BTreeSet<Taint> {
    let all = node["spec"]["taints"].as_array().into_iter().flatten();
    let taints = all.filter_map(|taint| ApiTaint::from_value(taint).ok()).map(|taint| Taint::from(&taint));
    taints.filter(|it| !it.key.starts_with("node.kubernetes.io/") && !TAINTS.contains(&&*it.key)).collect()
}

/// Whether an object is somebody's own doing: what controllers make follows from what made them.
fn is_compared(name: &Named, object: &Value, scope: Scope) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    if name.kind == "Node" || owners.is_some_and(|owners| owners.iter().any(|owner| owner["controller"] == true)) {
        return false;
    }
    let is_own = OF_THE_CLUSTER.contains(&name.name.as_str()) || OF_ITS_POOLS.iter().any(|map| is_map(name, map));
    if name.kind == "ConfigMap" && is_own {
        return false;
    }
    // Made for a claim, and named by chance.
    let annotations = &object["metadata"]["annotations"];
    if name.kind == "PersistentVolume" && annotations["pv.kubernetes.io/provisioned-by"].is_string() {
        return false;
    }
    match scope {
        Scope::All => true,
        Scope::OwnOnly if name.namespace.is_empty() => match name.kind.as_str() {
            "Namespace" => !system(&name.name),
            "PriorityClass" => !name.name.starts_with("system-"),
            _ => false,
        },
        Scope::OwnOnly if name.kind == "ServiceAccount" => name.name != "default" && !system(&name.namespace),
        Scope::OwnOnly => !system(&name.namespace),
    }
}

/// An object without what the cluster writes.
fn essence(name: &Named, object: &Value) -> Value {
    let mut essence = object.clone();
    let Some(map) = essence.as_object_mut() else { return essence };
    map.remove("apiVersion");
    map.remove("kind");
    if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| METADATA.contains(&key.as_str()));
    }
    without_others_annotations(&mut essence["metadata"]);
    without_own_labels(&mut essence["metadata"], name.kind == "Pod");
    for path in TEMPLATES {
        if let Some(metadata) = essence.pointer_mut(path).filter(|metadata| metadata.is_object()) {
            without_others_annotations(metadata);
        }
    }
    for (kind, path) in OTHERS_FIELDS {
        if kind.is_empty() || kind == name.kind {
            remove(&mut essence, path);
        }
    }
    for path in TOLERATIONS {
        for toleration in essence.pointer_mut(path).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(toleration) = toleration.as_object_mut() {
                toleration.entry("operator").or_insert_with(|| Value::from("Equal"));
            }
        }
    }
    if name.kind == "Service" {
        for port in essence["spec"]["ports"].as_array_mut().into_iter().flatten() {
            remove(port, &["nodePort"]);
        }
    }
    match name.kind.as_str() {
        "Pod" => without_token(&mut essence["spec"]),
        "Job" => {
            for path in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
                if let Some(labels) = essence.pointer_mut(path).and_then(Value::as_object_mut) {
                    labels.retain(|key, _| !UIDS_OF_JOBS.contains(&key.as_str()));
                }
            }
        }
        // The cluster's own token, which its controller writes.
        "Secret" if essence["type"] == "kubernetes.io/service-account-token" => remove(&mut essence, &["data"]),
        "PersistentVolume" => remove(&mut essence, &["spec", "claimRef"]),
        _ => {}
    }
    essence
}

/// Takes the volume of a pod's token out, and what mounts it.
fn without_token(spec: &mut Value) {
    let is_token = |item: &Value| item["name"].as_str().is_some_and(|name| name.starts_with(TOKEN_VOLUME));
    let drop_from = |holder: &mut Value, field: &str| {
        let Some(list) = holder.get_mut(field).and_then(Value::as_array_mut) else { return };
        list.retain(|item| !is_token(item));
        if list.is_empty() {
            remove(holder, &[field]);
        }
    };
    drop_from(spec, "volumes");
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        for container in spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            drop_from(container, "volumeMounts");
        }
    }
}

/// Takes klab's own labels out, which a file that a learner applies does not have. By a pod's label checks find it: that stays.
fn without_own_labels(metadata: &mut Value, is_pod: bool) {
    let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) else { return };
    labels.retain(|key, value| match key.as_str() {
        MANAGED_BY_LABEL => value != MANAGER,
        LAB_LABEL => false,
        WORKLOAD_LABEL => is_pod,
        _ => true,
    });
    if labels.is_empty() {
        remove(metadata, &["labels"]);
    }
}

/// Names the pool of the node that a template pins its pods to, in place of the node.
fn pin_to_pool(essence: &mut Value, objects: &Objects) {
    for path in PINS {
        let Some(pin) = essence.pointer_mut(path) else { continue };
        let node = pin.as_str().map(|name| Named::of_cluster("Node", name)).and_then(|node| objects.get(&node));
        if let Some(pool) = node.and_then(pool_of) {
            *pin = format!("pool:{pool}").into();
        }
    }
}

fn without_others_annotations(metadata: &mut Value) {
    let Some(metadata) = metadata.as_object_mut() else { return };
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !OTHERS_ANNOTATIONS.iter().any(|prefix| key.starts_with(prefix)));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

fn remove(value: &mut Value, path: &[&str]) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut at = value;
    for parent in parents {
        let Some(next) = at.get_mut(*parent) else { return };
        at = next;
    }
    if let Some(map) = at.as_object_mut() {
        map.remove(*last);
    }
}

/// The comparison of one object.
struct At<'a> {
    object: &'a Named,
    changes: &'a mut Vec<Change>,
}

impl At<'_> {
    fn value(&mut self, path: &str, wanted: Option<&Value>, found: Option<&Value>) {
        match (wanted, found) {
            (Some(wanted), Some(found)) if wanted == found => {}
            (Some(Value::Object(wanted)), Some(Value::Object(found))) => self.map(path, wanted, found),
            (Some(Value::Array(wanted)), Some(Value::Array(found))) if named(wanted) && named(found) => {
                self.list(path, wanted, found);
            }
            (Some(Value::Array(wanted)), Some(Value::Array(found))) if have_topology(wanted, found) => {
                for (at, (wanted, found)) in wanted.iter().zip(found).enumerate() {
                    self.value(&format!("{path}[{at}]"), Some(wanted), Some(found));
                }
            }
            _ => self.changes.push(Change::Field {
                object: self.object.clone(),
                path: path.to_owned(),
                found: found.cloned(),
                wanted: wanted.cloned(),
            }),
        }
    }

    fn map(&mut self, path: &str, wanted: &Map<String, Value>, found: &Map<String, Value>) {
        let keys: BTreeSet<&String> = wanted.keys().chain(found.keys()).collect();
        for key in keys {
            let below = match (path, key.contains('.')) {
                (_, true) => format!("{path}[\"{key}\"]"),
                ("", false) => key.clone(),
                (path, false) => format!("{path}.{key}"),
            };
            self.value(&below, wanted.get(key), found.get(key));
        }
    }

    /// Lists whose items have names, such as containers.
    fn list(&mut self, path: &str, wanted: &[Value], found: &[Value]) {
        let by_name = |items: &'_ [Value]| -> BTreeMap<String, Value> {
            items.iter().map(|item| (item["name"].as_str().unwrap_or_default().to_owned(), item.clone())).collect()
        };
        let (wanted, found) = (by_name(wanted), by_name(found));
        let names: BTreeSet<&String> = wanted.keys().chain(found.keys()).collect();
        for name in names {
            self.value(&format!("{path}[{name}]"), wanted.get(name), found.get(name));
        }
    }
}

fn named(items: &[Value]) -> bool {
    let names: BTreeSet<&str> = items.iter().filter_map(|item| item["name"].as_str()).collect();
    names.len() == items.len()
}

/// Whether lists are of as many rules about domains of nodes, which have no names: those at the same place are compared.
fn have_topology(wanted: &[Value], found: &[Value]) -> bool {
    let is_rule = |item: &Value| item["topologyKey"].is_string() || item["podAffinityTerm"]["topologyKey"].is_string();
    wanted.len() == found.len() && wanted.iter().chain(found).all(is_rule)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn objects(all: &[Value]) -> Objects {
        all.iter().map(|object| (Named::of(object), object.clone())).collect()
    }

    fn words(wanted: &[Value], found: &[Value]) -> Vec<String> {
        let changes = compare(&objects(wanted), &objects(found), Scope::All);
        changes.iter().map(|change| format!("{}: {}", change.object().label(), change.words())).collect()
    }

    fn deployment(replicas: u32, selector: &Value) -> Value {
        json!({
            "kind": "Deployment",
            "metadata": { "name": "web", "namespace": "default", "uid": replicas.to_string() },
            "spec": { "replicas": replicas, "template": { "spec": { "nodeSelector": selector, "containers": [
                { "name": "web", "image": format!("nginx:{replicas}") },
            ] } } },
            "status": { "replicas": replicas },
        })
    }

    fn node(taints: &Value, labels: &Value, cordoned: bool) -> Value {
        json!({
            "kind": "Node", "metadata": { "name": "a", "labels": labels },
            "spec": { "taints": taints, "unschedulable": cordoned },
        })
    }

    #[test]
    fn what_the_cluster_writes_is_no_difference() {
        let mut other = deployment(2, &json!({ "disk": "ssd" }));
        other["metadata"]["uid"] = json!("other");
        other["metadata"]["annotations"] = json!({ "deployment.kubernetes.io/revision": "3" });
        other["status"] = json!({ "replicas": 7 });
        assert_eq!(words(&[deployment(2, &json!({ "disk": "ssd" }))], &[other]), [""; 0]);
    }

    #[test]
    fn a_toleration_that_does_not_say_how_it_compares_means_equal() {
        let tolerating = |toleration: Value| {
            let mut object = deployment(2, &json!({}));
            object["spec"]["template"]["spec"]["tolerations"] = json!([toleration]);
            object
        };
        let said = tolerating(json!({ "key": "a", "operator": "Equal", "value": "b" }));
        let unsaid = tolerating(json!({ "key": "a", "value": "b" }));
        assert_eq!(words(std::slice::from_ref(&said), &[unsaid]), [""; 0]);
        assert_eq!(words(&[said], &[tolerating(json!({ "key": "a", "operator": "Exists" }))]).len(), 1);
    }

    #[test]
    fn fields_are_named_by_their_path() {
        let (wanted, found) =
            (deployment(2, &json!({ "disk": "ssd" })), deployment(3, &json!({ "disk": "sdd", "k.io/x": "y" })));
        assert_eq!(
            words(&[wanted], &[found]),
            [
                "deployment/web: spec.replicas is 3, the lab has 2",
                "deployment/web: spec.template.spec.containers[web].image is \"nginx:3\", the lab has \"nginx:2\"",
                "deployment/web: spec.template.spec.nodeSelector.disk is \"sdd\", the lab has \"ssd\"",
                "deployment/web: spec.template.spec.nodeSelector[\"k.io/x\"] is \"y\", the lab has nothing",
            ]
        );
    }

    #[test]
    fn rules_about_domains_of_nodes_are_compared_one_by_one() {
        let spread = |key: &str| {
            let mut object = deployment(2, &json!({}));
            let rule = |key: &str| json!({ "topologyKey": key, "maxSkew": 1 });
            object["spec"]["template"]["spec"]["topologySpreadConstraints"] = json!([rule("a"), rule(key)]);
            object
        };
        assert_eq!(
            words(&[spread("topology.kubernetes.io/zone")], &[spread("topology.kubernetes.io/zones")]),
            [
                "deployment/web: spec.template.spec.topologySpreadConstraints[1].topologyKey is \"topology.kubernetes.io/zones\", \
              the lab has \"topology.kubernetes.io/zone\""
            ]
        );
    }

    #[test]
    fn objects_are_new_or_gone_and_a_namespace_stands_for_what_is_in_it() {
        let pod = |name: &str, namespace: &str| json!({ "kind": "Pod", "metadata": { "name": name, "namespace": namespace } });
        let space = json!({ "kind": "Namespace", "metadata": { "name": "mine" } });
        let mut owned = pod("owned", "default");
        owned["metadata"]["ownerReferences"] = json!([{ "controller": true }]);
        assert_eq!(
            words(&[pod("old", "kube-system")], &[pod("new", "default"), owned, space, pod("in-it", "mine")]),
            ["namespace/mine: is not in the lab", "pod/new: is not in the lab", "pod/old in kube-system: is gone",]
        );
    }

    #[test]
    fn nodes_differ_in_labels_taints_and_cordons() {
        let taint = |key: &str| json!({ "key": key, "value": "special", "effect": "NoSchedule" });
        let by_condition = json!({ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" });
        let wanted = node(&json!([taint("dedicated")]), &json!({ "disk": "ssd", "gone": "1" }), false);
        let found = node(&json!([taint("dedicatd"), by_condition]), &json!({ "disk": "hdd", "new": "1" }), true);
        assert_eq!(
            words(&[wanted], &[found]),
            [
                "node/a: label disk is hdd, the lab has ssd",
                "node/a: label gone=1 is missing",
                "node/a: label new=1 is not in the lab",
                "node/a: taint dedicatd=special:NoSchedule is not in the lab",
                "node/a: taint dedicated=special:NoSchedule is missing",
                "node/a: is cordoned, and is not in the lab",
            ]
        );
    }

    #[test]
    fn how_many_nodes_an_autoscaled_pool_has_is_no_difference() {
        let node = |name: &str, pool: &str| {
            let taints =
                json!([{ "key": "DeletionCandidateOfClusterAutoscaler", "value": "1", "effect": "PreferNoSchedule" }]);
            json!({
                "kind": "Node", "metadata": { "name": name, "labels": { "agentpool": pool } }, "spec": { "taints": taints },
            })
        };
        let pools = |names: &[&str]| {
            let data: BTreeMap<&str, &str> = names.iter().map(|name| (*name, "{}")).collect();
            json!({
                "kind": "ConfigMap", "metadata": { "name": NODE_POOLS, "namespace": "kube-system" }, "data": data,
            })
        };
        let (lab, cluster) = (pools(&["burst", "taken"]), pools(&["burst", "added"]));
        let wanted = [lab, node("a", "burst"), node("b", "taken")];
        let found = [cluster, node("c", "burst"), node("d", "added")];
        assert_eq!(words(&wanted, &found), ["node/d: is not in the lab", "node/b: is gone"]);
        let elsewhere = |mut map: Value| {
            map["metadata"]["namespace"] = json!("default");
            map
        };
        // It stands before the one of kube-system.
        let (mut wanted, mut found) = (wanted.to_vec(), found.to_vec());
        wanted.push(elsewhere(pools(&["taken", "added"])));
        found.push(elsewhere(pools(&["taken", "added"])));
        assert_eq!(words(&wanted, &found), ["node/d: is not in the lab", "node/b: is gone"]);
        found.pop();
        assert!(words(&wanted, &found).contains(&"configmap/cluster-autoscaler-node-pools: is gone".to_owned()));
    }

    #[test]
    fn what_is_in_a_secret_is_not_printed() {
        let secret =
            |value: &str| json!({ "kind": "Secret", "metadata": { "name": "s" }, "data": { "password": value } });
        let said = words(&[secret("b25l")], &[secret("dHdv")]);
        assert_eq!(said, ["secret/s: data.password is another value, the lab has another value"]);
    }
}
