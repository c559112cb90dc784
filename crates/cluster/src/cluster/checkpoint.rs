//! All that a cluster in memory holds at one moment: to go back to it, or to begin another cluster with it.

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::renaming::Renaming;

use super::Cluster;
use crate::clock::Clock;
use crate::transaction::{Random, State};

/// The objects of a cluster at one moment. Objects do not change, so that it holds references only.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    pub(super) objects: Vec<Arc<Object>>,
    pub(super) version: u64,
    pub(super) random: Random,
    pub(super) root_certificate: String,
}

impl Checkpoint {
    /// What it holds.
    pub(crate) fn objects(&self) -> &[Arc<Object>] {
        &self.objects
    }

    /// The resourceVersion that it reaches to.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The same with other objects.
    pub(crate) fn with_objects(&self, objects: Vec<Arc<Object>>) -> Self {
        Self { objects, root_certificate: self.root_certificate.clone(), ..*self }
    }

    /// Holds these objects, too, of later versions.
    pub(crate) fn extend(&mut self, objects: &[Arc<Object>]) {
        self.objects.extend(objects.iter().cloned());
        self.version = objects.iter().map(|object| object.resource_version).fold(self.version, u64::max);
    }

    /// The same under other names; what has none of them is shared.
    pub(crate) fn renamed(&self, renaming: &Renaming) -> Self {
        let objects = self.objects.iter().map(|object| renaming.object(object)).collect();
        Self { objects, root_certificate: self.root_certificate.clone(), ..*self }
    }
}

/// Holds the objects of a checkpoint and nothing else, without a history that reaches back before `version`.
fn hold(state: &mut State, checkpoint: &Checkpoint, version: u64) {
    debug_assert!(state.log.is_none(), "the log of a cluster that is kept would not tell");
    state.hold_objects(&checkpoint.objects, version);
    state.root_certificate.clone_from(&checkpoint.root_certificate);
}

impl Cluster {
    /// What the cluster holds now.
    pub fn checkpoint(&self) -> Checkpoint {
        let state = self.lock();
        Checkpoint {
            objects: state.store.all().cloned().collect(),
            version: state.store.version(),
            random: state.random,
            root_certificate: state.root_certificate.clone(),
        }
    }

    /// Another cluster in memory, which goes on from there: the same requests give it the same names.
    pub(crate) fn from_checkpoint(checkpoint: &Checkpoint, clock: Arc<dyn Clock>) -> Self {
        let cluster = Self::empty(clock, 0);
        {
            let mut state = cluster.lock();
            hold(&mut state, checkpoint, checkpoint.version);
            state.random = checkpoint.random;
        }
        cluster
    }

    /// Puts the objects of a checkpoint in the place of those there are, as etcd is restored from a backup with
    /// `--bump-revision --mark-compacted`: resourceVersions go on from the present one, so that no version means two
    /// things, and all watches end, as their place is gone (410). Names and uids do not come back, either.
    pub(crate) fn return_to(&self, checkpoint: &Checkpoint) {
        let version = {
            let mut state = self.lock();
            let version = state.store.version().max(checkpoint.version) + 1;
            hold(&mut state, checkpoint, version);
            version
        };
        self.set_control_faults(Vec::new());
        self.changed.send_replace(version);
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::clock::SteppedClock;
    use crate::cluster::{DeleteOptions, WriteOptions};
    use klab_api_machinery::resource::{CONFIG_MAPS, SERVICES};

    fn clock() -> Arc<dyn Clock> {
        Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH))
    }

    fn create(cluster: &Cluster, name: &str) -> Arc<Object> {
        let value = json!({ "metadata": { "name": name } });
        cluster.create(CONFIG_MAPS, "default", value, &WriteOptions::client("test")).unwrap()
    }

    fn names(cluster: &Cluster) -> Vec<String> {
        let maps = cluster.list(CONFIG_MAPS, Some("default")).0;
        maps.iter().map(|map| map.name.to_string()).filter(|name| name != "kube-root-ca.crt").collect()
    }

    #[test]
    fn a_cluster_goes_back_and_its_versions_go_on() {
        let cluster = Cluster::new(clock(), 7);
        create(&cluster, "kept");
        let checkpoint = cluster.checkpoint();
        let lost = create(&cluster, "lost");
        cluster.delete(CONFIG_MAPS, "default", "kept", &DeleteOptions::default()).unwrap();
        let before = cluster.version();
        cluster.return_to(&checkpoint);
        assert_eq!(names(&cluster), ["kept"]);
        assert!(cluster.since(before).is_err(), "a watch has to list again");
        let again = create(&cluster, "lost");
        assert!(again.resource_version > before + 1);
        assert_ne!(again.uid, lost.uid);
        assert_eq!(cluster.since(before + 1).unwrap().0.len(), 1);
    }

    #[test]
    fn clusters_of_one_checkpoint_are_equal_and_apart() {
        let cluster = Cluster::new(clock(), 7);
        create(&cluster, "kept");
        let checkpoint = cluster.checkpoint();
        let (one, other) = (checkpoint_cluster(&checkpoint), checkpoint_cluster(&checkpoint));
        assert_eq!(create(&one, "new").uid, create(&other, "new").uid);
        create(&other, "more");
        assert_eq!(
            (names(&cluster), names(&one)),
            (vec!["kept".to_owned()], vec!["kept".to_owned(), "new".to_owned()])
        );
    }

    fn checkpoint_cluster(checkpoint: &Checkpoint) -> Cluster {
        Cluster::from_checkpoint(checkpoint, clock())
    }

    #[test]
    fn addresses_that_a_service_has_are_not_given_again() {
        let service =
            |name: &str| -> Value { json!({ "metadata": { "name": name }, "spec": { "ports": [{ "port": 80 }] } }) };
        let cluster = Cluster::new(clock(), 7);
        let options = WriteOptions::client("test");
        let first = cluster.create(SERVICES, "default", service("first"), &options).unwrap().value();
        let other = checkpoint_cluster(&cluster.checkpoint());
        let second = other.create(SERVICES, "default", service("second"), &options).unwrap().value();
        assert_ne!(first["spec"]["clusterIP"], second["spec"]["clusterIP"]);
    }
}
