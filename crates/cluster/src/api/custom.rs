//! What becomes of a CustomResourceDefinition that is stored or deleted.

use std::sync::Arc;

use klab_api_machinery::resource::{CUSTOM_RESOURCE_DEFINITIONS, ResourceId};
use klab_api_machinery::status::Status;
use serde_json::{Value, json};

use super::super::cluster::{Cluster, DeleteOptions, Deleted, Part, WriteOptions};

/// Says that a definition's names are accepted and its kinds served, which is so as soon as it is stored.
pub(super) fn establish(cluster: &Cluster, name: &str) -> Result<(), Status> {
    let now = cluster.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let options = WriteOptions::by("kube-apiserver");
    let established = cluster.modify(CUSTOM_RESOURCE_DEFINITIONS, Part::Status, "", name, &options, |definition| {
        let spec = definition["spec"].clone();
        let versions = spec["versions"].as_array().into_iter().flatten();
        let storing = versions.filter(|version| version["storage"] == true).map(|version| version["name"].clone());
        let mut stored = definition["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
        for version in storing {
            if !stored.contains(&version) {
                stored.push(version);
            }
        }
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
        let mut conditions = json!([
            {"type": "NamesAccepted", "status": "True", "lastTransitionTime": since("NamesAccepted"),
                "reason": "NoConflicts", "message": "no conflicts found"},
            {"type": "Established", "status": "True", "lastTransitionTime": since("Established"),
                "reason": "InitialNamesAccepted", "message": "the initial names have been accepted"},
        ]);
        let others = definition["status"]["conditions"].as_array().into_iter().flatten();
        let others: Vec<Value> =
            others.filter(|one| one["type"] != "NamesAccepted" && one["type"] != "Established").cloned().collect();
        if let Some(conditions) = conditions.as_array_mut() {
            conditions.extend(others);
        }
        // All else of the status is what others have written there.
        for (field, value) in [("conditions", conditions), ("acceptedNames", names), ("storedVersions", json!(stored))]
        {
            definition["status"][field] = value;
        }
    });
    established.map(drop)
}

/// What keeps a definition that is deleted until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Deletes a definition: its objects go first, and it stays as long as one of them does.
///
/// // upstream: apiextensions-apiserver pkg/registry/customresourcedefinition/etcd.go Delete, pkg/controller/finalizer
pub(super) fn delete_definition(
    cluster: &Cluster,
    name: &str,
    options: &DeleteOptions,
    by: &WriteOptions<'_>,
) -> Result<Deleted, Status> {
    let trial = DeleteOptions { dry_run: true, ..options.clone() };
    cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, "", name, &trial)?;
    let writer = WriteOptions::by("kube-apiserver");
    cluster.modify(CUSTOM_RESOURCE_DEFINITIONS, Part::Main, "", name, &writer, |definition| {
        let metadata = &mut definition["metadata"];
        let kept = metadata["finalizers"].as_array().is_some_and(|list| list.iter().any(|one| one == CLEANUP));
        if !kept && metadata["deletionTimestamp"].is_null() {
            let mut list = metadata["finalizers"].as_array().cloned().unwrap_or_default();
            list.push(json!(CLEANUP));
            metadata["finalizers"] = Value::Array(list);
        }
    })?;
    let deleted = cluster.delete_by(CUSTOM_RESOURCE_DEFINITIONS, "", name, options, by)?;
    let now = cluster.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    cluster.modify(CUSTOM_RESOURCE_DEFINITIONS, Part::Status, "", name, &writer, |definition| {
        let condition = json!({
            "type": "Terminating", "status": "True", "lastTransitionTime": now, "reason": "InstanceDeletionInProgress",
            "message": "CustomResource deletion is in progress",
        });
        match definition["status"]["conditions"].as_array_mut() {
            Some(list) if !list.iter().any(|one| one["type"] == "Terminating") => list.push(condition),
            Some(_) => {}
            None => definition["status"]["conditions"] = json!([condition]),
        }
    })?;
    let outline = cluster.outline(name);
    let Some(first) = outline.and_then(|outline| outline.listings.first().map(|(id, _)| *id)) else {
        release(cluster, name)?;
        return Ok(deleted);
    };
    cluster.delete_collection(first, None, &DeleteOptions::default(), |_| true)?;
    finish_deletion(cluster, first)?;
    Ok(match cluster.get(CUSTOM_RESOURCE_DEFINITIONS, "", name) {
        Some(left) => Deleted::Terminating(left),
        None => Deleted::Gone(Arc::clone(deleted.object())),
    })
}

/// Lets a deleted definition go when the last of its objects has gone.
pub(super) fn finish_deletion(cluster: &Cluster, resource: ResourceId) -> Result<(), Status> {
    let row = resource.row();
    if !row.custom {
        return Ok(());
    }
    let name = row.qualified();
    let definition = cluster.get(CUSTOM_RESOURCE_DEFINITIONS, "", &name);
    if definition.is_none_or(|definition| !definition.deleting) || cluster.has_any(resource) {
        return Ok(());
    }
    release(cluster, &name)
}

