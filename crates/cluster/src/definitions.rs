//! The definitions of custom resources of a cluster, each read once for each of its versions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use klab_api_machinery::custom::{Definition, Outline};
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{CUSTOM_RESOURCE_DEFINITIONS, ResourceId};

use crate::store::Store;

/// The definitions of a cluster that were asked for, by name.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    known: Mutex<HashMap<String, Arc<Definition>>>,
    outlines: Mutex<Outlines>,
}

impl Definitions {
    /// The definition of a custom resource.
    pub(crate) fn of(&self, store: &Store, resource: ResourceId) -> Option<Arc<Definition>> {
        let row = resource.row();
        if !row.custom {
            return None;
        }
        self.named(store, &row.qualified())
    }

    /// The definition of that name.
    pub(crate) fn named(&self, store: &Store, name: &str) -> Option<Arc<Definition>> {
        let object = store.get(CUSTOM_RESOURCE_DEFINITIONS, "", name)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(definition) = known.get(name).filter(|known| known.version == object.resource_version) {
            return Some(Arc::clone(definition));
        }
        let definition = Arc::new(Definition::read(object)?);
        // Those of definitions that were removed go.
        known.retain(|name, _| store.get(CUSTOM_RESOURCE_DEFINITIONS, "", name).is_some());
        known.insert(name.to_owned(), Arc::clone(&definition));
        Some(definition)
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The outline of the definition of that name.
    pub(crate) fn outline(&self, store: &Store, name: &str) -> Option<Arc<Outline>> {
        let object = store.get(CUSTOM_RESOURCE_DEFINITIONS, "", name)?;
        Some(self.outlines.lock().unwrap_or_else(PoisonError::into_inner).of(object))
    }

    /// The outlines of all definitions, in the order of their names.
    pub(crate) fn outlines(&self, store: &Store) -> Vec<Arc<Outline>> {
        self.outlines.lock().unwrap_or_else(PoisonError::into_inner).all(store)
    }
}

/// The outlines of a cluster's definitions, by name.
#[derive(Debug, Default)]
struct Outlines(HashMap<Box<str>, Arc<Outline>>);

impl Outlines {
    /// The outline of a definition.
    fn of(&mut self, object: &Object) -> Arc<Outline> {
        let known = self.0.get(&object.name).filter(|known| known.resource_version == object.resource_version);
        if let Some(known) = known {
            return Arc::clone(known);
        }
        let outline = Arc::new(Outline::read(&object.name, object.resource_version, &object.value()));
        self.0.insert(object.name.clone(), Arc::clone(&outline));
        outline
    }

    /// Those of all definitions, in the order of their names.
    fn all(&mut self, store: &Store) -> Vec<Arc<Outline>> {
        let found: Vec<_> = store.list(CUSTOM_RESOURCE_DEFINITIONS, None).map(|object| self.of(object)).collect();
        if self.0.len() > found.len() {
            self.0.retain(|name, _| store.get(CUSTOM_RESOURCE_DEFINITIONS, "", name).is_some());
        }
        found
    }
}
