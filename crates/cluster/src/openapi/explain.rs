//! The rich documents that `kubectl explain` reads: fields and descriptions of every kind.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::super::cluster::Cluster;
use super::super::resource::{self, CUSTOM_RESOURCE_DEFINITIONS, Resource, ResourceId};

macro_rules! kinds {
    ($generator:ident, $resource:ident; $($row:ident = $($path:ident)::+;)*) => {
        match $resource {
            $(resource::$row => { $generator.subschema_for::<k8s_openapi::$($path)::+>(); })*
            _ => return None,
        }
    };
}

/// Adds a kind's schema, and those of its fields; gives the name it has among them.
fn add(generator: &mut SchemaGenerator, id: ResourceId) -> Option<&'static str> {
    kinds! { generator, id;
        COMPONENT_STATUSES = api::core::v1::ComponentStatus;
        CONFIG_MAPS = api::core::v1::ConfigMap;
        ENDPOINTS = api::core::v1::Endpoints;
        EVENTS = api::core::v1::Event;
        LIMIT_RANGES = api::core::v1::LimitRange;
        NAMESPACES = api::core::v1::Namespace;
        NODES = api::core::v1::Node;
        PERSISTENT_VOLUME_CLAIMS = api::core::v1::PersistentVolumeClaim;
        PERSISTENT_VOLUMES = api::core::v1::PersistentVolume;
        PODS = api::core::v1::Pod;
        POD_TEMPLATES = api::core::v1::PodTemplate;
        REPLICATION_CONTROLLERS = api::core::v1::ReplicationController;
        RESOURCE_QUOTAS = api::core::v1::ResourceQuota;
        SECRETS = api::core::v1::Secret;
        SERVICE_ACCOUNTS = api::core::v1::ServiceAccount;
        SERVICES = api::core::v1::Service;
        API_SERVICES = kube_aggregator::pkg::apis::apiregistration::v1::APIService;
        CONTROLLER_REVISIONS = api::apps::v1::ControllerRevision;
        DAEMON_SETS = api::apps::v1::DaemonSet;
        DEPLOYMENTS = api::apps::v1::Deployment;
        REPLICA_SETS = api::apps::v1::ReplicaSet;
        STATEFUL_SETS = api::apps::v1::StatefulSet;
        GROUPED_EVENTS = api::events::v1::Event;
        HORIZONTAL_POD_AUTOSCALERS = api::autoscaling::v2::HorizontalPodAutoscaler;
        HORIZONTAL_POD_AUTOSCALERS_V1 = api::autoscaling::v1::HorizontalPodAutoscaler;
        CRON_JOBS = api::batch::v1::CronJob;
        JOBS = api::batch::v1::Job;
        CERTIFICATE_SIGNING_REQUESTS = api::certificates::v1::CertificateSigningRequest;
        INGRESS_CLASSES = api::networking::v1::IngressClass;
        INGRESSES = api::networking::v1::Ingress;
        NETWORK_POLICIES = api::networking::v1::NetworkPolicy;
        POD_DISRUPTION_BUDGETS = api::policy::v1::PodDisruptionBudget;
        CLUSTER_ROLE_BINDINGS = api::rbac::v1::ClusterRoleBinding;
        CLUSTER_ROLES = api::rbac::v1::ClusterRole;
        ROLE_BINDINGS = api::rbac::v1::RoleBinding;
        ROLES = api::rbac::v1::Role;
        CSI_DRIVERS = api::storage::v1::CSIDriver;
        CSI_NODES = api::storage::v1::CSINode;
        CSI_STORAGE_CAPACITIES = api::storage::v1::CSIStorageCapacity;
        STORAGE_CLASSES = api::storage::v1::StorageClass;
        VOLUME_ATTACHMENTS = api::storage::v1::VolumeAttachment;
        CUSTOM_RESOURCE_DEFINITIONS = apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
        PRIORITY_CLASSES = api::scheduling::v1::PriorityClass;
        LEASES = api::coordination::v1::Lease;
        RUNTIME_CLASSES = api::node::v1::RuntimeClass;
        ENDPOINT_SLICES = api::discovery::v1::EndpointSlice;
        RESOURCE_CLAIMS = api::resource::v1::ResourceClaim;
        RESOURCE_CLAIM_TEMPLATES = api::resource::v1::ResourceClaimTemplate;
        DEVICE_CLASSES = api::resource::v1::DeviceClass;
        RESOURCE_SLICES = api::resource::v1::ResourceSlice;
    }
    Some(id.row().kind)
}

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
            && let Some(kind) = add(&mut generator, id)
        {
            kinds.push((kind, *row));
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
