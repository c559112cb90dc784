//! Takes changes of all objects but pods into the scheduler's picture of the cluster.

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{
    CSI_NODES, CSI_STORAGE_CAPACITIES, DEVICE_CLASSES, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS, REPLICA_SETS, REPLICATION_CONTROLLERS, RESOURCE_CLAIMS, RESOURCE_SLICES, SERVICES,
    STATEFUL_SETS, STORAGE_CLASSES,
};
use klab_api_machinery::views::{CSINode, CSIStorageCapacity};
use klab_scheduler::Cluster as SchedulerCache;
use klab_scheduler::quantity::Quantity;
use klab_scheduler::queue::Event;
use klab_scheduler::typed::Typed;

use super::super::reconcile::Change;

/// The annotation of a CSINode that says which volume plugins its drivers stand in for.
const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// Takes a change of any other object into the scheduler's picture.
pub(super) fn object_changed(scheduler_cache: &mut SchedulerCache, change: &Change<'_>) -> Option<Event> {
    let Change { object, previous, gone, .. } = *change;
    if gone {
        return object_gone(scheduler_cache, object);
    }
    // Selectors of these never change.
    if [REPLICA_SETS, STATEFUL_SETS].contains(&object.resource) && previous.is_some() {
        return None;
    }
    match object.resource {
        NODES => read(object, |node| scheduler_cache.set_node(node))?.ok()?,
        // The queue has no events of these kinds.
        NAMESPACES => read(object, |namespace| scheduler_cache.set_namespace(namespace)).and(None),
        SERVICES => read(object, |service| scheduler_cache.set_service(service)).and(None),
        REPLICA_SETS => read(object, |set| scheduler_cache.set_replica_set(set)).and(None),
        STATEFUL_SETS => read(object, |set| scheduler_cache.set_stateful_set(set)).and(None),
        REPLICATION_CONTROLLERS => {
            read(object, |controller| scheduler_cache.set_replication_controller(controller)).and(None)
        }
        POD_DISRUPTION_BUDGETS => read(object, |budget| scheduler_cache.set_disruption_budget(budget)).and(None),
        PERSISTENT_VOLUME_CLAIMS => read(object, |claim| scheduler_cache.set_claim(claim)),
        PERSISTENT_VOLUMES => read(object, |volume| scheduler_cache.set_volume(volume))?.ok(),
        STORAGE_CLASSES => read(object, |class| scheduler_cache.set_storage_class(class)),
        CSI_NODES => {
            let migrated = |node: &Object| {
                CSINode(&node.value()).metadata().annotations().get(MIGRATED_PLUGINS).map(str::to_owned)
            };
            previous.is_none_or(|old| migrated(old) != migrated(object)).then_some(Event::StorageDriver)
        }
        CSI_STORAGE_CAPACITIES => previous.is_none_or(|old| room(object) > room(old)).then_some(Event::StorageDriver),
        DEVICE_CLASSES => read(object, |class| scheduler_cache.set_device_class(class)),
        RESOURCE_SLICES => read(object, |slice| scheduler_cache.set_resource_slice(slice)),
        RESOURCE_CLAIMS => read(object, |claim| scheduler_cache.set_resource_claim(claim))?,
        _ => None,
    }
}

/// Hands an object to the picture; none where the types do not hold it.
fn read<T: Typed, R>(object: &Object, set: impl FnOnce(&T) -> R) -> Option<R> {
    T::from_json(&object.json).ok().map(|read| set(&read))
}

/// Takes an object other than a pod out of the scheduler's picture.
fn object_gone(scheduler_cache: &mut SchedulerCache, object: &Object) -> Option<Event> {
    let (namespace, name) = (object.namespace.as_ref(), object.name.as_ref());
    match object.resource {
        NODES => return scheduler_cache.remove_node(name),
        RESOURCE_CLAIMS => return scheduler_cache.remove_resource_claim(namespace, name),
        NAMESPACES => scheduler_cache.remove_namespace(name),
        SERVICES | REPLICA_SETS | STATEFUL_SETS | REPLICATION_CONTROLLERS => {
            scheduler_cache.remove_workload(object.resource.row().kind, namespace, name);
        }
        POD_DISRUPTION_BUDGETS => scheduler_cache.remove_disruption_budget(namespace, name),
        PERSISTENT_VOLUME_CLAIMS => scheduler_cache.remove_claim(namespace, name),
        PERSISTENT_VOLUMES => scheduler_cache.remove_volume(name),
        STORAGE_CLASSES => scheduler_cache.remove_storage_class(name),
        DEVICE_CLASSES => scheduler_cache.remove_device_class(name),
        RESOURCE_SLICES => scheduler_cache.remove_resource_slice(name),
        _ => {}
    }
    None
}

/// The largest volume that a driver says it has room for.
// upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go volumeLimit (v1.36)
fn room(capacity: &Object) -> Option<Quantity> {
    let capacity = capacity.value();
    let limits = [CSIStorageCapacity(&capacity).maximum_volume_size(), CSIStorageCapacity(&capacity).capacity()];
    limits.into_iter().find_map(|limit| Quantity::parse(limit.as_str()?).ok())
}
