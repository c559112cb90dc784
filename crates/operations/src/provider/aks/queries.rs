//! What klab asks of Azure, a question each: through `az rest`, which starts in half the time of az's other commands.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::answer::{AgentPool, Group, ManagedCluster, Registration};
use super::arguments;
use super::az::Az;
use super::azure_site::AzureSite;
use super::failure::Failure;
use super::region::{Sku, Usage, Versions};
use super::request::answered;

/// Versions of Azure's interfaces: each a stable one that tells all klab reads, and that every cloud has.
const OF_GROUPS: &str = "2024-11-01";
const OF_CLUSTERS: &str = "2025-10-01";
/// Only preview versions report what has become of an operation.
const OF_OPERATIONS: &str = "2025-05-02-preview";
const OF_SIZES: &str = "2021-07-01";
const OF_USAGE: &str = "2024-07-01";

impl Az {
    /// A resource group; `None` where there is none.
    pub(super) fn group(&self, name: &str) -> Result<Option<Group>, Failure> {
        let path = format!("/resourceGroups/{name}?api-version={OF_GROUPS}");
        unless_absent(self.get(&path).and_then(understood))
    }

    /// The cluster of a lab; `None` where there is none.
    pub(super) fn cluster(&self, place: &AzureSite) -> Result<Option<ManagedCluster>, Failure> {
        unless_absent(self.cluster_or_why_not(place))
    }

    /// The cluster of a lab, or whether it is the cluster or its group that is not there.
    pub(super) fn cluster_or_why_not(&self, place: &AzureSite) -> Result<ManagedCluster, Failure> {
        let path = format!("{}?api-version={OF_CLUSTERS}", path_of(place));
        self.get(&path).and_then(|value| understood(flattened(value)))
    }

    /// All clusters in a group.
    pub(super) fn clusters_of(&self, group: &str) -> Result<Vec<ManagedCluster>, Failure> {
        let path = format!(
            "/resourceGroups/{group}/providers/Microsoft.ContainerService/managedClusters?api-version={OF_CLUSTERS}"
        );
        let found = unless_absent(self.list(&path))?.unwrap_or_default();
        found.into_iter().map(|cluster| understood(flattened(cluster))).collect()
    }

    /// The last operation on a lab's cluster, or on one of its pools.
    pub(super) fn latest_operation(&self, place: &AzureSite, pool: Option<&str>) -> Result<Value, Failure> {
        let pool = pool.map_or(String::new(), |pool| format!("/agentPools/{pool}"));
        self.get(&format!("{}{pool}/operations/latest?api-version={OF_OPERATIONS}", path_of(place)))
    }

    /// The pools of a lab's cluster.
    pub(super) fn pools(&self, place: &AzureSite) -> Result<Vec<AgentPool>, Failure> {
        let path = format!("{}/agentPools?api-version={OF_CLUSTERS}", path_of(place));
        self.list(&path)?.into_iter().map(|pool| understood(flattened(pool))).collect()
    }

    /// Whether the subscription is registered for AKS, in Azure's word for it.
    pub(super) fn registration(&self) -> Result<Registration, Failure> {
        let path = format!("/providers/Microsoft.ContainerService?api-version={OF_GROUPS}");
        self.get(&path).and_then(understood)
    }

    /// The Kubernetes versions of a region.
    pub(super) fn versions(&self, location: &str) -> Result<Versions, Failure> {
        let path = format!(
            "/providers/Microsoft.ContainerService/locations/{location}/kubernetesVersions?api-version={OF_CLUSTERS}"
        );
        self.get(&path).and_then(understood)
    }

    /// All VM sizes of a region, also those that this subscription cannot have: klab says why.
    pub(super) fn sizes(&self, location: &str) -> Result<Vec<Sku>, Failure> {
        let path = format!(
            "/providers/Microsoft.Compute/skus?api-version={OF_SIZES}&$filter=location%20eq%20%27{location}%27"
        );
        let sizes = self.list(&path)?.into_iter().filter(|sku| sku["resourceType"] == "virtualMachines");
        sizes.map(understood).collect()
    }

    /// The names of the subscription's container registries.
    pub(super) fn registries(&self) -> Result<Vec<String>, Failure> {
        let filter = "$filter=resourceType%20eq%20%27Microsoft.ContainerRegistry/registries%27";
        let found = self.list(&format!("/resources?api-version={OF_GROUPS}&{filter}"))?;
        Ok(found.iter().filter_map(|registry| registry["name"].as_str()).map(str::to_owned).collect())
    }

    /// The vCPU quota of a region, and how much of it is used.
    pub(super) fn usage(&self, location: &str) -> Result<Vec<Usage>, Failure> {
        let path = format!("/providers/Microsoft.Compute/locations/{location}/usages?api-version={OF_USAGE}");
        self.list(&path)?.into_iter().map(understood).collect()
    }

    /// A path within the subscription.
    fn get(&self, path: &str) -> Result<Value, Failure> {
        self.get_url(&format!("/subscriptions/{{subscriptionId}}{path}"))
    }

    fn get_url(&self, url: &str) -> Result<Value, Failure> {
        let arguments = arguments::get(url);
        // `az rest` asks once, az's other commands ask again themselves.
        answered(self, || self.ask(&arguments))
    }

    /// All values of a list, from however many pages.
    fn list(&self, path: &str) -> Result<Vec<Value>, Failure> {
        let mut page = self.get(path)?;
        let mut values = Vec::new();
        loop {
            if let Value::Array(more) = page["value"].take() {
                values.extend(more);
            }
            match page["nextLink"].as_str().filter(|link| !link.is_empty()) {
                Some(link) => page = self.get_url(link)?,
                None => return Ok(values),
            }
        }
    }
}

fn understood<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| Failure::of_answer(&error.to_string(), "az rest"))
}

fn path_of(place: &AzureSite) -> String {
    format!("/resourceGroups/{}/providers/Microsoft.ContainerService/managedClusters/{}", place.group, place.cluster)
}

/// What was found; `None` where Azure says that there is no such thing.
pub(super) fn unless_absent<T>(found: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(failure) if failure.is_absence() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// A resource in Azure's own form as az shows it: what is in `properties` one level higher, the group beside it.
fn flattened(mut resource: Value) -> Value {
    let group = resource["id"].as_str().and_then(|id| id.split('/').nth(4)).map(str::to_owned);
    if let Some(fields) = resource.as_object_mut() {
        if let Some(Value::Object(properties)) = fields.remove("properties") {
            fields.extend(properties);
        }
        fields.insert("resourceGroup".to_owned(), group.into());
    }
    resource
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resource_is_read_as_az_shows_it() {
        let cluster: ManagedCluster = serde_json::from_value(flattened(json!({
            "id": "/subscriptions/s/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/c", "name": "c",
            "location": "westeurope", "tags": null,
            "properties": { "provisioningState": "Succeeded", "powerState": { "code": "Running" },
                "agentPoolProfiles": [{ "name": "system", "count": 2, "vmSize": "Standard_B2ms" }] }
        })))
        .unwrap();
        assert_eq!((cluster.resource_group.as_str(), cluster.provisioning_state.as_str()), ("rg", "Succeeded"));
        assert_eq!(cluster.pool("system").map(|pool| pool.count), Some(2));
    }
}
