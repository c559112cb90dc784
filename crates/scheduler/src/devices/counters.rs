//! Counters that the devices of a pool share: parts of one piece of hardware cannot all be given away.

// upstream: staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go
// checkAvailableCounters (v1.36)

use std::collections::BTreeMap;

use super::pools::Pool;
use super::slice::Device;
use crate::quantity::Quantity;

/// What is left of each counter of a pool, by set and name.
#[derive(Debug, Default)]
pub(crate) struct Left<'a>(BTreeMap<(&'a str, &'a str), Quantity>);

impl<'a> Left<'a> {
    /// What the claims that are allocated leave.
    pub(crate) fn of(pool: &Pool<'a>) -> Self {
        let mut left = Self::default();
        for (set, counters) in &pool.counter_sets {
            for (name, value) in *counters {
                left.0.insert((set, name.as_str()), *value);
            }
        }
        let taken = |device: &Device| pool.taken.is_some_and(|taken| taken.has(&device.name));
        let devices = pool.slices.iter().chain(&pool.elsewhere).flat_map(|slice| &slice.devices);
        devices.filter(|device| taken(device)).for_each(|device| left.change(device, false));
        left
    }

    /// The first counter of which a device consumes more than is left: its set, its name, what is consumed, what is left.
    pub(crate) fn lacks(&self, device: &Device) -> Option<(String, String, Quantity, Quantity)> {
        let consumed = device.consumes.iter().flat_map(|(set, counters)| counters.iter().map(move |it| (set, it)));
        let lacking = consumed.filter_map(|(set, (name, amount))| {
            let left = self.0.get(&(set.as_str(), name.as_str()))?;
            (left < amount).then(|| (set.clone(), name.clone(), *amount, *left))
        });
        lacking.into_iter().next()
    }

    /// Gives a device what it consumes, if so much is left of every counter.
    pub(crate) fn take(&mut self, device: &'a Device) -> bool {
        self.change(device, false);
        // As upstream, a counter that is overdrawn keeps all devices of the pool away.
        let enough = self.0.values().all(|left| !left.is_negative());
        if !enough {
            self.change(device, true);
        }
        enough
    }

    /// Takes back what a device consumed.
    pub(crate) fn give_back(&mut self, device: &'a Device) {
        self.change(device, true);
    }

    fn change(&mut self, device: &'a Device, back: bool) {
        for (set, counters) in &device.consumes {
            for (name, amount) in counters {
                if let Some(left) = self.0.get_mut(&(set.as_str(), name.as_str())) {
                    if back {
                        *left += *amount;
                    } else {
                        *left -= *amount;
                    }
                }
            }
        }
    }
}
