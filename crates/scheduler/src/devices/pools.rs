//! The pools whose devices can be used on a node.

// upstream: staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/pools_incubating.go
// GatherPools, buildPool (v1.36)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::inventory::{Devices, Taken};
use super::slice::{Counters, PoolId, Slice};
use crate::node_info::NodeSpec;

/// A pool as seen from a node.
#[derive(Debug)]
pub(crate) struct Pool<'a> {
    pub(crate) id: PoolId,
    /// Some of its slices are not there.
    pub(crate) incomplete: bool,
    /// Its slices contradict each other.
    pub(crate) invalid: bool,
    /// The slices with devices for the node, by name.
    pub(crate) slices: Vec<&'a Slice>,
    /// Those with devices for other nodes, which consume of the same counters.
    pub(crate) elsewhere: Vec<&'a Slice>,
    pub(crate) counter_sets: BTreeMap<&'a str, &'a Counters>,
    pub(crate) taken: Option<&'a Taken>,
}

/// The pools for a node: first those without devices that take part in binding, each kind by driver and name.
pub(crate) fn gather<'a>(devices: &'a Devices, node: &NodeSpec) -> Vec<Pool<'a>> {
    let mut found: BTreeMap<&'a PoolId, Vec<&'a Slice>> = BTreeMap::new();
    for slice in devices.slices_for(&node.name).map(Arc::as_ref).filter(|slice| relevant(slice, node)) {
        let of_pool = found.entry(&slice.pool).or_default();
        match of_pool.first().map(|first| slice.generation.cmp(&first.generation)) {
            Some(std::cmp::Ordering::Less) => {}
            Some(std::cmp::Ordering::Greater) => *of_pool = vec![slice],
            Some(std::cmp::Ordering::Equal) | None => of_pool.push(slice),
        }
    }
    let mut pools: Vec<Pool<'a>> = found.into_iter().filter_map(|(id, slices)| pool(devices, id, slices)).collect();
    // Pools come sorted; this sort keeps their order.
    pools.sort_by_key(|pool| {
        let mut devices = pool.slices.iter().flat_map(|slice| &slice.devices);
        devices.any(|device| device.binding_conditions.is_some())
    });
    pools
}

fn relevant(slice: &Slice, node: &NodeSpec) -> bool {
    !slice.counter_sets.is_empty()
        || slice.reach.covers(node)
        || (slice.per_device && slice.devices.iter().any(|device| device.reach.covers(node)))
}

/// A pool of which these slices are for the node; `None` if all of them are out of date.
fn pool<'a>(devices: &'a Devices, id: &PoolId, mut slices: Vec<&'a Slice>) -> Option<Pool<'a>> {
    let (count, generation) = slices.first().map(|slice| (slice.count, slice.generation))?;
    let complete = |slices: usize| i64::try_from(slices) == Ok(count);
    let mut pool = Pool {
        id: id.clone(),
        incomplete: false,
        invalid: false,
        slices: Vec::new(),
        elsewhere: Vec::new(),
        counter_sets: BTreeMap::new(),
        taken: devices.taken(id),
    };
    if !complete(slices.len()) {
        let all = || devices.slices_of(id).map(Arc::as_ref);
        // A newer generation that has nothing for this node makes these out of date.
        if all().any(|slice| slice.generation > generation) {
            return None;
        }
        let current: Vec<&'a Slice> = all().filter(|slice| slice.generation == generation).collect();
        if !complete(current.len()) {
            pool.incomplete = true;
            return Some(pool);
        }
        let here: BTreeSet<_> = slices.iter().map(|slice| &slice.name).collect();
        pool.elsewhere = current.into_iter().filter(|slice| !here.contains(&slice.name)).collect();
    }
    slices.sort_by(|one, other| one.name.cmp(&other.name));
    let (sets, with_devices): (Vec<_>, Vec<_>) = slices.into_iter().partition(|slice| !slice.counter_sets.is_empty());
    for (name, counters) in sets.iter().flat_map(|slice| &slice.counter_sets) {
        pool.invalid |= pool.counter_sets.insert(name, counters).is_some();
    }
    let mut names = BTreeSet::new();
    pool.invalid |= !with_devices.iter().flat_map(|slice| &slice.devices).all(|device| names.insert(&device.name));
    let known = |set: &str, counters: &Counters| {
        let of_set = pool.counter_sets.get(set);
        of_set.is_some_and(|of_set| counters.keys().all(|name| of_set.contains_key(name)))
    };
    let consumers = with_devices.iter().chain(&sets).chain(&pool.elsewhere).flat_map(|slice| &slice.devices);
    let unknown = consumers.flat_map(|device| &device.consumes).any(|(set, counters)| !known(set, counters));
    pool.invalid |= unknown;
    pool.slices = with_devices;
    Some(pool)
}
