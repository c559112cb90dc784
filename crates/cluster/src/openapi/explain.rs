//! The rich documents that `kubectl explain` reads: fields and descriptions of every kind.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};

use super::super::cluster::Cluster;
use super::super::registry;
use super::super::resource::{CUSTOM_RESOURCE_DEFINITIONS, Resource, ResourceId};

/// Name and schema of every structure, a line each; written by `tools/kubernetes-descriptions.py`.
const DESCRIPTIONS: &[u8] = include_bytes!("descriptions.gz");

/// The schema of every object's metadata.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// How deep the schemas of definitions are followed.
const DEEPEST: usize = 100;
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// What a reference to another schema begins with.
const REFERENCE: &str = "\"#/components/schemas/";

/// Unpacked anew for each document: whoever explains nothing pays nothing.
fn descriptions() -> String {
    let mut text = String::new();
    // What is in the program is whole: a test unpacks it.
    let _ = GzDecoder::new(DESCRIPTIONS).read_to_string(&mut text);
    text
}

/// The schemas of these names, and all that they refer to.
fn with_references(text: &str, names: impl IntoIterator<Item = &'static str>) -> BTreeMap<&str, &str> {
    let all: HashMap<&str, &str> = text.lines().filter_map(|line| line.split_once('\t')).collect();
    let mut found = BTreeMap::new();
    let mut wanted: Vec<&str> = names.into_iter().collect();
    while let Some(name) = wanted.pop() {
        let Some((name, schema)) = all.get_key_value(name) else { continue };
        if found.insert(*name, *schema).is_none() {
            wanted.extend(schema.split(REFERENCE).skip(1).filter_map(|rest| rest.split('"').next()));
        }
    }
    found
}

/// The `components.schemas` of a group and version.
pub(super) fn schemas(cluster: &Cluster, rows: &[&'static Resource]) -> Value {
    let mut kinds = BTreeMap::new();
    let mut custom = Map::new();
    for row in rows {
        if row.custom {
            let reversed: Vec<&str> = row.group.rsplit('.').collect();
            let name = format!("{}.{}.{}", reversed.join("."), row.version, row.kind);
            custom.insert(name, custom_schema(cluster, row));
        } else if let Some(id) = ResourceId::by_path(row.group, row.version, row.plural)
            && let Some(name) = registry::of(id).schema
        {
            kinds.insert(name, *row);
        }
    }
    let text = descriptions();
    let mut schemas = Map::new();
    let of_custom = (!custom.is_empty()).then_some(OBJECT_META);
    for (name, schema) in with_references(&text, kinds.keys().copied().chain(of_custom)) {
        let mut schema: Value = serde_json::from_str(schema).unwrap_or_default();
        if let Some(row) = kinds.get(name) {
            schema["x-kubernetes-group-version-kind"] = group_version_kind(row);
        }
        schemas.insert(name.to_owned(), schema);
    }
    schemas.extend(custom);
    Value::Object(schemas)
}

fn group_version_kind(row: &Resource) -> Value {
    json!([{"group": row.group, "kind": row.kind, "version": row.version}])
}

fn custom_schema(cluster: &Cluster, row: &Resource) -> Value {
    let definition = cluster.get(CUSTOM_RESOURCE_DEFINITIONS, "", &row.qualified());
    let definition = definition.map(|definition| definition.value()).unwrap_or_default();
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let version = versions.into_iter().find(|version| version["name"] == row.version);
    let mut schema = version.map(|version| version["schema"]["openAPIV3Schema"].clone()).unwrap_or_default();
    if !schema.is_object() {
        schema = json!({"type": "object"});
    }
    embed(&mut schema, 0);
    declare(&mut schema);
    schema["x-kubernetes-group-version-kind"] = group_version_kind(row);
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
    if depth > DEEPEST || !schema.is_object() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_that_names_a_schema_has_it_with_all_that_it_refers_to() {
        let text = descriptions();
        let named: Vec<_> = ResourceId::fixed().filter_map(|id| registry::of(id).schema).collect();
        let stored = ResourceId::fixed().filter(|id| id.row().is_stored());
        let nameless: Vec<_> = stored.filter(|id| registry::of(*id).schema.is_none()).map(|id| id.row().kind).collect();
        assert_eq!(nameless, Vec::<&str>::new());
        let found = with_references(&text, named.iter().copied());
        for name in named {
            let schema: Value = serde_json::from_str(found[name]).unwrap();
            assert!(schema["properties"]["metadata"].is_object() && schema["description"].is_string(), "{name}");
        }
        let references = found.values().flat_map(|schema| schema.split(REFERENCE).skip(1));
        for name in references.filter_map(|rest| rest.split('"').next()) {
            assert!(found.contains_key(name), "{name}");
        }
    }
}
