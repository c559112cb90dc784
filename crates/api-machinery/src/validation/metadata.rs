//! Metadata: names, labels, annotations, owners, finalizers.

// upstream: staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go ValidateObjectMetaAccessor (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::place::{Faults, Texts};
use super::{Errors, Place};
use crate::schema::Path;
use crate::views::{LabelSelector, NamespaceSpec, ObjectMeta, OwnerReference};

const ANNOTATIONS_LIMIT: usize = 256 * 1024;
/// Finalizers that need no domain in front.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// What is wrong with metadata. `name_faults` says what is wrong with the name of a new object.
pub fn check(name_faults: Option<Faults>, metadata: &Value, strict_finalizers: bool, errors: &mut Errors) {
    let metadata = Place::<ObjectMeta<'_>>::new(Path::Root.field("metadata"), metadata);
    if let Some(faults) = name_faults {
        name(faults, &metadata.name(), errors);
    }
    labels(&metadata.labels(), errors);
    annotations(&metadata.annotations(), errors);
    let list = metadata.finalizers();
    for finalizer in list.each() {
        finalizer.called(list.path).check(names::qualified, errors);
        if strict_finalizers {
            long(&finalizer, errors);
        }
    }
    owners(&metadata, errors);
}

/// The finalizers in the spec of a new namespace.
// upstream: pkg/apis/core/validation/validation.go ValidateNamespace (v1.36)
pub fn namespace(value: &Value, errors: &mut Errors) {
    let spec = Place::<NamespaceSpec<'_>>::of_spec(value);
    let list = spec.finalizers();
    for finalizer in list.each() {
        let finalizer = finalizer.called(list.path);
        finalizer.check(names::qualified, errors);
        long(&finalizer, errors);
    }
}

/// A finalizer must have a domain in front, if it needs one.
fn long(finalizer: &Place<'_, &str>, errors: &mut Errors) {
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(finalizer) {
        errors.invalid_at(finalizer, "name is neither a standard finalizer name nor is it fully qualified");
    }
}

fn name(faults: Faults, name: &Place<'_, &str>, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(name, "name or generateName is required");
    } else {
        name.check(faults, errors);
    }
}

/// Labels of an object or a pod template.
pub fn labels(labels: &Place<'_, Texts<'_>>, errors: &mut Errors) {
    for (key, value) in labels.each() {
        errors.faults(labels, key, names::qualified);
        value.called(labels.path).check(names::label_value, errors);
    }
}

/// The `labels` or `annotations` of an object.
pub fn check_texts(field: &str, texts: &Value, errors: &mut Errors) {
    let path = Path::Root.field("metadata");
    // Upstream names these as it does here.
    if field == "labels" {
        labels(&Place::new(path.field("labels"), texts), errors);
    } else {
        annotations(&Place::new(path.field("annotation"), texts), errors);
    }
}

pub fn annotations(annotations: &Place<'_, Texts<'_>>, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in annotations.iter() {
        size += key.len() + value.len();
        for fault in names::qualified(&key.to_lowercase()) {
            errors.invalid(annotations, &json!(key), fault);
        }
    }
    if size > ANNOTATIONS_LIMIT {
        errors.too_long(annotations, ANNOTATIONS_LIMIT, "bytes");
    }
}

fn owners(metadata: &Place<'_, ObjectMeta<'_>>, errors: &mut Errors) {
    let list = metadata.owner_references();
    let mut controller: Option<OwnerReference<'_>> = None;
    for owner in list.each() {
        // Upstream reports all of them under the list itself.
        let owner = owner.called(list.path);
        for (field, fault) in [
            (owner.api_version(), "version must not be empty"),
            (owner.kind(), "must not be empty"),
            (owner.name(), "must not be empty"),
            (owner.uid(), "must not be empty"),
        ] {
            if field.is_empty() {
                errors.invalid_at(&field, fault);
            }
        }
        let version = owner.api_version();
        if *owner.kind() == "Event" && matches!(*version, "v1" | "events.k8s.io/v1") {
            let (group, version) = version.rsplit_once('/').unwrap_or(("", *version));
            let fault = format!("{group}/{version}, Kind=Event is disallowed from being an owner");
            errors.invalid_as(&list, &shown_owner(owner.json), fault);
        }
        if *owner.controller() == Some(true) {
            if let Some(first) = controller {
                let shown: Vec<String> = list.each().map(|owner| shown_owner(owner.json)).collect();
                errors.invalid_as(
                    &list,
                    &format!("[{}]", shown.join(",")),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {}/{} and {}/{}",
                        first.kind(),
                        first.name(),
                        *owner.kind(),
                        *owner.name()
                    ),
                );
            }
            controller = Some(*owner);
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
pub fn selector(selector: &Place<'_, LabelSelector<'_>>, errors: &mut Errors) {
    labels(&selector.match_labels(), errors);
    for term in selector.match_expressions().each() {
        let (operator, values) = (term.operator(), term.values());
        match *operator {
            "In" | "NotIn" if values.is_empty() => {
                errors.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.forbidden(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.invalid_at(&operator, "not a valid selector operator"),
        }
        term.key().check(names::qualified, errors);
        values.each().for_each(|value| value.check(names::label_value, errors));
    }
}
