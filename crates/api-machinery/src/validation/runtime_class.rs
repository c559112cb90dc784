//! RuntimeClasses.

// upstream: pkg/apis/node/validation/validation.go ValidateRuntimeClass, ValidateRuntimeClassUpdate (v1.36)

use std::collections::HashSet;

use klab_cel::names;
use serde_json::{Value, json};

use super::{Errors, Place, container, metadata, placement};
use crate::views::RuntimeClass;

pub fn check(value: &Value, errors: &mut Errors) {
    let class = Place::<RuntimeClass<'_>>::root(value);
    class.handler().needed_as(names::label, errors);
    let (overhead, scheduling) = (class.overhead(), class.scheduling());
    let limits = json!({ "limits": overhead.pod_fixed().json });
    container::resources(&Place::new(overhead.path, &limits), errors);
    metadata::labels(&scheduling.node_selector(), errors);
    placement::tolerations(&scheduling.tolerations(), errors);
    let mut seen = HashSet::new();
    for toleration in scheduling.tolerations().each() {
        if !seen.insert(toleration.identity()) {
            errors.duplicate_at(&toleration);
        }
    }
}

pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    Place::<RuntimeClass<'_>>::root(new).handler().stays(&Place::<RuntimeClass<'_>>::root(old).handler(), errors);
}
