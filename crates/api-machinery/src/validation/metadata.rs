//! Metadata: names, labels, annotations, owners, finalizers.

// upstream: staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go ValidateObjectMetaAccessor (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::Errors;
use super::field::{entries, text};
use crate::schema::Path;

const ANNOTATIONS_LIMIT: usize = 256 * 1024;
/// Finalizers that need no domain in front.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
const SHORT: &str = "name is neither a standard finalizer name nor is it fully qualified";

/// What is wrong with metadata. `name_faults` says what is wrong with the name of a new object.
pub fn check(
    name_faults: Option<fn(&str) -> Vec<String>>,
    metadata: &Value,
    strict_finalizers: bool,
    errors: &mut Errors,
) {
    let path = Path::Root.field("metadata");
    if let Some(faults) = name_faults {
        name(faults, text(metadata, "name"), &path, errors);
    }
    labels(&metadata["labels"], &path.field("labels"), errors);
    annotations(&metadata["annotations"], &path.field("annotations"), errors);
    for (at, finalizer) in entries(metadata, "finalizers") {
        let name = finalizer.as_str().unwrap_or_default();
        let list = path.field("finalizers");
        for fault in names::qualified(name) {
            errors.invalid(list, finalizer, fault);
        }
        if strict_finalizers && is_short(name) {
            errors.invalid(list.index(at), finalizer, SHORT);
        }
    }
    owners(metadata, &path.field("ownerReferences"), errors);
}

/// The finalizers in the spec of a new namespace.
///
/// // upstream: pkg/apis/core/validation/validation.go ValidateNamespace (v1.36)
pub fn namespace(value: &Value, errors: &mut Errors) {
    for finalizer in value["spec"]["finalizers"].as_array().into_iter().flatten() {
        let name = finalizer.as_str().unwrap_or_default();
        for fault in names::qualified(name) {
            errors.invalid("spec.finalizers", finalizer, fault);
        }
        if is_short(name) {
            errors.invalid("spec.finalizers", finalizer, SHORT);
        }
    }
}

/// Whether a finalizer has no domain in front, and needs one.
fn is_short(finalizer: &str) -> bool {
    !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer)
}

fn name(faults: fn(&str) -> Vec<String>, name: &str, path: &Path<'_>, errors: &mut Errors) {
    let path = path.field("name");
    if name.is_empty() {
        errors.required(path, "name or generateName is required");
        return;
    }
    for fault in faults(name) {
        errors.invalid(path, &json!(name), fault);
    }
}

/// Labels of an object or a pod template.
pub fn labels(labels: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        for fault in names::qualified(key) {
            errors.invalid(path, &json!(key), fault);
        }
        for fault in names::label_value(value.as_str().unwrap_or_default()) {
            errors.invalid(path, value, fault);
        }
    }
}

/// The `labels` or `annotations` of an object.
pub fn check_texts(field: &str, texts: &Value, errors: &mut Errors) {
    let path = Path::Root.field("metadata");
    // Upstream names these as it does here.
    if field == "labels" {
        labels(texts, &path.field("labels"), errors);
    } else {
        annotations(texts, &path.field("annotation"), errors);
    }
}

pub fn annotations(annotations: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        size += key.len() + value.as_str().unwrap_or_default().len();
        for fault in names::qualified(&key.to_lowercase()) {
            errors.invalid(path, &json!(key), fault);
        }
    }
    if size > ANNOTATIONS_LIMIT {
        errors.too_long(path, ANNOTATIONS_LIMIT, "bytes");
    }
}

fn owners(metadata: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut controller: Option<&Value> = None;
    for (at, owner) in entries(metadata, "ownerReferences") {
        // Upstream reports all of them under the list itself.
        let _ = at;
        for (field, fault) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if text(owner, field).is_empty() {
                errors.invalid(path.field(field), &owner[field], fault);
            }
        }
        if owner["kind"] == "Event" && matches!(text(owner, "apiVersion"), "v1" | "events.k8s.io/v1") {
            let (group, version) =
                text(owner, "apiVersion").rsplit_once('/').unwrap_or(("", text(owner, "apiVersion")));
            let fault = format!("{group}/{version}, Kind=Event is disallowed from being an owner");
            errors.invalid_as(path, &shown_owner(owner), fault);
        }
        if owner["controller"] == true {
            if let Some(first) = controller {
                let shown: Vec<String> =
                    entries(metadata, "ownerReferences").map(|(_, owner)| shown_owner(owner)).collect();
                errors.invalid_as(
                    path,
                    &format!("[{}]", shown.join(",")),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {}/{} and {}/{}",
                        text(first, "kind"),
                        text(first, "name"),
                        text(owner, "kind"),
                        text(owner, "name")
                    ),
                );
            }
            controller = Some(owner);
        }
    }
}

/// An owner reference as Go prints it, in the order of its fields.
fn shown_owner(owner: &Value) -> String {
    let fields = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let required = |field: &str| !matches!(field, "controller" | "blockOwnerDeletion");
    let shown: Vec<String> = fields
        .into_iter()
        .filter(|field| required(field) || !owner[*field].is_null())
        .map(|field| match &owner[field] {
            Value::Null => format!("\"{field}\":\"\""),
            value => format!("\"{field}\":{value}"),
        })
        .collect();
    format!("{{{}}}", shown.join(","))
}

/// A LabelSelector.
pub fn selector(selector: &Value, path: &Path<'_>, errors: &mut Errors) {
    labels(&selector["matchLabels"], &path.field("matchLabels"), errors);
    let list = path.field("matchExpressions");
    for (at, term) in entries(selector, "matchExpressions") {
        let path = list.index(at);
        let given = term["values"].as_array().is_some_and(|values| !values.is_empty());
        match text(term, "operator") {
            "In" | "NotIn" if !given => {
                errors.required(path.field("values"), "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if given => {
                errors.forbidden(
                    path.field("values"),
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                );
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.invalid(path.field("operator"), &term["operator"], "not a valid selector operator"),
        }
        for fault in names::qualified(text(term, "key")) {
            errors.invalid(path.field("key"), &term["key"], fault);
        }
        for (index, value) in entries(term, "values") {
            for fault in names::label_value(value.as_str().unwrap_or_default()) {
                errors.invalid(path.field("values").index(index), value, fault);
            }
        }
    }
}
