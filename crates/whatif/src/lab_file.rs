//! A capture as a lab: pools in place of its nodes, and its workloads as manifests, for `klab up`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use klab_lab::names::{LAB_LABEL, MANAGED_BY_LABEL, is_system_namespace};
use klab_lab::spec::VmSize;
use serde_json::{Map, Value, json};

use crate::autoscaled::bounds_of;
use crate::capture::Capture;
use crate::pool::{CONTROL_PLANE, pool_of, zone_of};
use crate::twin::completed;

/// The name of the manifests' file beside the lab file.
pub const MANIFESTS: &str = "objects.yaml";
/// Prefixes of labels and taints that others than a pool's owner set.
const RESERVED: [&str; 4] = ["kubernetes.io", "k8s.io", "azure.com", "klab.dev"];
/// The kinds that become manifests, in the order in which they are applied.
const APPLIED: [&str; 11] = [
    "Namespace",
    "PriorityClass",
    "StorageClass",
    "LimitRange",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "Pod",
    "ResourceQuota",
];

/// The first lines of a lab file.
const HEADING: &str = "\
# A twin of a cluster that `klab capture` read. `klab up` makes it; `klab whatif` on its folder tries changes.
# Containers do nothing but run. System workloads are those of klab's own cluster.
";

/// A capture as a lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabFolder {
    /// The lab file.
    pub lab: String,
    /// The manifests beside it.
    pub manifests: String,
}

/// Nodes that are alike.
struct Group<'a> {
    name: String,
    /// As the cluster has it.
    pool: String,
    nodes: Vec<&'a Value>,
    zone: Option<usize>,
}

/// The lab of a capture, under this name.
///
/// # Errors
/// When the objects cannot be written as YAML, which no capture gives cause for.
pub fn lab_folder(capture: &Capture, name: &str) -> Result<LabFolder, String> {
    let mut manifests = String::new();
    for object in APPLIED.iter().flat_map(|kind| capture.values(kind)).filter(is_applied) {
        let yaml = serde_saphyr::to_string(&manifest(object)).map_err(|error| error.to_string())?;
        manifests.push_str(&format!("---\n{}\n", yaml.trim_end()));
    }
    Ok(LabFolder { lab: lab(capture, name, manifests.is_empty()), manifests })
}

fn lab(capture: &Capture, name: &str, without_objects: bool) -> String {
    let nodes: Vec<Value> = capture.values("Node").collect();
    let is_aks = nodes.iter().any(|node| node["metadata"]["labels"]["kubernetes.azure.com/agentpool"].is_string());
    let mut lab = HEADING.to_owned();
    for words in capture.gap_words() {
        let _ = writeln!(lab, "# Note: {words}.");
    }
    let _ = write!(lab, "lab = {}\nprovider = \"sim\"\n", json!(name));
    if !is_aks {
        lab.push_str("\n[sim]\nlike = \"kind\"\n");
    }
    let mut groups = groups(&nodes);
    // The first is a system pool. Where none says that it is one, the system's own pods need nodes without taints.
    let is_system = |group: &Group<'_>| {
        group.nodes.iter().any(|node| node["metadata"]["labels"]["kubernetes.azure.com/mode"] == "system")
    };
    let is_tainted = |group: &Group<'_>| group.nodes.iter().any(|node| !own_taints(node).is_empty());
    groups.sort_by_key(|group| (!is_system(group), is_tainted(group)));
    for (number, group) in groups.iter().enumerate() {
        let mode = if number == 0 || is_system(group) { "system" } else { "user" };
        let _ = write!(lab, "\n[pool.{}]\nmode = \"{mode}\"\nnodes = {}\n", group.name, group.nodes.len());
        pool(&mut lab, group);
        // The bounds are those of a whole pool.
        let parts = groups.iter().filter(|other| other.pool == group.pool).count();
        let bounds = group.nodes.first().and_then(|node| bounds_of(node)).filter(|_| parts == 1);
        let count = group.nodes.len() as u64;
        if let Some((min, max)) = bounds.filter(|(min, max)| is_aks && (*min..=*max).contains(&count)) {
            let _ = writeln!(lab, "autoscale = {{ min = {min}, max = {max} }}");
        }
    }
    if !without_objects {
        let _ = write!(lab, "\n[[manifest]]\npath = \"{MANIFESTS}\"\n");
    }
    lab
}

