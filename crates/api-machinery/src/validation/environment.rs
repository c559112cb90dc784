//! Environment variables of containers, and the fields of a pod that they and files are filled from.

// upstream: pkg/apis/core/validation/validation.go ValidateEnv, ValidateEnvFrom, validateObjectFieldSelector (v1.36)

use klab_cel::names;
use klab_scheduler::quantity::Quantity;
use serde_json::json;

use super::{Errors, Place, file_paths};
use crate::views::{
    EnvFromSource, EnvVar, FileKeySelector, ObjectFieldSelector, ResourceFieldSelector, SecretEnvSource,
    SecretKeySelector, Views,
};

/// Fields of a pod that variables take.
const OF_VARIABLES: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields of a pod that files take.
pub(super) const OF_FILES: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// Fields of a pod that are known, and not given to containers in every way.
const OTHERS: [&str; 3] = ["spec.restartPolicy", "spec.schedulerName", "status.phase"];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const HUGE_PAGES: [&str; 2] = ["limits.hugepages-", "requests.hugepages-"];

/// `env` of a container.
pub(super) fn variables<'a>(list: &Place<'_, Views<'a, EnvVar<'a>>>, errors: &mut Errors) {
    for variable in list.each() {
        variable.name().needed_as(names::environment, errors);
        source(&variable, errors);
    }
}

