//! RuntimeClasses.

// upstream: pkg/apis/node/validation/validation.go ValidateRuntimeClass, ValidateRuntimeClassUpdate (v1.36)

use std::collections::HashSet;

use klab_cel::names;
use serde_json::{Value, json};

use super::field::{entries, text};
use super::{Errors, Place, container, metadata, placement};
use crate::schema::Path;

pub fn check(value: &Value, errors: &mut Errors) {
    let handler = text(value, "handler");
    if handler.is_empty() {
        errors.required("handler", "");
    } else {
        for fault in names::label(handler) {
            errors.invalid("handler", &value["handler"], fault);
        }
    }
    let path = Path::Root.field("overhead");
    let overhead = json!({ "limits": value["overhead"]["podFixed"] });
    container::resources(&Place::new(path, &overhead), errors);
    let scheduling = &value["scheduling"];
    let path = Path::Root.field("scheduling");
    metadata::labels(&Place::new(path.field("nodeSelector"), &scheduling["nodeSelector"]), errors);
    let list = path.field("tolerations");
    placement::tolerations(&Place::new(list, &scheduling["tolerations"]), errors);
    let mut seen = HashSet::new();
    for (at, toleration) in entries(scheduling, "tolerations") {
        if !seen.insert(["key", "operator", "value", "effect"].map(|field| &toleration[field])) {
            errors.duplicate(list.index(at), toleration);
        }
    }
}

pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    if old["handler"] != new["handler"] {
        errors.invalid("handler", &new["handler"], "field is immutable");
    }
}
