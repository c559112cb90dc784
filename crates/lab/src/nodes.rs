//! Nodes of pools as AKS makes them, or as kind does: names, labels, capacity, allocatable, addresses, images.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeSet;
use std::iter::repeat_n;

use k8s_openapi::api::core::v1::Node;
use serde_json::{Map, Value, json};

use crate::names::{DEVICES_ANNOTATION, NODE_IMAGE_LABEL, SIZE_LABEL};
use crate::spec::{KubernetesVersion, Lab, Located, NODE_IMAGE, NodeResources, Os, Pool, SimLike, VmSize};
use klab_scheduler::hash::fnv64_closed;

/// The Kubernetes version embedded nodes report where neither lab nor pool asks for one.
pub const VERSION: &str = "1.36.2";

/// The node image that a pool's nodes have, in full.
pub fn node_image(pool: &Pool) -> String {
    let version = pool.node_image.as_ref().map_or(NODE_IMAGE, |image| image.value.as_str());
    match pool.os_sku.as_deref() {
        _ if pool.os == Os::Windows => "AKSWindows-2022-containerd-20348.4171.260801".to_owned(),
        Some(sku) if sku.starts_with("AzureLinux") => format!("AKSAzureLinux-V3gen2-{version}"),
        _ => format!("AKSUbuntu-2404gen2containerd-{version}"),
    }
}

/// The newest node image for a pool, in full.
pub fn latest_node_image(pool: &Pool) -> String {
    node_image(&Pool { node_image: None, ..pool.clone() })
}

/// The node of a pool with this number, counted from 0. Equal labs give equal nodes.
///
/// Names, labels and taints are those AKS gives (Azure's documentation of reserved labels and of node pools).
pub fn node(lab: &Lab, pool: &Pool, number: u32) -> Value {
    let part = parts_in_order(pool.parts()).nth(number as usize).unwrap_or(Cow::Borrowed(pool));
    named(lab, &part, number, &node_name(lab, pool, number))
}

/// For each node of a new pool the part that it is of; a scale set's nodes have no end.
fn parts_in_order(parts: Vec<Cow<'_, Pool>>) -> impl Iterator<Item = Cow<'_, Pool>> {
    parts.into_iter().flat_map(|part| {
        let count = if part.is_virtual_machines() { part.nodes.value as usize } else { usize::MAX };
        repeat_n(part, count)
    })
}

/// Whether a node of a pool is one of this part of it; Azure does not care how a size is spelt.
pub fn is_of(part: &Pool, node: &Node) -> bool {
    let size = node.metadata.labels.as_ref().and_then(|labels| labels.get(SIZE_LABEL));
    let is_same = |(own, size): (&Located<String>, &String)| own.eq_ignore_ascii_case(size);
    !part.is_virtual_machines() || part.size.as_ref().zip(size).is_some_and(is_same)
}

/// The nodes of a pool that stay where it is to have this many, and those that go: the first ones stay, of each size as many as
/// the pool has of it.
pub fn kept<N: Borrow<Node>>(pool: &Pool, nodes: Vec<N>, wanted: u32) -> (Vec<N>, Vec<N>) {
    let count = |part: &Pool| if part.is_virtual_machines() { part.nodes.value } else { wanted };
    let mut room: Vec<_> = pool.parts().into_iter().map(|part| (count(&part), part)).collect();
    nodes.into_iter().partition(|node| {
        let place = room.iter_mut().find(|(room, part)| *room > 0 && is_of(part, node.borrow()));
        place.map(|(room, _)| *room -= 1).is_some()
    })
}

/// For each node that a pool lacks beside these the part that it is of; a scale set lacks nodes without end.
pub fn lacking<'a, N: Borrow<Node>>(pool: &'a Pool, present: &[N]) -> impl Iterator<Item = Cow<'a, Pool>> + use<'a, N> {
    let mut parts = pool.parts();
    for part in parts.iter_mut().filter(|part| part.is_virtual_machines()) {
        let there = present.iter().filter(|node| is_of(part, (*node).borrow())).count();
        let left = part.nodes.value.saturating_sub(u32::try_from(there).unwrap_or(u32::MAX));
        part.to_mut().nodes.value = left;
    }
    parts_in_order(parts)
}

