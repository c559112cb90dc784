//! Which worker is of which pool: a map that survives pools being inserted, changed and removed.
//!
//! kind names workers by their place in its configuration. Were the map computed from the lab file, a pool inserted in
//! the middle would give every later node another pool; so each worker keeps what it was made for.
//!
//! kind gives no node a name of the lab file's: those workers klab makes itself, once kind is done. A worker is known by its
//! container; where that is not the node's name, its place says what is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::names::Names;
use klab_lab::spec::{Lab, Located};

/// What a worker was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// The pool.
    pub pool: String,
    /// Its place among the pool's nodes, from 0: decides its zone.
    pub index: u32,
    /// The node's name, where the lab file gave it one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// Workers by their containers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Roster {
    workers: BTreeMap<String, Slot>,
}

impl Roster {
    /// The workers that kind makes of a lab, with kind's names in kind's order.
    pub fn of_new_cluster(names: &Names, lab: &Lab) -> Self {
        let mut roster = Self::default();
        let mut numbers = 1u32..;
        for pool in lab.pools.iter().filter(|pool| !pool.deferred) {
            let named = u32::try_from(pool.names.len()).unwrap_or(u32::MAX);
            for (index, number) in (named..pool.nodes.value).zip(numbers.by_ref()) {
                let place = Slot { pool: pool.name.value.clone(), index, node: None };
                roster.workers.insert(names.worker(number), place);
            }
        }
        roster
    }

    /// Adds a worker to a pool at its first free place, under the name that the pool has for the place (`own`), else under
    /// the first free one of kind's. `taken` tells of containers that are there although the roster does not know them.
    /// Gives its container.
    pub fn add(&mut self, names: &Names, pool: &str, own: &[Located<String>], taken: impl Fn(&str) -> bool) -> String {
        let free = |name: &String| !self.workers.contains_key(name) && !taken(name) && self.container(name).is_none();
        let index = self.free_index(pool);
        let own = own.get(index as usize).map(|name| &name.value);
        let own = own.filter(|node| self.container(node).is_none() && free(&names.named_worker(node)));
        let name = match own {
            Some(node) => names.named_worker(node),
            None => (1..u32::MAX).map(|number| names.worker(number)).find(free).unwrap_or_default(),
        };
        let place = Slot { pool: pool.to_owned(), index, node: own.cloned() };
        self.workers.insert(name.clone(), place);
        name
    }

    /// Takes up a worker that was found in the world.
    pub fn adopt(&mut self, container: &str, node: &str, pool: &str) {
        let index = self.free_index(pool);
        let node = (node != container).then(|| node.to_owned());
        self.workers.entry(container.to_owned()).or_insert_with(|| Slot { pool: pool.to_owned(), index, node });
    }

    /// The node of a container.
    pub fn node<'n>(&'n self, container: &'n str) -> &'n str {
        self.place(container).and_then(|place| place.node.as_deref()).unwrap_or(container)
    }

    /// The container of a worker's node.
    pub fn container(&self, node: &str) -> Option<&str> {
        self.workers.keys().map(String::as_str).find(|container| self.node(container) == node)
    }

    /// The workers that kind makes, by their containers.
    pub fn made_by_kind(&self) -> impl Iterator<Item = &String> {
        self.iter().filter(|(_, place)| place.node.is_none()).map(|(name, _)| name)
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
    pub fn place(&self, name: &str) -> Option<&Slot> {
        self.workers.get(name)
    }

    /// All workers with their places, in order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Slot)> {
        let mut workers: Vec<_> = self.workers.iter().collect();
        workers.sort_by_key(|(name, _)| (name.len(), *name));
        workers.into_iter()
    }