fn release(cluster: &Cluster, name: &str) -> Result<(), Status> {
    let writer = WriteOptions::by("kube-apiserver");
    let released = cluster.modify(CUSTOM_RESOURCE_DEFINITIONS, Part::Main, "", name, &writer, |definition| {
        if let Some(list) = definition["metadata"]["finalizers"].as_array_mut() {
            list.retain(|one| one != CLEANUP);
        }
    });
    released.map(drop)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::listings;
    use klab_api_machinery::resource::served;

    #[test]
    fn groups_are_ordered_by_name_and_resources_named_as_the_definition_says() {
        let clock = std::sync::Arc::new(crate::clock::SteppedClock::new(jiff::Timestamp::UNIX_EPOCH));
        let cluster = Cluster::new(clock, 7);
        for (plural, group, singular) in [("as", "z.example", "one-a"), ("zs", "b.example", "")] {
            let versions = ["v1beta1", "v1"].map(|version| {
                json!({
                    "name": version, "served": true, "storage": version == "v1",
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                })
            });
            let definition = json!({
                "metadata": {"name": format!("{plural}.{group}")},
                "spec": {
                    "group": group, "scope": "Namespaced",
                    "names": {"kind": "Thing", "plural": plural, "singular": singular},
                    "versions": versions,
                },
            });
            cluster
                .create(CUSTOM_RESOURCE_DEFINITIONS, "", definition, &WriteOptions::client("test"))
                .expect("a definition");
        }
        let listings = listings(&cluster);
        let found: Vec<_> = listings
            .iter()
            .filter(|listing| listing.row.custom)
            .map(|listing| (listing.row.group, listing.row.version, listing.singular.as_str()))
            .collect();
        let expected = [
            ("b.example", "v1", "thing"),
            ("b.example", "v1beta1", "thing"),
            ("z.example", "v1", "one-a"),
            ("z.example", "v1beta1", "one-a"),
        ];
        assert_eq!(found, expected);
    }

    fn define(cluster: &Cluster, number: usize, short_name: &str) {
        let definition = json!({
            "metadata": {"name": format!("gadgets.lab{number}.example")},
            "spec": {
                "group": format!("lab{number}.example"), "scope": "Namespaced",
                "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "shortNames": [short_name]},
                "versions": [
                    {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                        "schema": {"openAPIV3Schema": {"type": "object"}}},
                    {"name": "v1beta1", "served": false, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}},
                ],
            },
        });
        cluster
            .create(CUSTOM_RESOURCE_DEFINITIONS, "", definition, &WriteOptions::client("test"))
            .expect("a definition");
    }

    #[test]
    fn each_served_version_is_a_resource() {
        let cluster = Cluster::new(Arc::new(crate::clock::SteppedClock::new(jiff::Timestamp::UNIX_EPOCH)), 7);
        define(&cluster, 1, "gd");
        let name = "gadgets.lab1.example";
        let outline = cluster.outline(name).expect("its outline");
        let [(id, listing)] = outline.listings.as_slice() else { panic!("{outline:?}") };
        assert_eq!(outline.versions, 2);
        assert_eq!(
            (listing.row.version, &*listing.short_names[0], listing.subresources[0].name),
            ("v1", "gd", "status")
        );
        let options = WriteOptions::client("test");
        let renamed = cluster.modify(CUSTOM_RESOURCE_DEFINITIONS, Part::Main, "", name, &options, |definition| {
            definition["spec"]["names"]["shortNames"] = json!(["gdg"]);
        });
        renamed.expect("another name");
        let again = cluster.outline(name).expect("its outline");
        assert_eq!(again.listings[0].0, *id, "objects stay where they are");
        assert_eq!(again.listings[0].1.short_names, ["gdg"]);
        assert_ne!(again.hash, outline.hash);
    }

    #[test]
    fn one_more_definition_does_not_read_the_others_again() {
        let cluster = Cluster::new(Arc::new(crate::clock::SteppedClock::new(jiff::Timestamp::UNIX_EPOCH)), 7);
        (0..300).for_each(|number| define(&cluster, number, "gd"));
        let before = cluster.outlines();
        define(&cluster, 300, "gd");
        establish(&cluster, "gadgets.lab300.example").expect("established");
        assert!(cluster.resource_of_kind("lab300.example/v1", "Gadget").is_some());
        assert_eq!(listings(&cluster).len(), served().count() + 301);
        let after = cluster.outlines();
        assert_eq!((before.len(), after.len()), (300, 301));
        assert!(before.iter().all(|one| after.iter().any(|other| Arc::ptr_eq(one, other))));
    }
}