/// The node of a pool with this number, with these texts in place of its name, its number and its address: what the
/// embedded cluster's autoscaler makes nodes of.
pub fn template(lab: &Lab, pool: &Pool, number: u32, name: &str, number_text: &str, address: &str) -> Value {
    with_texts(lab, pool, number, &Texts { name, number: number_text, address })
}

/// The texts of a node that no other has.
struct Texts<'a> {
    name: &'a str,
    number: &'a str,
    address: &'a str,
}

/// The nodes that a pool is to get, where these are there: of the pool itself, and of the whole cluster by name; those of a
/// scale set have no end. Numbers that are free in the pool are taken up again. Like kind, a node has the first free name of the cluster.
pub fn missing<'a>(
    lab: &'a Lab,
    pool: &'a Pool,
    present: &[Node],
    taken: BTreeSet<String>,
) -> impl Iterator<Item = Value> + use<'a> {
    let addresses: BTreeSet<String> = present.iter().filter_map(address_of).collect();
    let numbers = (0u32..).filter(move |number| !addresses.contains(&address(lab, pool, *number)));
    let mut workers = 1u32..;
    let named_numbers = numbers.filter_map(move |number| {
        let own = pool.names.get(number as usize).filter(|name| !taken.contains(&name.value));
        let name = if let Some(own) = own {
            own.value.clone()
        } else if like_kind(lab) {
            workers.by_ref().map(|worker| worker_name(lab, worker)).find(|name| !taken.contains(name))?
        } else {
            Some(node_name(lab, pool, number)).filter(|name| !taken.contains(name))?
        };
        Some((number, name))
    });
    lacking(pool, present).zip(named_numbers).map(|(part, (number, name))| named(lab, &part, number, &name))
}

/// The address by which a node of a pool is known.
fn address_of(node: &Node) -> Option<String> {
    let mut addresses = node.status.as_ref()?.addresses.iter().flatten();
    addresses.find(|address| address.type_ == "InternalIP").map(|address| address.address.clone())
}

/// The node of a pool with this number, under this name.
fn named(lab: &Lab, pool: &Pool, number: u32, name: &str) -> Value {
    let (text, address) = (number.to_string(), address(lab, pool, number));
    with_texts(lab, pool, number, &Texts { name, number: &text, address: &address })
}

fn with_texts(lab: &Lab, pool: &Pool, number: u32, texts: &Texts<'_>) -> Value {
    let Texts { name, number: number_text, address } = *texts;
    let pool_name = pool.name.value.as_str();
    let location = lab.aks.location.as_str();
    let capacity = pool.machine.capacity(pool.max_pods);
    let allocatable = pool.machine.allocatable(pool.max_pods);
    let resources = |figures: &NodeResources, cpu: String| {
        let mut resources = json!({
            "cpu": cpu,
            "memory": format!("{}Ki", figures.memory / 1024),
            "ephemeral-storage": figures.ephemeral_storage.to_string(),
            "pods": figures.pods.to_string(),
            "hugepages-1Gi": "0",
            "hugepages-2Mi": "0",
        });
        if figures.gpus > 0 {
            resources["nvidia.com/gpu"] = json!(figures.gpus.to_string());
        }
        for (resource, quantity) in &pool.resources {
            resources[resource] = json!(quantity.value.0);
        }
        resources
    };
    let taints = pool.node_taints();
    let provider = if like_kind(lab) {
        format!("kind://docker/{}/{name}", lab.name.value)
    } else {
        let machine = if pool.is_virtual_machines() {
            format!("virtualMachines/{name}")
        } else {
            format!("virtualMachineScaleSets/{}/virtualMachines/{number_text}", scale_set(lab, pool))
        };
        format!(
            "azure:///subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/mc_{lab}_{lab}_{location}\
             /providers/Microsoft.Compute/{machine}",
            lab = lab.name.value,
        )
    };
    let mut spec = json!({ "providerID": provider });
    if !taints.is_empty() {
        spec["taints"] = json!(taints);
    }
    let mut annotations: Map<String, Value> =
        pool.annotations.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    if let Some(devices) = devices_annotation(pool) {
        annotations.insert(DEVICES_ANNOTATION.to_owned(), json!(devices));
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": labels(lab, pool, name, number), "annotations": annotations },
        "spec": spec,
        "status": {
            "capacity": resources(&capacity, cpu(capacity.cpu_millis)),
            "allocatable": resources(&allocatable, cpu(allocatable.cpu_millis)),
            "addresses": [
                { "type": "InternalIP", "address": address },
                { "type": "Hostname", "address": name },
            ],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
            "nodeInfo": node_info(lab, pool, pool_name),
            "images": images(lab, pool),
        },
    })
}

