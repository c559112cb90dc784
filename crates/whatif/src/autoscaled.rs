//! Between which numbers of nodes the cluster autoscaler keeps a pool, as its status says it: an annotation of the pool's nodes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::capture::Capture;
use crate::pool::pool_of;

/// The annotation of a captured node: `3..10`.
const BOUNDS_ANNOTATION: &str = "klab.dev/captured-autoscaler-bounds";

/// Takes the bounds of node groups into a capture whose nodes are read. A group whose nodes are not called after it, or that has none,
/// is left out.
// See https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/clusterstate/api/types.go (`nodeGroups`)
pub fn take_bounds(capture: &mut Capture, status: &Value) {
    let mut pools: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for group in status["nodeGroups"].as_array().into_iter().flatten() {
        let health = &group["health"];
        let bounds = (health["minSize"].as_u64(), health["maxSize"].as_u64());
        let (Some(name), (Some(min), Some(max))) = (group["name"].as_str(), bounds) else { continue };
        // On GKE a group is named by its address, and ends in `-grp`.
        let name = name.rsplit('/').next().unwrap_or(name);
        let prefix = name.strip_suffix("-grp").unwrap_or(name);
        let mut its = capture.of("Node").filter(|node| !prefix.is_empty() && node.name.starts_with(prefix));
        if let Some(pool) = its.next().map(|node| pool_of(&node.value())) {
            // A pool has a group for each zone on GKE.
            let sum = pools.entry(pool).or_default();
            *sum = (sum.0.saturating_add(min), sum.1.saturating_add(max));
        }
    }
    for node in capture.objects.iter_mut().filter(|object| object.kind.kind == "Node" && !pools.is_empty()) {
        node.edit(|node| {
            if let Some((min, max)) = pools.get(&pool_of(node)) {
                node["metadata"]["annotations"][BOUNDS_ANNOTATION] = json!(format!("{min}..{max}"));
            }
        });
    }
}

/// The bounds of a captured node's pool, where the cluster autoscaler decides about it.
pub(crate) fn bounds_of(node: &Value) -> Option<(u64, u64)> {
    let (min, max) = node["metadata"]["annotations"][BOUNDS_ANNOTATION].as_str()?.split_once("..")?;
    Some((min.parse().ok()?, max.parse().ok()?))
}