fn source(variable: &Place<'_, EnvVar<'_>>, errors: &mut Errors) {
    let from = variable.value_from();
    if !from.is_set() {
        return;
    }
    let (of_pod, of_container, of_file) = (from.field_ref(), from.resource_field_ref(), from.file_key_ref());
    let keys = [from.config_map_key_ref().cast::<SecretKeySelector<'_>>(), from.secret_key_ref()];
    let mut count = keys.iter().filter(|key| key.is_set()).count();
    if of_pod.is_set() {
        count += 1;
        field(&of_pod, &OF_VARIABLES, errors);
    }
    if of_container.is_set() {
        count += 1;
        resource(&of_container, false, errors);
    }
    for key in keys.iter().filter(|key| key.is_set()) {
        key.name().check(names::subdomain, errors);
        key.key().needed_as(names::config_key, errors);
    }
    if of_file.is_set() {
        count += 1;
        file_key(&of_file, errors);
    }
    let fault = if count == 0 {
        "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
    } else if !variable.value().is_empty() {
        "may not be specified when `value` is not empty"
    } else if count > 1 {
        "may not have more than one field specified at a time"
    } else {
        return;
    };
    errors.invalid(from, &json!(""), fault);
}

/// A variable of a file in a volume.
fn file_key(source: &Place<'_, FileKeySelector<'_>>, errors: &mut Errors) {
    source.key().needed_as(names::environment, errors);
    source.volume_name().needed_as(names::label, errors);
    source.path().needed(errors);
    file_paths::without_steps_back(&source.path(), errors);
}

/// `envFrom` of a container. What is wrong with the number of sources is said of the list.
pub(super) fn sources<'a>(list: &Place<'_, Views<'a, EnvFromSource<'a>>>, errors: &mut Errors) {
    for source in list.each() {
        source.prefix().check(names::environment, errors);
        let kinds = [source.config_map_ref().cast::<SecretEnvSource<'_>>(), source.secret_ref()];
        for kind in kinds.iter().filter(|kind| kind.is_set()) {
            // The beginning of a generated name is taken, too.
            kind.name().needed_as(|name| names::subdomain(&names::as_beginning(name)), errors);
        }
        match kinds.iter().filter(|kind| kind.is_set()).count() {
            0 => errors.invalid(list, &json!(""), "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(list, &json!(""), "may not have more than one field specified at a time"),
        }
    }
}

/// A field of the pod.
pub(super) fn field(source: &Place<'_, ObjectFieldSelector<'_>>, known: &[&str], errors: &mut Errors) {
    let (version, path) = (source.api_version(), source.field_path());
    for field in [version, path] {
        if field.is_empty() {
            return errors.required(field, "");
        }
    }
    let wanted = *path;
    let subscript = wanted.strip_suffix("']").and_then(|rest| rest.split_once("['"));
    let fault = match subscript {
        _ if *version != "v1" => Some(format!("unsupported pod version: {}", *version)),
        Some((field, _)) if !matches!(field, "metadata.annotations" | "metadata.labels") => {
            Some(format!("field label does not support subscript: {wanted}"))
        }
        None if !is_known(wanted) => Some(format!("field label not supported: {wanted}")),
        _ => None,
    };
    if let Some(fault) = fault {
        return errors.invalid_at(&path, format!("error converting fieldPath: {fault}"));
    }
    if let Some((field, key)) = subscript {
        // Keys of annotations may have capitals.
        let key = if field == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
        return errors.faults(source, &key, names::qualified);
    }
    let wanted = if wanted == "spec.host" { "spec.nodeName" } else { wanted };
    if !known.contains(&wanted) {
        errors.unsupported(path, &json!(wanted), known);
    }
}

fn is_known(field: &str) -> bool {
    field == "spec.host" || [&OF_VARIABLES[..], &OF_FILES, &OTHERS].iter().any(|some| some.contains(&field))
}

/// What a container asks for, or may have at most. Files say of which container.
pub(super) fn resource(source: &Place<'_, ResourceFieldSelector<'_>>, of_file: bool, errors: &mut Errors) {
    let name = source.resource();
    let huge = HUGE_PAGES.iter().any(|start| name.starts_with(start));
    if of_file && source.container_name().is_empty() {
        errors.required(source.container_name(), "");
    } else if name.is_empty() {
        errors.required(name, "");
    } else if !RESOURCES.contains(&*name) && !huge {
        errors.unsupported_at(&name, &RESOURCES);
    }
    let divisor = source.divisor();
    let (place, divisor) = (divisor.path, divisor.text());
    let kind = match name.split_once('.').map_or("", |(_, kind)| kind) {
        _ if Quantity::parse(divisor).is_ok_and(Quantity::is_zero) || divisor.is_empty() => return,
        "cpu" if !matches!(divisor, "1m" | "1") => {
            let fault = "only divisor's values 1m and 1 are supported with the cpu resource";
            return errors.invalid(place, name.json, fault);
        }
        _ if is_unit(divisor) => return,
        "memory" => "memory",
        "ephemeral-storage" => "local ephemeral storage",
        _ if huge => "hugepages",
        _ => return,
    };
    let fault = format!(
        "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the {kind} resource"
    );
    errors.invalid(place, name.json, fault);
}

/// Whether an amount is a unit of bytes.
fn is_unit(amount: &str) -> bool {
    amount
        .strip_prefix('1')
        .is_some_and(|unit| ["", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].contains(&unit))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::views::Container;

    fn faults(container: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        let container = Place::<Container<'_>>::root(container);
        variables(&container.env(), &mut errors);
        sources(&container.env_from(), &mut errors);
        errors.texts()
    }

    #[test]
    fn variables_come_from_one_place() {
        let good = json!({ "env": [
            { "name": "a.b-c_D", "value": "x" },
            { "name": "a", "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.annotations['Some.Key/X']" } } },
            { "name": "b", "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "spec.host" } } },
            { "name": "c", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu", "divisor": "1m" } } },
            { "name": "d", "valueFrom": { "resourceFieldRef": { "resource": "limits.hugepages-2Mi", "divisor": "0" } } },
            { "name": "e", "valueFrom": { "configMapKeyRef": { "name": "map", "key": "one.key" } } },
            { "name": "f", "valueFrom": { "fileKeyRef": { "key": "K", "volumeName": "v", "path": "a/b" } } },
        ], "envFrom": [{ "prefix": "P_", "configMapRef": { "name": "map" } }, { "secretRef": { "name": "abc-" } }] });
        assert_eq!(faults(&good), [""; 0]);
        let from = |from: Value| faults(&json!({ "env": [{ "name": "a", "valueFrom": from }] }));
        let path = "env[0].valueFrom";
        for (source, wanted) in [
            (
                json!({ "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.whoops" } }),
                ".fieldRef.fieldPath: Invalid value: \"metadata.whoops\": error converting fieldPath: field label not supported: metadata.whoops",
            ),
            (
                json!({ "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.name['key']" } }),
                ".fieldRef.fieldPath: Invalid value: \"metadata.name['key']\": error converting fieldPath: field label does not support subscript: metadata.name['key']",
            ),
            (
                json!({ "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.labels" } }),
                ".fieldRef.fieldPath: Unsupported value: \"metadata.labels\": supported values: \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\"",
            ),
            (
                json!({ "fieldRef": { "apiVersion": "v2", "fieldPath": "metadata.name" } }),
                ".fieldRef.fieldPath: Invalid value: \"metadata.name\": error converting fieldPath: unsupported pod version: v2",
            ),
            (
                json!({ "resourceFieldRef": { "resource": "limits.gpu" } }),
                ".resourceFieldRef.resource: Unsupported value: \"limits.gpu\": supported values: \"limits.cpu\", \"limits.ephemeral-storage\", \"limits.memory\", \"requests.cpu\", \"requests.ephemeral-storage\", \"requests.memory\"",
            ),
            (
                json!({ "resourceFieldRef": { "resource": "limits.cpu", "divisor": "2m" } }),
                ".resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource",
            ),
            (json!({ "secretKeyRef": { "name": "s", "key": "" } }), ".secretKeyRef.key: Required value"),
            (
                json!({}),
                ": Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            ),
            (
                json!({ "fileKeyRef": { "key": "K", "volumeName": "v", "path": "../a" } }),
                ".fileKeyRef.path: Invalid value: \"../a\": must not contain '..'",
            ),
        ] {
            assert_eq!(from(source), [format!("{path}{wanted}")]);
        }
        let both = json!({ "env": [{ "name": "a", "value": "x", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } }] });
        assert_eq!(
            faults(&both),
            [format!("{path}: Invalid value: \"\": may not be specified when `value` is not empty")]
        );
    }

    #[test]
    fn whole_maps_have_one_source_each() {
        let wrong = json!({ "envFrom": [{}, { "configMapRef": { "name": "" } }, { "configMapRef": { "name": "a" }, "secretRef": { "name": "b" } }, { "prefix": "a=", "secretRef": { "name": "$" } }] });
        let found = faults(&wrong);
        assert_eq!(found[0], "envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`");
        assert_eq!(found[1], "envFrom[1].configMapRef.name: Required value");
        assert_eq!(found[2], "envFrom: Invalid value: \"\": may not have more than one field specified at a time");
        assert!(found[3].starts_with("envFrom[3].prefix: Invalid value: \"a=\": a valid environment variable name"));
        assert!(
            found[4].starts_with("envFrom[3].secretRef.name: Invalid value: \"$\": a lowercase RFC 1123 subdomain")
        );
    }
}
