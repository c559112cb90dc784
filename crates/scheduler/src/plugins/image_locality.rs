//! ImageLocality: nodes that already have the pod's images score better, the more so the more nodes have them.

// upstream: pkg/scheduler/framework/plugins/imagelocality/image_locality.go Score, calculatePriority (v1.36)

use super::score::MAX_SCORE;
use crate::cycle::Cycle;
use crate::node_info::NodeInfo;

const MEBIBYTE: i64 = 1024 * 1024;
/// Sums below this score nothing.
const LEAST: i64 = 23 * MEBIBYTE;
/// Sums above this, for each container, score no more.
const MAX_PER_CONTAINER: i64 = 1000 * MEBIBYTE;

pub(super) fn score(cycle: &Cycle<'_>, node: &NodeInfo) -> i64 {
    if node.spec.images.is_empty() {
        return 0;
    }
    let nodes = cycle.state.node_count() as f64;
    let size = |image: &String| {
        if !node.spec.images.iter().any(|(name, _)| name == image) {
            return 0;
        }
        cycle.state.images.get(image).map_or(0, |known| {
            let spread = known.nodes.len() as f64 / nodes;
            (known.size as f64 * spread) as i64
        })
    };
    let sum: i64 = cycle.info.images.iter().map(size).sum();
    let most = MAX_PER_CONTAINER * cycle.info.containers as i64;
    MAX_SCORE * (sum.clamp(LEAST, most.max(LEAST)) - LEAST) / (most - LEAST).max(1)
}
