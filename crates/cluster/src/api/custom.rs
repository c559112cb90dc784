//! Which resources a cluster serves: the fixed table, and what its CustomResourceDefinitions add.

use serde_json::{Value, json};

use super::super::cluster::{Cluster, DeleteOptions, Part, WriteOptions};
use super::super::resource::{
    CUSTOM_RESOURCE_DEFINITIONS, CustomName, ONLY_STATUS, RESOURCES, Resource, ResourceId, Subresource,
};
use super::super::status::Status;
use super::custom_schema;

/// The resource at `/apis/<group>/<version>/<plural>` of this cluster.
pub(super) fn find(cluster: &Cluster, group: &str, version: &str, plural: &str) -> Option<ResourceId> {
    if let Some(fixed) = ResourceId::by_path(group, version, plural) {
        return Some(fixed);
    }
    let definition = cluster.get(CUSTOM_RESOURCE_DEFINITIONS, "", &format!("{plural}.{group}"))?;
    defined_by(&definition.value()).into_iter().find(|id| id.row().version == version)
}

/// The resource with an object's `apiVersion` and `kind` in this cluster.
pub(super) fn find_kind(cluster: &Cluster, api_version: &str, kind: &str) -> Option<ResourceId> {
    ResourceId::by_kind(api_version, kind).or_else(|| {
        let definitions = cluster.list(CUSTOM_RESOURCE_DEFINITIONS, None).0;
        let mut defined = definitions.iter().flat_map(|definition| defined_by(&definition.value()));
        defined.find(|id| id.row().kind == kind && id.row().api_version() == api_version)
    })
}

/// Whether this cluster has kinds of its own.
pub(super) fn any(cluster: &Cluster) -> bool {
    cluster.has_any(CUSTOM_RESOURCE_DEFINITIONS)
}

/// All resources of this cluster, in the order discovery lists them.
pub(super) fn rows(cluster: &Cluster) -> Vec<&'static Resource> {
    let mut found: Vec<&'static Resource> = RESOURCES.iter().collect();
    for definition in cluster.list(CUSTOM_RESOURCE_DEFINITIONS, None).0 {
        found.extend(defined_by(&definition.value()).into_iter().map(ResourceId::row));
    }
    found
}

/// A resource with all that discovery tells of it.
#[derive(Debug, Clone)]
pub(super) struct Listing {
    pub(super) row: &'static Resource,
    pub(super) short_names: Vec<String>,
    pub(super) categories: Vec<String>,
    pub(super) subresources: &'static [Subresource],
}

impl Listing {
    /// Of a row of a fixed table.
    pub(super) fn of(row: &'static Resource) -> Self {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let (short_names, categories) = (texts(row.short_names), texts(row.categories));
        Self { row, short_names, categories, subresources: row.subresources }
    }
}

/// All resources of this cluster as discovery lists them.
pub(super) fn listings(cluster: &Cluster) -> Vec<Listing> {
    let mut found: Vec<Listing> = RESOURCES.iter().map(Listing::of).collect();
    for definition in cluster.list(CUSTOM_RESOURCE_DEFINITIONS, None).0 {
        found.extend(listings_of(&definition.value()));
    }
    found
}

