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
pub use internal::{node_selector_term, node_selector_terms, volume_affinity};
pub use slice::{slice, slice_update};
pub use status::status;

use serde_json::Value;

use super::{Errors, Place};
use crate::views::DeviceClassSpec;

/// A DeviceClass.
pub fn class(value: &Value, errors: &mut Errors) {
    let spec = Place::<DeviceClassSpec<'_>>::of_spec(value);
    common::selectors(&spec.selectors(), errors);
    if spec.config().at_most(common::MAX_CONFIG, errors) {
        spec.config().each().for_each(|config| common::configuration(&config.opaque(), errors));
    }
    let name = spec.extended_resource_name();
    if name.is_some_and(|name| !klab_cel::names::is_extended_resource(name)) {
        errors.invalid_at(&name, "must be a valid extended resource name");
    }
}
