//! The scheduler that a lab configures.

use std::sync::Arc;

use klab_scheduler::Profiles;
use serde_json::Value;

/// A configured scheduler.
#[derive(Clone, Debug)]
pub struct Scheduler {
    /// The `KubeSchedulerConfiguration`, with its `apiVersion` and `kind`.
    pub configuration: Value,
    /// What it says.
    pub profiles: Arc<Profiles>,
}
