//! What an embedded cluster was before anybody looked: the changes that its API still remembers, as a watch from the first one
//! tells them.

use std::time::Duration;

use futures::stream::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{WatchEvent, WatchParams};
use kube::runtime::watcher::Event;
use kube::{Client, Resource, ResourceExt};

use super::{Cache, Update, WatchedObjects};
use crate::client::objects;
use klab_lab::verify::Snapshot;
use klab_scheduler::typed::Typed;

/// All that is remembered comes at once; after so long without a change there is no more.
const QUIET: Duration = Duration::from_millis(60);

/// A change of an object.
struct Changed {
    version: u64,
    /// When it was, as far as the object says.
    at: Option<Timestamp>,
    update: Update,
}

/// The cluster at the end of every second in which something changed, the oldest first, `most` of them at most; nothing where
/// the API does not remember its beginning.
pub async fn history(client: &Client, most: usize) -> Vec<Snapshot> {
    let kinds = futures::join!(
        changes::<Node>(client, |world| &mut world.nodes),
        changes::<Pod>(client, |world| &mut world.pods),
        changes::<Deployment>(client, |world| &mut world.deployments),
        changes::<ReplicaSet>(client, |world| &mut world.replica_sets),
        changes::<DaemonSet>(client, |world| &mut world.daemon_sets),
        changes::<StatefulSet>(client, |world| &mut world.stateful_sets),
        changes::<Job>(client, |world| &mut world.jobs),
    );
    let (nodes, pods, deployments, replica_sets, daemon_sets, stateful_sets, jobs) = kinds;
    let kinds = [nodes, pods, deployments, replica_sets, daemon_sets, stateful_sets, jobs];
    // What one kind has forgotten, others would tell wrongly.
    let Some(kinds) = kinds.into_iter().collect::<Option<Vec<_>>>() else { return Vec::new() };
    let mut all: Vec<Changed> = kinds.into_iter().flatten().collect();
    all.sort_by_key(|changed| changed.version);
    let mut world = WatchedObjects::default();
    let mut moments: Vec<Snapshot> = Vec::new();
    let mut clock: Option<Timestamp> = None;
    for changed in all {
        let now = clock.max(changed.at);
        // The second before is over.
        if let Some(before) = clock.filter(|_| clock != now) {
            moments.push(Snapshot { taken_at: Some(before), ..world.snapshot() });
        }
        clock = now;
        (changed.update)(&mut world);
    }
    if let Some(last) = clock {
        moments.push(Snapshot { taken_at: Some(last), ..world.snapshot() });
    }
    let first = moments.len().saturating_sub(most);
    moments.split_off(first)
}

/// The changes of a kind; none where its beginning is forgotten.
async fn changes<K>(client: &Client, cache: fn(&mut WatchedObjects) -> &mut Cache<K>) -> Option<Vec<Changed>>
where
    K: Typed + Resource<DynamicType = ()> + Send + Sync + 'static,
{
    // What was there in the first version is what a cluster is made of, and none of these kinds.
    let mut watched = match objects::watched::<K>(client).watch(&WatchParams::default(), "1").await {
        Ok(watched) => watched.boxed(),
        // The cluster does not serve the kind.
        Err(kube::Error::Api(status)) if status.code == 404 => return Some(Vec::new()),
        Err(_) => return None,
    };
    let mut all = Vec::new();
    while let Ok(next) = tokio::time::timeout(QUIET, watched.try_next()).await {
        let (object, is_gone) = match next.ok()? {
            Some(WatchEvent::Added(object) | WatchEvent::Modified(object)) => (object, false),
            Some(WatchEvent::Deleted(object)) => (object, true),
            Some(WatchEvent::Bookmark(_)) => continue,
            Some(WatchEvent::Error(_)) => return None,
            None => break,
        };
        let version = object.resource_version()?.parse().ok()?;
        let object: K = object.typed().ok()?;
        let at = second(&object);
        let event = if is_gone { Event::Delete(object) } else { Event::Apply(object) };
        all.push(Changed { version, at, update: Box::new(move |world| cache(world).take(event)) });
    }
    Some(all)
}

/// The second in which an object was last written.
fn second(object: &impl ResourceExt) -> Option<Timestamp> {
    let written = object.managed_fields().iter().filter_map(|entry| Some(entry.time.as_ref()?.0));
    let last = written.chain(object.creation_timestamp().map(|time| time.0)).max()?;
    Timestamp::from_second(last.as_second()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn named<K: ResourceExt>(objects: &[std::sync::Arc<K>]) -> Vec<String> {
        objects.iter().map(|object| object.name_any()).collect()
    }

    #[test]
    fn every_second_in_which_something_changed_comes_back() {
        let cluster = klab_cluster::Cluster::builder().nodes(1).build().unwrap();
        cluster.settle();
        let runtime = crate::client::runtime().unwrap();
        let client = runtime.block_on(async { cluster.client() });
        let pod = |name: &str| -> Value {
            let spec = json!({ "containers": [{ "name": "c", "image": "nginx" }] });
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default" }, "spec": spec })
        };
        let begun = cluster.now();
        for name in ["one", "two"] {
            cluster.advance(Duration::from_secs(30));
            cluster.add_objects(&[pod(name)]).unwrap();
        }
        cluster.settle();
        let told = |most| {
            let moments = runtime.block_on(history(&client, most));
            let told = moments.iter().map(|moment| {
                let after = moment.taken_at.unwrap().duration_since(begun).as_secs();
                (after, named(&moment.nodes).len(), named(&moment.pods).join(" "))
            });
            told.collect::<Vec<_>>()
        };
        let all = told(100);
        assert_eq!(all.first().map(|(_, nodes, pods)| (*nodes, pods.as_str())), Some((1, "")), "{all:?}");
        assert_eq!(all.last().map(|(after, _, pods)| (*after, pods.as_str())), Some((60, "one two")), "{all:?}");
        assert!(all.iter().any(|(after, _, pods)| *after == 30 && pods == "one"), "{all:?}");
        assert!(all.is_sorted_by_key(|(after, ..)| *after));
        assert_eq!(told(1), all[all.len() - 1..]);
    }
}
