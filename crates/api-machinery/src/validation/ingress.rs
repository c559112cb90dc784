//! Ingresses and IngressClasses.

// upstream: pkg/apis/networking/validation/validation.go ValidateIngressSpec, ValidateIngressClass (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::field::{domain_path, entries, supported, text};
use super::{Errors, Place, addresses, container};
use crate::schema::Path;

const CLASS: &str = "kubernetes.io/ingress.class";
const MAX_CONTROLLER_LENGTH: usize = 250;

/// A new Ingress.
pub fn create(value: &Value, errors: &mut Errors) {
    check(value, errors);
    let annotation = &value["metadata"]["annotations"][CLASS];
    let class = &value["spec"]["ingressClassName"];
    if annotation.is_string() && class.is_string() && annotation != class {
        // Upstream leaves `metadata` out.
        let fault = "must match `ingressClassName` when both are specified";
        errors.invalid(Path::Root.field("annotations").field(CLASS), annotation, fault);
    }
}

/// A changed Ingress. What was wrong with names of secrets may stay so.
pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    if old["spec"] != new["spec"] {
        check(new, errors);
    }
}

fn check(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    let no_rules = entries(spec, "rules").next().is_none();
    if no_rules && spec["defaultBackend"].is_null() {
        errors.invalid(path, &spec["rules"], "either `defaultBackend` or `rules` must be specified");
    }
    if spec["defaultBackend"].is_object() {
        backend(&spec["defaultBackend"], &path.field("defaultBackend"), errors);
    }
    let list = path.field("rules");
    for (at, one) in entries(spec, "rules") {
        rule(one, &list.index(at), errors);
    }
    let list = path.field("tls");
    for (at, tls) in entries(spec, "tls") {
        let path = list.index(at);
        let list = path.field("hosts");
        for (at, host) in entries(tls, "hosts") {
            name_of_host(host, &list.index(at), errors);
        }
        let secret = text(tls, "secretName");
        if !secret.is_empty() {
            for fault in names::subdomain(secret) {
                errors.invalid(path.field("secretName"), &tls["secretName"], fault);
            }
        }
    }
    if let Some(class) = spec["ingressClassName"].as_str() {
        for fault in names::subdomain(class) {
            errors.invalid(path.field("ingressClassName"), &spec["ingressClassName"], fault);
        }
    }
}

fn name_of_host(host: &Value, path: &Path<'_>, errors: &mut Errors) {
    let text = host.as_str().unwrap_or_default();
    let faults = if text.contains('*') { names::wildcard_subdomain(text) } else { names::subdomain(text) };
    for fault in faults {
        errors.invalid(path, host, fault);
    }
}

fn rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    let host = text(rule, "host");
    if !host.is_empty() {
        let place = path.field("host");
        if addresses::lenient(host).is_some() {
            errors.invalid(place, &rule["host"], "must be a DNS name, not an IP address");
        }
        name_of_host(&rule["host"], &place, errors);
    }
    if !rule["http"].is_object() {
        return;
    }
    let path = path.field("http");
    let list = path.field("paths");
    if entries(&rule["http"], "paths").next().is_none() {
        errors.required(list, "");
    }
    for (at, one) in entries(&rule["http"], "paths") {
        way(one, &list.index(at), errors);
    }
}

