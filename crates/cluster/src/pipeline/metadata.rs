//! Rules of `metadata`: what the server sets, what clients may not change.

use jiff::Timestamp;
use klab_api_machinery::go_text::json_kind;
use klab_api_machinery::resource::{Resource, ResourceId};
use klab_api_machinery::status::Status;
use klab_api_machinery::validation::Errors;
use klab_api_machinery::value::time_text;
use klab_api_machinery::views;
use serde_json::{Map, Value, json};

/// Longest name a generated one may have, suffix included.
const MAX_GENERATED_NAME_LENGTH: usize = 63;
/// Letters added to `generateName`.
pub(super) const SUFFIX_LENGTH: usize = 5;

/// Makes a body one of the object its path names.
pub(crate) fn address_object(
    resource: ResourceId,
    namespace: &str,
    name: &str,
    value: &mut Value,
) -> Result<(), Status> {
    address(resource.row(), namespace, value)?;
    check_name(name, value)?;
    value["metadata"]["name"] = json!(name);
    Ok(())
}

/// Makes `value` an object with `apiVersion`, `kind` and a `metadata` object in the right namespace.
pub(crate) fn address(resource: &Resource, namespace: &str, value: &mut Value) -> Result<(), Status> {
    let Some(object) = value.as_object_mut() else {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): not a JSON object",
            resource.kind
        )));
    };
    object.insert("apiVersion".to_owned(), json!(resource.api_version()));
    object.insert("kind".to_owned(), json!(resource.kind));
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    let Some(metadata) = metadata.as_object_mut() else {
        return Err(Status::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: json: cannot unmarshal {} into Go struct field {}.metadata of type v1.ObjectMeta",
            resource.kind,
            resource.version,
            resource.kind,
            json_kind(metadata),
            resource.kind
        )));
    };
    let given = text(metadata, "namespace");
    if !resource.namespaced {
        metadata.remove("namespace");
    } else if given.is_empty() {
        metadata.insert("namespace".to_owned(), json!(namespace));
    } else if given != namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// The name of a new object: its own, or a generated one.
pub(crate) fn name_for(value: &mut Value, mut suffix: impl FnMut() -> String) -> String {
    let Some(metadata) = value["metadata"].as_object_mut() else { return String::new() };
    let mut name = text(metadata, "name").to_owned();
    let prefix = text(metadata, "generateName");
    if name.is_empty() && !prefix.is_empty() {
        let mut cut = prefix.len().min(MAX_GENERATED_NAME_LENGTH - SUFFIX_LENGTH);
        while !prefix.is_char_boundary(cut) {
            cut -= 1;
        }
        name = format!("{}{}", &prefix[..cut], suffix());
        metadata.insert("name".to_owned(), json!(name));
    }
    name
}

/// Sets what the server sets on a new object.
pub(crate) fn stamp(value: &mut Value, uid: &str, now: Timestamp, generation: bool) {
    let Some(metadata) = value["metadata"].as_object_mut() else { return };
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "generation"] {
        metadata.remove(field);
    }
    metadata.insert("uid".to_owned(), json!(uid));
    metadata.insert("creationTimestamp".to_owned(), json!(time_text(now)));
    if generation {
        metadata.insert("generation".to_owned(), json!(1));
    }
}

/// Checks that a body is about the object its path names.
pub(crate) fn check_name(name: &str, value: &Value) -> Result<(), Status> {
    let given = views::metadata(value).name();
    if given.is_empty() || given == name {
        return Ok(());
    }
    Err(Status::bad_request(format!("the name of the object ({given}) does not match the name on the URL ({name})")))
}

/// Where upstream keeps an object in etcd, as some of its messages tell.
// upstream: pkg/kubeapiserver/default_storage_factory_builder.go SpecialDefaultResourcePrefixes (v1.36)
fn storage_key(resource: &Resource, namespace: &str, name: &str) -> String {
    let kind = match (resource.group, resource.plural) {
        ("", "replicationcontrollers") => "controllers".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "nodes") => "minions".to_owned(),
        ("", "services") => "services/specs".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        ("apiextensions.k8s.io" | "apiregistration.k8s.io", plural) => format!("{}/{plural}", resource.group),
        (_, plural) => plural.to_owned(),
    };
    if namespace.is_empty() {
        format!("/registry/{kind}/{name}")
    } else {
        format!("/registry/{kind}/{namespace}/{name}")
    }
}

/// Checks that a body that replaces an object means this one.
///
/// # Errors
/// 409 for another uid.
pub(crate) fn check_uid(resource: &Resource, old: &Value, new: &Value) -> Result<(), Status> {
    let old = views::metadata(old);
    let (uid, own) = (views::metadata(new).uid(), old.uid());
    if uid.is_empty() || uid == own {
        return Ok(());
    }
    let because = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {own}",
        storage_key(resource, old.namespace(), old.name())
    );
    Err(Status::conflict_because(resource, old.name(), &because))
}

/// Checks that `new` is a possible next version of `old`, and fills in what clients may leave out.
///
/// # Errors
/// 409 for a stale resourceVersion, 422 for changed immutable fields.
pub(crate) fn carry_over(resource: &Resource, name: &str, old: &Value, new: &mut Value) -> Result<(), Status> {
    check_name(name, new)?;
    let (Some(before), Some(metadata)) = (old["metadata"].as_object(), new["metadata"].as_object_mut()) else {
        return Ok(());
    };
    metadata.insert("name".to_owned(), json!(name));
    // upstream: apiserver pkg/registry/rest/meta.go EnsureObjectNamespaceMatchesRequestNamespace
    if let Some(namespace) = before.get("namespace") {
        metadata.entry("namespace").or_insert_with(|| namespace.clone());
    }
    let version = text(metadata, "resourceVersion");
    if !version.is_empty() && version.parse::<u64>().is_err() {
        let because = format!("strconv.ParseUint: parsing {}: invalid syntax", json!(version));
        return Err(Status::new(500, "", because));
    }
    // Who says 0 does not mind which version there is.
    if !matches!(version, "" | "0") && version != text(before, "resourceVersion") {
        return Err(Status::conflict(resource, name));
    }
    let mut errors = Errors::default();
    let uid = text(metadata, "uid");
    if !uid.is_empty() && uid != text(before, "uid") {
        errors.invalid("metadata.uid", &json!(uid), "field is immutable");
    }
    if let Some(time) = metadata.get("creationTimestamp").filter(|time| !time.is_null())
        && Some(time) != before.get("creationTimestamp")
    {
        errors.invalid("metadata.creationTimestamp", time, "field is immutable");
    }
    if before.contains_key("deletionTimestamp") {
        let had = list(before, "finalizers");
        let added: Vec<String> = list(metadata, "finalizers")
            .iter()
            .filter(|finalizer| !had.contains(finalizer))
            .map(|finalizer| format!("\"{}\"", finalizer.as_str().unwrap_or_default()))
            .collect();
        if !added.is_empty() {
            errors.forbidden(
                "metadata.finalizers",
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    added.join(", ")
                ),
            );
        }
    }
    errors.into_result(resource, name)?;
    for field in [
        "uid",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
        "generateName",
    ] {
        match before.get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
    metadata.remove("selfLink");
    Ok(())
}

/// A text field, empty if absent.
pub(crate) fn text<'a>(object: &'a Map<String, Value>, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(object: &'a Map<String, Value>, field: &str) -> &'a [Value] {
    object.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
