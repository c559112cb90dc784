//! Objects as they were: what a container read before somebody changed it, as far back as the cluster's history goes.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::object::Object;
use crate::resource::ResourceId;
use crate::store::{Change, Event};
use crate::value::{items, time_of};

/// Which object is meant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name<'a> {
    pub(super) resource: ResourceId,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

/// The seconds in which somebody has written an object, as it says itself.
fn written(object: &Value) -> impl Iterator<Item = i64> {
    let made = time_of(&object["metadata"]["creationTimestamp"]);
    let written = items(&object["metadata"]["managedFields"]).iter().filter_map(|entry| time_of(&entry["time"]));
    written.chain(made).map(Timestamp::as_second)
}

/// Whether somebody has written an object after that second.
pub(super) fn changed_after(object: &Value, instant: Timestamp) -> bool {
    written(object).any(|second| second > instant.as_second())
}

/// What was written of an object, and when; none of a removal.
type Past = Vec<(Timestamp, Option<Arc<Object>>)>;

/// What has happened to an object, as far as it is remembered.
fn past(cluster: &Cluster, name: Name<'_>) -> Past {
    let its = |event: &&Event| {
        let object: &Object = &event.object;
        object.resource == name.resource && &*object.name == name.name && &*object.namespace == name.namespace
    };
    let kept = |event: &Event| (event.at, (event.change != Change::Deleted).then(|| Arc::clone(&event.object)));
    cluster.read(|store| {
        let from = match store.since(0) {
            Ok(_) => 0,
            Err(gone) => gone.oldest,
        };
        store.since(from).into_iter().flatten().filter(its).map(kept).collect()
    })
}

/// The object as it was at an instant; none where that is not known, or where it was not there.
pub(super) fn as_of(cluster: &Cluster, name: Name<'_>, instant: Timestamp) -> Option<Arc<Value>> {
    found(cluster, name, instant, false)
}

/// The object as it was at an instant, or last before it was removed.
pub(super) fn last_as_of(cluster: &Cluster, name: Name<'_>, instant: Timestamp) -> Option<Arc<Value>> {
    found(cluster, name, instant, true)
}

fn found(cluster: &Cluster, name: Name<'_>, instant: Timestamp, outlives: bool) -> Option<Arc<Value>> {
    let now = cluster.get(name.resource, name.namespace, name.name).map(|object| Arc::new(object.whole()));
    if let Some(now) = now.filter(|now| !changed_after(now, instant)) {
        return Some(now);
    }
    let mut found = None;
    for (at, object) in past(cluster, name) {
        let Some(object) = object else {
            if at.as_second() > instant.as_second() {
                break;
            }
            found = found.filter(|_| outlives);
            continue;
        };
        let value = Arc::new(object.whole());
        if changed_after(&value, instant) {
            break;
        }
        found = Some(value);
    }
    found
}

/// When it was changed after an instant, made and removed included.
pub(super) fn changes_after(cluster: &Cluster, name: Name<'_>, instant: Timestamp) -> Vec<Timestamp> {
    let now = cluster.get(name.resource, name.namespace, name.name).map(|object| Arc::new(object.whole()));
    if now.as_ref().is_some_and(|now| !changed_after(now, instant)) {
        return Vec::new();
    }
    let mut seconds = Vec::new();
    for (at, object) in past(cluster, name) {
        match object {
            Some(object) => seconds.extend(written(&object.whole())),
            None => seconds.push(at.as_second()),
        }
    }
    seconds.extend(now.iter().flat_map(|now| written(now)));
    seconds.retain(|second| *second > instant.as_second());
    seconds.sort_unstable();
    seconds.dedup();
    seconds.into_iter().filter_map(|second| Timestamp::from_second(second).ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_written_later_was_not_seen() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let object = json!({ "metadata": {
            "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{ "time": "2026-01-01T00:05:00Z" }],
        }});
        assert!(changed_after(&object, at("2026-01-01T00:04:59Z")));
        assert!(!changed_after(&object, at("2026-01-01T00:05:00Z")));
    }
}
