//! A cluster as az shows it: ARM's managedCluster, flattened; and the profile of its autoscaler.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::names::{SUBSCRIPTION, Site, TENANT, entity_tag};
use crate::notes::ClusterNote;
use crate::pool::{Shown, nulls, within_cluster};
use crate::refusal::{Code, Refusal};
use crate::versions::upgrades;
use klab_lab::spec::KubernetesVersion;
use klab_scheduler::autoscaler::{Profile, Setting, SettingError};

/// The keys of a cluster of azure-mgmt-containerservice 41.6 that klab has nothing to say of.
const EMPTY: &str = "aadProfile addonProfiles aiToolchainOperatorProfile apiServerAccessProfile autoScalerProfile azureMonitorProfile \
    diskEncryptionSetId extendedLocation fqdnSubdomain hostedSystemProfile httpProxyConfig ingressProfile linuxProfile \
    nodeResourceGroupProfile podIdentityProfile privateFqdn privateLinkResources publicNetworkAccess schedulerProfile \
    serviceMeshProfile status systemData upgradeSettings";

/// A cluster, and what is shown of it.
#[derive(Debug, Clone)]
pub struct Cluster<'c> {
    /// Where it is said to be.
    pub site: &'c Site,
    /// The version of its API server.
    pub version: KubernetesVersion,
    /// The same down to the patch.
    pub patched: String,
    /// Its pools.
    pub pools: Vec<Shown<'c>>,
    /// What is remembered of it.
    pub note: &'c ClusterNote,
    /// Whether its machines are stopped.
    pub is_stopped: bool,
    /// Its `provisioningState`.
    pub state: &'c str,
    /// The settings of its autoscaler, by az's keys.
    pub autoscaler: &'c BTreeMap<String, String>,
}

/// The cluster as a document.
pub fn document(cluster: &Cluster<'_>) -> Value {
    let Cluster { site, note, .. } = cluster;
    let mut all = nulls(EMPTY);
    let tier = note.tier.clone().unwrap_or_else(|| "Free".to_owned());
    let identity = format!(
        "/subscriptions/{SUBSCRIPTION}/resourcegroups/{0}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/{1}-agentpool",
        site.node_group(),
        site.cluster
    );
    let said = json!({
        "agentPoolProfiles": cluster.pools.iter().map(|pool| within_cluster(site, pool)).collect::<Vec<_>>(),
        "autoUpgradeProfile": { "nodeOsUpgradeChannel": "NodeImage", "upgradeChannel": null },
        "azurePortalFqdn": site.fqdn().replacen(".hcp.", ".portal.hcp.", 1),
        "bootstrapProfile": { "artifactSource": "Direct", "containerRegistryId": null },
        "currentKubernetesVersion": cluster.patched,
        "disableLocalAccounts": false,
        "dnsPrefix": site.dns_prefix(),
        "enableRbac": true,
        "fqdn": site.fqdn(),
        "id": site.id(),
        "identity": {
            "delegatedResources": null, "principalId": entity_tag(&site.id()), "tenantId": TENANT, "type": "SystemAssigned",
            "userAssignedIdentities": null,
        },
        "identityProfile": { "kubeletidentity": {
            "clientId": entity_tag(&identity), "objectId": entity_tag(&format!("{identity}/object")), "resourceId": identity,
        } },
        "kind": "Base",
        "kubernetesVersion": cluster.version.to_string(),
        "location": site.location,
        "maxAgentPools": 100,
        "metricsProfile": { "costAnalysis": { "enabled": false } },
        "name": site.cluster,
        "networkProfile": network(),
        "nodeProvisioningProfile": { "defaultNodePools": "Auto", "mode": "Manual" },
        "nodeResourceGroup": site.node_group(),
        "oidcIssuerProfile": { "enabled": false, "issuerUrl": null },
        "powerState": { "code": if cluster.is_stopped { "Stopped" } else { "Running" } },
        "provisioningState": cluster.state,
        "resourceGroup": site.group,
        "resourceUid": entity_tag(&format!("{}/uid", site.id())).replace('-', "").chars().take(24).collect::<String>(),
        "securityProfile": {
            "azureKeyVaultKms": null, "customCaTrustCertificates": null, "defender": null, "imageCleaner": null,
            "workloadIdentity": null,
        },
        "servicePrincipalProfile": { "clientId": "msi", "secret": null },
        "sku": { "name": "Base", "tier": tier },
        "storageProfile": {
            "blobCsiDriver": null, "diskCsiDriver": { "enabled": true }, "fileCsiDriver": { "enabled": true },
            "snapshotController": { "enabled": true },
        },
        "supportPlan": "KubernetesOfficial",
        "tags": note.tags,
        "type": "Microsoft.ContainerService/ManagedClusters",
        "windowsProfile": {
            "adminPassword": null, "adminUsername": "azureuser", "enableCsiProxy": true, "gmsaProfile": null,
            "licenseType": null,
        },
        "workloadAutoScalerProfile": { "keda": null, "verticalPodAutoscaler": null },
    });
    if let Value::Object(said) = said {
        all.extend(said);
    }
    let is_scaled = cluster.pools.iter().any(|shown| shown.pool.autoscale.is_some());
    if is_scaled || !cluster.autoscaler.is_empty() {
        all.insert("autoScalerProfile".to_owned(), autoscaler_document(cluster.autoscaler));
    }
    let tag = entity_tag(&json!(all).to_string());
    all.insert("eTag".to_owned(), tag.into());
    Value::Object(all)
}

