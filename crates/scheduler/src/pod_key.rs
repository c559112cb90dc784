//! A pod's identity: its namespace and its name.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::pod_info::namespace_of;

/// A pod's identity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodKey {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl PodKey {
    /// The pod `name` of `namespace`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: Arc::from(namespace), name: Arc::from(name) }
    }

    /// That of a pod; one without a namespace is in `default`.
    pub(crate) fn of(pod: &Pod) -> Self {
        Self::new(namespace_of(pod), pod.metadata.name.as_deref().unwrap_or_default())
    }
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl serde::Serialize for PodKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
