//! What az answers, as far as klab looks at it, and what it says of pools in the words of the lab file.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Taint;
use serde::{Deserialize, Deserializer};

use super::failure::Failure;
use klab_lab::names::SIZE_LABEL;
use klab_lab::plan::{Declared, Observed, ObservedNode, ObservedPool};

/// Prefix of the labels and taints that are AKS's own.
const AKS_PREFIX: &str = "kubernetes.azure.com/";

/// Whether a subscription may use a provider.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Registration {
    /// `Registered`, `NotRegistered`, …
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) registration_state: String,
}

/// `az version`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ToolVersion {
    /// `2.91.0`.
    #[serde(rename = "azure-cli")]
    pub(super) cli: String,
}

/// A resource group.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Group {
    /// Name as it was made.
    pub(super) name: String,
    /// Region.
    pub(super) location: String,
    /// Tags; absent and null are none.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) tags: BTreeMap<String, String>,
    /// State of the group.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) properties: GroupProperties,
}

/// State of a group.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GroupProperties {
    /// `Succeeded`, `Deleting`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) provisioning_state: String,
}

impl Group {
    /// Whether Azure is removing it.
    pub(super) fn is_going(&self) -> bool {
        self.properties.provisioning_state == "Deleting"
    }
}

/// A cluster; Azure's answer flattened, as az shows it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ManagedCluster {
    /// Name.
    pub(super) name: String,
    /// Resource group.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) resource_group: String,
    /// Region.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) location: String,
    /// Azure's path of it.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) id: String,
    /// Tags.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) tags: BTreeMap<String, String>,
    /// `Creating`, `Succeeded`, `Failed`, `Deleting`, …
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) provisioning_state: String,
    /// Whether it runs.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) power_state: PowerState,
    /// Version down to the patch.
    pub(super) current_kubernetes_version: Option<String>,
    /// Version as it was asked for.
    pub(super) kubernetes_version: Option<String>,
    /// Host name of its API server.
    pub(super) fqdn: Option<String>,
    /// Group of its machines.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) node_resource_group: String,
    /// Its pools.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) agent_pool_profiles: Vec<AgentPool>,
    /// Settings of its cluster autoscaler.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) auto_scaler_profile: BTreeMap<String, serde_json::Value>,
    /// Who configures its scheduler.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) scheduler_profile: SchedulerProfile,
    /// Why it failed.
    pub(super) status: Option<Status>,
}

/// Who configures the schedulers of a cluster.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SchedulerProfile {
    /// kube-scheduler.
    #[serde(default, deserialize_with = "null_is_default")]
    upstream: SchedulerInstance,
}

/// Who configures a scheduler.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SchedulerInstance {
    /// `Default`, or `ManagedByCRD`.
    #[serde(default, deserialize_with = "null_is_default")]
    scheduler_config_mode: String,
}

impl SchedulerProfile {
    /// Whether users configure it.
    pub(super) fn is_configurable(&self) -> bool {
        self.upstream.scheduler_config_mode.eq_ignore_ascii_case("ManagedByCRD")
    }
}

/// Whether machines run.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct PowerState {
    /// `Running`, `Stopped`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) code: String,
}

/// Why a cluster or pool failed.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    /// The error that was kept.
    pub(super) provisioning_error: Option<ProvisioningError>,
}

/// An error that Azure kept.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ProvisioningError {
    /// Its code.
    pub(super) code: Option<String>,
    /// Its words.
    pub(super) message: Option<String>,
    /// What is behind it.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) details: Vec<ProvisioningError>,
}

impl Status {
    /// The failure that was kept.
    pub(super) fn failure(&self) -> Option<Failure> {
        let error = self.provisioning_error.as_ref()?;
        let mut words = error.words();
        for detail in &error.details {
            words.extend(["\n", detail.words().as_str()]);
        }
        Some(Failure::from_words(error.code.clone(), words))
    }
}