fn way(way: &Value, path: &Path<'_>, errors: &mut Errors) {
    let place = path.field("path");
    let given = text(way, "path");
    let shown = json!(given);
    let Some(kind) = way["pathType"].as_str() else {
        return errors.required(path.field("pathType"), "pathType must be specified");
    };
    match kind {
        "Exact" | "Prefix" => {
            if !given.starts_with('/') {
                errors.invalid(place, &shown, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| given.contains(part)) {
                errors.invalid(place, &shown, format!("must not contain '{part}'"));
            }
            for end in ["/..", "/."].into_iter().filter(|end| given.ends_with(end)) {
                errors.invalid(place, &shown, format!("cannot end with '{end}'"));
            }
        }
        "ImplementationSpecific" => {
            if !given.is_empty() && !given.starts_with('/') {
                errors.invalid(place, &shown, "must be an absolute path");
            }
        }
        _ => {
            let kinds = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.unsupported(path.field("pathType"), &way["pathType"], &kinds);
        }
    }
    backend(&way["backend"], &path.field("backend"), errors);
}

fn backend(backend: &Value, path: &Path<'_>, errors: &mut Errors) {
    let none = json!("");
    let (service, resource) = (&backend["service"], &backend["resource"]);
    match (service.is_object(), resource.is_object()) {
        (true, true) => errors.invalid(path, &none, "cannot set both resource and service backends"),
        (false, true) => reference(resource, &path.field("resource"), errors),
        (true, false) => {
            let service_path = path.field("service");
            if text(service, "name").is_empty() {
                errors.required(service_path.field("name"), "");
            } else {
                for fault in names::label(text(service, "name")) {
                    errors.invalid(service_path.field("name"), &service["name"], fault);
                }
            }
            let port = &service["port"];
            let port_path = service_path.field("port");
            let number = port["number"].as_i64().unwrap_or_default();
            match (text(port, "name").is_empty(), number == 0) {
                (false, false) => errors.invalid(path, &none, "cannot set both port name & port number"),
                (false, true) => {
                    for fault in names::port(text(port, "name")) {
                        errors.invalid(port_path.field("name"), &port["name"], fault);
                    }
                }
                (true, false) => {
                    container::number(&Place::<i64>::new(port_path.field("number"), &port["number"]), errors);
                }
                (true, true) => errors.required(path, "port name or number is required"),
            }
        }
        (false, false) => errors.invalid(path, &none, "resource or service backend is required"),
    }
}

/// An object of some kind.
fn reference(object: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(group) = object["apiGroup"].as_str() {
        for fault in names::subdomain(group) {
            errors.invalid(path.field("apiGroup"), &object["apiGroup"], fault);
        }
    }
    for field in ["kind", "name"] {
        if text(object, field).is_empty() {
            errors.required(path.field(field), "");
        } else {
            for fault in names::path_segment(text(object, field)) {
                errors.invalid(path.field(field), &object[field], fault);
            }
        }
    }
}

/// An IngressClass.
pub fn class(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    if text(spec, "controller").len() > MAX_CONTROLLER_LENGTH {
        errors.too_long(path.field("controller"), MAX_CONTROLLER_LENGTH, "bytes");
    }
    domain_path(text(spec, "controller"), &path.field("controller"), errors);
    let parameters = &spec["parameters"];
    if !parameters.is_object() {
        return;
    }
    let path = path.field("parameters");
    reference(parameters, &path, errors);
    let scope = &parameters["scope"];
    if scope.is_null() {
        return errors.required(path.field("scope"), "");
    }
    supported(scope, &path.field("scope"), &["Cluster", "Namespace"], errors);
    let namespace = &parameters["namespace"];
    let place = path.field("namespace");
    match (scope.as_str(), namespace.as_str()) {
        (Some("Namespace"), None) => errors.required(place, "`parameters.scope` is set to 'Namespace'"),
        (Some("Namespace"), Some(name)) => {
            for fault in names::label(name) {
                errors.invalid(place, namespace, fault);
            }
        }
        (Some("Cluster"), Some(_)) => errors.forbidden(place, "`parameters.scope` is set to 'Cluster'"),
        _ => {}
    }
}

/// The controller of a class stays.
pub(crate) fn class_update(old: &Value, new: &Value, errors: &mut Errors) {
    if old["spec"]["controller"] != new["spec"]["controller"] {
        errors.invalid("spec.controller", &json!(text(&new["spec"], "controller")), "field is immutable");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(spec: Value) -> Vec<String> {
        Errors::found(|errors| create(&json!({ "spec": spec }), errors))
    }

    #[test]
    fn paths_lead_to_backends() {
        let good = json!({ "service": { "name": "web", "port": { "number": 80 } } });
        let of = |way: Value| {
            let mut way = way;
            if way["backend"].is_null() {
                way["backend"] = good.clone();
            }
            faults(json!({ "rules": [{ "http": { "paths": [way] } }] }))
        };
        for (way, wanted) in [
            (json!({ "path": "/a", "pathType": "Prefix" }), vec![]),
            (json!({ "path": "", "pathType": "ImplementationSpecific" }), vec![]),
            (json!({ "path": "/a" }), vec![".pathType: Required value: pathType must be specified"]),
            (
                json!({ "path": "a", "pathType": "Exact" }),
                vec![".path: Invalid value: \"a\": must be an absolute path"],
            ),
            (
                json!({ "path": "/a//b/..", "pathType": "Prefix" }),
                vec![
                    ".path: Invalid value: \"/a//b/..\": must not contain '//'",
                    ".path: Invalid value: \"/a//b/..\": cannot end with '/..'",
                ],
            ),
            (
                json!({ "path": "/a", "pathType": "x" }),
                vec![
                    ".pathType: Unsupported value: \"x\": supported values: \"Exact\", \"ImplementationSpecific\", \"Prefix\"",
                ],
            ),
            (
                json!({ "path": "/", "pathType": "Prefix", "backend": {} }),
                vec![".backend: Invalid value: \"\": resource or service backend is required"],
            ),
            (
                json!({ "path": "/", "pathType": "Prefix", "backend": { "service": { "name": "1a", "port": {} } } }),
                vec![".backend: Required value: port name or number is required"],
            ),
            (
                json!({ "path": "/", "pathType": "Prefix", "backend": { "service": { "name": "a", "port": { "name": "x", "number": 1 } } } }),
                vec![".backend: Invalid value: \"\": cannot set both port name & port number"],
            ),
            (
                json!({ "path": "/", "pathType": "Prefix", "backend": { "resource": { "kind": "", "name": "a/b" } } }),
                vec![
                    ".backend.resource.kind: Required value",
                    ".backend.resource.name: Invalid value: \"a/b\": may not contain '/'",
                ],
            ),
        ] {
            let wanted: Vec<String> =
                wanted.iter().map(|fault| format!("spec.rules[0].http.paths[0]{fault}")).collect();
            assert_eq!(of(way.clone()), wanted, "{way}");
        }
        assert_eq!(
            faults(json!({})),
            ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]
        );
        assert_eq!(
            faults(json!({ "rules": [{ "http": { "paths": [] } }] })),
            ["spec.rules[0].http.paths: Required value"]
        );
    }

    #[test]
    fn hosts_have_names() {
        let of = |host: &str| faults(json!({ "rules": [{ "host": host }], "tls": [{ "hosts": [host] }] }));
        assert_eq!(of("*.bar.com"), [""; 0]);
        let wildcard = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
        assert_eq!(
            of("a*b"),
            [
                format!("spec.rules[0].host: Invalid value: \"a*b\": {wildcard}"),
                format!("spec.tls[0].hosts[0]: Invalid value: \"a*b\": {wildcard}"),
            ]
        );
        assert_eq!(
            of("127.0.0.1"),
            ["spec.rules[0].host: Invalid value: \"127.0.0.1\": must be a DNS name, not an IP address"]
        );
        let mut errors = Errors::default();
        let both = json!({ "metadata": { "annotations": { CLASS: "a" } }, "spec": { "ingressClassName": "b", "defaultBackend": { "resource": { "kind": "K", "name": "n" } } } });
        create(&both, &mut errors);
        assert_eq!(
            errors.texts(),
            [
                "annotations.kubernetes.io/ingress.class: Invalid value: \"a\": must match `ingressClassName` when both are specified"
            ]
        );
    }

    #[test]
    fn classes_name_their_controller() {
        let of = |spec: Value| Errors::found(|errors| class(&json!({ "spec": spec }), errors));
        let with = |parameters: Value| of(json!({ "controller": "k8s.io/ingress-nginx", "parameters": parameters }));
        assert_eq!(with(json!({ "apiGroup": "a.example", "kind": "K", "name": "n", "scope": "Cluster" })), [""; 0]);
        assert_eq!(of(json!({})), ["spec.controller: Required value"]);
        assert_eq!(
            of(json!({ "controller": "nginx" })),
            ["spec.controller: Invalid value: \"nginx\": must be a domain-prefixed path (such as \"acme.io/foo\")"]
        );
        assert_eq!(
            of(json!({ "controller": "a.b/?" })),
            [
                "spec.controller: Invalid value: \"?\": Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"
            ]
        );
        assert_eq!(
            with(json!({ "kind": "K", "name": "n", "scope": "Namespace" })),
            ["spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"]
        );
        assert_eq!(
            with(json!({ "kind": "K", "name": "n", "scope": "Cluster", "namespace": "x" })),
            ["spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"]
        );
    }
}
