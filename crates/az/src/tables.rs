//! The tables of az's own: what `-o table` shows of each kind of answer.

use serde_json::Value;

use crate::format::Row;

/// The rows of a document or of a list of them, by title and key.
fn rows(answer: &Value, columns: &[(&str, &str)]) -> Vec<Row> {
    let row = |item: &Value| columns.iter().map(|(title, key)| ((*title).to_owned(), item[*key].clone())).collect();
    match answer {
        Value::Array(items) => items.iter().map(row).collect(),
        Value::Null => Vec::new(),
        item => vec![row(item)],
    }
}

/// Pools.
pub fn pools(answer: &Value) -> Vec<Row> {
    rows(
        answer,
        &[
            ("name", "name"),
            ("osType", "osType"),
            ("kubernetesVersion", "orchestratorVersion"),
            ("vmSize", "vmSize"),
            ("osDiskSizeGB", "osDiskSizeGb"),
            ("count", "count"),
            ("maxPods", "maxPods"),
            ("provisioningState", "provisioningState"),
            ("mode", "mode"),
        ],
    )
}

/// Clusters.
pub fn clusters(answer: &Value) -> Vec<Row> {
    let keys = [
        "name",
        "location",
        "resourceGroup",
        "kubernetesVersion",
        "currentKubernetesVersion",
        "provisioningState",
        "fqdn",
    ];
    rows(answer, &keys.map(|key| (key, key)))
}

/// Resource groups.
pub fn groups(answer: &Value) -> Vec<Row> {
    let row = |group: &Value| {
        let state = group["properties"]["provisioningState"].clone();
        vec![
            ("Name".to_owned(), group["name"].clone()),
            ("Location".to_owned(), group["location"].clone()),
            ("Status".to_owned(), state),
        ]
    };
    answer.as_array().into_iter().flatten().map(row).collect()
}

/// What a pool can be rolled back to.
pub fn rollback_versions(answer: &Value) -> Vec<Row> {
    let columns = [
        ("kubernetesVersion", "orchestratorVersion"),
        ("nodeImageVersion", "nodeImageVersion"),
        ("timestamp", "timestamp"),
    ];
    rows(answer, &columns)
}

/// Subscriptions.
pub fn subscriptions(answer: &Value) -> Vec<Row> {
    let columns = [
        ("Name", "name"),
        ("CloudName", "cloudName"),
        ("SubscriptionId", "id"),
        ("TenantId", "tenantId"),
        ("State", "state"),
        ("IsDefault", "isDefault"),
    ];
    rows(answer, &columns)
}

/// The versions of a list, joined, or that there are none.
fn listed(versions: &Value) -> Value {
    let words: Vec<&str> = versions.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if words.is_empty() { "None available".into() } else { words.join(", ").into() }
}

/// What a cluster can be upgraded to.
pub fn upgrades(answer: &Value) -> Vec<Row> {
    let profile = &answer["controlPlaneProfile"];
    let to: Value =
        profile["upgrades"].as_array().into_iter().flatten().map(|row| row["kubernetesVersion"].clone()).collect();
    let cell = |title: &str, value: Value| (title.to_owned(), value);
    vec![vec![
        cell("name", answer["name"].clone()),
        cell("resourceGroup", answer["resourceGroup"].clone()),
        cell("masterVersion", profile["kubernetesVersion"].clone()),
        cell("upgrades", listed(&to)),
    ]]
}

/// The versions that are offered, the newest first.
pub fn versions(answer: &Value) -> Vec<Row> {
    let minors = answer["values"].as_array().into_iter().flatten();
    let patches = minors.flat_map(|minor| {
        let patches = minor["patchVersions"].as_object().into_iter().flatten();
        patches.map(move |(patch, row)| {
            vec![
                ("kubernetesVersion".to_owned(), Value::from(patch.clone())),
                ("isPreview".to_owned(), minor["isPreview"].clone()),
                ("upgrades".to_owned(), listed(&row["upgrades"])),
                ("supportPlan".to_owned(), listed(&minor["capabilities"]["supportPlan"])),
            ]
        })
    });
    patches.collect()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::json;

    use super::*;
    use crate::format::{Transformer, write};
    use crate::versions;

    fn table(answer: &Value, transformer: Transformer) -> String {
        write("table", answer, None, Some(transformer)).unwrap()
    }

    #[test]
    fn tables_are_those_of_az() {
        let pool = json!({
            "name": "extra", "osType": "Linux", "orchestratorVersion": "1.36", "vmSize": "Standard_B2ms", "osDiskSizeGb": 128,
            "count": 1, "maxPods": 250, "provisioningState": "Succeeded", "mode": "User",
        });
        assert_snapshot!(table(&json!([pool]), pools), @r"
        Name    OsType    KubernetesVersion    VmSize         OsDiskSizeGB    Count    MaxPods    ProvisioningState    Mode
        ------  --------  -------------------  -------------  --------------  -------  ---------  -------------------  ------
        extra   Linux     1.36                 Standard_B2ms  128             1        250        Succeeded            User
        ");
        assert_snapshot!(table(&versions::document(), super::versions), @r"
        KubernetesVersion    Upgrades        SupportPlan
        -------------------  --------------  --------------------------------------
        1.36.2               None available  KubernetesOfficial, AKSLongTermSupport
        1.35.0               1.36.2          KubernetesOfficial, AKSLongTermSupport
        1.34.0               1.35.0          KubernetesOfficial, AKSLongTermSupport
        1.33.0               1.34.0          KubernetesOfficial, AKSLongTermSupport
        ");
        let upgrades = json!({ "name": "default", "resourceGroup": "rg", "controlPlaneProfile": { "kubernetesVersion": "1.36.2" } });
        assert_snapshot!(table(&upgrades, super::upgrades), @r"
        Name     ResourceGroup    MasterVersion    Upgrades
        -------  ---------------  ---------------  --------------
        default  rg               1.36.2           None available
        ");
    }
}
