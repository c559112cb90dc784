//! Nodes.

// upstream: pkg/apis/core/validation/validation.go ValidateNode (v1.36)

use klab_cel::names;
use serde_json::{Value, json};

use super::{Errors, placement};
use crate::schema::Path;
use klab_scheduler::quantity::Quantity;

pub fn check(node: &Value, errors: &mut Errors) {
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

/// What the owner of the machine says of a node once stays.
// upstream: pkg/apis/core/validation/validation.go ValidateNodeUpdate (v1.36)
pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let path = Path::Root.field("spec");
    let (before, after) = (&old["spec"], &new["spec"]);
    let had = |field: &str| match &before[field] {
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    };
    for (field, words) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
        if had(field) && before[field] != after[field] {
            let fault = format!("node updates may not change {words} except from \"\" to valid");
            errors.forbidden(path.field(field), fault);
        }
    }
    if before["externalID"] != after["externalID"] {
        errors.forbidden(path.field("externalID"), "may not be updated");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_stays_on_its_machine() {
        let faults = |old: &str, new: &str| {
            let of = |id: &str| json!({ "spec": { "providerID": id } });
            Errors::found(|errors| update(&of(old), &of(new), errors))
        };
        assert_eq!(faults("", "azure:///a"), [""; 0]);
        assert_eq!(
            faults("azure:///a", "azure:///b"),
            ["spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid"]
        );
    }
}
