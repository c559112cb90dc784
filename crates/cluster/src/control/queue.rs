//! What is to be done: keys of due work, each once, and timers on the cluster's clock.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::ResourceId;

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
        Self { late: false, controller, resource: Some(resource), name }
    }

    /// Work of a controller that is about no single object.
    pub(crate) fn at_large(controller: Controller) -> Self {
        Self { late: false, controller, resource: None, name: ObjectName::new("", "") }
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
}

impl Queue {
    /// Asks for `key` to be done now.
    pub(crate) fn add(&mut self, key: Key) {
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
            self.due.insert(key);
        }
        self.due.pop_first()
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
