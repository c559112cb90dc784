//! How the API server treats each kind: one row a kind that names what is not as with most kinds.
//!
//! Its name and its path are in its row of `resource`. A kind that has a row there and none here, or two, does not compile.
// upstream: pkg/registry/<group>/<kind>/strategy.go, pkg/printers/internalversion/printers.go (v1.36)

/// The rows of a group: each names the kind and what is not as with most kinds.
macro_rules! kinds {
    ($($kind:ident { $($aspect:ident: $value:expr),* $(,)? })*) => {
        pub(super) static KINDS: &[(crate::resource::ResourceId, super::Aspects)] =
            &[$((crate::resource::$kind, super::Aspects { $($aspect: $value,)* ..super::aspects::PLAIN })),*];
    };
}

mod access;
mod aspects;
mod conversion;
mod core;
mod extension;
pub mod gated;
mod networking;
mod scheduling;
mod storage;
pub mod strategy;
#[cfg(test)]
mod tests;
pub mod usage;
mod workloads;

pub use aspects::{Aspects, Field, InitialStatus, Quota, Validation};

use serde_json::{Value, json};

use crate::resource::{RESOURCES, ResourceId};

/// The rows, by groups of the API.
static GROUPS: &[&[(ResourceId, Aspects)]] = &[
    core::KINDS,
    workloads::KINDS,
    access::KINDS,
    networking::KINDS,
    storage::KINDS,
    extension::KINDS,
    scheduling::KINDS,
];

/// The rows by number of the kind.
static KINDS: [&Aspects; RESOURCES.len()] = {
    let mut kinds = [&CUSTOM; RESOURCES.len()];
    let mut has_row = [false; RESOURCES.len()];
    let mut group = 0;
    while group < GROUPS.len() {
        let mut at = 0;
        while at < GROUPS[group].len() {
            let (id, aspects) = &GROUPS[group][at];
            assert!(!has_row[id.0 as usize], "a kind has two rows of aspects");
            has_row[id.0 as usize] = true;
            kinds[id.0 as usize] = aspects;
            at += 1;
        }
        group += 1;
    }
    let mut at = 0;
    while at < RESOURCES.len() {
        assert!(has_row[at], "a kind of `resource` has no row of aspects");
        at += 1;
    }
    kinds
};

/// Kinds that CustomResourceDefinitions define. Their columns and schemas are those of the definition.
static CUSTOM: Aspects = Aspects {
    initial_status: InitialStatus::Removed,
    generation: Some(strategy::all_but_metadata_and_status),
    ..aspects::PLAIN
};

/// The aspects of a kind.
pub fn of(kind: ResourceId) -> &'static Aspects {
    KINDS.get(kind.0 as usize).copied().unwrap_or(&CUSTOM)
}

/// From the stored form to the one `resource` serves.
pub fn served(resource: ResourceId, mut value: Value) -> Value {
    if let Some(conversion) = of(resource).conversion {
        (conversion.serve)(&mut value);
    }
    set_type(resource, &mut value);
    value
}

/// From the form `resource` serves to the stored one. Custom resources become it when they are decoded.
pub fn stored(resource: ResourceId, mut value: Value) -> Value {
    if resource.row().custom {
        return value;
    }
    if let Some(conversion) = of(resource).conversion {
        (conversion.store)(&mut value);
    }
    set_type(resource.row().stored_as.unwrap_or(resource), &mut value);
    value
}

fn set_type(resource: ResourceId, value: &mut Value) {
    let row = resource.row();
    value["kind"] = json!(row.kind);
    value["apiVersion"] = json!(row.api_version());
}
