//! The nodes that follow from a configuration: names, labels, taints and size, as kind and kubeadm make them.

use std::collections::BTreeMap;

use klab_scheduler::hash::fnv64_closed;
use klab_scheduler::kubelet::{HOSTNAME, platform_labels};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::configuration::Cluster;
use crate::kubeadm::{self, INIT, JOIN};

/// The label, and the key of the taint, of control planes.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Whether it is a control plane.
    pub is_control_plane: bool,
}

/// The nodes of a cluster of this name, in the order of its configuration.
pub fn named(cluster: &Cluster, name: &str) -> Vec<Node> {
    let mut counts = BTreeMap::<&str, usize>::new();
    let node = |node: &'_ crate::configuration::Node, count: usize| {
        let number = if count == 1 { String::new() } else { count.to_string() };
        Node { name: format!("{name}-{}{number}", node.role), is_control_plane: node.role == "control-plane" }
    };
    let mut nodes = Vec::new();
    for one in &cluster.nodes {
        let count = counts.entry(&one.role).or_default();
        *count = count.saturating_add(1);
        nodes.push(node(one, *count));
    }
    nodes
}

/// The version that a node image names: `1.36.2` of `kindest/node:v1.36.2@sha256:…`.
pub fn version_of(image: &str) -> Option<&str> {
    let (_, tag) = image.split('@').next()?.rsplit_once(":v")?;
    let is_version = tag.split('.').count() == 3 && tag.split('.').all(|part| part.parse::<u32>().is_ok());
    is_version.then_some(tag)
}

/// The manifests of a cluster's nodes with what has no effect, a sentence each.
///
/// # Errors
/// When a patch cannot be read.
pub fn manifests(cluster: &Cluster, name: &str) -> Result<(Vec<Value>, Vec<String>), String> {
    let nodes = named(cluster, name);
    // kubeadm taints control planes; kind takes the taint off a cluster of one node.
    let is_alone = nodes.len() == 1;
    let first = nodes.iter().position(|node| node.is_control_plane);
    let (mut manifests, mut notes) = (Vec::new(), Vec::<String>::new());
    for (index, (node, configured)) in nodes.iter().zip(&cluster.nodes).enumerate() {
        let version = version_of(&configured.image).unwrap_or(VERSION);
        let minor = version.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or_default();
        let kind = if Some(index) == first { INIT } else { JOIN };
        let patches = cluster.kubeadm_config_patches.iter().chain(&configured.kubeadm_config_patches);
        let registration = kubeadm::registration(patches, kind, minor)?;
        let mut labels: BTreeMap<String, String> = own_labels(node);
        match registration.arguments.get("node-labels") {
            Some(text) => labels.extend(kubeadm::labels(text)?),
            None => labels.extend(configured.labels.clone()),
        }
        let taints = match registration.taints {
            Some(taints) => taints,
            None if node.is_control_plane => vec![json!({ "key": CONTROL_PLANE, "effect": "NoSchedule" })],
            None => Vec::new(),
        };
        let taints: Vec<Value> =
            taints.into_iter().filter(|taint| !is_alone || taint["key"] != CONTROL_PLANE).collect();
        let pods = registration.arguments.get("max-pods").map_or("110", String::as_str);
        manifests.push(manifest(name, node, index, version, &Parts { labels, taints, pods }));
        notes.extend(registration.notes);
    }
    notes.sort();
    notes.dedup();
    Ok((manifests, notes))
}

/// The version of nodes whose image names none.
const VERSION: &str = "1.36.2";

/// What differs between the nodes of a cluster.
struct Parts<'a> {
    labels: BTreeMap<String, String>,
    taints: Vec<Value>,
    pods: &'a str,
}

