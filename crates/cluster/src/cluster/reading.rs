//! What a cluster holds at a moment, and what has changed since another one.

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::ResourceId;

use super::{Cluster, Event, Gone, Store};

impl Cluster {
    /// The object of that name.
    pub fn get(&self, resource: ResourceId, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.lock().store.get(resource, namespace, name).cloned()
    }

    /// [`Cluster::list`] for one name, without a walk over all objects.
    pub fn get_with_version(&self, resource: ResourceId, namespace: &str, name: &str) -> (Vec<Arc<Object>>, u64) {
        let state = self.lock();
        (state.store.get(resource, namespace, name).cloned().into_iter().collect(), state.store.version())
    }

    /// The objects of a kind and the resourceVersion they are true for; `namespace` `None` means all.
    pub fn list(&self, resource: ResourceId, namespace: Option<&str>) -> (Vec<Arc<Object>>, u64) {
        let state = self.lock();
        (state.store.list(resource, namespace).cloned().collect(), state.store.version())
    }

    /// The kinds there are objects of.
    pub fn kinds(&self) -> Vec<ResourceId> {
        self.lock().store.kinds().collect()
    }

    /// How many objects of a kind there are.
    pub fn count(&self, resource: ResourceId) -> usize {
        self.lock().store.count(resource)
    }

    /// Whether there are objects of a kind.
    pub fn has_any(&self, resource: ResourceId) -> bool {
        self.lock().store.list(resource, None).next().is_some()
    }

    /// Reads several things that belong together. `read` must not call the cluster.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Store) -> T) -> T {
        read(&self.lock().store)
    }

    /// The resourceVersion of the latest change.
    pub fn version(&self) -> u64 {
        self.lock().store.version()
    }

    /// All changes after `version`, and the version they reach to.
    ///
    /// # Errors
    /// [`Gone`] when the history no longer reaches back that far: list again.
    pub fn since(&self, version: u64) -> Result<(Vec<Event>, u64), Gone> {
        self.since_at_most(version, usize::MAX)
    }

    /// The first `most` changes after `version`, and the version they reach to.
    ///
    /// # Errors
    /// [`Gone`] when the history no longer reaches back that far: list again.
    pub fn since_at_most(&self, version: u64, most: usize) -> Result<(Vec<Event>, u64), Gone> {
        let state = self.lock();
        let events: Vec<Event> = state.store.since(version)?.take(most).cloned().collect();
        let reached = match events.last() {
            Some(last) if events.len() == most => last.version,
            _ => state.store.version(),
        };
        Ok((events, reached))
    }
}
