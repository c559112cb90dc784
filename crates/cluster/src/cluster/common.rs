//! Objects that every cluster begins with, kept once for all clusters that got them at the same second: they are as good
//! as a third of what a small cluster weighs.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::value::time_text;
use serde_json::Value;

use super::{Cluster, Part, WriteOptions};
use crate::clock::SteppedClock;

/// Feeds their uids. No cluster has this seed, so that no object of one has the uid of another.
const SEED: u64 = 0xb3c4_90d7_1e6f_a285;
/// What clusters begin with, as it was written for one of them.
pub(crate) struct Common {
    /// As a cluster at the beginning of time has them.
    pattern: Vec<Arc<Object>>,
    /// How many uids a cluster draws for them.
    uids: usize,
    /// Those of the latest cluster: the next one often begins in the same second.
    latest: Mutex<Option<Made>>,
}

/// The objects of clusters that begin at one time.
struct Made {
    time: String,
    /// The resourceVersion of the first one.
    first: u64,
    objects: Arc<[Arc<Object>]>,
}

impl Common {
    /// Has a cluster of its own make the objects, so that they are what one that makes them itself would have; their status is
    /// written after them. A cluster that begins with them draws as many uids.
    pub(crate) fn of(objects: &[Value], options: &WriteOptions<'_>, uids: usize) -> Self {
        let cluster = Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), SEED);
        let make = |object: &Value| {
            let resource = ResourceId::by_kind(object["apiVersion"].as_str()?, object["kind"].as_str()?)?;
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            let made = cluster.create(resource, namespace, object.clone(), options);
            debug_assert!(made.is_ok(), "{made:?}");
            let made = made.ok()?;
            if object["status"].is_null() {
                return Some(made);
            }
            let name = &*made.name;
            let outcome = cluster.modify(resource, Part::Status, namespace, name, options, |value| {
                value["status"] = object["status"].clone();
            });
            debug_assert!(outcome.is_ok(), "{outcome:?}");
            outcome.ok()
        };
        Self { pattern: objects.iter().filter_map(make).collect(), uids, latest: Mutex::default() }
    }

    /// The objects of a cluster that makes them now, from this resourceVersion on.
    fn at(&self, now: Timestamp, first: u64) -> Arc<[Arc<Object>]> {
        let time = time_text(now);
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = latest.as_ref().filter(|made| made.time == time && made.first == first) {
            return Arc::clone(&made.objects);
        }
        let beginning = time_text(Timestamp::UNIX_EPOCH);
        let made = |(object, version): (&Arc<Object>, u64)| Arc::new(object.made_at(&beginning, &time, version));
        let objects: Arc<[_]> = self.pattern.iter().zip(first..).map(made).collect();
        *latest = Some(Made { time, first, objects: Arc::clone(&objects) });
        objects
    }
}

impl Cluster {
    /// Gives a cluster that has none of these objects all of them. Says whether it did.
    pub(crate) fn begin_with(&self, common: &Common) -> bool {
        let began = self.transact(&WriteOptions::by(""), |transaction| {
            let store = &transaction.state.store;
            let is_there = |object: &Arc<Object>| store.get(object.resource, &object.namespace, &object.name).is_some();
            if common.pattern.iter().any(is_there) {
                return Ok(false);
            }
            let objects = common.at(transaction.now, store.version() + 1);
            // As many as there always were: what a seed names next is called as it ever was.
            for _ in 0..common.uids {
                transaction.state.random_uid();
            }
            for object in &*objects {
                transaction.state.store.next_version();
                transaction.store(Arc::clone(object));
            }
            Ok(true)
        });
        began.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use klab_api_machinery::resource::CLUSTER_ROLES;

    #[test]
    fn clusters_of_one_second_share_what_is_the_same_in_all() {
        let role = |name: &str| {
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": name },
                "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }],
            })
        };
        let objects = [role("a"), role("b")];
        let options = WriteOptions::by("kube-apiserver");
        let common = Common::of(&objects, &options, 2);
        let at = |second: i64| Cluster::new(Arc::new(SteppedClock::new(Timestamp::from_second(second).unwrap())), 7);
        let (one, other, later, alone) = (at(100), at(100), at(101), at(100));
        assert!([&one, &other, &later].into_iter().all(|cluster| cluster.begin_with(&common)));
        let made = |cluster: &Cluster| cluster.get(CLUSTER_ROLES, "", "b").unwrap();
        assert!(Arc::ptr_eq(&made(&one), &made(&other)));

        // As if each had made them itself.
        for role in &objects {
            alone.create(CLUSTER_ROLES, "", role.clone(), &options).unwrap();
        }
        let text = |object: &Object, uid: &str| String::from_utf8_lossy(&object.served()).replace(&*object.uid, uid);
        assert_eq!(text(&made(&one), "-"), text(&made(&alone), "-"));
        assert_eq!(one.version(), alone.version());
        assert_eq!(made(&one).resource_version, one.version());
        let is_later = text(&made(&later), "-").replace("00:01:41Z", "00:01:40Z") == text(&made(&one), "-");
        assert!(is_later && !Arc::ptr_eq(&made(&later), &made(&one)));

        // Who has one of them is not given the others.
        assert!(!one.begin_with(&common) && !alone.begin_with(&common));
    }
}
