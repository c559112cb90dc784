//! Events of the cluster's own parts.

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::status::Status;

use super::{Cluster, WriteOptions};
use crate::pipeline::{self, NewEvent};

impl Cluster {
    /// Creates an event.
    ///
    /// # Errors
    /// The Status an API server would answer with.
    pub(crate) fn create_event(
        &self,
        namespace: &str,
        name: &str,
        event: &NewEvent<'_>,
        options: &WriteOptions<'_>,
    ) -> Result<Arc<Object>, Status> {
        self.transact(options, |transaction| pipeline::create_event(transaction, namespace, name, event))
    }
}