fn own_labels(node: &Node) -> BTreeMap<String, String> {
    let platform: BTreeMap<&str, &str> = platform_labels("linux", "amd64").into();
    let mut labels: BTreeMap<&str, &str> = platform;
    labels.insert(HOSTNAME, &node.name);
    if node.is_control_plane {
        labels.extend([(CONTROL_PLANE, ""), ("node.kubernetes.io/exclude-from-external-load-balancers", "")]);
    }
    labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// The address of a node, by its place in the cluster.
pub fn address(index: usize) -> String {
    // Docker's network gives its gateway the first address.
    let address = index.saturating_add(2);
    format!("172.18.{}.{}", address / 250, address % 250)
}

fn manifest(cluster: &str, node: &Node, index: usize, version: &str, parts: &Parts<'_>) -> Value {
    let resources = json!({
        "cpu": "4", "memory": "16384000Ki", "ephemeral-storage": "129886128Ki", "pods": parts.pods,
        "hugepages-1Gi": "0", "hugepages-2Mi": "0",
    });
    let machine = fnv64_closed(&[cluster, &node.name], 0xff);
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": node.name, "labels": parts.labels, "annotations": { "node.alpha.kubernetes.io/ttl": "0" } },
        "spec": {
            "providerID": format!("kind://docker/{cluster}/{}", node.name), "taints": parts.taints,
            "podCIDR": format!("10.244.{index}.0/24"), "podCIDRs": [format!("10.244.{index}.0/24")],
        },
        "status": {
            "capacity": resources, "allocatable": resources,
            "addresses": [
                { "type": "InternalIP", "address": address(index) },
                { "type": "Hostname", "address": node.name },
            ],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
            "nodeInfo": {
                "architecture": "amd64", "bootID": format!("{machine:016x}"),
                "containerRuntimeVersion": "containerd://2.1.1", "kernelVersion": "6.8.0-1052-azure",
                "kubeProxyVersion": "", "kubeletVersion": format!("v{version}"),
                "machineID": format!("{machine:016x}"), "operatingSystem": "linux",
                "osImage": "Debian GNU/Linux 12 (bookworm)", "systemUUID": format!("{machine:016x}"),
            },
        },
    })
}

/// The name under which klab's server keeps a cluster: no lab has such a name, as a lab's begins with a letter.
pub fn name_at_server(name: &str) -> String {
    if name.len() <= 60 && !name.contains('.') {
        return format!("0-{name}");
    }
    // The server's names have neither points nor more than 63 characters.
    let begin: String = name.chars().take(40).map(|letter| if letter == '.' { '-' } else { letter }).collect();
    format!("00-{begin}-{:016x}", fnv64_closed(&[name], 0xff))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nodes: &str) -> Vec<Value> {
        let text = format!("kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n{nodes}");
        manifests(&Cluster::parse(&text).unwrap(), "demo").unwrap().0
    }

    #[test]
    fn names_count_each_role() {
        let nodes =
            of("- role: worker\n- role: control-plane\n- role: worker\n- role: control-plane\n- role: worker\n");
        let names: Vec<&str> = nodes.iter().filter_map(|node| node["metadata"]["name"].as_str()).collect();
        assert_eq!(names, ["demo-worker", "demo-control-plane", "demo-worker2", "demo-control-plane2", "demo-worker3"]);
        assert_eq!(nodes[0]["spec"]["taints"], json!([]));
        assert_eq!(nodes[1]["spec"]["taints"][0]["key"], CONTROL_PLANE);
        assert_eq!(nodes[3]["metadata"]["labels"][CONTROL_PLANE], "");
    }

    #[test]
    fn a_control_plane_that_is_alone_takes_pods() {
        assert_eq!(of("- role: control-plane\n")[0]["spec"]["taints"], json!([]));
    }

    #[test]
    fn a_flag_replaces_labels_and_the_image_gives_the_version() {
        let patch = "kubeadmConfigPatches: [\"{kind: JoinConfiguration, nodeRegistration: {kubeletExtraArgs: {node-labels: \\\"b=2\\\", max-pods: 20}}}\"]";
        let nodes = of(&format!(
            "- role: control-plane\n- role: worker\n  image: kindest/node:v1.30.4@sha256:abc\n  labels: {{ a: \"1\" }}\n  {patch}\n"
        ));
        let worker = &nodes[1];
        assert_eq!(
            (&worker["metadata"]["labels"]["a"], &worker["metadata"]["labels"]["b"]),
            (&Value::Null, &json!("2"))
        );
        assert_eq!(worker["status"]["allocatable"]["pods"], "20");
        assert_eq!(worker["status"]["nodeInfo"]["kubeletVersion"], "v1.30.4");
        assert_eq!(nodes[0]["status"]["nodeInfo"]["kubeletVersion"], "v1.36.2");
    }

    #[test]
    fn versions_are_read_of_images() {
        for (image, version) in [
            ("kindest/node:v1.36.2", Some("1.36.2")),
            ("kindest/node", None),
            ("own:latest", None),
            ("a:5000/node:v1.2", None),
        ] {
            assert_eq!(version_of(image), version, "{image}");
        }
    }

    #[test]
    fn names_at_the_server_are_its_own_and_differ() {
        let long = "a".repeat(61);
        let names = ["a-b", "a.b", "a.c", &long, &long[1..]].map(name_at_server);
        assert_eq!(names[0], "0-a-b");
        for (index, name) in names.iter().enumerate() {
            assert!(name.len() <= 63 && !name.contains('.') && name.starts_with('0'), "{name}");
            assert!(!names[..index].contains(name), "{name}");
        }
    }
}
