//! What the stand-in offers: VM sizes and Kubernetes versions.

use serde_json::{Value, json};

/// The version of a cluster that asks for none.
pub const DEFAULT_VERSION: &str = "1.34";

/// Name, vCPUs, GiB, family, zones, reason why this subscription cannot have it.
type Size = (&'static str, i64, u32, &'static str, &'static [&'static str], Option<&'static str>);

const SIZES: &[Size] = &[
    ("Standard_B2ms", 2, 8, "standardBSFamily", &["1", "2", "3"], None),
    ("Standard_B4ms", 4, 16, "standardBSFamily", &["1", "2", "3"], None),
    ("Standard_D2s_v5", 2, 8, "standardDSv5Family", &["1", "2"], None),
    ("Standard_D4s_v5", 4, 16, "standardDSv5Family", &["1", "2"], None),
    ("Standard_B2s", 2, 4, "standardBSFamily", &[], None),
    ("Standard_NC4as_T4_v3", 4, 28, "standardNCASv3_T4Family", &["1"], Some("NotAvailableForSubscription")),
];

/// Minor versions with their patches; the first is for long-term support only.
const VERSIONS: &[(&str, &[&str], bool)] = &[
    ("1.30", &["1.30.12"], true),
    ("1.33", &["1.33.6"], false),
    ("1.34", &["1.34.1", "1.34.2"], false),
    ("1.35", &["1.35.0"], false),
    ("1.36", &["1.36.1"], false),
];

/// vCPUs and family of a size.
pub fn size(name: &str) -> Option<(i64, &'static str)> {
    let found = SIZES.iter().find(|(size, ..)| size.eq_ignore_ascii_case(name))?;
    Some((found.1, found.3))
}

/// vCPUs and GiB of a size.
pub fn machine(name: &str) -> (i64, u64) {
    SIZES.iter().find(|(size, ..)| size.eq_ignore_ascii_case(name)).map_or((2, 8), |size| (size.1, u64::from(size.2)))
}

/// The newest patch of a version.
pub fn patch_of(version: Option<&str>) -> Option<String> {
    let version = version?;
    let (_, patches, _) =
        VERSIONS.iter().find(|(minor, ..)| version == *minor || version.starts_with(&format!("{minor}.")))?;
    let exact = patches.iter().find(|patch| **patch == version);
    exact.or_else(|| patches.last().filter(|_| version.split('.').count() == 2)).map(|patch| (*patch).to_owned())
}

pub fn versions() -> Value {
    let version = |(minor, patches, lts): &(&str, &[&str], bool)| {
        let patches: serde_json::Map<String, Value> =
            patches.iter().map(|patch| ((*patch).to_owned(), json!({ "upgrades": [] }))).collect();
        let plans =
            if *lts { json!(["AKSLongTermSupport"]) } else { json!(["KubernetesOfficial", "AKSLongTermSupport"]) };
        json!({ "version": minor, "isDefault": *minor == DEFAULT_VERSION, "isPreview": null, "patchVersions": patches, "capabilities": { "supportPlan": plans } })
    };
    json!({ "values": VERSIONS.iter().map(version).collect::<Vec<_>>() })
}

pub fn skus() -> Vec<Value> {
    let sku = |(name, cpus, memory, family, zones, refused): &Size| {
        let restrictions = match refused {
            Some(reason) => json!([{ "type": "Location", "values": ["westeurope"], "reasonCode": reason,
                "restrictionInfo": { "locations": ["westeurope"], "zones": [] } }]),
            None => json!([]),
        };
        json!({ "resourceType": "virtualMachines", "name": name, "tier": "Standard", "family": family, "locations": ["westeurope"],
            "locationInfo": [{ "location": "westeurope", "zones": zones, "zoneDetails": [] }],
            "capabilities": [
                { "name": "vCPUs", "value": cpus.to_string() }, { "name": "MemoryGB", "value": memory.to_string() },
                { "name": "CpuArchitectureType", "value": "x64" }, { "name": "LowPriorityCapable", "value": (*name != "Standard_B2s").to_string() },
            ],
            "restrictions": restrictions })
    };
    SIZES.iter().map(sku).collect()
}
