//! The cost of a write grows no faster than n log n with the length of its lists, for every struct of every kind.

mod objects;
mod patches;

use std::sync::Arc;

use jiff::Timestamp;
use klab_api_machinery::work::counted;
use klab_cluster::clock::SteppedClock;
use klab_cluster::cluster::{Cluster, WriteOptions};

/// Steps are counted, so short lists show it; `cargo bench -p klab-cluster --bench growth` measures longer ones.
const FEW: usize = 75;
const MANY: usize = 300;
/// Four times the entries, and a quarter for the logarithm.
const MOST: u64 = 5;
/// What an object costs that has no long list.
const FLOOR: u64 = 500;

#[test]
fn steps_grow_no_faster_than_n_log_n() {
    let cluster = Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 7);
    let mut options = WriteOptions::client("test");
    options.dry_run = true;
    let places = objects::places();
    assert!(places.len() > 100, "{}", places.len());
    let mut found = Vec::new();
    for place in &places {
        let namespace = if place.resource.row().namespaced { "default" } else { "" };
        for alike in [true, false] {
            let steps = |entries: usize| {
                let object = place.object(entries, alike);
                counted(|| drop(cluster.create(place.resource, namespace, object, &options))).1
            };
            let (few, many) = (steps(FEW), steps(MANY));
            if many > FLOOR + MOST * few {
                found.push(format!("{}, alike: {alike}: {few} steps, then {many}", place.name()));
            }
        }
    }
    assert_eq!(found, [""; 0]);
}
