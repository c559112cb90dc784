//! The rich documents that `kubectl explain` reads: fields and descriptions of every kind.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::super::cluster::Cluster;
use super::super::registry;
use super::super::resource::{CUSTOM_RESOURCE_DEFINITIONS, Resource, ResourceId};

/// Fields whose values are one of a few, which the types do not say: the end of the schema's name, field, values.
const CHOICES: &[(&str, &str, &[&str])] = &[
    (".Taint", "effect", &["NoExecute", "NoSchedule", "PreferNoSchedule"]),
    (".Toleration", "effect", &["NoExecute", "NoSchedule", "PreferNoSchedule"]),
    (".Toleration", "operator", &["Equal", "Exists", "Gt", "Lt"]),
    (".Container", "imagePullPolicy", &["Always", "IfNotPresent", "Never"]),
    (".PodSpec", "restartPolicy", &["Always", "Never", "OnFailure"]),
    (".PodSpec", "dnsPolicy", &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]),
    (".PodSpec", "preemptionPolicy", &["Never", "PreemptLowerPriority"]),
    (".TopologySpreadConstraint", "whenUnsatisfiable", &["DoNotSchedule", "ScheduleAnyway"]),
    (".NodeSelectorRequirement", "operator", &["DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"]),
    (".ServiceSpec", "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]),
];

/// The `components.schemas` of a group and version.
pub(super) fn schemas(cluster: &Cluster, rows: &[&'static Resource]) -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
    });
    let mut generator = settings.into_generator();
    let mut kinds = Vec::new();
    let mut custom = Map::new();
    for row in rows {
        if row.custom {
            let reversed: Vec<&str> = row.group.rsplit('.').collect();
            let name = format!("{}.{}.{}", reversed.join("."), row.version, row.kind);
            custom.insert(name, custom_schema(cluster, row));
        } else if let Some(id) = ResourceId::by_path(row.group, row.version, row.plural)
            && let Some(add) = registry::of(id).schema
        {
            add(&mut generator);
            kinds.push((row.kind, *row));
        }
    }
    let mut schemas = generator.take_definitions(true);
    for (name, schema) in &mut schemas {
        for (end, field, values) in CHOICES {
            if name.ends_with(end) && schema["properties"][*field].is_object() {
                let property = &mut schema["properties"][*field];
                let listed: Vec<String> = values.iter().map(|value| format!(" - `\"{value}\"`")).collect();
                let text = property["description"].as_str().unwrap_or_default();
                property["description"] = json!(format!("{text}\n\nPossible enum values:\n{}", listed.join("\n")));
                property["enum"] = json!(values);
            }
        }
        let of_kind = kinds.iter().find(|(kind, row)| {
            name.rsplit('.').next() == Some(kind) && name.contains(&format!(".{}.", row.version)) && is_of(name, row)
        });
        if let Some((_, row)) = of_kind {
            // The types always have metadata; the API does not demand it.
            if let Some(required) = schema["required"].as_array_mut() {
                required.retain(|field| field != "metadata");
            }
            schema["x-kubernetes-group-version-kind"] = group_version_kind(row);
        }
    }
    schemas.extend(custom);
    Value::Object(schemas)
}

/// Whether a schema's name is in the group's package: `io.k8s.api.apps.v1.Deployment`.
fn is_of(name: &str, row: &Resource) -> bool {
    let package = match row.group {
        "" => "core",
        group => group.split('.').next().unwrap_or_default(),
    };
    name.contains(&format!(".{package}."))
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
    for field in ["apiVersion", "kind"] {
        schema["properties"][field] = json!({"type": "string"});
    }
    schema["properties"]["metadata"] = json!({"type": "object"});
    schema["x-kubernetes-group-version-kind"] = group_version_kind(row);
    schema
}