impl ProvisioningError {
    fn words(&self) -> String {
        match (self.code.as_deref(), self.message.as_deref()) {
            (Some(code), Some(message)) => format!("({code}) {message}"),
            (code, message) => code.or(message).unwrap_or_default().to_owned(),
        }
    }
}

impl ManagedCluster {
    /// The version it runs.
    pub(super) fn version(&self) -> Option<&str> {
        self.current_kubernetes_version.as_deref().or(self.kubernetes_version.as_deref())
    }

    /// Whether its machines are stopped, or are being stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.power_state.code == "Stopped" || self.provisioning_state == "Stopping"
    }

    /// Whether Azure is removing it.
    pub(super) fn is_going(&self) -> bool {
        self.provisioning_state == "Deleting"
    }

    /// Whether Azure is not at work on it.
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.provisioning_state.as_str(), "Succeeded" | "Failed" | "Canceled")
    }

    /// Whether the last change of it, or its creation, failed.
    pub(super) fn is_failed(&self) -> bool {
        is_failed(&self.provisioning_state)
    }

    /// Whether it failed, and each of its pools.
    pub(super) fn has_nothing_up(&self) -> bool {
        self.is_failed() && !self.agent_pool_profiles.iter().any(|pool| pool.provisioning_state == "Succeeded")
    }

    /// The settings of its autoscaler by their names; az shows them as `scanInterval`, Azure itself as `scan-interval`.
    fn autoscaler(&self) -> BTreeMap<String, String> {
        let setting = |(name, value): (&String, &serde_json::Value)| {
            let mut kebab = String::new();
            for letter in name.chars() {
                if letter.is_ascii_uppercase() {
                    kebab.push('-');
                }
                kebab.push(letter.to_ascii_lowercase());
            }
            match value {
                serde_json::Value::Null => None,
                serde_json::Value::String(text) => Some((kebab, text.clone())),
                other => Some((kebab, other.to_string())),
            }
        };
        self.auto_scaler_profile.iter().filter_map(setting).collect()
    }

    /// The pool of a name.
    pub(super) fn pool(&self, name: &str) -> Option<&AgentPool> {
        self.agent_pool_profiles.iter().find(|pool| pool.name == name)
    }

    /// What the plan compares with the lab file. Pools that are going are gone; those that failed are there.
    pub(super) fn observed(&self) -> Observed {
        Observed {
            exists: true,
            stopped: self.is_stopped(),
            pools: self
                .agent_pool_profiles
                .iter()
                .filter(|pool| pool.provisioning_state != "Deleting")
                .map(|pool| (pool.name.clone(), pool.observed()))
                .collect(),
            kubernetes: self.version().map(str::to_owned),
            autoscaler: self.autoscaler(),
            changes_in_place: false,
        }
    }
}

/// A pool; Azure's answer flattened, or one of a cluster's `agentPoolProfiles`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentPool {
    /// Name.
    pub(super) name: String,
    /// `System` or `User`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) mode: String,
    /// Number of nodes.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) count: u32,
    /// `Creating`, `Succeeded`, `Failed`, `Deleting`, …
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) provisioning_state: String,
    /// VM size.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) vm_size: String,
    /// What a pool of type VirtualMachines is made of.
    pub(super) virtual_machines_profile: Option<VirtualMachinesProfile>,
    /// Labels, AKS's own among them.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) node_labels: BTreeMap<String, String>,
    /// Taints, AKS's own among them.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) node_taints: Vec<String>,
    /// Zones, as strings.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) availability_zones: Vec<String>,
    /// `Spot`, `Regular`.
    pub(super) scale_set_priority: Option<String>,
    /// Whether the autoscaler decides.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) enable_auto_scaling: bool,
    /// Fewest nodes.
    pub(super) min_count: Option<u32>,
    /// Most nodes.
    pub(super) max_count: Option<u32>,
    /// Most pods on a node.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) max_pods: u32,
    /// `Linux`, `Windows`.
    pub(super) os_type: Option<String>,
    /// Version as asked for.
    pub(super) orchestrator_version: Option<String>,
    /// Version down to the patch.
    pub(super) current_orchestrator_version: Option<String>,
    /// Node image.
    pub(super) node_image_version: Option<String>,
    /// Tags; none where the answer does not tell them.
    pub(super) tags: Option<BTreeMap<String, String>>,
    /// Why it failed.
    pub(super) status: Option<Status>,
}

