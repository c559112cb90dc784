//! Services.

// upstream: pkg/apis/core/validation/validation.go ValidateService (v1.36)

use std::collections::HashSet;

use serde_json::Value;

use super::container::number;
use super::field::{entries, supported, text};
use super::{Errors, metadata, names};
use crate::schema::Path;

pub(crate) fn check(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    let kind = text(spec, "type");
    let headless = text(spec, "clusterIP") == "None";
    supported(&spec["type"], &path.field("type"), &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], errors);
    if kind == "ExternalName" {
        if text(spec, "externalName").is_empty() {
            errors.required(path.field("externalName"), "");
        }
    } else if entries(spec, "ports").next().is_none() && !headless {
        errors.required(path.field("ports"), "");
    }
    if matches!(kind, "LoadBalancer" | "NodePort") && headless {
        errors.invalid(
            path.field("clusterIPs").index(0),
            &spec["clusterIP"],
            format!("may not be set to 'None' for {kind} services"),
        );
    }
    let list = path.field("ports");
    let several = entries(spec, "ports").count() > 1;
    let (mut seen_names, mut seen_ports) = (HashSet::new(), HashSet::new());
    for (at, port) in entries(spec, "ports") {
        let path = list.index(at);
        let name = text(port, "name");
        if name.is_empty() {
            if several {
                errors.required(path.field("name"), "");
            }
        } else {
            for fault in names::label(name) {
                errors.invalid(path.field("name"), &port["name"], fault);
            }
            if !seen_names.insert(name) {
                errors.duplicate(path.field("name"), &port["name"]);
            }
        }
        number(&port["port"], &path.field("port"), errors);
        supported(&port["protocol"], &path.field("protocol"), &["SCTP", "TCP", "UDP"], errors);
        match &port["targetPort"] {
            Value::String(name) => {
                for fault in names::port(name) {
                    errors.invalid(path.field("targetPort"), &port["targetPort"], fault);
                }
            }
            target => number(target, &path.field("targetPort"), errors),
        }
        if !seen_ports.insert((port["port"].as_i64(), text(port, "protocol"))) {
            errors.duplicate(path, port);
        }
    }
    metadata::labels(&spec["selector"], &path.field("selector"), errors);
    supported(&spec["sessionAffinity"], &path.field("sessionAffinity"), &["ClientIP", "None"], errors);
    supported(&spec["externalTrafficPolicy"], &path.field("externalTrafficPolicy"), &["Cluster", "Local"], errors);
    supported(&spec["internalTrafficPolicy"], &path.field("internalTrafficPolicy"), &["Cluster", "Local"], errors);
}

pub(crate) fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let (before, after) = (&old["spec"], &new["spec"]);
    let external = |spec: &Value| text(spec, "type") == "ExternalName";
    if !external(before)
        && !external(after)
        && !text(before, "clusterIP").is_empty()
        && before["clusterIP"] != after["clusterIP"]
    {
        errors.invalid("spec.clusterIPs[0]", &after["clusterIPs"], "may not change once set");
    }
}