    /// The workers of a pool in order of their places.
    pub fn pool(&self, pool: &str) -> impl Iterator<Item = (&String, &Slot)> {
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

    fn own(names: &[&str]) -> Vec<Located<String>> {
        let text = format!("lab = 'x'\n[pool.a]\nnames = {names:?}\n");
        let lab = klab_lab::spec::parse("x.toml", &text, &klab_lab::spec::LoadOptions::default()).unwrap();
        lab.pools[0].names.clone()
    }

    fn shown(roster: &Roster) -> Vec<String> {
        roster.iter().map(|(name, place)| format!("{name}={}{}", place.pool, place.index)).collect()
    }

    #[test]
    fn workers_keep_their_pool_whatever_happens_to_others() {
        let names = Names::new(&Home::new("/state"), "x", None).unwrap();
        let mut roster = Roster::default();
        for pool in ["a", "a", "b"] {
            roster.add(&names, pool, &[], |_| false);
        }
        assert_eq!(shown(&roster), ["klab-x-worker=a0", "klab-x-worker2=a1", "klab-x-worker3=b0"]);
        // A pool is put before `b`, and a worker of `a` goes: no other moves.
        roster.add(&names, "middle", &[], |_| false);
        roster.remove("klab-x-worker");
        assert_eq!(shown(&roster), ["klab-x-worker2=a1", "klab-x-worker3=b0", "klab-x-worker4=middle0"]);
        // The free name and the free place are taken again, but not a name that somebody else's container has.
        assert_eq!(roster.add(&names, "a", &[], |name| name == "klab-x-worker"), "klab-x-worker5");
        assert_eq!(roster.place("klab-x-worker5").unwrap().index, 0);
        roster.adopt("klab-x-worker9", "klab-x-worker9", "b");
        assert_eq!(
            roster.pool("b").map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["klab-x-worker3", "klab-x-worker9"]
        );
    }

    #[test]
    fn nodes_that_the_lab_names_are_klabs_and_the_others_kinds() {
        let names = Names::new(&Home::new("/state"), "x", None).unwrap();
        let text = "lab = 'x'\n[pool.a]\nnodes = 3\nnames = ['one', 'two']\n[pool.b]\nnodes = 1\n[pool.c]\nnodes = 1\nnames = ['three', 'four']\n";
        let lab = klab_lab::spec::parse("x.toml", text, &klab_lab::spec::LoadOptions::default()).unwrap();
        let mut roster = Roster::of_new_cluster(&names, &lab);
        assert_eq!(shown(&roster), ["klab-x-worker=a2", "klab-x-worker2=b0"]);
        let add = |roster: &mut Roster, pool: &str, own: &[&str]| roster.add(&names, pool, &self::own(own), |_| false);
        assert_eq!(add(&mut roster, "a", &["one", "two"]), "klab-x-node-one");
        assert_eq!(add(&mut roster, "a", &["one", "two"]), "klab-x-node-two");
        assert_eq!(add(&mut roster, "a", &["one", "two"]), "klab-x-worker3");
        assert_eq!((roster.node("klab-x-node-two"), roster.container("two")), ("two", Some("klab-x-node-two")));
        assert_eq!((roster.node("klab-x-worker"), roster.container("none")), ("klab-x-worker", None));
        // Its name comes back with its place; a name that another node has is not given twice.
        roster.remove("klab-x-node-one");
        assert_eq!(add(&mut roster, "a", &["one", "two"]), "klab-x-node-one");
        assert_eq!(add(&mut roster, "c", &["two"]), "klab-x-worker4");
        assert_eq!(add(&mut roster, "c", &["x", "klab-x-worker5"]), "klab-x-node-klab-x-worker5");
        assert_eq!(add(&mut roster, "b", &[]), "klab-x-worker6");
        assert_eq!(roster.made_by_kind().count(), 5);
    }

    #[test]
    fn tenth_worker_comes_after_the_ninth() {
        let names = Names::new(&Home::new("/state"), "x", None).unwrap();
        let mut roster = Roster::default();
        for _ in 0..11 {
            roster.add(&names, "a", &[], |_| false);
        }
        let order: Vec<_> = roster.iter().map(|(_, place)| place.index).collect();
        assert_eq!(order, (0..11).collect::<Vec<_>>());
    }
}