fn like_kind(lab: &Lab) -> bool {
    lab.sim.like == SimLike::Kind
}

/// Images a node has from the start: the pool's, and on AKS those of its own add-ons, with sizes in bytes. The kubelet reports at most fifty;
/// these are the ones pods of a fresh cluster use.
fn images(lab: &Lab, pool: &Pool) -> Value {
    let image = |name: &str, size: u64| json!({ "names": [name], "sizeBytes": size });
    let mut images: Vec<Value> = pool.images.iter().map(|(name, size)| image(name, *size)).collect();
    if like_kind(lab) {
        return images.into();
    }
    images.extend([
        image("mcr.microsoft.com/oss/kubernetes-csi/azurefile-csi:v1.33.0", 93_215_000),
        image("mcr.microsoft.com/oss/kubernetes-csi/azuredisk-csi:v1.33.0", 83_921_000),
        image("mcr.microsoft.com/containernetworking/azure-cns:v1.6.21", 58_410_000),
        image("mcr.microsoft.com/oss/kubernetes/kube-proxy:v1.36.2", 31_872_000),
        image("mcr.microsoft.com/oss/kubernetes/coredns:v1.12.1", 20_939_000),
        image("mcr.microsoft.com/oss/kubernetes/azure-cloud-node-manager:v1.33.0", 19_803_000),
        image("mcr.microsoft.com/oss/kubernetes/metrics-server:v0.7.2", 19_494_000),
        image("mcr.microsoft.com/oss/kubernetes/apiserver-network-proxy/agent:v0.31.2", 15_101_000),
        image("mcr.microsoft.com/oss/kubernetes/pause:3.10", 320_000),
    ]);
    images.into()
}

/// The name that the lab file gives it, else `aks-extra-12345678-vmss000000`; scale set instances are numbered in base 36, single
/// virtual machines as `aks-extra-12345678-vms0`. Like kind: `lab-worker`,
/// `lab-worker2`, … in the order of the pools that the lab begins with and of their nodes without a name in the file, as
/// long as none of them changes; further nodes get names that none of these has.
pub fn node_name(lab: &Lab, pool: &Pool, number: u32) -> String {
    if let Some(own) = pool.names.get(number as usize) {
        return own.value.clone();
    }
    if !like_kind(lab) {
        let digits = if pool.is_virtual_machines() { number.to_string() } else { base36(number) };
        return format!("{}{digits}", scale_set(lab, pool));
    }
    let named = |pool: &Pool| u32::try_from(pool.names.len()).unwrap_or(u32::MAX);
    let at_first = |pool: &Pool| if pool.deferred { 0 } else { pool.nodes.value.saturating_sub(named(pool)) };
    let number = number - named(pool);
    if number < at_first(pool) {
        let before = lab.pools.iter().take_while(|other| other.name.value != pool.name.value);
        return worker_name(lab, before.map(at_first).sum::<u32>() + number + 1);
    }
    let all: u32 = lab.pools.iter().map(at_first).sum();
    worker_name(lab, all + first_place(lab, pool) + number + 1 - at_first(pool))
}

/// The n-th worker, from 1, as kind names it.
fn worker_name(lab: &Lab, number: u32) -> String {
    let suffix = if number == 1 { String::new() } else { number.to_string() };
    format!("{}-worker{suffix}", lab.name.value)
}

/// The scale set of a pool, as AKS names it; its nodes' names begin with it, and those of single virtual machines with the like.
pub fn scale_set(lab: &Lab, pool: &Pool) -> String {
    let kind = if pool.is_virtual_machines() { "vms" } else { "vmss" };
    format!("aks-{}-{:08}-{kind}", pool.name.value, hash(&[&lab.name.value, &pool.name.value]) % 100_000_000)
}

