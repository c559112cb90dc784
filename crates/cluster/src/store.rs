//! Objects by key, the resourceVersion counter, and the history watches read from.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{CUSTOM_RESOURCE_DEFINITIONS, ResourceId};

/// How many changes a watch may lie behind before its place is gone (410).
const HISTORY: usize = 50_000;

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Added,
    /// It has a new version.
    Modified,
    /// It is gone; the event's object is its last version with the resourceVersion of the deletion.
    Deleted,
}

/// One change, in order of `version`.
#[derive(Debug, Clone)]
pub struct Event {
    /// What happened.
    pub change: Change,
    /// resourceVersion of the change.
    pub version: u64,
    /// The object after the change (before it, for deletions).
    pub object: Arc<Object>,
    /// The version before the change: a watch with a selector needs it to tell leaving from never having matched.
    pub previous: Option<Arc<Object>>,
    /// When it happened. An object says when it was written, but not when it was removed.
    pub at: Timestamp,
}

/// A watch asked for changes older than the history holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone {
    /// The oldest version the history still has.
    pub oldest: u64,
}

type Key = (Box<str>, Box<str>);

/// The objects of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Store {
    version: u64,
    /// By [family](ResourceId::family): versions of a custom resource have their objects in common.
    objects: BTreeMap<ResourceId, BTreeMap<Key, Arc<Object>>>,
    /// Bytes of the JSON of all objects.
    bytes: usize,
    history: VecDeque<Event>,
    history_bytes: usize,
    forgotten: u64,
}

impl Store {
    /// The resourceVersion of the latest change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The object of that name.
    pub(crate) fn get(&self, resource: ResourceId, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.objects.get(&resource.family())?.get(&(namespace.into(), name.into()))
    }

    /// The objects of a kind, by namespace and name; `namespace` `None` means all.
    pub(crate) fn list(&self, resource: ResourceId, namespace: Option<&str>) -> impl Iterator<Item = &Arc<Object>> {
        let start: Key = (namespace.unwrap_or_default().into(), "".into());
        self.objects
            .get(&resource.family())
            .into_iter()
            .flat_map(move |kind| kind.range(start.clone()..))
            .map(|(_, object)| object)
            .take_while(move |object| namespace.is_none_or(|wanted| object.namespace.as_ref() == wanted))
    }

    /// Takes the next resourceVersion, to be written into the object that [`Store::put`] is then given.
    pub(crate) fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Stores a new version of an object (made with [`Store::next_version`]).
    pub(crate) fn put(&mut self, object: Arc<Object>, at: Timestamp) -> Arc<Object> {
        let key = (object.namespace.clone(), object.name.clone());
        let previous = self.objects.entry(object.resource.family()).or_default().insert(key, Arc::clone(&object));
        self.bytes += object.size();
        self.bytes -= previous.as_ref().map_or(0, |previous| previous.size());
        let change = if previous.is_some() { Change::Modified } else { Change::Added };
        self.remember(Event { change, version: object.resource_version, object: Arc::clone(&object), previous, at });
        object
    }

    /// Removes an object. `last` is its last version, carrying the resourceVersion of the deletion.
    pub(crate) fn remove(&mut self, last: Object, at: Timestamp) -> Arc<Object> {
        let last = Arc::new(last);
        let key = (last.namespace.clone(), last.name.clone());
        let previous = self.objects.get_mut(&last.resource.family()).and_then(|kind| kind.remove(&key));
        self.bytes -= previous.as_ref().map_or(0, |previous| previous.size());
        self.remember(Event {
            change: Change::Deleted,
            version: last.resource_version,
            object: Arc::clone(&last),
            previous,
            at,
        });
        last
    }

