//! What executed commands write in containers, kept beside the pod.

use klab_api_machinery::resource::CONTAINER_FILES;
use klab_api_machinery::status::Status;
use klab_api_machinery::value::{items, text};
use klab_containers::{Instance, stays};
use serde_json::{Value, json};

use super::is_of;
use crate::cluster::{Cluster, Part, WriteOptions};
use crate::pipeline;

/// Most bytes that are kept of a pod.
const MAX_KEPT: usize = 64 * 1024;

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
