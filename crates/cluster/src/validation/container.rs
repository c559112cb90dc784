//! Containers: names, images, ports, environment, resources, mounts, probes.

// upstream: pkg/apis/core/validation/validation.go validateContainers (v1.36)

use std::collections::HashSet;

use serde_json::{Value, json};

use super::field::{entries, not_negative, supported, text};
use super::{Errors, names};
use crate::schema::Path;
use klab_scheduler::quantity::Quantity;

/// Resources of containers that need no domain in front.
const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

pub(super) fn check<'a>(
    container: &'a Value,
    path: &Path<'_>,
    seen: &mut HashSet<&'a str>,
    volumes: &HashSet<&str>,
    errors: &mut Errors,
) {
    let name = text(container, "name");
    if name.is_empty() {
        errors.required(path.field("name"), "");
    } else {
        for fault in names::label(name) {
            errors.invalid(path.field("name"), &container["name"], fault);
        }
        if !seen.insert(name) {
            errors.duplicate(path.field("name"), &container["name"]);
        }
    }
    let image = text(container, "image");
    if image.is_empty() {
        errors.required(path.field("image"), "");
    } else if image != image.trim() {
        errors.invalid(path.field("image"), &container["image"], "must not have leading or trailing whitespace");
    }
    supported(
        &container["terminationMessagePolicy"],
        &path.field("terminationMessagePolicy"),
        &["FallbackToLogsOnError", "File"],
        errors,
    );
    ports(container, path, errors);
    environment(container, path, errors);
    mounts(container, path, volumes, errors);
    supported(
        &container["imagePullPolicy"],
        &path.field("imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
        errors,
    );
    resources(&container["resources"], &path.field("resources"), errors);
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if container[kind].is_object() {
            probe(&container[kind], &path.field(kind), kind, errors);
        }
    }
}

fn ports(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field("ports");
    let mut seen: HashSet<&str> = HashSet::new();
    for (at, port) in entries(container, "ports") {
        let path = list.index(at);
        let name = text(port, "name");
        if !name.is_empty() {
            let faults = names::port(name);
            let good = faults.is_empty();
            for fault in faults {
                errors.invalid(path.field("name"), &port["name"], fault);
            }
            if good && !seen.insert(name) {
                errors.duplicate(path.field("name"), &port["name"]);
            }
        }
        match port["containerPort"].as_i64() {
            None | Some(0) => errors.required(path.field("containerPort"), ""),
            Some(_) => number(&port["containerPort"], &path.field("containerPort"), errors),
        }
        if port["hostPort"].as_i64().is_some_and(|port| port != 0) {
            number(&port["hostPort"], &path.field("hostPort"), errors);
        }
        supported(&port["protocol"], &path.field("protocol"), &["SCTP", "TCP", "UDP"], errors);
    }
}

/// A port number.
pub(super) fn number(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !value.as_i64().is_some_and(|port| (1..=65_535).contains(&port)) {
        errors.invalid(path, value, "must be between 1 and 65535, inclusive");
    }
}

fn environment(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field("env");
    for (at, variable) in entries(container, "env") {
        let path = list.index(at);
        let name = text(variable, "name");
        if name.is_empty() {
            errors.required(path.field("name"), "");
        } else {
            for fault in names::environment(name) {
                errors.invalid(path.field("name"), &variable["name"], fault);
            }
        }
        let from = &variable["valueFrom"];
        if let Some(sources) = from.as_object() {
            let shown = json!("");
            if !text(variable, "value").is_empty() && !sources.is_empty() {
                errors.invalid(path.field("valueFrom"), &shown, "may not be specified when `value` is not empty");
            } else if sources.is_empty() {
                errors.invalid(path.field("valueFrom"), &shown, "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`");
            } else if sources.len() > 1 {
                errors.invalid(path.field("valueFrom"), &shown, "may not have more than one field specified at a time");
            }
        }
    }
}

fn mounts(container: &Value, path: &Path<'_>, volumes: &HashSet<&str>, errors: &mut Errors) {
    let list = path.field("volumeMounts");
    let mut seen: HashSet<&str> = HashSet::new();
    for (at, mount) in entries(container, "volumeMounts") {
        let path = list.index(at);
        let name = text(mount, "name");
        if name.is_empty() {
            errors.required(path.field("name"), "");
        } else if !volumes.contains(name) {
            errors.not_found(path.field("name"), &mount["name"]);
        }
        let place = text(mount, "mountPath");
        if place.is_empty() {
            errors.required(path.field("mountPath"), "");
        } else if !seen.insert(place) {
            errors.invalid(path.field("mountPath"), &mount["mountPath"], "must be unique");
        }
    }
}

/// `requests` and `limits`.
pub(super) fn resources(resources: &Value, path: &Path<'_>, errors: &mut Errors) {
    let parse = |value: &Value| Quantity::parse(value.as_str().unwrap_or_default()).ok();
    let limits = path.field("limits");
    for (name, amount) in resources["limits"].as_object().into_iter().flatten() {
        amount_of(name, amount, &limits.key(name), errors);
    }
    let requests = path.field("requests");
    for (name, amount) in resources["requests"].as_object().into_iter().flatten() {
        amount_of(name, amount, &requests.key(name), errors);
        let limit = &resources["limits"][name.as_str()];
        match (parse(amount), parse(limit)) {
            (Some(request), Some(bound)) => {
                if !overcommits(name) && request != bound {
                    errors.invalid(requests, amount, format!("must be equal to {name} limit of {bound}"));
                } else if request > bound {
                    errors.invalid(requests, amount, format!("must be less than or equal to {name} limit of {bound}"));
                }
            }
            (Some(_), None) if !overcommits(name) => {
                errors.required(limits, "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
    }
}

fn amount_of(name: &str, amount: &Value, path: &Path<'_>, errors: &mut Errors) {
    let faults = names::qualified(name);
    if !faults.is_empty() {
        for fault in faults {
            errors.invalid(path, &json!(name), fault);
        }
    } else if !name.contains('/') && !STANDARD.contains(&name) && !name.starts_with("hugepages-") {
        errors.invalid(path, &json!(name), "must be a standard resource for containers");
    }
    let Ok(quantity) = Quantity::parse(amount.as_str().unwrap_or_default()) else { return };
    if quantity.is_negative() {
        errors.invalid(path, amount, "must be greater than or equal to 0");
    } else if name.contains('/') && quantity.millis() % 1000 != 0 {
        errors.invalid(path, amount, "must be an integer");
    }
}

/// Whether more of a resource may be promised than there is.
fn overcommits(name: &str) -> bool {
    !name.starts_with("hugepages-") && (!name.contains('/') || name.starts_with("kubernetes.io/"))
}

fn probe(probe: &Value, path: &Path<'_>, kind: &str, errors: &mut Errors) {
    let handlers = ["exec", "httpGet", "tcpSocket", "grpc"].iter().filter(|one| probe[**one].is_object()).count();
    if handlers == 0 {
        errors.required(path, "must specify a handler type");
    } else if handlers > 1 {
        errors.forbidden(path, "may not specify more than 1 handler type");
    }
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        not_negative(&probe[field], &path.field(field), errors);
    }
    if kind != "readinessProbe" && probe["successThreshold"].as_i64().is_some_and(|count| count != 1) {
        errors.invalid(path.field("successThreshold"), &probe["successThreshold"], "must be 1");
    }
    for handler in ["httpGet", "tcpSocket"] {
        let port = &probe[handler]["port"];
        if port.is_number() {
            number(port, &path.field(handler).field("port"), errors);
        }
    }
}
