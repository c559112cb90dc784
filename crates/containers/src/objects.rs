//! What containers read of the cluster that they are in.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

/// The kinds of objects that containers read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of Kubernetes' kinds")]
pub enum Kind {
    ConfigMap,
    Secret,
    Service,
    Namespace,
    Node,
    Pod,
    EndpointSlice,
    NetworkPolicy,
}

/// The objects of a cluster. Namespaces are empty for kinds that have none.
pub trait Objects: Send + Sync {
    /// The time of the cluster.
    fn now(&self) -> Timestamp;

    /// An object.
    fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<Arc<Value>>;

    /// When an object was made or changed last, in whole seconds; none where it is not there.
    fn changed(&self, kind: Kind, namespace: &str, name: &str) -> Option<Timestamp>;

    /// All objects of a kind, or those of a namespace.
    fn list(&self, kind: Kind, namespace: Option<&str>) -> Vec<Arc<Value>>;

    /// The token in a volume of a pod, as `source` (a `serviceAccountToken`) asks for it.
    fn token(&self, pod: &Value, source: &Value) -> Option<String>;

    /// The changes by executed commands that are kept of a pod, each a value of [`crate::Executed::changes`].
    fn kept(&self, pod: &Value) -> Vec<Value>;
}