fn base36(mut number: u32) -> String {
    let mut digits = vec![b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdefghijklmnopqrstuvwxyz"[(number % 36) as usize];
        number /= 36;
    }
    digits.into_iter().map(char::from).collect()
}

/// The same on every machine and with every version of klab.
fn hash(parts: &[&str]) -> u64 {
    fnv64_closed(parts, 0xff)
}

fn cpu(millis: u64) -> String {
    if millis.is_multiple_of(1000) { (millis / 1000).to_string() } else { format!("{millis}m") }
}

/// An address of AKS's default node network, one a node: pools follow each other in file order.
pub fn address(lab: &Lab, pool: &Pool, number: u32) -> String {
    let host = 4 + first_place(lab, pool) + number;
    let network = if like_kind(lab) { "172.18" } else { "10.224" };
    format!("{network}.{}.{}", host / 256 % 256, host % 256)
}

/// The first of the places that are kept for a pool's nodes: pools follow each other in file order, with room to grow.
fn first_place(lab: &Lab, pool: &Pool) -> u32 {
    let before = lab.pools.iter().take_while(|other| other.name.value != pool.name.value);
    before.map(|pool| pool.nodes.value.max(16)).sum()
}

/// A resource group's name as AKS makes a label's value of it (`normalizeResourceGroupNameForLabel` of AgentBaker).
fn group_label(group: &str) -> String {
    let mut label: String = group.replace(['(', ')'], "-").chars().take(63).collect();
    if label.ends_with(['-', '_', '.']) {
        label = label.chars().take(62).collect();
        label.push('z');
    }
    label
}

/// The labels every provider gives the pool's nodes, and those AKS alone sets.
fn labels(lab: &Lab, pool: &Pool, name: &str, number: u32) -> Value {
    let location = lab.aks.location.as_str();
    let zone = pool.zone_of(number as usize);
    let mut labels = json!({});
    if !like_kind(lab) {
        let disk_zone = zone.map(|zone| format!("{location}-{zone}")).unwrap_or_default();
        let sku = pool.os_sku.as_deref().unwrap_or(if pool.os == Os::Windows { "Windows2022" } else { "Ubuntu" });
        labels = json!({
            "kubernetes.azure.com/cluster": group_label(&format!("MC_{0}_{0}_{location}", lab.name.value)),
            "kubernetes.azure.com/os-sku": sku,
            NODE_IMAGE_LABEL: node_image(pool),
            "kubernetes.azure.com/storageprofile": "managed",
            "kubernetes.azure.com/storagetier": "Premium_LRS",
            "topology.disk.csi.azure.com/zone": disk_zone,
        });
        if pool.machine.size.is_some_and(|size| size.gpus > 0) {
            labels["kubernetes.azure.com/accelerator"] = json!("nvidia");
        }
        let size = pool.size.as_ref().map_or("Custom", |size| size.value.as_str());
        let size = VmSize::find(size).map_or(size, |known| known.name.as_str());
        for key in ["beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"] {
            labels[key] = json!(size);
        }
    }
    for (key, value) in pool.node_labels(location, zone) {
        labels[key] = json!(value);
    }
    labels["kubernetes.io/hostname"] = json!(name);
    labels
}

/// A version down to the patch: that of [`VERSION`] for its minor, the first one for others.
pub fn full_version(version: KubernetesVersion) -> String {
    match version.patch {
        None if VERSION.starts_with(&format!("{version}.")) => VERSION.to_owned(),
        None => format!("{version}.0"),
        Some(_) => version.to_string(),
    }
}

fn node_info(lab: &Lab, pool: &Pool, pool_name: &str) -> Value {
    let version = pool.kubernetes.as_ref().or(lab.kubernetes.as_ref());
    let version = version.map_or_else(|| VERSION.to_owned(), |version| full_version(version.value));
    let machine = hash(&[&lab.name.value, pool_name]);
    json!({
        "architecture": pool.machine.arch(),
        "bootID": format!("{machine:016x}"),
        "containerRuntimeVersion": "containerd://2.0.0",
        "kernelVersion": "6.8.0-1052-azure",
        "kubeProxyVersion": "",
        "kubeletVersion": format!("v{version}"),
        "machineID": format!("{machine:016x}"),
        "operatingSystem": pool.os.as_str(),
        "osImage": if pool.os == Os::Windows { "Windows Server 2022 Datacenter" } else { "Ubuntu 24.04.3 LTS" },
        "systemUUID": format!("{machine:016x}"),
    })
}

