//! Nodes.

// upstream: pkg/apis/core/validation/validation.go ValidateNode (v1.36)

use serde_json::{Value, json};

use super::{Errors, names, placement};
use crate::schema::Path;
use klab_scheduler::quantity::Quantity;

pub(crate) fn check(node: &Value, errors: &mut Errors) {
    // Upstream looks for taints under `metadata`, and says so.
    placement::taints(&node["spec"], &Path::Root.field("metadata").field("taints"), errors);
    let path = Path::Root.field("status");
    for list in ["capacity", "allocatable"] {
        let list_path = path.field(list);
        for (name, amount) in node["status"][list].as_object().into_iter().flatten() {
            for fault in names::qualified(name) {
                errors.invalid(list_path.key(name), &json!(name), fault);
            }
            if Quantity::parse(amount.as_str().unwrap_or_default()).is_ok_and(Quantity::is_negative) {
                errors.invalid(list_path.key(name), amount, "must be greater than or equal to 0");
            }
        }
    }
}
