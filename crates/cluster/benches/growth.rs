//! How the cost of a write grows with the length of its lists: `cargo bench -p klab-cluster --bench growth`.
//!
//! For each struct of each kind, objects whose lists have 300 and 1,200 entries are created in a dry run. Four times the
//! entries may cost five times the time, n log n; what costs more is printed, the steepest last.
#![expect(clippy::print_stdout, reason = "the figures are the purpose")]
#![expect(clippy::expect_used, reason = "a benchmark that cannot go on has failed")]

#[path = "../tests/it/growth/objects.rs"]
mod objects;

use std::sync::Arc;
use std::time::{Duration, Instant};

use klab_cluster::clock::SystemClock;
use klab_cluster::cluster::{Cluster, WriteOptions};

/// Objects that cost less are not compared.
const FLOOR: Duration = Duration::from_millis(2);

fn main() {
    let cluster = Cluster::new(Arc::new(SystemClock), 7);
    let mut options = WriteOptions::client("bench");
    options.dry_run = true;
    let places = objects::places();
    println!("{} structs with lists or maps", places.len());
    let mut found = Vec::new();
    for place in &places {
        let namespace = if place.resource.row().namespaced { "default" } else { "" };
        for alike in [true, false] {
            let cost = |entries: usize| {
                let object = place.object(entries, alike);
                let once = || {
                    let object = object.clone();
                    let begun = Instant::now();
                    let answer = cluster.create(place.resource, namespace, object, &options);
                    (begun.elapsed(), answer.err().map_or(0, |status| status.message.len()))
                };
                (0..2).map(|_| once()).min().expect("two")
            };
            let ((few, _), (many, length)) = (cost(300), cost(1_200));
            let growth = many.as_secs_f64() / few.as_secs_f64();
            found.push((growth, many, length, format!("{}{}", place.name(), if alike { ", all alike" } else { "" })));
        }
    }
    found.retain(|(_, many, _, _)| *many >= FLOOR);
    found.sort_by(|one, other| one.0.total_cmp(&other.0));
    for (growth, many, length, name) in found {
        println!("{growth:6.1} × {many:>9.1?} for 1,200 entries, an error of {length} bytes: {name}");
    }
}
