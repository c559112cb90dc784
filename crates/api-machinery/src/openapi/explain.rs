//! The schemas that `kubectl explain` reads: fields and descriptions of every kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::custom::Listing;
use crate::resource::Resource;
use serde_json::{Map, Value, json};

use super::catalogue::Catalogue;
use super::operation::{Kind, Path, part_schema, schema_names};

/// Reads the CustomResourceDefinition of a resource, as it is stored.
pub type Definitions<'a> = dyn Fn(&Resource) -> Arc<Value> + 'a;

/// The schema of every object's metadata.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// How deep the schemas of definitions are followed.
const MAX_DEPTH: usize = 100;
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// Schemas of what all kinds have in common.
const COMMON: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
/// What of it is of every group and version.
const OF_ALL_GROUPS: &[&str] = &["DeleteOptions", "WatchEvent"];
/// What of it is of the core group in every document.
const OF_CORE: &[&str] = &["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"];

/// The schemas of what a document's paths send and answer, and all that they refer to.
pub(super) fn schemas(
    definition: &Definitions<'_>,
    catalogue: &Catalogue<'_>,
    kinds: &[(Listing, String)],
    paths: &[Path],
) -> Map<String, Value> {
    let operations = paths.iter().flat_map(|path| &path.operations);
    let mut wanted: BTreeSet<String> =
        operations.flat_map(|asked| asked.body.iter().map(|(name, _)| name).chain(&asked.answer)).cloned().collect();
    let mut named = named(kinds);
    let mut schemas = Map::new();
    for (listing, list_kind) in kinds {
        let Some((object, list)) = schema_names(listing.row, list_kind) else { continue };
        if listing.row.custom {
            wanted.insert(OBJECT_META.to_owned());
            wanted.insert(format!("{COMMON}ListMeta"));
            schemas.insert(list, custom_list(listing.row, list_kind, &object));
            schemas.insert(object, custom_schema(&definition(listing.row), listing.row));
        } else {
            wanted.insert(object);
        }
    }
    for (name, schema) in catalogue.with_references(wanted.iter().map(String::as_str)) {
        let mut schema: Value = serde_json::from_str(schema).unwrap_or_default();
        if let Some(kinds) = named.remove(name) {
            let kinds = kinds.iter().map(|(group, version, kind)| group_version_kind(group, version, kind));
            schema["x-kubernetes-group-version-kind"] = kinds.collect();
        }
        schemas.insert(name.to_owned(), schema);
    }
    schemas
}

/// Which kinds a schema is of, by its name.
fn named(kinds: &[(Listing, String)]) -> BTreeMap<String, Vec<Kind>> {
    let mut named: BTreeMap<String, Vec<Kind>> = BTreeMap::new();
    let of = |group: &str, version: &str, kind: &str| (group.to_owned(), version.to_owned(), kind.to_owned());
    for (Listing { row, subresources, .. }, list_kind) in kinds {
        if let Some((object, list)) = schema_names(row, list_kind) {
            named.insert(object, vec![of(row.group, row.version, row.kind)]);
            named.insert(list, vec![of(row.group, row.version, list_kind)]);
        }
        for (schema, kind) in subresources.iter().filter_map(|part| part_schema(row, part)) {
            named.entry(schema.to_owned()).or_insert_with(|| vec![kind]);
        }
    }
    for kind in OF_CORE {
        named.insert(format!("{COMMON}{kind}"), vec![of("", "v1", kind)]);
    }
    let mut groups: BTreeSet<_> = kinds.iter().map(|(listing, _)| (listing.row.group, listing.row.version)).collect();
    groups.insert(("", "v1"));
    for kind in OF_ALL_GROUPS {
        let of_all = groups.iter().map(|(group, version)| of(group, version, kind));
        named.insert(format!("{COMMON}{kind}"), of_all.collect());
    }
    named
}

fn group_version_kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "kind": kind, "version": version})
}

// upstream: buildListSchema
fn custom_list(row: &Resource, list_kind: &str, object: &str) -> Value {
    let reference = |name: &str| format!("#/components/schemas/{name}");
    json!({
        "type": "object", "required": ["items"],
        "description": format!("{list_kind} is a list of {}", row.kind),
        "properties": {
            "apiVersion": {"type": "string", "description": API_VERSION},
            "kind": {"type": "string", "description": KIND},
            "metadata": {
                "allOf": [{"$ref": reference(&format!("{COMMON}ListMeta"))}], "default": {},
                "description": "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
            },
            "items": {
                "type": "array",
                "items": {"$ref": reference(object)},
                "description": format!(
                    "List of {}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
                    row.plural
                ),
            },
        },
        "x-kubernetes-group-version-kind": [group_version_kind(row.group, row.version, list_kind)],
    })
}

fn custom_schema(definition: &Value, row: &Resource) -> Value {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let version = versions.into_iter().find(|version| version["name"] == row.version);
    let mut schema = version.map(|version| version["schema"]["openAPIV3Schema"].clone()).unwrap_or_default();
    if !schema.is_object() {
        schema = json!({"type": "object"});
    }
    embed(&mut schema, 0);
    declare(&mut schema);
    schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(row.group, row.version, row.kind)]);
    schema
}

/// The fields that every object has.
fn declare(schema: &mut Value) {
    for (field, description) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        schema["properties"][field] = json!({"type": "string", "description": description});
    }
    schema["properties"]["metadata"] = json!({
        "allOf": [{"$ref": format!("#/components/schemas/{OBJECT_META}")}],
        "description": METADATA, "default": {},
    });
}

/// Declares them for objects within objects, too.
///
/// // upstream: apiextensions-apiserver pkg/controller/openapi/builder/builder.go addEmbeddedProperties
fn embed(schema: &mut Value, depth: usize) {
    if depth > MAX_DEPTH || !schema.is_object() {
        return;
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flatten().for_each(|(_, inner)| embed(inner, depth + 1));
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(key) {
            embed(inner, depth + 1);
        }
    }
    if depth > 0 && schema["x-kubernetes-embedded-resource"] == true {
        declare(schema);
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let missing = ["kind", "apiVersion"].into_iter().map(Value::from).filter(|name| !required.contains(name));
        schema["required"] = required.iter().cloned().chain(missing).collect();
    }
}