/// The devices of a pool's nodes as their annotation [`DEVICES_ANNOTATION`] has them; none where there are none.
pub fn devices_annotation(pool: &Pool) -> Option<String> {
    let devices: Vec<_> = pool.devices.iter().map(|devices| &devices.value).collect();
    (!devices.is_empty()).then(|| json!(devices).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{LoadOptions, parse};

    const POOLS: &str = r#"
lab = "demo"
[pool.nodepool1]
mode  = "system"
nodes = 2
size  = "Standard_B2ms"
[pool.extra]
nodes  = 1
size   = "Standard_B2ms"
labels = { workload = "extra" }
taints = ["dedicated=special:NoSchedule"]
zones  = [1, 2]
"#;

    fn lab(more: &str) -> Lab {
        parse("lab.toml", &format!("{POOLS}{more}"), &LoadOptions::default()).expect("a valid lab")
    }

    fn name(node: &Value) -> &str {
        node["metadata"]["name"].as_str().unwrap_or_default()
    }

    #[test]
    fn nodes_have_the_names_of_the_file_and_then_their_own() {
        for like in ["aks", "kind"] {
            let text = format!(
                "lab = 'x'\n[sim]\nlike = '{like}'\n[pool.a]\nnodes = 1\n[pool.b]\nnodes = 3\nnames = ['worker1', 'worker2']\n"
            );
            let lab = parse("x.toml", &text, &LoadOptions::default()).unwrap();
            let names: Vec<String> = (0..3).map(|number| node_name(&lab, &lab.pools[1], number)).collect();
            assert_eq!(&names[..2], ["worker1", "worker2"]);
            assert!(names[2] == "x-worker2" || names[2].starts_with("aks-b-"), "{}", names[2]);
            // One that is gone comes back under its name.
            let present: Vec<Node> =
                [1, 2].map(|number| serde_json::from_value(node(&lab, &lab.pools[1], number)).unwrap()).into();
            let taken = names[1..].iter().cloned().collect();
            let back = missing(&lab, &lab.pools[1], &present, taken).next().unwrap();
            assert_eq!(back["metadata"]["name"], "worker1");
        }
    }

    #[test]
    fn nodes_look_as_aks_makes_them() {
        let lab = lab("");
        let extra = node(&lab, &lab.pools[1], 1);
        let (set, number) = name(&extra).split_once("-vmss").expect("a scale set");
        assert_eq!(number, "000001");
        let digits = set.strip_prefix("aks-extra-").expect("the pool's name");
        assert!(digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_digit()), "{digits}");
        let labels = &extra["metadata"]["labels"];
        for (key, value) in [
            ("agentpool", "extra"),
            ("kubernetes.azure.com/mode", "user"),
            ("node.kubernetes.io/instance-type", "Standard_B2ms"),
            ("kubernetes.io/hostname", name(&extra)),
            ("topology.kubernetes.io/zone", "westeurope-2"),
            ("workload", "extra"),
        ] {
            assert_eq!(labels[key], value, "{key}");
        }
        assert_eq!(extra["spec"]["taints"][0]["key"], "dedicated");
        assert_eq!(extra["status"]["allocatable"]["cpu"], "1900m");
        assert_eq!(extra, node(&lab, &lab.pools[1], 1), "equal labs give equal nodes");
    }

    #[test]
    fn label_of_the_group_is_one_whatever_the_lengths_of_lab_and_region() {
        for location in ["westeurope", "southafricanorth", "a"] {
            for seat in ["", "-07", "-120"] {
                for length in 1..=30 {
                    for letter in ["n", "a-", "-"] {
                        let lab = format!("n{}", letter.repeat(length)).chars().take(length).collect::<String>() + seat;
                        let label = group_label(&format!("MC_{lab}_{lab}_{location}"));
                        assert!(label.len() <= 63 && label.ends_with(|c: char| c.is_ascii_alphanumeric()), "{label}");
                        assert!(label.starts_with("MC_n"), "{label}");
                    }
                }
            }
        }
        assert_eq!(group_label("MC_lab_lab_westeurope"), "MC_lab_lab_westeurope");
        assert_eq!(group_label(&format!("{}.x", "0".repeat(62))), format!("{}z", "0".repeat(62)));
        assert_eq!(group_label("a(b)"), "a-b-z");
    }

    #[test]
    fn names_and_addresses_differ_from_node_to_node() {
        for more in ["", "[sim]\nlike = \"kind\"\n"] {
            let lab = lab(more);
            let nodes: Vec<Value> =
                lab.pools.iter().flat_map(|pool| (0..10).map(|number| node(&lab, pool, number))).collect();
            let names: std::collections::BTreeSet<_> = nodes.iter().map(name).collect();
            let addresses: std::collections::BTreeSet<_> =
                nodes.iter().map(|node| node["status"]["addresses"][0]["address"].to_string()).collect();
            assert_eq!((names.len(), addresses.len()), (20, 20));
        }
    }

    /// The names that a pool's further nodes get where these are there.
    fn fresh(lab: &Lab, pool: usize, present: &[Node], taken: &[&str], count: usize) -> Vec<String> {
        let taken = taken.iter().map(|name| (*name).to_owned()).collect();
        let made = missing(lab, &lab.pools[pool], present, taken).take(count);
        made.map(|node| name(&node).to_owned()).collect()
    }

    #[test]
    fn like_kind_workers_are_numbered_through_the_cluster() {
        let lab = lab("[pool.later]\ndeferred = true\nnodes = 3\n[sim]\nlike = \"kind\"\n");
        assert_eq!(fresh(&lab, 0, &[], &[], 2), ["demo-worker", "demo-worker2"]);
        let names: Vec<String> = (0..2).map(|number| node_name(&lab, &lab.pools[0], number)).collect();
        assert_eq!(names, ["demo-worker", "demo-worker2"]);
        assert_eq!(node_name(&lab, &lab.pools[1], 0), "demo-worker3");
        let first: Node = serde_json::from_value(node(&lab, &lab.pools[1], 0)).unwrap();
        let taken = ["demo-worker", "demo-worker2", "demo-worker3"];
        // A pool that comes later, and one that grows, take the names that are free, as kind's workers do.
        assert_eq!(fresh(&lab, 2, &[], &taken, 2), ["demo-worker4", "demo-worker5"]);
        assert_eq!(
            fresh(&lab, 1, std::slice::from_ref(&first), &["demo-worker2", "demo-worker3"], 2),
            ["demo-worker", "demo-worker4"]
        );
        // The node after the first one is in the other zone, whatever it is called.
        let zone = |node: &Value| node["metadata"]["labels"]["topology.kubernetes.io/zone"].clone();
        let second = missing(&lab, &lab.pools[1], &[first], BTreeSet::new()).next().unwrap();
        assert_eq!(zone(&second), "westeurope-2");
    }

    #[test]
    fn like_aks_the_numbers_that_are_free_are_taken_up_again() {
        let lab = lab("");
        let all: Vec<String> = fresh(&lab, 1, &[], &[], 3);
        let present: Vec<Node> =
            [0, 2].map(|number| serde_json::from_value(node(&lab, &lab.pools[1], number)).unwrap()).into();
        assert_eq!(fresh(&lab, 1, &present, &[&all[0], &all[2]], 1), [all[1].clone()]);
        assert_eq!(fresh(&lab, 1, &[], &[&all[0]], 1), [all[1].clone()], "somebody made a node of that name");
    }

    #[test]
    fn like_kind_nodes_are_workers() {
        let lab = lab("[sim]\nlike = \"kind\"\n");
        let worker = node(&lab, &lab.pools[0], 0);
        assert_eq!(name(&worker), "demo-worker");
        assert_eq!(worker["metadata"]["labels"]["agentpool"], "nodepool1");
        assert!(worker["metadata"]["labels"]["kubernetes.azure.com/cluster"].is_null());
    }
}
