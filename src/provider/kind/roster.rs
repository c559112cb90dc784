//! Which worker is of which pool: a map that survives pools being inserted, changed and removed.
//!
//! kind names workers by their place in its configuration. Were the map computed from the lab file, a pool inserted in
//! the middle would give every later node another pool; so each worker keeps what it was made for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::names::Names;
use klab_lab::spec::Lab;

/// What a worker was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The pool.
    pub pool: String,
    /// Its place among the pool's nodes, from 0: decides its zone.
    pub index: u32,
}

/// Workers by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Roster {
    workers: BTreeMap<String, Place>,
}

impl Roster {
    /// The workers of a cluster that is made from a lab, with kind's names in kind's order.
    pub fn of_new_cluster(names: &Names, lab: &Lab) -> Self {
        let mut roster = Self::default();
        for pool in lab.pools.iter().filter(|pool| !pool.deferred) {
            for _ in 0..pool.nodes.value {
                roster.add(names, &pool.name.value, |_| false);
            }
        }
        roster
    }

    /// Adds a worker to a pool, with the first free name and the first free place in the pool. `taken` tells of names that
    /// are in use although the roster does not know them.
    pub fn add(&mut self, names: &Names, pool: &str, taken: impl Fn(&str) -> bool) -> String {
        let free = |name: &String| !self.workers.contains_key(name) && !taken(name);
        let name = (1..u32::MAX).map(|number| names.worker(number)).find(free).unwrap_or_default();
        let index = self.free_index(pool);
        self.workers.insert(name.clone(), Place { pool: pool.to_owned(), index });
        name
    }

    /// Takes up a worker that was found in the world.
    pub fn adopt(&mut self, name: &str, pool: &str) {
        let index = self.free_index(pool);
        self.workers.entry(name.to_owned()).or_insert_with(|| Place { pool: pool.to_owned(), index });
    }

    fn free_index(&self, pool: &str) -> u32 {
        let used: Vec<u32> = self.pool(pool).map(|(_, place)| place.index).collect();
        (0..u32::MAX).find(|index| !used.contains(index)).unwrap_or_default()
    }

    /// Strikes a worker off.
    pub fn remove(&mut self, name: &str) {
        self.workers.remove(name);
    }

    /// What a worker was made for.
    pub fn place(&self, name: &str) -> Option<&Place> {
        self.workers.get(name)
    }

    /// All workers with their places, in order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Place)> {
        let mut workers: Vec<_> = self.workers.iter().collect();
        workers.sort_by_key(|(name, _)| (name.len(), *name));
        workers.into_iter()
    }

    /// The workers of a pool in order of their places.
    pub fn pool(&self, pool: &str) -> impl Iterator<Item = (&String, &Place)> {
        let mut workers: Vec<_> = self.workers.iter().filter(|(_, place)| place.pool == pool).collect();
        workers.sort_by_key(|(_, place)| place.index);
        workers.into_iter()
    }

    /// Number of workers.
    pub fn len(&self) -> usize {
        self.workers.len()
    }

    /// Whether there is no worker.
    pub fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Home;

    fn shown(roster: &Roster) -> Vec<String> {
        roster.iter().map(|(name, place)| format!("{name}={}{}", place.pool, place.index)).collect()
    }

    #[test]
    fn workers_keep_their_pool_whatever_happens_to_others() {
        let names = Names::new(&Home::new("/state"), "x", None).unwrap();
        let mut roster = Roster::default();
        for pool in ["a", "a", "b"] {
            roster.add(&names, pool, |_| false);
        }
        assert_eq!(shown(&roster), ["klab-x-worker=a0", "klab-x-worker2=a1", "klab-x-worker3=b0"]);
        // A pool is put before `b`, and a worker of `a` goes: nobody else moves.
        roster.add(&names, "middle", |_| false);
        roster.remove("klab-x-worker");
        assert_eq!(shown(&roster), ["klab-x-worker2=a1", "klab-x-worker3=b0", "klab-x-worker4=middle0"]);
        // The free name and the free place are taken again, but not a name that somebody else's container has.
        assert_eq!(roster.add(&names, "a", |name| name == "klab-x-worker"), "klab-x-worker5");
        assert_eq!(roster.place("klab-x-worker5").unwrap().index, 0);
        roster.adopt("klab-x-worker9", "b");
        assert_eq!(
            roster.pool("b").map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["klab-x-worker3", "klab-x-worker9"]
        );
    }

    #[test]
    fn tenth_worker_comes_after_the_ninth() {
        let names = Names::new(&Home::new("/state"), "x", None).unwrap();
        let mut roster = Roster::default();
        for _ in 0..11 {
            roster.add(&names, "a", |_| false);
        }
        let order: Vec<_> = roster.iter().map(|(_, place)| place.index).collect();
        assert_eq!(order, (0..11).collect::<Vec<_>>());
    }
}
