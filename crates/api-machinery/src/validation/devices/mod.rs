//! Classes, slices and claims of devices: one file each, `common` for what they share, `internal` for values as refusals
//! of changes show them.

// upstream: pkg/apis/resource/validation/validation.go (v1.36)

mod capacity;
mod claim;
mod common;
mod device;
mod internal;
mod slice;
mod status;
#[cfg(test)]
mod tests;

pub use claim::{claim, claim_update, template, template_update};
pub use internal::{node_selector_term, node_selector_terms};
pub use slice::{slice, slice_update};
pub use status::status;

use serde_json::Value;

use super::Errors;
use super::field::entries;
use crate::schema::Path;

/// A DeviceClass.
pub fn class(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let path = Path::Root.field("spec");
    common::selectors(spec, &path.field("selectors"), errors);
    let list = path.field("config");
    if common::within(spec, "config", common::MAX_CONFIG, &list, errors) {
        for (at, config) in entries(spec, "config") {
            common::configuration(config, &list.index(at), errors);
        }
    }
    let name = &spec["extendedResourceName"];
    if name.as_str().is_some_and(|name| !klab_cel::names::is_extended_resource(name)) {
        errors.invalid(path.field("extendedResourceName"), name, "must be a valid extended resource name");
    }
}
