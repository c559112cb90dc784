//! Rows of the core kinds, and of EndpointSlices.

// upstream: pkg/printers/internalversion/printers.go printNode, printService (v1.36)

use serde_json::{Value, json};

use super::age;
use super::row::{Row, label_selector, labels, names, none_if_empty};

pub fn node(row: &Row<'_>) -> Vec<Value> {
    let conditions = row.list("status.conditions");
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
    let mut status = match ready {
        Some(condition) if condition["status"] == "True" => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if row.at("spec.unschedulable") == true {
        status.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = Vec::new();
    for (key, value) in row.at("metadata.labels").as_object().into_iter().flatten() {
        match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => roles.push(role),
            _ if key == "kubernetes.io/role" => roles.extend(value.as_str().filter(|role| !role.is_empty())),
            _ => {}
        }
    }
    roles.sort_unstable();
    roles.dedup();
    let address = |kind: &str| {
        let found = row.list("status.addresses").iter().find(|address| address["type"] == kind);
        json!(found.and_then(|address| address["address"].as_str()).unwrap_or("<none>"))
    };
    let kernel = match (row.text("status.nodeInfo.kernelVersion"), row.text("status.nodeInfo.architecture")) {
        ("", _) => "<unknown>".to_owned(),
        (kernel, "") => kernel.to_owned(),
        (kernel, architecture) => format!("{kernel} ({architecture})"),
    };
    vec![
        row.name(),
        json!(status),
        json!(none_if_empty(roles.join(","))),
        row.age(),
        json!(row.text("status.nodeInfo.kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        row.text_or("status.nodeInfo.osImage", "<unknown>"),
        json!(kernel),
        row.text_or("status.nodeInfo.containerRuntimeVersion", "<unknown>"),
    ]
}

pub fn namespace(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), json!(row.text("status.phase")), row.age()]
}

pub fn service(row: &Row<'_>) -> Vec<Value> {
    let kind = row.text("spec.type");
    let texts = |path: &str| -> Vec<&str> { row.list(path).iter().filter_map(Value::as_str).collect() };
    let external = match kind {
        "ExternalName" => row.text("spec.externalName").to_owned(),
        "LoadBalancer" => {
            let mut addresses: Vec<&str> = row
                .list("status.loadBalancer.ingress")
                .iter()
                .filter_map(|ingress| ingress["ip"].as_str().or_else(|| ingress["hostname"].as_str()))
                .collect();
            addresses.extend(texts("spec.externalIPs"));
            if addresses.is_empty() { "<pending>".to_owned() } else { addresses.join(",") }
        }
        _ => none_if_empty(texts("spec.externalIPs").join(",")),
    };
    let ports: Vec<String> = row
        .list("spec.ports")
        .iter()
        .map(|port| {
            let protocol = port["protocol"].as_str().unwrap_or("TCP");
            match port["nodePort"].as_i64() {
                Some(node_port) if node_port > 0 => format!("{}:{node_port}/{protocol}", port["port"]),
                _ => format!("{}/{protocol}", port["port"]),
            }
        })
        .collect();
    let cluster_ip = texts("spec.clusterIPs").first().map_or(row.text("spec.clusterIP"), |ip| ip);
    vec![
        row.name(),
        json!(kind),
        json!(none_if_empty(cluster_ip.to_owned())),
        json!(external),
        json!(none_if_empty(ports.join(","))),
        row.age(),
        json!(labels(row.at("spec.selector"))),
    ]
}

/// The first three, and how many more.
fn abridged(all: &[String]) -> String {
    match all.len() {
        0 => "<none>".to_owned(),
        1..=3 => all.join(","),
        many => format!("{} + {} more...", all[..3].join(","), many - 3),
    }
}

pub fn endpoints(row: &Row<'_>) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in row.list("subsets") {
        let addresses = subset["addresses"].as_array().map_or(&[][..], Vec::as_slice);
        let ports = subset["ports"].as_array().map_or(&[][..], Vec::as_slice);
        if ports.is_empty() {
            all.extend(addresses.iter().filter_map(|address| address["ip"].as_str()).map(str::to_owned));
        }
        for port in ports {
            for address in addresses {
                all.push(format!("{}:{}", address["ip"].as_str().unwrap_or_default(), port["port"]));
            }
        }
    }
    vec![row.name(), json!(abridged(&all)), row.age()]
}

pub(crate) fn endpoint_slice(row: &Row<'_>) -> Vec<Value> {
    let unset = |text: String| if text == "<none>" { "<unset>".to_owned() } else { text };
    let ports: Vec<String> = row.list("ports").iter().map(|port| port["port"].to_string()).collect();
    let addresses: Vec<String> = row
        .list("endpoints")
        .iter()
        .flat_map(|endpoint| endpoint["addresses"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    vec![
        row.name(),
        json!(row.text("addressType")),
        json!(unset(abridged(&ports))),
        json!(unset(abridged(&addresses))),
        row.age(),
    ]
}

fn entries(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
}

pub fn config_map(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), json!(entries(row.at("data")) + entries(row.at("binaryData"))), row.age()]
}

