//! What is to be done: keys of due work, each once, and timers on the cluster's clock.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::ResourceId;
use klab_scheduler::hash::mix;

use super::controller::Controller;

/// Namespace (empty for cluster-scoped objects) and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectName {
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
}

impl ObjectName {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// An object's.
    pub(crate) fn of(object: &Object) -> Self {
        Self::new(&object.namespace, &object.name)
    }

    /// Whether it is this object's.
    pub(crate) fn is(&self, object: &Object) -> bool {
        self.name == object.name && self.namespace == object.namespace
    }
}

/// One piece of work. The order is that in which due work is done.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Whether all other work comes before it.
    late: bool,
    /// Whose turn it is done at, and its place among others of that turn where these are shuffled.
    turn: (Controller, u64),
    /// Who does it.
    pub(crate) controller: Controller,
    /// The kind of the object it is about; `None` for work that is about no single object.
    resource: Option<ResourceId>,
    /// The name of that object.
    pub(crate) name: ObjectName,
}

impl Key {
    /// Work of a controller on one object.
    pub(crate) fn new(controller: Controller, resource: ResourceId, name: ObjectName) -> Self {
        Self { late: false, turn: (controller, 0), controller, resource: Some(resource), name }
    }

    /// Work of a controller that is about no single object.
    pub(crate) fn at_large(controller: Controller) -> Self {
        Self { late: false, turn: (controller, 0), controller, resource: None, name: ObjectName::new("", "") }
    }

    /// The rest of the work, before which all others have their turn.
    pub(crate) fn late(self) -> Self {
        Self { late: true, ..self }
    }

    /// Whether it is the rest of some work.
    pub(crate) fn is_late(&self) -> bool {
        self.late
    }

    /// The object it is about.
    pub(crate) fn object(&self) -> Option<(ResourceId, &ObjectName)> {
        self.resource.map(|resource| (resource, &self.name))
    }
}

/// Due work and timers. One timer per key: the earliest one asked for wins.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    due: BTreeSet<Key>,
    timers: BTreeSet<(Timestamp, Key)>,
    timer_of: BTreeMap<Key, Timestamp>,
    /// Decides whose turn it is among controllers that work side by side.
    shuffled: Option<Turns>,
}

/// Turns by lot of controllers that a real cluster has work side by side.
#[derive(Debug)]
struct Turns {
    seed: u64,
    /// How many were drawn.
    count: u64,
    /// Those of due work.
    drawn: BTreeMap<Key, u64>,
}

impl Turns {
    /// The turn of work that is not due yet; that of work that is, stays.
    fn draw(&mut self, key: &Key) -> Option<u64> {
        use Controller::{
            Disruption, Job, Kubelet, NodeLifecycle, ReplicaSet, ReplicationController, Scheduler, StatefulSet,
            TaintEviction,
        };
        match key.controller {
            // With one seed of four workloads make their pods before the first is placed, with another each is placed as it comes.
            Scheduler if self.seed % 4 == 1 => Some(u64::MAX),
            Scheduler if self.seed % 4 == 2 => Some(0),
            Disruption
            | Job
            | Kubelet
            | NodeLifecycle
            | ReplicaSet
            | ReplicationController
            | Scheduler
            | StatefulSet
            | TaintEviction => {
                let (count, seed) = (&mut self.count, self.seed);
                Some(*self.drawn.entry(key.clone()).or_insert_with(|| {
                    *count += 1;
                    mix(seed ^ *count)
                }))
            }
            _ => None,
        }
    }
}

impl Queue {
    /// A queue in which this seed, and not kinds and names, decides who works first of those that work side by side.
    pub(crate) fn shuffled(seed: u64) -> Self {
        Self { shuffled: Some(Turns { seed, count: 0, drawn: BTreeMap::new() }), ..Self::default() }
    }

    /// Asks for `key` to be done now.
    pub(crate) fn add(&mut self, mut key: Key) {
        if let Some(turn) = self.shuffled.as_mut().and_then(|turns| turns.draw(&key)) {
            key.turn = (Controller::Scheduler, turn);
        }
        self.due.insert(key);
    }

