//! A pool as az shows it: ARM's agentPool, flattened, with null for what Azure does not say.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::names::{Site, entity_tag};
use crate::notes::PoolNote;
use crate::versions::patched;
use klab_lab::nodes::node_image;
use klab_lab::plan::taint_text;
use klab_lab::spec::{Os, Pool, PoolMode, UpgradeSettings};

/// The keys of a pool of azure-mgmt-containerservice 41.6 that klab has nothing to say of.
const EMPTY: &str = "artifactStreamingProfile capacityReservationGroupId creationData enableEncryptionAtHost enableUltraSsd \
    gatewayProfile gpuInstanceProfile gpuProfile hostGroupId kubeletConfig linuxOsConfig localDnsProfile messageOfTheDay \
    networkProfile nodePublicIpPrefixId podIpAllocationMode podSubnetId proximityPlacementGroupId status \
    vnetSubnetId windowsProfile workloadRuntime";

/// Label and taint that AKS gives spot pools, which its answers show.
const SPOT_KEY: &str = "kubernetes.azure.com/scalesetpriority";

/// A pool, and what its cluster shows of it.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'p> {
    /// The pool as it is.
    pub pool: &'p Pool,
    /// The version of its nodes, down to the patch; none where no node tells it.
    pub version: Option<&'p str>,
    /// The node image of its nodes, in full; none where no node tells it.
    pub image: Option<&'p str>,
    /// The version that was asked for.
    pub wanted: Option<&'p str>,
    /// What is remembered of it.
    pub note: Option<&'p PoolNote>,
    /// Its `provisioningState`.
    pub state: &'p str,
}

/// An object of nothing but null.
pub fn nulls(keys: &str) -> Map<String, Value> {
    keys.split_whitespace().map(|key| (key.to_owned(), Value::Null)).collect()
}

/// The pool as a document of its own.
pub fn document(site: &Site, shown: &Shown<'_>) -> Value {
    let mut document = within_cluster(site, shown);
    let name = &shown.pool.name.value;
    let own = json!({
        "id": format!("{}/agentPools/{name}", site.id()),
        "resourceGroup": site.group,
        "systemData": null,
        "type": "Microsoft.ContainerService/managedClusters/agentPools",
        "typePropertiesType": kind(shown.pool),
    });
    for (key, value) in own.as_object().into_iter().flatten() {
        document[key] = value.clone();
    }
    document
}