/// The keys of a pool.
fn pool(lab: &mut String, group: &Group<'_>) {
    let Some(node) = group.nodes.first() else { return };
    let names: Vec<&str> = group.nodes.iter().filter_map(|node| node["metadata"]["name"].as_str()).collect();
    let size = node["metadata"]["labels"]["node.kubernetes.io/instance-type"].as_str().and_then(VmSize::find);
    let allocatable = &node["status"]["allocatable"];
    match size {
        Some(size) => {
            let _ = writeln!(lab, "size = {}", json!(size.name));
        }
        None => {
            let _ = write!(lab, "cpu = {}\nmemory = {}\n", allocatable["cpu"], allocatable["memory"]);
        }
    }
    if let Some(pods) = allocatable["pods"].as_str().and_then(|pods| pods.parse::<u32>().ok()) {
        let _ = writeln!(lab, "max_pods = {}", pods.clamp(30, 250));
    }
    let _ = writeln!(lab, "names = {}", json!(names));
    if let Some(zone) = group.zone {
        let _ = writeln!(lab, "zones = [{zone}]");
    }
    let own = own_labels(node, &names);
    if !own.is_empty() {
        let pairs: Vec<String> = own.iter().map(|(key, value)| format!("{} = {}", json!(key), json!(value))).collect();
        let _ = writeln!(lab, "labels = {{ {} }}", pairs.join(", "));
    }
    let taints = own_taints(node);
    if !taints.is_empty() {
        let _ = writeln!(lab, "taints = {}", json!(taints));
    }
}

/// The nodes by pool, and within a pool those that are alike together.
fn groups(nodes: &[Value]) -> Vec<Group<'_>> {
    let zones: BTreeSet<&str> = nodes.iter().filter_map(zone_of).collect();
    // klab has three zones, as Azure.
    let zone = |node: &Value| {
        zone_of(node).and_then(|zone| zones.iter().position(|other| *other == zone)).filter(|at| *at < 3)
    };
    let mut alike: BTreeMap<(String, String), Vec<&Value>> = BTreeMap::new();
    for node in nodes.iter().filter(|node| pool_of(node) != CONTROL_PLANE) {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let allocatable = &node["status"]["allocatable"];
        let shape = json!([
            allocatable["cpu"],
            allocatable["memory"],
            allocatable["pods"],
            own_labels(node, &[name]),
            own_taints(node),
            zone(node)
        ]);
        alike.entry((pool_of(node), shape.to_string())).or_default().push(node);
    }
    let mut taken = BTreeSet::new();
    alike
        .into_iter()
        .map(|((pool, _), nodes)| {
            let name = free_name(&pool, &mut taken);
            let zone = nodes.first().and_then(|node| zone(node)).map(|at| at + 1);
            Group { name, pool, nodes, zone }
        })
        .collect()
}

/// A pool's name as klab takes it, that no other has.
fn free_name(pool: &str, taken: &mut BTreeSet<String>) -> String {
    let letters = pool.to_lowercase();
    let mut base: String = letters.chars().filter(char::is_ascii_alphanumeric).take(9).collect();
    if !base.starts_with(|first: char| first.is_ascii_lowercase()) {
        base = format!("p{}", base.chars().take(8).collect::<String>());
    }
    let numbered = (2..).map(|number| format!("{base}{number}"));
    let name = std::iter::once(base.clone()).chain(numbered).find(|name| !taken.contains(name)).unwrap_or_default();
    taken.insert(name.clone());
    name
}

fn is_reserved(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    key == "agentpool"
        || RESERVED.iter().any(|reserved| prefix == *reserved || prefix.ends_with(&format!(".{reserved}")))
}

/// The labels that a pool gives its nodes; not those of one node alone, whose value is its name.
fn own_labels(node: &Value, names: &[&str]) -> BTreeMap<String, String> {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let own = labels.filter_map(|(key, value)| Some((key, value.as_str()?)));
    own.filter(|(key, value)| !is_reserved(key) && !value.is_empty() && !names.contains(value))
        .map(|(key, value)| (key.clone(), value.to_owned()))
        .collect()
}

fn own_taints(node: &Value) -> Vec<String> {
    let text = |taint: &Value, field: &str| taint[field].as_str().unwrap_or_default().to_owned();
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    taints
        .filter(|taint| !is_reserved(&text(taint, "key")))
        .map(|taint| match text(taint, "value").as_str() {
            "" => format!("{}:{}", text(taint, "key"), text(taint, "effect")),
            value => format!("{}={value}:{}", text(taint, "key"), text(taint, "effect")),
        })
        .collect()
}