/// The scale profiles of a pool of type VirtualMachines.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct VirtualMachinesProfile {
    #[serde(default, deserialize_with = "null_is_default")]
    scale: Scale,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Scale {
    #[serde(default, deserialize_with = "null_is_default")]
    manual: Vec<ManualScale>,
}

#[derive(Debug, Clone, Deserialize)]
struct ManualScale {
    size: String,
    #[serde(default, deserialize_with = "null_is_default")]
    count: u32,
}

impl AgentPool {
    /// Whether its last change, or its creation, failed.
    pub(super) fn is_failed(&self) -> bool {
        is_failed(&self.provisioning_state)
    }

    /// Labels that the author declared.
    fn labels(&self) -> BTreeMap<String, String> {
        self.node_labels
            .iter()
            .filter(|(key, _)| !key.starts_with(AKS_PREFIX))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    /// Taints that the author declared.
    fn taints(&self) -> BTreeSet<String> {
        self.node_taints.iter().filter(|taint| !taint.starts_with(AKS_PREFIX)).cloned().collect()
    }

    fn observed(&self) -> ObservedPool {
        let lower = |text: &Option<String>, default: &str| text.as_deref().unwrap_or(default).to_ascii_lowercase();
        let declared = Declared {
            mode: self.mode.to_ascii_lowercase(),
            size: self.vm_size.clone(),
            virtual_machines: self.virtual_machines_profile.is_some(),
            zones: zones(&self.availability_zones),
            max_pods: self.max_pods,
            labels: self.labels(),
            taints: self.taints(),
            os: lower(&self.os_type, "linux"),
            spot: lower(&self.scale_set_priority, "regular") == "spot",
            autoscale: match (self.enable_auto_scaling, self.min_count, self.max_count) {
                (true, Some(min), Some(max)) => Some((min, max)),
                _ => None,
            },
            capacity: None,
            devices: Vec::new(),
        };
        let taints: Vec<Taint> = declared.taints.iter().filter_map(|taint| parse_taint(taint)).collect();
        let node = |(index, size): (usize, Option<&str>)| ObservedNode {
            name: format!("aks-{}-{index}", self.name),
            labels: size
                .map(|size| (SIZE_LABEL.to_owned(), size.to_owned()))
                .into_iter()
                .chain(declared.labels.clone())
                .collect(),
            taints: taints.clone(),
        };
        // Azure counts single virtual machines by their sizes alone.
        let alike = (0..self.count).map(|_| None).filter(|_| !declared.virtual_machines);
        let profiles = self.virtual_machines_profile.iter().flat_map(|profile| &profile.scale.manual);
        let single = profiles.flat_map(|profile| (0..profile.count).map(|_| Some(profile.size.as_str())));
        let nodes = alike.chain(single).enumerate().map(node).collect();
        let kubernetes = self.current_orchestrator_version.clone().or_else(|| self.orchestrator_version.clone());
        let (node_image, failed) = (self.node_image_version.clone(), self.is_failed());
        ObservedPool { declared, nodes, kubernetes, node_image, failed, ..ObservedPool::default() }
    }
}

/// Whether something is in a state that only another request ends.
fn is_failed(provisioning_state: &str) -> bool {
    matches!(provisioning_state, "Failed" | "Canceled")
}

/// Zones as numbers, in order. Some answers carry the region before the number.
pub(super) fn zones(texts: &[String]) -> Vec<u8> {
    let mut zones: Vec<u8> =
        texts.iter().filter_map(|zone| zone.rsplit('-').next().and_then(|number| number.parse().ok())).collect();
    zones.sort_unstable();
    zones
}

/// `key=value:Effect` or `key:Effect`.
fn parse_taint(text: &str) -> Option<Taint> {
    let (pair, effect) = text.rsplit_once(':')?;
    let (key, value) = pair.split_once('=').map_or((pair, None), |(key, value)| (key, Some(value)));
    Some(Taint {
        key: key.to_owned(),
        value: value.filter(|value| !value.is_empty()).map(str::to_owned),
        effect: effect.to_owned(),
        time_added: None,
    })
}

/// Azure and az write null where they have nothing.
pub(super) fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_and_taints_of_aks_itself_are_not_the_authors() {
        let pool: AgentPool = serde_json::from_value(json!({
            "name": "spotty", "mode": "User", "count": 2, "provisioningState": "Succeeded", "vmSize": "Standard_B2ms",
            "nodeLabels": { "team": "a", "kubernetes.azure.com/scalesetpriority": "spot" },
            "nodeTaints": ["kubernetes.azure.com/scalesetpriority=spot:NoSchedule", "dedicated=x:NoExecute"],
            "availabilityZones": ["2", "1"], "scaleSetPriority": "Spot", "enableAutoScaling": null, "maxPods": 30,
            "osType": "Linux", "currentOrchestratorVersion": "1.34.2", "tags": null
        }))
        .unwrap();
        let observed = pool.observed();
        assert_eq!(observed.declared.labels, BTreeMap::from([("team".to_owned(), "a".to_owned())]));
        assert_eq!(observed.declared.taints, BTreeSet::from(["dedicated=x:NoExecute".to_owned()]));
        assert_eq!((observed.declared.zones.as_slice(), observed.declared.spot), ([1, 2].as_slice(), true));
        assert_eq!((observed.nodes.len(), observed.declared.autoscale), (2, None));
        assert_eq!(observed.kubernetes.as_deref(), Some("1.34.2"));
    }

