//! One write, from reading the old version to storing the new one.

use std::sync::Arc;

use jiff::Timestamp;

use super::guard::Intent;
use super::options::{WriteOptions, Written};
use super::state::State;
use crate::object::Object;
use crate::resource::ResourceId;
use crate::status::Status;

/// One write, with the cluster's lock held.
pub(crate) struct Transaction<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) now: Timestamp,
    pub(crate) options: &'a WriteOptions<'a>,
    /// Texts for the client.
    pub(crate) warnings: Vec<String>,
    /// Whether all who may refuse it were asked already: about what was sent to a subresource.
    pub(crate) is_considered: bool,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(state: &'a mut State, now: Timestamp, options: &'a WriteOptions<'a>) -> Self {
        Self { state, now, options, warnings: Vec::new(), is_considered: false }
    }

    /// The outcome of this transaction for a client.
    pub(crate) fn written(&mut self, object: Arc<Object>, created: bool) -> Written {
        Written { object, created, warnings: std::mem::take(&mut self.warnings) }
    }

    /// The object, or 404.
    pub(crate) fn existing(&self, resource: ResourceId, namespace: &str, name: &str) -> Result<Arc<Object>, Status> {
        self.state.store.get(resource, namespace, name).cloned().ok_or_else(|| Status::not_found(resource.row(), name))
    }

    /// Asks the guard of this write, if there is one.
    pub(super) fn guarded(&self, intent: &Intent<'_>) -> Result<(), Status> {
        self.options.guard.map_or(Ok(()), |guard| guard.check(&self.state.store, intent))
    }
}
