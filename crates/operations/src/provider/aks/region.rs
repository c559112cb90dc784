//! What az answers of a region: its VM sizes, the quota of the subscription there, its Kubernetes versions.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::answer::{null_is_default, zones};

/// A VM size of a region.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sku {
    /// `Standard_B2ms`.
    pub(super) name: String,
    /// Quota family, `standardBSFamily`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) family: String,
    /// What it offers.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) capabilities: Vec<Capability>,
    /// Where it is offered.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) location_info: Vec<LocationInfo>,
    /// Where this subscription may not have it.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) restrictions: Vec<Restriction>,
}

/// A name and a value.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Capability {
    pub(super) name: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) value: String,
}

/// A region with its zones.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct LocationInfo {
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) zones: Vec<String>,
}

/// What keeps a subscription from a size.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Restriction {
    /// `Location` or `Zone`.
    #[serde(rename = "type", default, deserialize_with = "null_is_default")]
    pub(super) scope: String,
    /// `NotAvailableForSubscription`, `QuotaId`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) reason_code: String,
    #[serde(rename = "restrictionInfo", default, deserialize_with = "null_is_default")]
    pub(super) concerns: RestrictionInfo,
}

/// Which zones a restriction is about.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct RestrictionInfo {
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) zones: Vec<String>,
}

impl Sku {
    /// vCPUs of one machine.
    pub(super) fn cpus(&self) -> Option<u32> {
        self.capability("vCPUs")?.parse().ok()
    }

    /// Whether it can be had as spot capacity.
    pub(super) fn offers_spot(&self) -> bool {
        self.capability("LowPriorityCapable").is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    fn capability(&self, name: &str) -> Option<&str> {
        self.capabilities.iter().find(|capability| capability.name == name).map(|capability| capability.value.as_str())
    }

    /// Why this subscription cannot have it in the whole region, if so.
    pub(super) fn refused(&self) -> Option<&str> {
        let restriction = self.restrictions.iter().find(|restriction| restriction.scope == "Location")?;
        Some(&restriction.reason_code)
    }

    /// The zones in which this subscription can have it.
    pub(super) fn zones(&self) -> Vec<u8> {
        let refused: Vec<u8> = self
            .restrictions
            .iter()
            .filter(|restriction| restriction.scope == "Zone")
            .flat_map(|restriction| zones(&restriction.concerns.zones))
            .collect();
        let offered = self.location_info.iter().flat_map(|info| zones(&info.zones));
        let mut offered: Vec<u8> = offered.filter(|zone| !refused.contains(zone)).collect();
        offered.sort_unstable();
        offered.dedup();
        offered
    }
}

/// A row of the vCPU quota.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Usage {
    /// What is counted.
    pub(super) name: UsageName,
    /// How much is used.
    #[serde(deserialize_with = "number")]
    pub(super) current_value: i64,
    /// How much may be used.
    #[serde(deserialize_with = "number")]
    pub(super) limit: i64,
}

/// What is counted.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageName {
    /// `cores`, `lowPriorityCores`, `standardBSFamily`.
    pub(super) value: String,
    /// For people.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) localized_value: String,
}

/// The Kubernetes versions of a region.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Versions {
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) values: Vec<Version>,
}

/// A minor version with its patches.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Version {
    /// `1.34`.
    #[serde(rename = "version")]
    pub(super) minor: String,
    /// Patches, by name.
    #[serde(rename = "patchVersions", default, deserialize_with = "null_is_default")]
    pub(super) patches: BTreeMap<String, Value>,
    /// Support plans.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) capabilities: VersionCapabilities,
}

/// Support plans of a version.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VersionCapabilities {
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) support_plan: Vec<String>,
}

impl Version {
    /// Whether only clusters with long-term support can have it.
    pub(super) fn needs_long_term_support(&self) -> bool {
        let plans = &self.capabilities.support_plan;
        !plans.is_empty() && !plans.iter().any(|plan| plan == "KubernetesOfficial")
    }
}

/// A number, or a number in quotes: answers have both.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Number(number) => number.as_i64().ok_or_else(|| serde::de::Error::custom("not a whole number")),
        Value::String(text) => text.parse().map_err(serde::de::Error::custom),
        other => Err(serde::de::Error::custom(format!("{other} is no number"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_come_with_and_without_quotes() {
        let usage = |value: serde_json::Value| {
            serde_json::from_value::<Usage>(
                json!({ "name": { "value": "cores" }, "currentValue": value, "limit": "10" }),
            )
            .map(|usage| usage.current_value)
        };
        assert_eq!(usage(json!(4)).unwrap(), 4);
        assert_eq!(usage(json!("4")).unwrap(), 4);
        assert!(usage(json!([])).is_err());
    }

    #[test]
    fn zones_that_are_restricted_are_not_offered() {
        let sku: Sku = serde_json::from_value(json!({
            "name": "Standard_B2ms", "family": "standardBSFamily",
            "capabilities": [{ "name": "vCPUs", "value": "2" }, { "name": "LowPriorityCapable", "value": "True" }],
            "locationInfo": [{ "location": "westeurope", "zones": ["3", "1", "2"] }],
            "restrictions": [{ "type": "Zone", "reasonCode": "NotAvailableForSubscription", "restrictionInfo": { "zones": ["3"] } }]
        }))
        .unwrap();
        assert_eq!((sku.cpus(), sku.offers_spot(), sku.refused(), sku.zones()), (Some(2), true, None, vec![1, 2]));
    }
}