/// Group and version of everything a cluster serves, each once, sorted.
pub(crate) fn group_versions(cluster: &Cluster) -> Vec<(&'static str, &'static str)> {
    let mut found: Vec<_> = rows(cluster).into_iter().map(|row| (row.group, row.version)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The resources of a group and version.
pub(crate) fn resources_of(cluster: &Cluster, group: &str, version: &str) -> Vec<&'static Resource> {
    rows(cluster).into_iter().filter(|row| row.group == group && row.version == version).collect()
}

/// The served versions of a CustomResourceDefinition.
fn defined(definition: &Value) -> impl Iterator<Item = (&Value, ResourceId)> {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array().into_iter().flatten();
    versions.filter(|version| version["served"] == true).filter_map(|version| {
        let name = CustomName {
            group: name(&spec["group"])?,
            version: name(&version["name"])?,
            kind: name(&spec["names"]["kind"])?,
            plural: name(&spec["names"]["plural"])?,
            namespaced: spec["scope"] == "Namespaced",
        };
        Some((version, ResourceId::define(&name)))
    })
}

fn name(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// The served versions of a CustomResourceDefinition as resources.
fn defined_by(definition: &Value) -> Vec<ResourceId> {
    defined(definition).map(|(_, id)| id).collect()
}

/// The served versions of a CustomResourceDefinition, with all that discovery tells of them.
fn listings_of(definition: &Value) -> Vec<Listing> {
    let names = &definition["spec"]["names"];
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (short_names, categories) = (texts(&names["shortNames"]), texts(&names["categories"]));
    let listing = |(version, id): (&Value, ResourceId)| {
        let subresources: &[Subresource] =
            if version["subresources"]["status"].is_object() { ONLY_STATUS } else { &[] };
        let (short_names, categories) = (short_names.clone(), categories.clone());
        Listing { row: id.row(), short_names, categories, subresources }
    };
    defined(definition).map(listing).collect()
}

/// Says that a definition's names are accepted and its kinds served, which is so as soon as it is stored.
pub(super) fn establish(cluster: &Cluster, name: &str) -> Result<(), Status> {
    let now = cluster.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let options = WriteOptions::by("kube-apiserver");
    let established = cluster.modify(CUSTOM_RESOURCE_DEFINITIONS, Part::Status, "", name, &options, |definition| {
        let spec = definition["spec"].clone();
        let versions = spec["versions"].as_array().into_iter().flatten();
        let stored: Vec<&Value> =
            versions.filter(|version| version["storage"] == true).map(|version| &version["name"]).collect();
        let mut names = spec["names"].clone();
        let kind = names["kind"].as_str().unwrap_or_default().to_owned();
        if names["listKind"].is_null() {
            names["listKind"] = json!(format!("{kind}List"));
        }
        if names["singular"].is_null() {
            names["singular"] = json!(kind.to_ascii_lowercase());
        }
        let since = |kind: &str| {
            let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
            let before = conditions.into_iter().find(|condition| condition["type"] == kind);
            before.map_or_else(|| json!(now), |before| before["lastTransitionTime"].clone())
        };
        let conditions = json!([
            {"type": "NamesAccepted", "status": "True", "lastTransitionTime": since("NamesAccepted"),
                "reason": "NoConflicts", "message": "no conflicts found"},
            {"type": "Established", "status": "True", "lastTransitionTime": since("Established"),
                "reason": "InitialNamesAccepted", "message": "the initial names have been accepted"},
        ]);
        definition["status"] = json!({"conditions": conditions, "acceptedNames": names, "storedVersions": stored});
    });
    established.map(drop)
}

/// Deletes all objects of the kinds that a definition brought in.
pub(super) fn delete_objects(cluster: &Cluster, name: &str) -> Result<(), Status> {
    let Some(definition) = cluster.get(CUSTOM_RESOURCE_DEFINITIONS, "", name) else { return Ok(()) };
    for resource in defined_by(&definition.value()) {
        cluster.delete_collection(resource, None, &DeleteOptions::default(), |_| true)?;
    }
    Ok(())
}

/// What is wrong with a custom resource by its definition's schema.
pub(super) fn check(cluster: &Cluster, resource: ResourceId, value: &Value) -> Result<(), Status> {
    let row = resource.row();
    let Some(definition) = cluster.get(CUSTOM_RESOURCE_DEFINITIONS, "", &row.qualified()) else { return Ok(()) };
    let definition = definition.value();
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let version = versions.into_iter().find(|version| version["name"] == row.version);
    let Some(version) = version else { return Ok(()) };
    custom_schema::check(row, &version["schema"]["openAPIV3Schema"], value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_served_version_is_a_resource() {
        let definition = json!({"spec": {
            "group": "lab.example", "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "shortNames": ["gd"]},
            "versions": [
                {"name": "v1", "served": true, "subresources": {"status": {}}},
                {"name": "v1beta1", "served": false},
            ],
        }});
        let found = defined_by(&definition);
        assert_eq!(found, defined_by(&definition));
        let rows = listings_of(&definition);
        assert_eq!((found.len(), rows.len()), (1, 1));
        assert_eq!((rows[0].row.version, &*rows[0].short_names[0], rows[0].subresources), ("v1", "gd", ONLY_STATUS));
        let mut renamed = definition.clone();
        renamed["spec"]["names"]["shortNames"] = json!(["gdg"]);
        assert_eq!(defined_by(&renamed), found, "objects stay where they are");
        assert_eq!(listings_of(&renamed)[0].short_names, ["gdg"]);
    }
}