fn network() -> Value {
    json!({
        "advancedNetworking": null, "dnsServiceIp": "10.0.0.10", "ipFamilies": ["IPv4"],
        "loadBalancerProfile": {
            "allocatedOutboundPorts": null, "backendPoolType": "nodeIPConfiguration", "effectiveOutboundIPs": null,
            "enableMultipleStandardLoadBalancers": null, "idleTimeoutInMinutes": null,
            "managedOutboundIPs": { "count": 1, "countIpv6": null }, "outboundIPs": null, "outboundIpPrefixes": null,
        },
        "loadBalancerSku": "standard", "natGatewayProfile": null, "networkDataplane": "azure", "networkMode": null,
        "networkPlugin": "azure", "networkPluginMode": "overlay", "networkPolicy": "none", "outboundType": "loadBalancer",
        "podCidr": "10.244.0.0/16", "podCidrs": ["10.244.0.0/16"], "serviceCidr": "10.0.0.0/16",
        "serviceCidrs": ["10.0.0.0/16"], "staticEgressGatewayProfile": null,
    })
}

/// What `az aks get-upgrades` answers.
pub fn upgrades_document(cluster: &Cluster<'_>) -> Value {
    let site = cluster.site;
    let to: Vec<Value> = upgrades(cluster.version)
        .into_iter()
        .map(|version| json!({ "isPreview": null, "kubernetesVersion": version }))
        .collect();
    json!({
        "agentPoolProfiles": null,
        "controlPlaneProfile": {
            "kubernetesVersion": cluster.patched, "name": null, "osType": "Linux",
            "upgrades": (!to.is_empty()).then_some(to),
        },
        "id": format!("{}/upgradeprofiles/default", site.id()),
        "name": "default",
        "resourceGroup": site.group,
        "systemData": null,
        "type": "Microsoft.ContainerService/managedClusters/upgradeprofiles",
    })
}

/// The autoscaler's settings that az shows by default, by name, in the order in which az lists them.
const SHOWN: [(&str, &str); 20] = [
    ("balance-similar-node-groups", "false"),
    ("daemonset-eviction-for-empty-nodes", "false"),
    ("daemonset-eviction-for-occupied-nodes", "true"),
    ("ignore-daemonsets-utilization", "false"),
    ("expander", "random"),
    ("max-empty-bulk-delete", "10"),
    ("max-graceful-termination-sec", "600"),
    ("max-node-provision-time", "15m"),
    ("max-total-unready-percentage", "45"),
    ("new-pod-scale-up-delay", "0s"),
    ("ok-total-unready-count", "3"),
    ("scan-interval", "10s"),
    ("scale-down-delay-after-add", "10m"),
    // The scan interval, which has another unit than what can be set.
    ("scale-down-delay-after-delete", "10s"),
    ("scale-down-delay-after-failure", "3m"),
    ("scale-down-unneeded-time", "10m"),
    ("scale-down-unready-time", "20m"),
    ("scale-down-utilization-threshold", "0.5"),
    ("skip-nodes-with-local-storage", "false"),
    ("skip-nodes-with-system-pods", "true"),
];

/// The settings that are true or false in Azure's documents; the other switches are texts there.
const SWITCHES: [&str; 3] =
    ["daemonset-eviction-for-empty-nodes", "daemonset-eviction-for-occupied-nodes", "ignore-daemonsets-utilization"];

