//! Objects as they were: what a container read before somebody changed it, as far back as the cluster's history goes.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::control::value::{items, time_of};
use crate::object::Object;
use crate::resource::ResourceId;
use crate::store::{Change, Event, Store};

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

/// What has happened to an object, as far as it is remembered.
fn events<T>(store: &Store, name: Name<'_>, each: impl Fn(&Event) -> T) -> Vec<T> {
    let its = |event: &&Event| {
        let object: &Object = &event.object;
        object.resource == name.resource && &*object.name == name.name && &*object.namespace == name.namespace
    };
    let from = match store.since(0) {
        Ok(_) => 0,
        Err(gone) => gone.oldest,
    };
    store.since(from).into_iter().flatten().filter(its).map(each).collect()
}

/// The object as it was at an instant; none where that is not known, or where it was not there.
pub(super) fn as_of(cluster: &Cluster, name: Name<'_>, instant: Timestamp) -> Option<Arc<Value>> {
    let now = cluster.get(name.resource, name.namespace, name.name).map(|object| Arc::new(object.whole()));
    if let Some(now) = now.filter(|now| !changed_after(now, instant)) {
        return Some(now);
    }
    let all = cluster.read(|store| {
        events(store, name, |event| (event.change != Change::Deleted).then(|| Arc::clone(&event.object)))
    });
    let mut found = None;
    for object in all.into_iter().flatten() {
        let value = Arc::new(object.whole());
        if changed_after(&value, instant) {
            break;
        }
        found = Some(value);
    }
    found
}

/// When it was changed after an instant. None where it has been removed, of which nobody remembers when.
pub(super) fn changes_after(cluster: &Cluster, name: Name<'_>, instant: Timestamp) -> Option<Vec<Timestamp>> {
    let now = cluster.get(name.resource, name.namespace, name.name).map(|object| Arc::new(object.whole()));
    if now.as_ref().is_some_and(|now| !changed_after(now, instant)) {
        return Some(Vec::new());
    }
    let all = cluster.read(|store| {
        events(store, name, |event| (event.change != Change::Deleted).then(|| Arc::clone(&event.object)))
    });
    let mut seconds = Vec::new();
    for object in all {
        seconds.extend(written(&object?.whole()).filter(|second| *second > instant.as_second()));
    }
    seconds.extend(now.iter().flat_map(|now| written(now)).filter(|second| *second > instant.as_second()));
    seconds.sort_unstable();
    seconds.dedup();
    Some(seconds.into_iter().filter_map(|second| Timestamp::from_second(second).ok()).collect())
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
