//! What containers find of a cluster, and what executed commands leave in them, which is kept beside the pod.

use std::sync::Arc;

use jiff::Timestamp;
use klab_api_machinery::resource::{
    CONFIG_MAPS, CONTAINER_FILES, ENDPOINT_SLICES, NAMESPACES, NETWORK_POLICIES, NODES, PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES, PODS, ResourceId, SECRETS, SERVICES,
};
use klab_api_machinery::status::Status;
use klab_api_machinery::value::{items, text, time_of};
use klab_containers::{Instance, Kind, Objects, stays};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Part, WriteOptions};
use crate::pipeline;
use crate::pod_token::pod_token;

/// So many bytes are kept of a pod.
const MAX_KEPT: usize = 64 * 1024;

/// A cluster as its containers find it.
pub(crate) struct Seen(Arc<Cluster>);

impl Seen {
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
        Kind::PersistentVolumeClaim => PERSISTENT_VOLUME_CLAIMS,
        Kind::PersistentVolume => PERSISTENT_VOLUMES,
        Kind::EndpointSlice => ENDPOINT_SLICES,
        Kind::NetworkPolicy => NETWORK_POLICIES,
    }
}

impl Objects for Seen {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.0.get(resource(kind), namespace, name).map(|object| object.value())
    }

    fn changed(&self, kind: Kind, namespace: &str, name: &str) -> Option<Timestamp> {
        let object = self.0.get(resource(kind), namespace, name)?.whole();
        let made = time_of(&object["metadata"]["creationTimestamp"]);
        let written = items(&object["metadata"]["managedFields"]).iter().filter_map(|entry| time_of(&entry["time"]));
        written.chain(made).max()
    }

    fn list(&self, kind: Kind, namespace: Option<&str>) -> Vec<Arc<Value>> {
        self.0.list(resource(kind), namespace).0.iter().map(|object| object.value()).collect()
    }

    fn pods_with(&self, text: &str) -> Vec<Arc<Value>> {
        // To read all pods of a large cluster would take long.
        let has = |json: &[u8]| std::str::from_utf8(json).is_ok_and(|json| json.contains(text));
        self.0.read(|store| store.list(PODS, None).filter(|pod| has(&pod.json)).map(|pod| pod.value()).collect())
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

/// Keeps what a command has done to the files of a container.
///
/// # Errors
/// When that is too much, or cannot be written.
pub(crate) fn keep(cluster: &Cluster, pod: &Value, instance: Instance<'_>, new: Vec<Value>) -> Result<(), Status> {
    if new.is_empty() {
        return Ok(());
    }
    let metadata = &pod["metadata"];
    let (namespace, name) = (text(metadata, &["namespace"]), text(metadata, &["name"]));
    let owners = json!([{ "apiVersion": "v1", "kind": "Pod", "name": name, "uid": metadata["uid"] }]);
    cluster.transact(&WriteOptions::by("kubelet"), |transaction| {
        let kept = transaction.existing(CONTAINER_FILES, namespace, name).ok().map(|kept| kept.value());
        let old = kept.iter().filter(|kept| is_of(kept, metadata)).flat_map(|kept| items(&kept["writes"]));
        let writes: Value = old.filter(|entry| stays(entry, instance)).cloned().chain(new).collect::<Vec<_>>().into();
        if writes.to_string().len() > MAX_KEPT {
            let most = MAX_KEPT / 1024;
            let why = format!("what executed commands write is kept up to {most} KiB of a pod, and this would be more");
            return Err(Status::new(507, "InsufficientStorage", why));
        }
        if kept.is_none() {
            let object = json!({
                "apiVersion": CONTAINER_FILES.row().api_version(), "kind": CONTAINER_FILES.row().kind,
                "metadata": { "name": name, "namespace": namespace, "ownerReferences": owners }, "writes": writes,
            });
            return pipeline::create(transaction, CONTAINER_FILES, namespace, object).map(drop);
        }
        let change = |value: &mut Value| {
            value["writes"] = writes;
            value["metadata"]["ownerReferences"] = owners;
        };
        pipeline::modify(transaction, CONTAINER_FILES, Part::Main, namespace, name, change).map(drop)
    })
}