pub fn secret(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), json!(row.text("type")), json!(entries(row.at("data"))), row.age()]
}

pub fn event(row: &Row<'_>) -> Vec<Value> {
    let since = |value: &Value| age::since(value, row.now);
    let first = match age::time(row.at("firstTimestamp")) {
        Some(_) => since(row.at("firstTimestamp")),
        None => since(row.at("eventTime")),
    };
    let mut last = match age::time(row.at("lastTimestamp")) {
        Some(_) => since(row.at("lastTimestamp")),
        None => first.clone(),
    };
    let mut count = row.number("count");
    if row.at("series").is_object() {
        last = since(row.at("series.lastObservedTime"));
        count = row.number("series.count");
    } else if count == 0 {
        count = 1;
    }
    let kind = row.text("involvedObject.kind").to_ascii_lowercase();
    let object = match row.text("involvedObject.name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let either = |one: &str, two: &str| match row.text(one) {
        "" => row.text(two).to_owned(),
        text => text.to_owned(),
    };
    let component = either("source.component", "reportingComponent");
    let source = match either("source.host", "reportingInstance") {
        instance if instance.is_empty() => component,
        instance => format!("{component}, {instance}"),
    };
    vec![
        json!(last),
        json!(row.text("type")),
        json!(row.text("reason")),
        json!(object),
        json!(row.text("involvedObject.fieldPath")),
        json!(source),
        json!(row.text("message").trim()),
        json!(first),
        json!(count),
        row.name(),
    ]
}

pub(crate) fn resource_quota(row: &Row<'_>) -> Vec<Value> {
    let mut hard: Vec<(&String, &Value)> = row.at("status.hard").as_object().into_iter().flatten().collect();
    hard.sort_by_key(|(resource, _)| *resource);
    let (limits, requests): (Vec<_>, Vec<_>) =
        hard.into_iter().partition(|(resource, _)| resource.starts_with("limits."));
    let text = |resources: Vec<(&String, &Value)>| {
        let used = row.at("status.used");
        let parts: Vec<String> = resources
            .into_iter()
            .map(|(resource, hard)| {
                let used = used[resource].as_str().unwrap_or("0");
                format!("{resource}: {used}/{}", hard.as_str().unwrap_or_default())
            })
            .collect();
        json!(parts.join(", "))
    };
    vec![row.name(), text(requests), text(limits), row.age()]
}

/// `RWO,ROX`
fn access_modes(modes: &[Value]) -> String {
    let short = |mode: &Value| match mode.as_str().unwrap_or_default() {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        _ => "",
    };
    let mut found: Vec<&str> = modes.iter().map(short).collect();
    found.sort_by_key(|mode| ["RWO", "ROX", "RWX", "RWOP"].iter().position(|known| known == mode));
    found.dedup();
    found.join(",")
}

fn phase_or_terminating(row: &Row<'_>) -> Value {
    let deleting = !row.at("metadata.deletionTimestamp").is_null();
    json!(if deleting { "Terminating" } else { row.text("status.phase") })
}

pub fn volume(row: &Row<'_>) -> Vec<Value> {
    let claim = match row.text("spec.claimRef.name") {
        "" => String::new(),
        name => format!("{}/{name}", row.text("spec.claimRef.namespace")),
    };
    vec![
        row.name(),
        json!(row.text("spec.capacity.storage")),
        json!(access_modes(row.list("spec.accessModes"))),
        json!(row.text("spec.persistentVolumeReclaimPolicy")),
        phase_or_terminating(row),
        json!(claim),
        json!(row.text("spec.storageClassName")),
        row.text_or("spec.volumeAttributesClassName", "<unset>"),
        json!(row.text("status.reason")),
        row.age(),
        row.text_or("spec.volumeMode", "<unset>"),
    ]
}

pub fn volume_claim(row: &Row<'_>) -> Vec<Value> {
    let bound = !row.text("spec.volumeName").is_empty();
    let (capacity, modes) = if bound {
        (row.text("status.capacity.storage"), access_modes(row.list("status.accessModes")))
    } else {
        ("", String::new())
    };
    vec![
        row.name(),
        phase_or_terminating(row),
        json!(row.text("spec.volumeName")),
        json!(capacity),
        json!(modes),
        json!(row.text("spec.storageClassName")),
        row.text_or("spec.volumeAttributesClassName", "<unset>"),
        row.age(),
        row.text_or("spec.volumeMode", "<unset>"),
    ]
}

pub(crate) fn pod_template(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        json!(names(row.list("template.spec.containers"), "name")),
        json!(names(row.list("template.spec.containers"), "image")),
        json!(labels(row.at("template.metadata.labels"))),
    ]
}

pub(crate) fn network_policy(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), json!(label_selector(row.at("spec.podSelector"))), row.age()]
}
