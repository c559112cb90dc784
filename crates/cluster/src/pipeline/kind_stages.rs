//! Stages of single kinds, which look at other objects.

use klab_api_machinery::resource::{
    CERTIFICATE_SIGNING_REQUESTS, FLOW_SCHEMAS, INGRESSES, JOBS, NAMESPACES, PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES, PODS, PRIORITY_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES, ResourceId,
    SERVICES, VALIDATING_ADMISSION_POLICIES, VOLUME_ATTRIBUTES_CLASSES,
};
use klab_api_machinery::status::Status;
use serde_json::Value;

use super::draft::Draft;
use super::{services, strategy};
use crate::admission::{default_class, devices, limit_range, pods, priority, protect, signing};
use crate::transaction::Transaction;

/// Changes a version of an object.
type Complete = fn(&mut Transaction<'_>, &mut Draft<'_>);

/// Fills in what depends on other objects, in a namespace, or refuses the new object.
pub(super) fn admit(
    transaction: &mut Transaction<'_>,
    resource: ResourceId,
    namespace: &str,
    new: &mut Value,
) -> Result<(), Status> {
    match resource {
        INGRESSES => default_class::of_ingress(transaction, new),
        PERSISTENT_VOLUME_CLAIMS => {
            default_class::add_storage_class(transaction, new);
            protect(new, "kubernetes.io/pvc-protection");
        }
        PERSISTENT_VOLUMES => protect(new, "kubernetes.io/pv-protection"),
        PODS => pods::admit_pod(transaction, namespace, new)?,
        VOLUME_ATTRIBUTES_CLASSES => protect(new, "kubernetes.io/vac-protection"),
        _ => {}
    }
    Ok(())
}

/// Changes a new version once its fields are assigned to managers, so that no manager owns what it sets.
pub(super) fn complete(resource: ResourceId) -> Option<Complete> {
    Some(match resource {
        CERTIFICATE_SIGNING_REQUESTS => |transaction, draft| {
            strategy::sign_request(transaction.options.user, draft.old(), &mut draft.new);
        },
        FLOW_SCHEMAS => |transaction, draft| strategy::find_level(transaction, &mut draft.new),
        JOBS => |_, draft| strategy::select_own_pods(draft.old(), &mut draft.new),
        NAMESPACES => |_, draft| {
            if draft.is_new() {
                strategy::finalize_namespace(&mut draft.new);
            }
        },
        PODS => |transaction, draft| {
            if draft.is_new() {
                pods::finish_pod(transaction.state.features, &mut draft.new, transaction.now);
            }
        },
        RESOURCE_CLAIMS => |transaction, draft| {
            if draft.is_new() {
                devices::check_admin_requests(transaction, &draft.new, &draft.new["spec"], &mut draft.errors);
            }
        },
        RESOURCE_CLAIM_TEMPLATES => |transaction, draft| {
            if draft.is_new() {
                devices::check_admin_requests(transaction, &draft.new, &draft.new["spec"]["spec"], &mut draft.errors);
            }
        },
        RESOURCE_SLICES => |transaction, draft| devices::date_taints(&mut draft.new, transaction.now),
        SERVICES => services::allocate_addresses,
        VALIDATING_ADMISSION_POLICIES => |transaction, draft| {
            strategy::check_types(transaction, draft.old(), &mut draft.new);
        },
        _ => return None,
    })
}

/// Refuses a valid new object because of others.
pub(super) fn restrict(
    transaction: &Transaction<'_>,
    resource: ResourceId,
    namespace: &str,
    new: &Value,
) -> Result<(), Status> {
    match resource {
        CERTIFICATE_SIGNING_REQUESTS => signing::restrict(new),
        PERSISTENT_VOLUME_CLAIMS | PODS => limit_range::check_limits(transaction, resource, namespace, new),
        PRIORITY_CLASSES => priority::check_default_class(transaction, new),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stored_kinds_are_completed() {
        let completed: Vec<ResourceId> = ResourceId::fixed().filter(|kind| complete(*kind).is_some()).collect();
        assert!(completed.contains(&PODS));
        assert!(completed.iter().all(|kind| kind.row().is_stored()), "{completed:?}");
    }
}