    #[test]
    fn single_virtual_machines_are_counted_by_their_sizes() {
        let pool: AgentPool = serde_json::from_value(json!({
            "name": "mixed", "count": null, "vmSize": "", "enableAutoScaling": null, "type": "VirtualMachines",
            "virtualMachinesProfile": { "scale": { "autoscale": null, "manual": [
                { "count": 2, "size": "standard_d4s_v5" }, { "count": 1, "size": "Standard_D8s_v5" } ] } },
        }))
        .unwrap();
        let observed = pool.observed();
        assert!(observed.declared.virtual_machines && observed.nodes.len() == 3);
        let sizes = [("Standard_D4s_v5", 2), ("Standard_D8s_v5", 1)];
        assert_eq!(observed.sizes(), sizes.map(|(size, count)| (size.to_owned(), count)).into());
    }

    #[test]
    fn pools_that_are_going_are_not_there_and_those_that_failed_are() {
        let pool = |name: &str, state: &str| AgentPool {
            name: name.to_owned(),
            provisioning_state: state.to_owned(),
            ..AgentPool::default()
        };
        let cluster = ManagedCluster {
            agent_pool_profiles: vec![
                pool("a", "Succeeded"),
                pool("b", "Failed"),
                pool("c", "Deleting"),
                pool("d", "Creating"),
            ],
            ..ManagedCluster::default()
        };
        let pools = cluster.observed().pools;
        let seen: Vec<(&str, bool)> = pools.iter().map(|(name, pool)| (name.as_str(), pool.failed)).collect();
        assert_eq!(seen, [("a", false), ("b", true), ("d", false)]);
    }

    #[test]
    fn kept_reason_of_a_failed_pool_is_understood() {
        let pool: AgentPool = serde_json::from_value(json!({
            "name": "p", "status": { "provisioningError": { "code": "ReconcileVMSSAgentPoolFailed", "message": "VMSS failed",
                "details": [{ "code": "AllocationFailed", "message": "We do not have sufficient capacity" }] } }
        }))
        .unwrap();
        let failure = pool.status.unwrap().failure().unwrap();
        assert_eq!(failure.code.as_deref(), Some("ReconcileVMSSAgentPoolFailed"));
        assert!(failure.words.contains("We do not have sufficient capacity"), "{}", failure.words);
    }
}