/// The pool as one of a cluster's `agentPoolProfiles`.
pub fn within_cluster(site: &Site, shown: &Shown<'_>) -> Value {
    let Shown { pool, note, .. } = *shown;
    let default = PoolNote::default();
    let note = note.unwrap_or(&default);
    let wanted = shown.wanted.map_or_else(|| super::versions::newest().to_string(), str::to_owned);
    let current = shown.version.map(str::to_owned).or_else(|| Some(patched(wanted.parse().ok()?)));
    let stopped = note.stopped(pool.nodes.value);
    let bounds = pool.autoscale.as_ref().map(|bounds| (bounds.min, bounds.max));
    let bounds = bounds.or_else(|| stopped?.autoscale);
    let spot = pool.spot.as_ref();
    let is_windows = pool.os == Os::Windows;
    let os_sku = pool.os_sku.clone().unwrap_or_else(|| if is_windows { "Windows2022" } else { "Ubuntu" }.to_owned());
    let mut all = nulls(EMPTY);
    let said = json!({
        "availabilityZones": (!pool.zones.is_empty()).then(|| pool.zones.iter().map(u8::to_string).collect::<Vec<_>>()),
        "count": (!pool.is_virtual_machines()).then(|| stopped.map_or(pool.nodes.value, |stopped| stopped.nodes)),
        "currentOrchestratorVersion": current,
        "enableAutoScaling": (!pool.is_virtual_machines()).then_some(bounds.is_some()),
        "enableFips": false,
        "enableNodePublicIp": false,
        "kubeletDiskType": "OS",
        "maxCount": bounds.map(|(_, max)| max),
        "maxPods": pool.max_pods,
        "minCount": bounds.map(|(min, _)| min),
        "mode": match pool.mode { PoolMode::System => "System", PoolMode::User => "User" },
        "name": pool.name.value,
        "nodeImageVersion": shown.image.map_or_else(|| node_image(pool), str::to_owned),
        "nodeLabels": labels(pool),
        "nodeTaints": taints(pool),
        "orchestratorVersion": wanted,
        "osDiskSizeGb": pool.machine.os_disk_gib,
        "osDiskType": if pool.machine.os_disk_ephemeral { "Ephemeral" } else { "Managed" },
        "osSku": os_sku,
        "osType": if is_windows { "Windows" } else { "Linux" },
        "powerState": { "code": if stopped.is_some() { "Stopped" } else { "Running" } },
        "provisioningState": shown.state,
        "scaleDownMode": "Delete",
        "scaleSetEvictionPolicy": spot.map(|spot| spot.eviction.as_str()),
        "scaleSetPriority": spot.map(|_| "Spot"),
        "securityProfile": { "enableSecureBoot": false, "enableVtpm": false, "sshAccess": "LocalUser" },
        "spotMaxPrice": spot.map(|spot| spot.max_price.unwrap_or(-1.0)),
        "tags": note.tags,
        "type": kind(pool),
        "upgradeSettings": upgrade(pool),
        "virtualMachineNodesStatus": profiles(pool),
        "virtualMachinesProfile": profiles(pool).map(|manual| json!({ "scale": { "autoscale": null, "manual": manual } })),
        "vmSize": if pool.is_virtual_machines() { String::new() } else { klab_lab::plan::size_name(pool) },
    });
    if let Value::Object(said) = said {
        all.extend(said);
    }
    // A preview: documents of others have no such fields.
    if pool.upgrade.is_blue_green() {
        all.insert("upgradeSettingsBlueGreen".to_owned(), blue_green(&pool.upgrade));
        all.insert("upgradeStrategy".to_owned(), "BlueGreen".into());
    }
    let document = Value::Object(all);
    let tag = entity_tag(&format!("{}{document}", site.id()));
    with(document, "eTag", tag.into())
}

/// What Azure makes the nodes of.
fn kind(pool: &Pool) -> &'static str {
    if pool.is_virtual_machines() { "VirtualMachines" } else { "VirtualMachineScaleSets" }
}

/// The nodes of each size of single virtual machines, of which Azure says no number for the pool as a whole.
fn profiles(pool: &Pool) -> Option<Value> {
    let profile = |(size, nodes): (String, u32)| json!({ "count": nodes, "size": size });
    pool.is_virtual_machines().then(|| pool.sizes().into_iter().map(profile).collect())
}

fn with(mut document: Value, key: &str, value: Value) -> Value {
    document[key] = value;
    document
}

/// How the pool is upgraded: what was set, over what AKS does by itself.
fn upgrade(pool: &Pool) -> Value {
    let settings = &pool.upgrade;
    json!({
        "drainTimeoutInMinutes": settings.drain_timeout.map(|time| time.as_mins()),
        "maxSurge": settings.surge().to_string(),
        "maxUnavailable": settings.unavailable().to_string(),
        "nodeSoakDurationInMinutes": settings.node_soak.map(|time| time.as_mins()),
        "undrainableNodeBehavior": settings.undrainable_node_behavior,
    })
}

/// How a pool is upgraded blue-green.
fn blue_green(settings: &UpgradeSettings) -> Value {
    json!({
        "batchSoakDurationInMinutes": settings.batch_soak.map(|time| time.as_mins()),
        "drainBatchSize": settings.batch().to_string(),
        "drainTimeoutInMinutes": settings.drain_timeout.map(|time| time.as_mins()),
        "finalSoakDurationInMinutes": settings.final_soak.map(|time| time.as_mins()),
    })
}

