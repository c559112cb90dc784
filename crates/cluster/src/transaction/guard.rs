//! Whether somebody may write an object can depend on what it would become: the question, and who answers it.

use std::fmt;

use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::status::Status;
use serde_json::Value;

use crate::store::Store;

/// An object about to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Intent<'a> {
    pub(crate) resource: ResourceId,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// As it is; none when it is to be made.
    pub(crate) old: Option<&'a Value>,
    /// The new version, with its defaults.
    pub(crate) new: &'a Value,
}

/// Who says whether a write may be. Asked under the cluster's lock, so that nothing changes between answer and write.
pub(crate) trait Guard: Sync {
    /// Refuses a write.
    ///
    /// # Errors
    /// The Status an API server would answer with.
    fn check(&self, store: &Store, intent: &Intent<'_>) -> Result<(), Status>;
}

impl fmt::Debug for dyn Guard + '_ {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Guard")
    }
}
