//! Ingresses and IngressClasses.

// upstream: pkg/apis/networking/validation/validation.go ValidateIngressSpec, ValidateIngressClass (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::place::Faults;
use super::{Errors, Place, addresses, container};
use crate::schema::Path;
use crate::views::{
    HTTPIngressPath, Ingress, IngressBackend, IngressClass, IngressClassSpec, IngressRule, IngressServiceBackend,
    IngressSpec, TypedLocalObjectReference,
};

const CLASS: &str = "kubernetes.io/ingress.class";
const MAX_CONTROLLER_LENGTH: usize = 250;

/// A new Ingress.
pub fn create(value: &Value, errors: &mut Errors) {
    check(value, errors);
    let ingress = Ingress(value);
    let annotation = ingress.metadata().annotations().get(CLASS);
    if let (Some(annotation), Some(class)) = (annotation, ingress.spec().ingress_class_name())
        && annotation != class
    {
        // Upstream leaves `metadata` out.
        let fault = "must match `ingressClassName` when both are specified";
        errors.invalid(Path::Root.field("annotations").field(CLASS), &json!(annotation), fault);
    }
}

/// A changed Ingress. What was wrong with names of secrets may stay so.
pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    if Ingress(old).spec() != Ingress(new).spec() {
        check(new, errors);
    }
}

fn check(value: &Value, errors: &mut Errors) {
    let spec = Place::<IngressSpec<'_>>::of_spec(value);
    let (rules, other) = (spec.rules(), spec.default_backend());
    if other.is_set() {
        backend(&other, errors);
    } else if rules.is_empty() {
        errors.invalid(spec, rules.json, "either `defaultBackend` or `rules` must be specified");
    }
    rules.each().for_each(|one| rule(&one, errors));
    for tls in spec.tls().each() {
        tls.hosts().each().for_each(|host| name_of_host(&host, errors));
        tls.secret_name().check_if_set(names::subdomain, errors);
    }
    spec.ingress_class_name().check_given(names::subdomain, errors);
}

fn name_of_host(host: &Place<'_, &str>, errors: &mut Errors) {
    let faults: Faults = if host.contains('*') { names::wildcard_subdomain } else { names::subdomain };
    host.check(faults, errors);
}

fn rule(rule: &Place<'_, IngressRule<'_>>, errors: &mut Errors) {
    let (host, http) = (rule.host(), rule.http());
    if !host.is_empty() {
        if addresses::lenient(*host).is_some() {
            errors.invalid_at(&host, "must be a DNS name, not an IP address");
        }
        name_of_host(&host, errors);
    }
    if http.is_set() && http.paths().is_empty() {
        errors.required(http.paths(), "");
    }
    http.paths().each().for_each(|one| way(&one, errors));
}

fn way(way: &Place<'_, HTTPIngressPath<'_>>, errors: &mut Errors) {
    let (given, kind) = (way.path(), way.path_type());
    match *kind {
        None => return errors.required(kind, "pathType must be specified"),
        Some("Exact" | "Prefix") => {
            if !given.starts_with('/') {
                errors.invalid_text(&given, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| given.contains(part)) {
                errors.invalid_text(&given, format!("must not contain '{part}'"));
            }
            for end in ["/..", "/."].into_iter().filter(|end| given.ends_with(end)) {
                errors.invalid_text(&given, format!("cannot end with '{end}'"));
            }
        }
        Some("ImplementationSpecific") if given.is_empty() || given.starts_with('/') => {}
        Some("ImplementationSpecific") => errors.invalid_text(&given, "must be an absolute path"),
        _ => errors.unsupported_at(&kind, &["Exact", "ImplementationSpecific", "Prefix"]),
    }
    backend(&way.backend(), errors);
}

fn backend(backend: &Place<'_, IngressBackend<'_>>, errors: &mut Errors) {
    let fault = match (backend.service().is_set(), backend.resource().is_set()) {
        (true, true) => "cannot set both resource and service backends",
        (false, true) => return reference(&backend.resource(), errors),
        (true, false) => return service(backend, &backend.service(), errors),
        (false, false) => "resource or service backend is required",
    };
    errors.invalid(backend, &json!(""), fault);
}

fn service(
    backend: &Place<'_, IngressBackend<'_>>,
    service: &Place<'_, IngressServiceBackend<'_>>,
    errors: &mut Errors,
) {
    service.name().needed_as(names::label, errors);
    let port = service.port();
    match (port.name().is_empty(), *port.number() == 0) {
        (false, false) => errors.invalid(backend, &json!(""), "cannot set both port name & port number"),
        (false, true) => port.name().check(names::port, errors),
        (true, false) => container::number(&port.number(), errors),
        (true, true) => errors.required(backend, "port name or number is required"),
    }
}

/// An object of some kind.
fn reference(object: &Place<'_, TypedLocalObjectReference<'_>>, errors: &mut Errors) {
    object.api_group().check_given(names::subdomain, errors);
    object.kind().needed_as(names::path_segment, errors);
    object.name().needed_as(names::path_segment, errors);
}

/// An IngressClass.
pub fn class(value: &Value, errors: &mut Errors) {
    let spec = Place::<IngressClassSpec<'_>>::of_spec(value);
    let (controller, parameters) = (spec.controller(), spec.parameters());
    controller.no_longer_than(MAX_CONTROLLER_LENGTH, errors);
    controller.domain_path(errors);
    if !parameters.is_set() {
        return;
    }
    // They name an object, and where it is.
    reference(&parameters.cast(), errors);
    let (scope, namespace) = (parameters.scope(), parameters.namespace());
    if !scope.is_set() {
        return errors.required(scope, "");
    }
    scope.supported(&["Cluster", "Namespace"], errors);
    match (*scope, *namespace) {
        (Some("Namespace"), None) => errors.required(namespace, "`parameters.scope` is set to 'Namespace'"),
        (Some("Namespace"), Some(_)) => namespace.check(names::label, errors),
        (Some("Cluster"), Some(_)) => errors.forbidden(namespace, "`parameters.scope` is set to 'Cluster'"),
        _ => {}
    }
}

/// The controller of a class stays.
pub(crate) fn class_update(old: &Value, new: &Value, errors: &mut Errors) {
    let (old, new) = (IngressClass(old).spec(), IngressClass(new).spec());
    if old.controller() != new.controller() {
        errors.invalid("spec.controller", &json!(new.controller()), "field is immutable");
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