fn labels(pool: &Pool) -> Option<BTreeMap<&str, &str>> {
    let own = pool.labels.iter().map(|(key, value)| (key.as_str(), value.value.as_str()));
    let all: BTreeMap<_, _> = own.chain(pool.spot.as_ref().map(|_| (SPOT_KEY, "spot"))).collect();
    (!all.is_empty()).then_some(all)
}

fn taints(pool: &Pool) -> Option<Vec<String>> {
    let all: Vec<String> = pool.node_taints().iter().map(taint_text).collect();
    (!all.is_empty()).then_some(all)
}

/// What `az aks nodepool get-rollback-versions` answers: Kubernetes version, node image and since when they are not used.
pub fn rollback_versions(used: Option<&(String, String, String)>) -> Value {
    used.map_or(Value::Null, |(version, image, timestamp)| {
        json!([{ "nodeImageVersion": image, "orchestratorVersion": version, "timestamp": timestamp }])
    })
}

/// What `az aks nodepool get-upgrades` answers.
pub fn upgrades(
    site: &Site,
    (name, os_type): (&str, &str),
    version: &str,
    image: &str,
    to: &[String],
    used: &Value,
) -> Value {
    let upgrades: Vec<Value> =
        to.iter().map(|version| json!({ "isPreview": null, "kubernetesVersion": version })).collect();
    json!({
        "id": format!("{}/agentPools/{name}/upgradeProfiles/default", site.id()),
        "kubernetesVersion": version,
        "latestNodeImageVersion": image,
        "name": "default",
        "osType": os_type,
        "recentlyUsedVersions": used,
        "resourceGroup": site.group,
        "systemData": null,
        "type": "Microsoft.ContainerService/managedClusters/agentPools/upgradeProfiles",
        "upgrades": (!upgrades.is_empty()).then_some(upgrades),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_lab::spec::{LoadOptions, parse};

    #[test]
    fn pool_has_every_key_of_az_and_what_the_lab_says_of_it() {
        let text = "lab = \"demo\"\n[pool.main]\nmode = \"system\"\n[pool.spotty]\nspot = true\nzones = [1, 3]\nlabels = { a = \"b\" }\n\
                    autoscale = { min = 1, max = 3 }\nmax_pods = 30\n";
        let lab = parse("lab.toml", text, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{problems}"));
        let site = Site { group: "rg".into(), cluster: "c".into(), location: "westeurope".into() };
        let pool = lab.pool("spotty").unwrap();
        let shown =
            Shown { pool, version: Some("1.35.0"), image: None, wanted: Some("1.35"), note: None, state: "Creating" };
        let document = document(&site, &shown);
        assert_eq!(document.as_object().unwrap().len(), 60);
        for (key, expected) in [
            ("availabilityZones", json!(["1", "3"])),
            ("count", json!(1)),
            ("enableAutoScaling", json!(true)),
            ("maxCount", json!(3)),
            ("maxPods", json!(30)),
            ("mode", json!("User")),
            ("nodeLabels", json!({ "a": "b", "kubernetes.azure.com/scalesetpriority": "spot" })),
            ("nodeTaints", json!(["kubernetes.azure.com/scalesetpriority=spot:NoSchedule"])),
            ("orchestratorVersion", json!("1.35")),
            ("provisioningState", json!("Creating")),
            ("currentOrchestratorVersion", json!("1.35.0")),
            ("scaleSetPriority", json!("Spot")),
            ("spotMaxPrice", json!(-1.0)),
            ("typePropertiesType", json!("VirtualMachineScaleSets")),
            (
                "id",
                json!(
                    "/subscriptions/00000000-0000-0000-0000-000000000000/resourcegroups/rg/providers/Microsoft.ContainerService/managedClusters/c/agentPools/spotty"
                ),
            ),
        ] {
            assert_eq!(document[key], expected, "{key}");
        }
    }
}