/// Whether an object is applied: what nothing else makes, outside of the system's namespaces.
fn is_applied(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let is_owned = metadata["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty());
    let namespace = match object["kind"].as_str() {
        Some("Namespace") => name,
        _ => metadata["namespace"].as_str().unwrap_or("default"),
    };
    // klab's own cluster has those of Azure.
    let is_of_azure = object["provisioner"].as_str().is_some_and(|driver| driver.ends_with(".csi.azure.com"));
    let is_built_in =
        is_of_azure || name.starts_with("system-") || (object["kind"] == "Namespace" && name == "default");
    !is_owned && !is_system_namespace(namespace) && !is_built_in
}

/// An object as its author would write it.
fn manifest(object: Value) -> Value {
    let mut object = completed(object);
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        for field in ["nodeName", "volumeName", "priority", "preemptionPolicy"] {
            spec.remove(field);
        }
    }
    let metadata = &object["metadata"];
    let mut kept = Map::new();
    for field in ["name", "namespace", "labels"] {
        if !metadata[field].is_null() {
            kept.insert(field.to_owned(), metadata[field].clone());
        }
    }
    if let Some(labels) = kept.get_mut("labels").and_then(Value::as_object_mut) {
        labels.retain(|key, _| key != LAB_LABEL && key != MANAGED_BY_LABEL);
    }
    object["metadata"] = Value::Object(kept);
    object
}

#[cfg(test)]
mod tests {
    use klab_lab::spec::{LoadOptions, parse};

    use super::*;
    use crate::kinds::KINDS;

    fn capture() -> Capture {
        let mut capture = Capture::default();
        let node = |name: &str, disk: &str, zone: &str| {
            let effect = if disk == "ssd" { "NoSchedule" } else { "PreferNoSchedule" };
            json!({
                "metadata": { "name": name, "labels": {
                    "eks.amazonaws.com/nodegroup": "Team-A.workers", "disk": disk, "kubernetes.io/hostname": name, "host": name,
                    "topology.kubernetes.io/zone": zone, "node.kubernetes.io/instance-type": "m7i.large",
                } },
                "spec": { "taints": [
                    { "key": if disk == "ssd" { "team" } else { "node.kubernetes.io/memory-pressure" }, "value": "a", "effect": effect }, { "key": "node.kubernetes.io/not-ready", "effect": "NoExecute" },
                ] },
                "status": { "allocatable": { "cpu": "1930m", "memory": "7Gi", "pods": "29" } },
            })
        };
        let kind = |plural: &str| KINDS.iter().find(|kind| kind.plural == plural).unwrap();
        capture
            .add(kind("nodes"), &[node("n1", "ssd", "us-1a"), node("n2", "ssd", "us-1a"), node("n3", "hdd", "us-1b")]);
        let pod = |name: &str, owner: Value| {
            json!({
                "metadata": { "name": name, "namespace": "shop", "uid": "1", "ownerReferences": owner },
                "spec": { "nodeName": "n1", "containers": [{ "name": "c", "image": "x" }] },
            })
        };
        let owner =
            json!([{ "kind": "ReplicaSet", "name": "web", "apiVersion": "apps/v1", "uid": "2", "controller": true }]);
        capture.add(kind("pods"), &[pod("bare", Value::Null), pod("owned", owner)]);
        capture.add(
            kind("namespaces"),
            &[json!({ "metadata": { "name": "shop" } }), json!({ "metadata": { "name": "kube-system" } })],
        );
        capture.finish();
        capture
    }

    #[test]
    fn a_captured_cluster_is_a_valid_lab() {
        let folder = lab_folder(&capture(), "twin").unwrap();
        let text = folder.lab.replace("[[manifest]]\npath = \"objects.yaml\"\n", "");
        let lab =
            parse("lab.toml", &text, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
        let pools: Vec<String> =
            lab.pools.iter().map(|pool| format!("{} {}", pool.name.value, pool.nodes.value)).collect();
        assert_eq!(pools, ["teamawork 1", "teamawork2 2"]);
        assert!(
            text.contains("labels = { \"disk\" = \"ssd\", \"eks.amazonaws.com/nodegroup\" = \"Team-A.workers\" }"),
            "{text}"
        );
        assert!(text.contains("taints = [\"team=a:NoSchedule\"]") && text.contains("zones = [2]"), "{text}");
        assert_eq!(folder.manifests.matches("---").count(), 2, "{}", folder.manifests);
        assert!(
            folder.manifests.contains("name: bare") && !folder.manifests.contains("nodeName"),
            "{}",
            folder.manifests
        );
    }
}
