//! Rows of the kinds labs seldom look at.

// upstream: pkg/printers/internalversion/printers.go AddHandlers (v1.36)

use serde_json::{Value, json};

use super::age;
use super::row::{Row, names, none_if_empty, scalar};

/// Kinds that show no more than that they are there.
pub(crate) fn name_and_age(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.age()]
}

/// The same, of older printers.
pub(crate) fn name_and_creation(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.created()]
}

fn count(row: &Row<'_>, path: &str) -> Value {
    json!(row.list(path).len())
}

pub fn lease(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), json!(row.text("spec.holderIdentity")), row.age()]
}

pub fn ingress_class(row: &Row<'_>) -> Vec<Value> {
    let parameters = match row.text("spec.parameters.name") {
        "" => "<none>".to_owned(),
        name => match row.text("spec.parameters.apiGroup") {
            "" => format!("{}/{name}", row.text("spec.parameters.kind")),
            group => format!("{}.{group}/{name}", row.text("spec.parameters.kind")),
        },
    };
    vec![row.name(), json!(row.text("spec.controller")), json!(parameters), row.age()]
}

pub fn runtime_class(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), json!(row.text("handler")), row.age()]
}

pub(crate) fn csi_node(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), count(row, "spec.drivers"), row.age()]
}

pub(crate) fn csi_driver(row: &Row<'_>) -> Vec<Value> {
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

pub(crate) fn volume_attachment(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        json!(row.text("spec.attacher")),
        json!(row.text("spec.source.persistentVolumeName")),
        json!(row.text("spec.nodeName")),
        json!(row.at("status.attached").as_bool().unwrap_or_default()),
        row.age(),
    ]
}

pub(crate) fn volume_attributes_class(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), json!(row.text("driverName")), row.age()]
}

pub(crate) fn webhook_configuration(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), count(row, "webhooks"), row.age()]
}

pub(crate) fn mutating_policy(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), count(row, "spec.mutations"), param_kind(row), row.age()]
}

pub(crate) fn validating_policy(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), count(row, "spec.validations"), param_kind(row), row.age()]
}

pub(crate) fn policy_binding(row: &Row<'_>) -> Vec<Value> {
    let parameter = match row.text("spec.paramRef.name") {
        "" => "<unset>".to_owned(),
        name => match row.text("spec.paramRef.namespace") {
            "" => name.to_owned(),
            namespace => format!("{namespace}/{name}"),
        },
    };
    vec![row.name(), json!(row.text("spec.policyName")), json!(parameter), row.age()]
}

pub fn flow_schema(row: &Row<'_>) -> Vec<Value> {
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

pub fn priority_level(row: &Row<'_>) -> Vec<Value> {
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

pub fn api_service(row: &Row<'_>) -> Vec<Value> {
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

pub(crate) fn component_status(row: &Row<'_>) -> Vec<Value> {
    let condition = row.list("conditions").iter().find(|condition| condition["type"] == "Healthy");
    let text = |field: &str| condition.and_then(|condition| condition[field].as_str()).unwrap_or_default();
    let status = match text("status") {
        "True" => "Healthy",
        "False" => "Unhealthy",
        _ => "Unknown",
    };
    vec![row.name(), json!(status), json!(text("message")), json!(text("error"))]
}

pub(crate) fn signing_request(row: &Row<'_>) -> Vec<Value> {
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

pub(crate) fn ip_address(row: &Row<'_>) -> Vec<Value> {
    let parent =
        [row.text("spec.parentRef.resource"), row.text("spec.parentRef.namespace"), row.text("spec.parentRef.name")];
    vec![row.name(), json!(parent.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/"))]
}

pub fn service_cidr(row: &Row<'_>) -> Vec<Value> {
    let ranges: Vec<&str> = row.list("spec.cidrs").iter().filter_map(Value::as_str).collect();
    vec![row.name(), json!(ranges.join(",")), row.age()]
}

pub fn resource_claim(row: &Row<'_>) -> Vec<Value> {
    let allocated = !row.at("status.allocation").is_null();
    let reserved = !row.list("status.reservedFor").is_empty();
    let state = match (allocated, reserved) {
        (true, true) => "allocated,reserved",
        (true, false) => "allocated",
        _ => "pending",
    };
    vec![row.name(), json!(state), row.age()]
}

pub(crate) fn resource_slice(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        json!(row.text("spec.nodeName")),
        json!(row.text("spec.driver")),
        json!(row.text("spec.pool.name")),
        row.age(),
    ]
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

pub fn binding(row: &Row<'_>) -> Vec<Value> {
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

pub fn storage_class(row: &Row<'_>) -> Vec<Value> {
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

pub fn ingress(row: &Row<'_>) -> Vec<Value> {
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
