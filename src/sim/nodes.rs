//! Nodes of pools as AKS makes them: names, labels, capacity, allocatable, addresses.

use serde_json::{Map, Value, json};

use crate::spec::{Lab, Os, Pool, VmSize};

/// The Kubernetes version embedded nodes report where neither lab nor pool asks for one.
const VERSION: &str = "1.36.2";

/// The node of a pool with this number, counted from 0. Equal labs give equal nodes.
///
/// Names, labels and taints are those AKS gives (Azure's documentation of reserved labels and of node pools).
pub fn node(lab: &Lab, pool: &Pool, number: u32) -> Value {
    let pool_name = pool.name.value.as_str();
    let name = node_name(lab, pool, number);
    let location = lab.aks.location.as_str();
    let capacity = pool.machine.capacity(pool.max_pods);
    let allocatable = pool.machine.allocatable(pool.max_pods);
    let resources = |figures: &crate::spec::NodeResources, cpu: String| {
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
    let address = address(lab, pool, number);
    let mut taints: Vec<Value> = pool.taints.iter().map(|taint| json!(taint.value)).collect();
    if pool.spot.is_some() {
        taints.push(json!({ "key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule" }));
    }
    let mut spec = json!({
        "providerID": format!(
            "azure:///subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/mc_{lab}_{lab}_{location}\
             /providers/Microsoft.Compute/virtualMachineScaleSets/{set}/virtualMachines/{number}",
            lab = lab.name.value,
            set = scale_set(lab, pool),
        ),
    });
    if !taints.is_empty() {
        spec["taints"] = json!(taints);
    }
    let annotations: Map<String, Value> =
        pool.annotations.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": labels(lab, pool, &name, number), "annotations": annotations },
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
        },
    })
}

/// `aks-extra-12345678-vmss000000`; scale set instances are numbered in base 36.
fn node_name(lab: &Lab, pool: &Pool, number: u32) -> String {
    format!("{}{}", scale_set(lab, pool), base36(number))
}

fn scale_set(lab: &Lab, pool: &Pool) -> String {
    format!("aks-{}-{:08}-vmss", pool.name.value, hash(&[&lab.name.value, &pool.name.value]) % 100_000_000)
}

fn base36(mut number: u32) -> String {
    let mut digits = vec![b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdefghijklmnopqrstuvwxyz"[(number % 36) as usize];
        number /= 36;
    }
    digits.into_iter().map(char::from).collect()
}

/// FNV-1a: the same on every machine and with every version of klab.
fn hash(parts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in parts.iter().flat_map(|part| part.bytes().chain([0xff])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

fn cpu(millis: u64) -> String {
    if millis.is_multiple_of(1000) { (millis / 1000).to_string() } else { format!("{millis}m") }
}

/// An address of AKS's default node network, one a node: pools follow each other in file order.
fn address(lab: &Lab, pool: &Pool, number: u32) -> String {
    let pools = lab.pools.iter().take_while(|other| other.name.value != pool.name.value);
    let host = 4 + pools.map(|pool| pool.nodes.value.max(16)).sum::<u32>() + number;
    format!("10.224.{}.{}", host / 256 % 256, host % 256)
}

fn labels(lab: &Lab, pool: &Pool, name: &str, number: u32) -> Value {
    let location = lab.aks.location.as_str();
    let size = pool.size.as_ref().map_or("Custom", |size| size.value.as_str());
    let size = VmSize::find(size).map_or(size, |known| known.name.as_str());
    let zone = match pool.zones.as_slice() {
        [] => "0".to_owned(),
        zones => format!("{location}-{}", zones[number as usize % zones.len()]),
    };
    let (arch, os) = (pool.machine.arch(), pool.os.as_str());
    let mut labels = json!({
        "agentpool": pool.name.value,
        "beta.kubernetes.io/arch": arch,
        "beta.kubernetes.io/instance-type": size,
        "beta.kubernetes.io/os": os,
        "failure-domain.beta.kubernetes.io/region": location,
        "failure-domain.beta.kubernetes.io/zone": zone,
        "kubernetes.azure.com/agentpool": pool.name.value,
        "kubernetes.azure.com/cluster": format!("MC_{0}_{0}_{location}", lab.name.value),
        "kubernetes.azure.com/mode": pool.mode.as_str(),
        "kubernetes.azure.com/os-sku": pool.os_sku.as_deref().unwrap_or(if pool.os == Os::Windows { "Windows2022" } else { "Ubuntu" }),
        "kubernetes.azure.com/role": "agent",
        "kubernetes.azure.com/storageprofile": "managed",
        "kubernetes.azure.com/storagetier": "Premium_LRS",
        "kubernetes.io/arch": arch,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": os,
        "node.kubernetes.io/instance-type": size,
        "topology.disk.csi.azure.com/zone": if pool.zones.is_empty() { "" } else { zone.as_str() },
        "topology.kubernetes.io/region": location,
        "topology.kubernetes.io/zone": zone,
    });
    if pool.spot.is_some() {
        labels["kubernetes.azure.com/scalesetpriority"] = json!("spot");
    }
    if pool.machine.size.is_some_and(|size| size.gpus > 0) {
        labels["kubernetes.azure.com/accelerator"] = json!("nvidia");
    }
    for (key, value) in &pool.labels {
        labels[key] = json!(value.value);
    }
    labels
}

fn node_info(lab: &Lab, pool: &Pool, pool_name: &str) -> Value {
    let version = pool.kubernetes.as_ref().or(lab.kubernetes.as_ref()).map(|version| version.value);
    let version = match version {
        Some(version) if version.patch.is_some() || !VERSION.starts_with(&format!("{version}.")) => version.to_string(),
        _ => VERSION.to_owned(),
    };
    let version = if version.matches('.').count() == 1 { format!("{version}.0") } else { version };
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
