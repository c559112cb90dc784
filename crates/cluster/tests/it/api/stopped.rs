//! Work that has to stop stores nothing; what has stored something goes on to its end.

use std::sync::Arc;

use jiff::Timestamp;
use klab_api_machinery::resource::PODS;
use klab_api_machinery::status::Status;
use klab_api_machinery::work::{CancelOnDrop, Cancelled, Stopped, counted, is_over, step, within};
use klab_cluster::clock::SteppedClock;
use klab_cluster::cluster::{Cluster, WriteOptions};
use serde_json::{Value, json};

fn pod(containers: usize) -> Value {
    let container = |at: usize| json!({ "name": format!("c{at}"), "image": "x", "ports": [{ "containerPort": 1 }] });
    json!({ "metadata": { "name": "a" }, "spec": { "containers": (0..containers).map(container).collect::<Value>() } })
}

#[test]
fn stopped_work_stores_nothing_and_may_begin_again() {
    let cluster = Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 7);
    let create = || cluster.create(PODS, "default", pod(300), &WriteOptions::client("test"));
    let version = cluster.version();
    let cancelled = Cancelled::default();
    drop(CancelOnDrop(cancelled.clone()));
    for (most, cancelled) in [(100, Cancelled::default()), (u64::MAX, cancelled)] {
        let (stopped, steps) = counted(|| within(most, &cancelled, create).map(drop));
        assert_eq!(stopped, Err(Stopped));
        assert!(steps < 1_000, "{steps}");
        assert_eq!(cluster.version(), version);
    }
    assert!(within(u64::MAX, &Cancelled::default(), create).is_ok_and(|made| made.is_ok()));
    assert!(cluster.version() > version);
}

#[test]
fn what_follows_something_stored_is_never_stopped() {
    let cluster = Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 7);
    let both = within(10_000, &Cancelled::default(), || {
        cluster.create(PODS, "default", pod(1), &WriteOptions::client("test")).map(drop)?;
        assert!((0..20_000).all(|_| step()));
        Ok::<_, Status>(is_over())
    });
    assert_eq!(both, Ok(Ok(false)));
}
