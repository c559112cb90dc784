//! What containers find of a cluster.

mod written_files;

use std::sync::Arc;

use jiff::Timestamp;
use klab_api_machinery::resource::{
    CONFIG_MAPS, CONTAINER_FILES, ENDPOINT_SLICES, NAMESPACES, NETWORK_POLICIES, NODES, PODS, ResourceId, SECRETS,
    SERVICES,
};
use klab_api_machinery::value::{items, text};
use klab_api_machinery::views::{ManagedFieldsEntry, metadata};
use klab_containers::{Kind, Objects};
use serde_json::Value;

pub(crate) use self::written_files::keep;
use crate::cluster::Cluster;
use crate::pod_token::pod_token;

/// A cluster as its containers find it.
pub(crate) struct ClusterObjects(Arc<Cluster>);

impl ClusterObjects {
    /// What the containers of a cluster find.
    pub(crate) fn of(cluster: &Arc<Cluster>) -> Arc<dyn Objects> {
        Arc::new(Self(Arc::clone(cluster)))
    }
}

const fn resource(kind: Kind) -> ResourceId {
    match kind {
        Kind::ConfigMap => CONFIG_MAPS,
        Kind::Secret => SECRETS,
        Kind::Service => SERVICES,
        Kind::Namespace => NAMESPACES,
        Kind::Node => NODES,
        Kind::Pod => PODS,
        Kind::EndpointSlice => ENDPOINT_SLICES,
        Kind::NetworkPolicy => NETWORK_POLICIES,
    }
}

impl Objects for ClusterObjects {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.0.get(resource(kind), namespace, name).map(|object| object.value())
    }

    fn changed(&self, kind: Kind, namespace: &str, name: &str) -> Option<Timestamp> {
        let object = self.0.get(resource(kind), namespace, name)?.whole();
        let metadata = metadata(&object);
        metadata.managed_fields().filter_map(ManagedFieldsEntry::time).chain(metadata.creation_timestamp()).max()
    }

    fn list(&self, kind: Kind, namespace: Option<&str>) -> Vec<Arc<Value>> {
        self.0.list(resource(kind), namespace).0.iter().map(|object| object.value()).collect()
    }

    fn token(&self, pod: &Value, source: &Value) -> Option<String> {
        pod_token(&self.0, pod, source, self.0.now())
    }

    fn kept(&self, pod: &Value) -> Vec<Value> {
        if !self.0.has_any(CONTAINER_FILES) {
            return Vec::new();
        }
        let metadata = &pod["metadata"];
        let kept = self.0.get(CONTAINER_FILES, text(metadata, &["namespace"]), text(metadata, &["name"]));
        // One of this very pod, not of one of its name that is gone.
        let kept = kept.map(|kept| kept.value()).filter(|kept| is_of(kept, metadata));
        kept.map(|kept| items(&kept["writes"]).to_vec()).unwrap_or_default()
    }
}

fn is_of(kept: &Value, metadata: &Value) -> bool {
    kept["metadata"]["ownerReferences"][0]["uid"] == metadata["uid"]
}