    /// Asks for `key` to be done at `instant`.
    pub(crate) fn add_at(&mut self, key: Key, instant: Timestamp) {
        if let Some(&set) = self.timer_of.get(&key) {
            if set <= instant {
                return;
            }
            self.timers.remove(&(set, key.clone()));
        }
        self.timer_of.insert(key.clone(), instant);
        self.timers.insert((instant, key));
    }

    /// Forgets what `key` waits for: its next work asks again for what still counts.
    pub(crate) fn forget(&mut self, key: &Key) {
        if let Some(set) = self.timer_of.remove(key) {
            self.timers.remove(&(set, key.clone()));
        }
    }

    /// Whether `key` is to be done now.
    pub(crate) fn is_due(&self, key: &Key) -> bool {
        self.due.contains(key)
    }

    /// The next piece of work due at `now`.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<Key> {
        while let Some((instant, _)) = self.timers.first()
            && *instant <= now
            && let Some((_, key)) = self.timers.pop_first()
        {
            self.timer_of.remove(&key);
            self.add(key);
        }
        let mut key = self.due.pop_first()?;
        if let Some(turns) = &mut self.shuffled {
            key.turn = (key.controller, 0);
            turns.drawn.remove(&key);
        }
        Some(key)
    }

    /// When the next timer fires of those that `counts`.
    pub(crate) fn next_due_of(&self, counts: impl Fn(&Key) -> bool) -> Option<Timestamp> {
        self.timers.iter().find(|(_, key)| counts(key)).map(|(instant, _)| *instant)
    }

    /// When the next timer fires.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.timers.first().map(|(instant, _)| *instant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_api_machinery::resource::PODS;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn key(controller: Controller) -> Key {
        Key::new(controller, PODS, ObjectName::new("default", "web"))
    }

    #[test]
    fn a_key_is_due_once_and_in_order() {
        let mut queue = Queue::default();
        queue.add(key(Controller::Kubelet).late());
        queue.add(key(Controller::Deployment));
        queue.add(key(Controller::Deployment));
        queue.add(key(Controller::Kubelet));
        assert_eq!(queue.pop(at(0)), Some(key(Controller::Kubelet)));
        assert_eq!(queue.pop(at(0)), Some(key(Controller::Deployment)));
        assert_eq!(queue.pop(at(0)), Some(key(Controller::Kubelet).late()));
        assert_eq!(queue.pop(at(0)), None);
    }

    #[test]
    fn a_seed_decides_who_works_first_of_those_that_work_side_by_side() {
        let kinds = [Controller::ReplicaSet, Controller::StatefulSet, Controller::Job, Controller::Scheduler];
        let order = |seed| -> Vec<Controller> {
            let mut queue = Queue::shuffled(seed);
            queue.add(key(Controller::Deployment));
            for controller in kinds.iter().chain(&kinds) {
                queue.add(key(*controller));
            }
            std::iter::from_fn(|| queue.pop(at(0))).map(|key| key.controller).collect()
        };
        let orders: BTreeSet<Vec<Controller>> = (0..20).map(order).collect();
        assert!(orders.len() > 8, "{orders:?}");
        assert!(orders.iter().all(|order| order.len() == 5 && order.last() == Some(&Controller::Deployment)));
        assert_eq!((order(1).get(3), order(2).first()), (Some(&Controller::Scheduler), Some(&Controller::Scheduler)));
    }

    #[test]
    fn the_earliest_timer_of_a_key_wins() {
        let mut queue = Queue::default();
        let key = Key::at_large(Controller::Scheduler);
        queue.add_at(key.clone(), at(50));
        queue.add_at(key.clone(), at(20));
        queue.add_at(key.clone(), at(70));
        assert_eq!(queue.next_due(), Some(at(20)));
        assert_eq!(queue.pop(at(19)), None);
        assert_eq!(queue.pop(at(20)), Some(key.clone()));
        assert_eq!(queue.next_due(), None);
        queue.add_at(key.clone(), at(50));
        queue.forget(&key);
        assert_eq!(queue.pop(at(50)), None);
    }
}