/// What is typed after `--cluster-autoscaler-profile`, laid over what was said before; the empty word takes everything back.
///
/// # Errors
/// When az refuses it.
pub fn autoscaler(words: &[String], before: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Refusal> {
    if words.iter().all(String::is_empty) {
        return Ok(BTreeMap::new());
    }
    let mut profile = before.clone();
    for word in words.iter().flat_map(|word| word.split(',')).filter(|word| !word.is_empty()) {
        let (key, value) = match word.split('=').collect::<Vec<_>>().as_slice() {
            [key] => ((*key).to_owned(), String::new()),
            [key, value] => ((*key).to_owned(), (*value).to_owned()),
            _ => {
                let message = format!(
                    "The format of '{word}' in '{word}' is incorrect, correct format should be 'Key1=Value1,Key2=Value2'."
                );
                return Err(Refusal::new(message));
            }
        };
        if key.is_empty() {
            return Err(Refusal::new("Empty key specified for cluster-autoscaler-profile"));
        }
        if Setting::find(&key).is_err() {
            let known: Vec<&str> = SHOWN.iter().map(|(name, _)| *name).collect();
            let message = format!(
                "'{key}' is an invalid key for cluster-autoscaler-profile. Valid keys are {}.",
                known.join(", ")
            );
            return Err(crate::grammar::offer(Refusal::new(message), &key, known.into_iter()));
        }
        let is_switch = SWITCHES.contains(&key.as_str());
        let value = if is_switch { value.to_lowercase() } else { value };
        if is_switch && !["true", "false"].contains(&value.as_str()) {
            let message =
                format!("Value '{value}' for cluster-autoscaler-profile key '{key}' must be either 'true' or 'false'.");
            return Err(Refusal::new(message));
        }
        // An empty value takes the key back to what AKS does by itself.
        if value.is_empty() {
            profile.remove(&key);
            continue;
        }
        refuse_value(&key, &value)?;
        profile.insert(key, value);
    }
    Ok(profile)
}

/// Refuses what the autoscaler could not read: Azure does, after az took it.
fn refuse_value(key: &str, value: &str) -> Result<(), Refusal> {
    match Profile::default().set(key, value) {
        Err(SettingError::Value { expected, .. }) => {
            let message = format!("Value '{value}' of autoScalerProfile.{key} is invalid. Expected: {expected}.");
            Err(Refusal::azure(Code::InvalidParameter, &message))
        }
        _ => Ok(()),
    }
}

/// The profile as az shows it.
fn autoscaler_document(said: &BTreeMap<String, String>) -> Value {
    let entry = |(key, default): (&str, &str)| {
        let value = said.get(key).map_or(default, String::as_str);
        let value = if SWITCHES.contains(&key) { json!(value == "true") } else { json!(value) };
        (camel(key), value)
    };
    Value::Object(SHOWN.into_iter().map(entry).collect())
}

fn camel(key: &str) -> String {
    let mut parts = key.split('-');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let mut letters = part.chars();
        let capital = letters.next().map(|letter| letter.to_ascii_uppercase());
        capital.into_iter().fold(text, |text, letter| text + &letter.to_string()) + letters.as_str()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(words: &str) -> String {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let before = BTreeMap::from([("expander".to_owned(), "random".to_owned())]);
        match autoscaler(&words, &before) {
            Ok(profile) => profile.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" "),
            Err(refusal) => refusal.message.lines().next().unwrap_or_default().to_owned(),
        }
    }

    #[test]
    fn autoscaler_is_told_what_az_lets_through() {
        for (words, expected) in [
            ("scan-interval=30s", "expander=random scan-interval=30s"),
            ("scan-interval=30s,expander=least-waste", "expander=least-waste scan-interval=30s"),
            (
                "scale-down-unneeded-time=1m scan-interval=5s",
                "expander=random scale-down-unneeded-time=1m scan-interval=5s",
            ),
            ("", ""),
            ("expander=", ""),
            ("ignore-daemonsets-utilization=True", "expander=random ignore-daemonsets-utilization=true"),
            (
                "ignore-daemonsets-utilization=maybe",
                "Value 'maybe' for cluster-autoscaler-profile key 'ignore-daemonsets-utilization' must be either 'true' or 'false'.",
            ),
            ("=5", "Empty key specified for cluster-autoscaler-profile"),
            (
                "a=b=c",
                "The format of 'a=b=c' in 'a=b=c' is incorrect, correct format should be 'Key1=Value1,Key2=Value2'.",
            ),
            (
                "scan-interval=soon",
                "(InvalidParameter) Value 'soon' of autoScalerProfile.scan-interval is invalid. Expected: a whole number of seconds, such as 10s.",
            ),
            // What the autoscaler of klab could not read is not taken, and what it can read is.
            (
                "scale-down-unneeded-time=10s",
                "(InvalidParameter) Value '10s' of autoScalerProfile.scale-down-unneeded-time is invalid. Expected: a whole number of minutes, such as 10m.",
            ),
            (
                "scan-interval=1m",
                "(InvalidParameter) Value '1m' of autoScalerProfile.scan-interval is invalid. Expected: a whole number of seconds, such as 10s.",
            ),
            ("max-total-unready-percentage=12.5", "expander=random max-total-unready-percentage=12.5"),
            (
                "expander=best",
                "(InvalidParameter) Value 'best' of autoScalerProfile.expander is invalid. Expected: least-waste, most-pods, priority or random.",
            ),
        ] {
            assert_eq!(profile(words), expected, "{words}");
        }
        assert!(
            profile("scan-intervall=5s").starts_with(
                "'scan-intervall' is an invalid key for cluster-autoscaler-profile. Valid keys are balance-"
            )
        );
        let mut names = SHOWN.map(|(name, _)| name);
        names.sort_unstable();
        assert!(names.into_iter().eq(Setting::ALL.iter().map(|setting| setting.name)));
        let settable = SHOWN.iter().filter(|(name, _)| *name != "scale-down-delay-after-delete");
        let shown = settable.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(Profile::of(&shown), Ok(Profile::default()));
        assert_eq!(camel("scale-down-delay-after-add"), "scaleDownDelayAfterAdd");
    }
}
