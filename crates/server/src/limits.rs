//! What each cluster of a server may use, so that none can hurt another.

use serde::{Deserialize, Serialize};

/// What each cluster of a server may use. What is beyond is refused in Kubernetes' words: with 403 what there is too much
/// of, with 429 what may be tried again. Deleting is never refused for what a cluster holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Pods.
    pub pods: usize,
    /// Objects that are neither pods nor events.
    pub objects: usize,
    /// Events.
    pub events: usize,
    /// Bytes of the JSON of all objects.
    pub bytes: usize,
    /// Bytes of past versions that are kept for watches; one that lies further behind gets 410.
    pub history_bytes: usize,
    /// Requests a second in the long run; none is any number.
    pub requests_per_second: Option<u32>,
    /// Requests that may come at once, after a while without any.
    pub burst: u32,
    /// Watches at a time.
    pub watches: usize,
    /// Connections at a time; a part of the server's where nothing is said.
    pub connections: Option<usize>,
    /// Bytes of a request's body.
    pub body_bytes: usize,
}

impl Default for Limits {
    /// What one person's labs may use.
    fn default() -> Self {
        Self {
            pods: usize::MAX,
            objects: usize::MAX,
            events: usize::MAX,
            bytes: usize::MAX,
            history_bytes: 64 << 20,
            requests_per_second: None,
            burst: 0,
            watches: usize::MAX,
            connections: None,
            body_bytes: 3 << 20,
        }
    }
}

impl Limits {
    /// What a learner of a class may use: many times what a lesson needs.
    pub fn of_a_class() -> Self {
        Self {
            pods: 1_000,
            objects: 5_000,
            events: 5_000,
            bytes: 32 << 20,
            history_bytes: 8 << 20,
            requests_per_second: Some(50),
            burst: 500,
            watches: 200,
            connections: Some(64),
            body_bytes: 3 << 20,
        }
    }
}
