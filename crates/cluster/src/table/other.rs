//! Rows of the kinds labs seldom look at.

// upstream: pkg/printers/internalversion/printers.go AddHandlers (v1.36)

use serde_json::{Value, json};

use super::super::resource::{self, ResourceId};
use super::columns::columns;
use super::row::{Row, names, none_if_empty, scalar};
use super::{age, core};

pub(super) fn cells(resource: ResourceId, row: &Row<'_>) -> Vec<Value> {
    let count = |path: &str| json!(row.list(path).len());
    match resource {
        resource::NETWORK_POLICIES => core::network_policy(row),
        resource::LEASES => vec![row.name(), json!(row.text("spec.holderIdentity")), row.age()],
        resource::ROLE_BINDINGS | resource::CLUSTER_ROLE_BINDINGS => binding(row),
        resource::STORAGE_CLASSES => storage_class(row),
        resource::INGRESSES => ingress(row),
        resource::INGRESS_CLASSES => {
            let parameters = match row.text("spec.parameters.name") {
                "" => "<none>".to_owned(),
                name => match row.text("spec.parameters.apiGroup") {
                    "" => format!("{}/{name}", row.text("spec.parameters.kind")),
                    group => format!("{}.{group}/{name}", row.text("spec.parameters.kind")),
                },
            };
            vec![row.name(), json!(row.text("spec.controller")), json!(parameters), row.age()]
        }
        resource::RUNTIME_CLASSES => vec![row.name(), json!(row.text("handler")), row.age()],
        resource::CSI_NODES => vec![row.name(), count("spec.drivers"), row.age()],
        resource::CSI_DRIVERS => {
            let flag = |path: &str, otherwise: bool| json!(row.at(path).as_bool().unwrap_or(otherwise));
            let modes: Vec<&str> = row.list("spec.volumeLifecycleModes").iter().filter_map(Value::as_str).collect();
            vec![
                row.name(),
                flag("spec.attachRequired", true),
                flag("spec.podInfoOnMount", false),
                flag("spec.storageCapacity", false),
                json!(none_or_unset(&names(row.list("spec.tokenRequests"), "audience"))),
                flag("spec.requiresRepublish", false),
                json!(none_if_empty(modes.join(","))),
                row.age(),
            ]
        }
        resource::VOLUME_ATTACHMENTS => vec![
            row.name(),
            json!(row.text("spec.attacher")),
            json!(row.text("spec.source.persistentVolumeName")),
            json!(row.text("spec.nodeName")),
            json!(row.at("status.attached").as_bool().unwrap_or_default()),
            row.age(),
        ],
        resource::VOLUME_ATTRIBUTES_CLASSES => vec![row.name(), json!(row.text("driverName")), row.age()],
        resource::MUTATING_WEBHOOK_CONFIGURATIONS | resource::VALIDATING_WEBHOOK_CONFIGURATIONS => {
            vec![row.name(), count("webhooks"), row.age()]
        }
        resource::MUTATING_ADMISSION_POLICIES => {
            vec![row.name(), count("spec.mutations"), param_kind(row), row.age()]
        }
        resource::VALIDATING_ADMISSION_POLICIES => {
            vec![row.name(), count("spec.validations"), param_kind(row), row.age()]
        }
        resource::MUTATING_ADMISSION_POLICY_BINDINGS | resource::VALIDATING_ADMISSION_POLICY_BINDINGS => {
            let parameter = match row.text("spec.paramRef.name") {
                "" => "<unset>".to_owned(),
                name => match row.text("spec.paramRef.namespace") {
                    "" => name.to_owned(),
                    namespace => format!("{namespace}/{name}"),
                },
            };
            vec![row.name(), json!(row.text("spec.policyName")), json!(parameter), row.age()]
        }
        resource::FLOW_SCHEMAS => {
            let dangling = row
                .list("status.conditions")
                .iter()
                .find(|condition| condition["type"] == "Dangling")
                .and_then(|condition| condition["status"].as_str());
            vec![
                row.name(),
                json!(row.text("spec.priorityLevelConfiguration.name")),
                json!(row.number("spec.matchingPrecedence")),
                row.text_or("spec.distinguisherMethod.type", "<none>"),
                row.age(),
                json!(dangling.unwrap_or("?")),
            ]
        }
        resource::PRIORITY_LEVEL_CONFIGURATIONS => {
            let queues = "spec.limited.limitResponse.queuing";
            vec![
                row.name(),
                json!(row.text("spec.type")),
                scalar(row.at("spec.limited.nominalConcurrencyShares"), "<none>"),
                scalar(row.at(&format!("{queues}.queues")), "<none>"),
                scalar(row.at(&format!("{queues}.handSize")), "<none>"),
                scalar(row.at(&format!("{queues}.queueLengthLimit")), "<none>"),
                row.age(),
            ]
        }
        resource::API_SERVICES => {
            let available = row
                .list("status.conditions")
                .iter()
                .find(|condition| condition["type"] == "Available")
                .and_then(|condition| condition["status"].as_str());
            let service = match row.text("spec.service.name") {
                "" => "Local".to_owned(),
                name => format!("{}/{name}", row.text("spec.service.namespace")),
            };
            vec![row.name(), json!(service), json!(available.unwrap_or("Unknown")), row.age()]
        }
        resource::COMPONENT_STATUSES => {
            let condition = row.list("conditions").iter().find(|condition| condition["type"] == "Healthy");
            let text = |field: &str| condition.and_then(|condition| condition[field].as_str()).unwrap_or_default();
            let status = match text("status") {
                "True" => "Healthy",
                "False" => "Unhealthy",
                _ => "Unknown",
            };
            vec![row.name(), json!(status), json!(text("message")), json!(text("error"))]
        }
        resource::CERTIFICATE_SIGNING_REQUESTS => {
            let conditions = row.list("status.conditions");
            let mut condition: Vec<&str> = conditions.iter().filter_map(|one| one["type"].as_str()).collect();
            if condition.is_empty() {
                condition.push("Pending");
            }
            if !row.text("status.certificate").is_empty() {
                condition.push("Issued");
            }
            let lasting = row.at("spec.expirationSeconds").as_i64();
            vec![
                row.name(),
                row.age(),
                json!(row.text("spec.signerName")),
                json!(row.text("spec.username")),
                json!(lasting.map_or_else(|| "<none>".to_owned(), age::duration)),
                json!(condition.join(",")),
            ]
        }
        resource::IP_ADDRESSES => {
            let parent = [
                row.text("spec.parentRef.resource"),
                row.text("spec.parentRef.namespace"),
                row.text("spec.parentRef.name"),
            ];
            vec![row.name(), json!(parent.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/"))]
        }
        resource::SERVICE_CIDRS => {
            let ranges: Vec<&str> = row.list("spec.cidrs").iter().filter_map(Value::as_str).collect();
            vec![row.name(), json!(ranges.join(",")), row.age()]
        }
        resource::RESOURCE_CLAIMS => {
            let allocated = !row.at("status.allocation").is_null();
            let reserved = !row.list("status.reservedFor").is_empty();
            let state = match (allocated, reserved) {
                (true, true) => "allocated,reserved",
                (true, false) => "allocated",
                _ => "pending",
            };
            vec![row.name(), json!(state), row.age()]
        }
        resource::RESOURCE_SLICES => vec![
            row.name(),
            json!(row.text("spec.nodeName")),
            json!(row.text("spec.driver")),
            json!(row.text("spec.pool.name")),
            row.age(),
        ],
        other => columns(other)
            .map(|column| match column.name {
                "Name" => row.name(),
                "Created At" => row.created(),
                _ => row.age(),
            })
            .collect(),
    }
}

fn none_or_unset(text: &str) -> &str {
    if text.is_empty() { "<unset>" } else { text }
}

fn param_kind(row: &Row<'_>) -> Value {
    json!(match row.text("spec.paramKind.kind") {
        "" => "<unset>".to_owned(),
        kind => format!("{}/{kind}", row.text("spec.paramKind.apiVersion")),
    })
}

fn binding(row: &Row<'_>) -> Vec<Value> {
    let role = format!("{}/{}", row.text("roleRef.kind"), row.text("roleRef.name"));
    let subjects = |kind: &str| {
        let found: Vec<String> = row
            .list("subjects")
            .iter()
            .filter(|subject| subject["kind"] == kind)
            .map(|subject| {
                let name = subject["name"].as_str().unwrap_or_default();
                match subject["namespace"].as_str() {
                    Some(namespace) if kind == "ServiceAccount" => format!("{namespace}/{name}"),
                    _ => name.to_owned(),
                }
            })
            .collect();
        json!(found.join(", "))
    };
    vec![row.name(), json!(role), row.age(), subjects("User"), subjects("Group"), subjects("ServiceAccount")]
}

fn storage_class(row: &Row<'_>) -> Vec<Value> {
    let annotations = row.at("metadata.annotations");
    let default = ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"]
        .iter()
        .any(|key| annotations[*key] == "true");
    let name = row.text("metadata.name");
    vec![
        json!(if default { format!("{name} (default)") } else { name.to_owned() }),
        json!(row.text("provisioner")),
        row.text_or("reclaimPolicy", "Delete"),
        row.text_or("volumeBindingMode", "Immediate"),
        json!(if row.at("allowVolumeExpansion") == true { "true" } else { "false" }),
        row.age(),
    ]
}

fn ingress(row: &Row<'_>) -> Vec<Value> {
    let hosts: Vec<&str> = row
        .list("spec.rules")
        .iter()
        .filter_map(|rule| rule["host"].as_str())
        .filter(|host| !host.is_empty())
        .collect();
    let hosts = match hosts.len() {
        0 => "*".to_owned(),
        1..=3 => hosts.join(","),
        many => format!("{} + {} more...", hosts[..3].join(","), many - 3),
    };
    let addresses: Vec<&str> = row
        .list("status.loadBalancer.ingress")
        .iter()
        .filter_map(|ingress| ingress["ip"].as_str().or_else(|| ingress["hostname"].as_str()))
        .collect();
    vec![
        row.name(),
        row.text_or("spec.ingressClassName", "<none>"),
        json!(hosts),
        json!(addresses.join(",")),
        json!(if row.list("spec.tls").is_empty() { "80" } else { "80, 443" }),
        row.age(),
    ]
}
