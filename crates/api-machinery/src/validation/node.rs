//! Nodes.

// upstream: pkg/apis/core/validation/validation.go ValidateNode (v1.36)

use klab_cel::names;
use klab_scheduler::quantity::Quantity;
use serde_json::Value;

use super::{Errors, Place, placement};
use crate::schema::Path;
use crate::views::{Node, Views};

pub fn check(value: &Value, errors: &mut Errors) {
    let node = Place::<Node<'_>>::root(value);
    // Upstream looks for taints under `metadata`, and says so.
    let metadata = Path::Root.field("metadata");
    placement::taints(&node.spec().called(metadata).taints(), errors);
    for list in [node.status().capacity(), node.status().allocatable()] {
        for (name, amount) in list.each() {
            errors.faults(&amount, name, names::qualified);
            if Quantity::parse(amount.text()).is_ok_and(Quantity::is_negative) {
                errors.invalid_at(&amount, "must be greater than or equal to 0");
            }
        }
    }
}

/// What the owner of the machine says of a node once stays.
// upstream: pkg/apis/core/validation/validation.go ValidateNodeUpdate (v1.36)
pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let node = Place::<Node<'_>>::root(new);
    let (before, after) = (Node(old).spec(), node.spec());
    if !before.pod_cidrs().is_empty() && !before.pod_cidrs().eq(Views::clone(&after.pod_cidrs())) {
        errors.forbidden(after.pod_cidrs(), "node updates may not change podCIDR except from \"\" to valid");
    }
    if !before.provider_id().is_empty() && before.provider_id() != *after.provider_id() {
        errors.forbidden(after.provider_id(), "node updates may not change providerID except from \"\" to valid");
    }
    if before.external_id() != *after.external_id() {
        errors.forbidden(after.external_id(), "may not be updated");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
