//! Mirror pods: what the API shows of a static pod comes back when somebody deletes it, as long as its file is there.

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::PODS;
use klab_api_machinery::views::Pod;
use serde_json::json;

use crate::cluster::WriteOptions;
use crate::control::plane::Plane;

/// Annotation of a mirror pod, set to `true` before it is deleted: its file is gone from the node, so it stays away.
pub const REMOVED_STATIC_POD_ANNOTATION: &str = "klab.dev/static-pod-removed";

/// Makes a mirror pod that is gone once more.
pub(super) fn mirror_again(plane: &Plane, gone: &Arc<Object>) {
    let pod = gone.value();
    let pod = Pod(&pod);
    let metadata = pod.metadata();
    let is_removed = metadata.annotations().get(REMOVED_STATIC_POD_ANNOTATION).is_some();
    if is_removed || !pod.is_mirror() || plane.view.node(pod.spec().node_name()).is_none_or(|node| node.stopped) {
        return;
    }
    let kept = ["name", "namespace", "labels", "annotations", "ownerReferences"];
    let metadata: serde_json::Map<_, _> =
        kept.iter().map(|field| ((*field).to_owned(), metadata.0[*field].clone())).collect();
    let again = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod.spec().0 });
    // One that is refused is not mirrored; its containers run all the same.
    let _mirrored = plane.cluster.create(PODS, &gone.namespace, again, &WriteOptions::by("kubelet"));
}