    /// Every object, by kind, namespace and name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.values().flat_map(BTreeMap::values)
    }

    /// The kinds there are objects of.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = ResourceId> {
        // Of kinds with several versions one in which there are objects: this cluster may not have the others.
        self.objects.values().filter_map(|objects| objects.values().next().map(|object| object.resource))
    }

    /// Whether a kind has a `status` subresource: for one defined at run time, what its definition says.
    pub(crate) fn has_status(&self, resource: ResourceId) -> bool {
        let row = resource.row();
        if !row.custom {
            return row.has_status();
        }
        self.get(CUSTOM_RESOURCE_DEFINITIONS, "", &row.qualified()).is_some_and(|definition| {
            let definition = definition.value();
            let mut versions = definition["spec"]["versions"].as_array().into_iter().flatten();
            versions.any(|version| version["name"] == row.version && version["subresources"]["status"].is_object())
        })
    }

    /// Bytes of the JSON of all objects.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many objects of a kind there are.
    pub(crate) fn count(&self, resource: ResourceId) -> usize {
        self.objects.get(&resource.family()).map_or(0, BTreeMap::len)
    }

    /// How many objects there are.
    pub(crate) fn len(&self) -> usize {
        self.objects.values().map(BTreeMap::len).sum()
    }

    /// Puts back an object of an earlier run, without history.
    pub(crate) fn restore(&mut self, object: Arc<Object>) {
        let key = (object.namespace.clone(), object.name.clone());
        self.bytes += object.size();
        let previous = self.objects.entry(object.resource.family()).or_default().insert(key, object);
        self.bytes -= previous.map_or(0, |previous| previous.size());
    }

    /// Takes out an object that an earlier run removed, without history.
    pub(crate) fn forget(&mut self, resource: ResourceId, namespace: &str, name: &str) {
        let removed =
            self.objects.get_mut(&resource.family()).and_then(|kind| kind.remove(&(namespace.into(), name.into())));
        self.bytes -= removed.map_or(0, |removed| removed.size());
    }

    /// Goes on from the version an earlier run reached. Its history is gone.
    pub(crate) fn resume(&mut self, version: u64) {
        self.version = version;
        self.forgotten = version;
    }

    /// Takes back all changes after `version`, as if they had never been. They must not have been trimmed.
    pub(crate) fn undo(&mut self, version: u64) {
        while let Some(event) = self.history.pop_back_if(|event| event.version > version) {
            self.history_bytes -= event.object.size();
            let object = &event.object;
            let key = (object.namespace.clone(), object.name.clone());
            let kind = self.objects.entry(object.resource.family()).or_default();
            self.bytes += event.previous.as_ref().map_or(0, |previous| previous.size());
            let undone = match event.previous {
                Some(previous) => kind.insert(key, previous),
                None => kind.remove(&key),
            };
            self.bytes -= undone.map_or(0, |undone| undone.size());
        }
        self.version = version;
    }

    /// Forgets all history: its readers must read everything again.
    pub(crate) fn forget_history(&mut self) {
        self.history.clear();
        self.history_bytes = 0;
        self.forgotten = self.version;
    }

    /// All changes after `version`, oldest first.
    ///
    /// # Errors
    /// [`Gone`] when the history no longer reaches back that far.
    pub(crate) fn since(&self, version: u64) -> Result<impl Iterator<Item = &Event>, Gone> {
        if version < self.forgotten {
            return Err(Gone { oldest: self.forgotten });
        }
        let start = self.history.partition_point(|event| event.version <= version);
        Ok(self.history.range(start..))
    }

    fn remember(&mut self, event: Event) {
        self.history_bytes += event.object.size();
        self.history.push_back(event);
    }

    /// Forgets the oldest changes of a history that has become too long, or has more bytes of objects than it may. Not
    /// done while changes may have to be undone.
    pub(crate) fn trim(&mut self, bytes: usize) {
        while self.history.len() > HISTORY || self.history_bytes > bytes {
            let Some(oldest) = self.history.pop_front() else { return };
            self.history_bytes -= oldest.object.size();
            self.forgotten = oldest.version;
        }
    }
}
