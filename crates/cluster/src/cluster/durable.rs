//! Clusters that outlive their process: opening from a log, syncing it, writing it again.

use std::io;
use std::path::Path;
use std::sync::Arc;

use klab_api_machinery::object::Object;

use super::{Cluster, WriteOptions};
use crate::clock::Clock;
use crate::log::{Log, Snapshot};
use crate::pipeline;
use crate::transaction::State;

/// What [`Cluster::open`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Whether the cluster is new.
    pub fresh: bool,
    /// How many objects were restored.
    pub objects: usize,
    /// The resourceVersion the cluster goes on from; watches from older ones get 410.
    pub version: u64,
    /// What a person should know: a record that was torn and dropped.
    pub notes: Vec<String>,
}

impl Recovery {
    /// Of a cluster that takes up what its log tells.
    pub(super) fn of(state: &mut State, take_up: impl FnOnce(&mut State) -> Vec<String>) -> Self {
        let notes = take_up(state);
        Self { fresh: false, objects: state.store.len(), version: state.store.version(), notes }
    }
}

impl Cluster {
    /// Opens a cluster that is kept in the file at `path`; makes it if there is none. `seed` is for new ones: a
    /// restored cluster goes on with its own random numbers.
    ///
    /// Every acknowledged write is in the file before it is acknowledged, so it survives the death of the process.
    /// [`Cluster::sync`], called about once a second, makes it survive the death of the machine.
    ///
    /// # Errors
    /// When the file cannot be read or written, or was altered or cut off: it then stays as it is.
    pub fn open(path: &Path, clock: Arc<dyn Clock>, seed: u64) -> io::Result<(Self, Recovery)> {
        Self::open_trusting(path, clock, seed, "")
    }

    /// [`Cluster::open`] of one that publishes a certificate authority (PEM) from the start.
    ///
    /// # Errors
    /// As [`Cluster::open`].
    pub fn open_trusting(
        path: &Path,
        clock: Arc<dyn Clock>,
        seed: u64,
        authority: &str,
    ) -> io::Result<(Self, Recovery)> {
        let (log, contents) = Log::open(path)?;
        let cluster = Self::empty(clock, seed);
        authority.clone_into(&mut cluster.lock().root_certificate);
        let nothing = contents.entries.is_empty() && contents.version == 0;
        let mut recovery = Recovery::of(&mut cluster.lock(), |state| state.take_up(log, contents));
        if nothing {
            recovery.fresh = true;
            let made = cluster.transact(&WriteOptions::by("kube-apiserver"), |transaction| {
                pipeline::standard_objects(transaction);
                Ok(())
            });
            made.map_err(|status| io::Error::other(status.message))?;
        }
        Ok((cluster, recovery))
    }

    /// Makes sure that what was acknowledged is on the disk, and writes the file again when it has grown. Call it about
    /// once a second, and before the process ends.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn sync(&self) -> io::Result<()> {
        let (syncing, due) = {
            let mut state = self.lock();
            let Some(log) = &mut state.log else { return Ok(()) };
            log.flush()?;
            let due = log.is_due();
            (if due { None } else { log.syncing() }, due)
        };
        if due {
            return self.compact();
        }
        syncing.map_or(Ok(()), |sync| sync())
    }

    /// Writes the file again with only what there is now. Others go on reading and writing meanwhile.
    pub(super) fn compact(&self) -> io::Result<()> {
        let (changes, described, version, random, since, path, base) = {
            let state = self.lock();
            let Some(log) = &state.log else { return Ok(()) };
            let (version, random) = (state.store.version(), state.random.state());
            let base = log.base().cloned();
            (self.changes_to_base(&state), log.described(), version, random, log.size(), log.snapshot_path(), base)
        };
        let Changes { objects, removed } = &changes;
        let snapshot = Snapshot { base: base.as_ref(), objects, removed, described, version, random }.write(&path)?;
        let mut state = self.lock();
        match &mut state.log {
            Some(log) => log.adopt(snapshot, since),
            None => Ok(()),
        }
    }

    /// What differs from what the cluster is a copy of; all objects of one that is none.
    fn changes_to_base(&self, state: &State) -> Changes {
        if let Some(template) = &self.template {
            // Whatever was written to the copy has a higher version than all that it began with.
            let is_new = |object: &&Arc<Object>| object.resource_version > template.version();
            let base = template.objects_for(state.log.as_ref().and_then(Log::base).map(|base| &base.renaming));
            let is_gone =
                |object: &Arc<Object>| state.store.get(object.resource, &object.namespace, &object.name).is_none();
            return Changes {
                objects: state.store.all().filter(is_new).cloned().collect(),
                removed: base.into_iter().filter(is_gone).collect(),
            };
        }
        Changes { objects: state.store.all().cloned().collect(), removed: Vec::new() }
    }
}

/// Objects that a cluster has of its own, and those that it has no more.
struct Changes {
    objects: Vec<Arc<Object>>,
    removed: Vec<Arc<Object>>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use jiff::Timestamp;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::clock::SteppedClock;
    use crate::cluster::{DeleteOptions, Part};
    use klab_api_machinery::resource::{CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, CustomName, NAMESPACES, ResourceId};
    use klab_fields::Patch;

    fn open(path: &Path) -> (Cluster, Recovery) {
        Cluster::open(path, Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 7).expect("opens")
    }

    fn config_map(name: &str, text: &str) -> Value {
        json!({ "metadata": { "name": name }, "data": { "a": text } })
    }

    fn objects(cluster: &Cluster) -> BTreeMap<String, String> {
        let all = cluster.list(CONFIG_MAPS, Some("default")).0;
        all.iter().map(|object| (object.name.to_string(), String::from_utf8_lossy(&object.json).into_owned())).collect()
    }

    #[test]
    fn a_cluster_goes_on_where_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cluster.log");
        let options = WriteOptions::client("test");
        let (cluster, recovery) = open(&path);
        assert!(recovery.fresh);
        cluster.create(CONFIG_MAPS, "default", config_map("kept", "1"), &options).expect("created");
        cluster.create(CONFIG_MAPS, "default", config_map("gone", "1"), &options).expect("created");
        cluster.delete(CONFIG_MAPS, "default", "gone", &DeleteOptions::default()).expect("deleted");
        let version = cluster.list(CONFIG_MAPS, None).1;
        let suffix = cluster.random_suffix(5);
        let before = objects(&cluster);
        drop(cluster);
        let (cluster, recovery) = open(&path);
        assert_eq!((recovery.fresh, recovery.version, recovery.notes.len()), (false, version, 0));
        assert_eq!(objects(&cluster), before);
        assert!(cluster.since(version - 1).is_err(), "older watches have to list again");
        assert!(cluster.since(version).is_ok());
        let made = cluster.create(CONFIG_MAPS, "default", config_map("new", "1"), &options).expect("created");
        assert!(made.resource_version > version);
        let uids: std::collections::HashSet<Box<str>> =
            cluster.list(CONFIG_MAPS, None).0.iter().map(|object| object.uid.clone()).collect();
        assert_eq!(uids.len(), cluster.list(CONFIG_MAPS, None).0.len());
        assert_eq!(suffix.len(), 5);
    }

    #[test]
    fn an_object_that_leaves_in_another_version_than_it_came_is_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cluster.log");
        let (cluster, _) = open(&path);
        let version = |name: &str, stored: bool| {
            json!({
                "name": name, "served": true, "storage": stored,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            })
        };
        let definition = json!({
            "metadata": { "name": "crates.durable.example" },
            "spec": {
                "group": "durable.example", "scope": "Namespaced", "names": { "plural": "crates", "kind": "Crate" },
                "versions": [version("v1", true), version("v2", false)],
            },
        });
        let options = WriteOptions::client("test");
        cluster.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition, &options).expect("created");
        let id = |version| {
            let name =
                CustomName { group: "durable.example", version, kind: "Crate", plural: "crates", namespaced: true };
            ResourceId::define(&name)
        };
        let (v1, v2) = (id("v1"), id("v2"));
        for name in ["gone", "kept"] {
            let object = json!({ "metadata": { "name": name, "finalizers": ["durable.example/x"] }, "size": 1 });
            cluster.create(v1, "default", object, &options).expect("created");
        }
        cluster
            .modify(CUSTOM_RESOURCE_DEFINITIONS, Part::Main, "", "crates.durable.example", &options, |value| {
                value["spec"]["versions"] = json!([version("v1", false), version("v2", true)]);
            })
            .expect("written");
        cluster.delete(v1, "default", "gone", &DeleteOptions::default()).expect("marked");
        for name in ["gone", "kept"] {
            let options = WriteOptions { served: Some(v2), ..options.clone() };
            let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
            cluster.patch(v2, Part::Main, "default", name, patch, &options).expect("patched");
        }
        drop(cluster);
        let (cluster, recovery) = open(&path);
        assert!(recovery.notes.is_empty(), "{:?}", recovery.notes);
        let left = cluster.list(v1, None).0;
        assert_eq!(left.len(), 1, "it is the same list in all versions");
        assert_eq!(
            (&*left[0].name, left[0].resource),
            ("kept", v2),
            "written anew, it is in the version that is stored now"
        );
    }

    #[test]
    fn a_compacted_log_holds_the_same_and_less() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cluster.log");
        let (cluster, _) = open(&path);
        let options = WriteOptions::client("test");
        cluster.create(CONFIG_MAPS, "default", config_map("one", ""), &options).expect("created");
        let text = "x".repeat(20_000);
        for round in 0..400 {
            cluster
                .modify(CONFIG_MAPS, Part::Main, "default", "one", &options, |value| {
                    value["data"]["a"] = json!(format!("{round}{text}"));
                })
                .expect("written");
        }
        let large = fs::metadata(&path).expect("there").len();
        cluster.sync().expect("synced");
        let small = fs::metadata(&path).expect("there").len();
        assert!(small * 20 < large, "{small} of {large}");
        cluster.create(CONFIG_MAPS, "default", config_map("two", "1"), &options).expect("created");
        let before = objects(&cluster);
        drop(cluster);
        assert_eq!(objects(&open(&path).0), before);
    }

    fn refusal(path: &Path) -> String {
        let opened = Cluster::open(path, Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 7);
        opened.map(drop).expect_err("refused").to_string()
    }

    #[test]
    fn an_altered_file_is_refused_with_its_position_and_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cluster.log");
        let options = WriteOptions::client("test");
        let (cluster, _) = open(&path);
        let at = fs::metadata(&path).expect("there").len() as usize;
        cluster.create(CONFIG_MAPS, "default", config_map("changed", "1"), &options).expect("created");
        cluster.create(CONFIG_MAPS, "default", config_map("other", "1"), &options).expect("created");
        drop(cluster);
        let good = fs::read(&path).expect("read");
        let mut altered = good.clone();
        altered[at + 40] ^= 0xff;
        for (bytes, damaged) in [(altered, at), (vec![0; good.len()], 0), (b"garbage".repeat(1_000), 0)] {
            fs::write(&path, &bytes).expect("written");
            assert_eq!(refusal(&path), format!("it is damaged at byte {damaged}"));
            assert_eq!(fs::read(&path).expect("read"), bytes);
        }
        fs::write(&path, &good).expect("written");
        let (cluster, recovery) = open(&path);
        assert!(recovery.notes.is_empty());
        assert!(cluster.get(NAMESPACES, "", "default").is_some());
    }

    #[test]
    fn a_file_that_is_shorter_than_what_was_on_the_disk_is_refused_and_one_of_an_older_klab_opens() {
        for on_the_disk in [Cluster::sync as fn(&Cluster) -> _, Cluster::compact] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("cluster.log");
            let (cluster, _) = open(&path);
            let create = |cluster: &Cluster, name: &str| {
                let options = WriteOptions::client("test");
                cluster.create(CONFIG_MAPS, "default", config_map(name, "1"), &options).expect("created");
                fs::metadata(&path).expect("there").len() as usize
            };
            create(&cluster, "one");
            on_the_disk(&cluster).expect("on the disk");
            let end = fs::metadata(&path).expect("there").len() as usize;
            let ends = [end, create(&cluster, "two"), create(&cluster, "three")];
            drop(cluster);
            let whole = fs::read(&path).expect("read");
            let records: Vec<usize> = (0..end).filter(|at| whole[*at..].starts_with(b"KREC")).collect();
            assert!(records.len() > 10, "{records:?}");
            for cut in records.into_iter().chain([end / 2, end - 1]) {
                fs::write(&path, &whole[..cut]).expect("cut");
                let words = refusal(&path);
                assert!(words.starts_with("it is cut off at byte ") && words.contains(&end.to_string()), "{words}");
            }
            // A crash of the machine may lose what the disk did not have yet.
            for (cut, names) in ends.into_iter().zip([["one"].as_slice(), &["one", "two"], &["one", "two", "three"]]) {
                for start in [0, crate::record::MARK] {
                    // Before, there were no marks.
                    fs::write(&path, &whole[start..cut]).expect("written");
                    let (cluster, recovery) = open(&path);
                    assert_eq!(recovery.notes, Vec::<String>::new());
                    let has = |name: &&str| cluster.get(CONFIG_MAPS, "default", name).is_some();
                    assert_eq!(["one", "two", "three"].iter().filter(|name| has(name)).count(), names.len());
                    // It goes on from there.
                    create(&cluster, "later");
                    cluster.sync().expect("synced");
                    drop(cluster);
                    assert!(open(&path).0.get(CONFIG_MAPS, "default", "later").is_some());
                }
            }
        }
    }

    #[test]
    fn a_write_that_cannot_be_saved_has_never_been() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cluster.log");
        let options = WriteOptions::client("test");
        let (cluster, _) = open(&path);
        cluster.create(CONFIG_MAPS, "default", config_map("changed", "1"), &options).expect("created");
        cluster.create(CONFIG_MAPS, "default", config_map("removed", "1"), &options).expect("created");
        let (before, version, changes) = (objects(&cluster), cluster.version(), cluster.changes());
        let size = cluster.size();
        let full = || Arc::new(fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it"));
        let file = cluster.lock().log.as_mut().expect("a log").write_to(full());
        let change = |text: &'static str| {
            cluster.modify(CONFIG_MAPS, Part::Main, "default", "changed", &options, |value| {
                value["data"]["a"] = json!(text);
            })
        };
        let refused = [
            cluster.create(CONFIG_MAPS, "default", config_map("new", "1"), &options).map(drop),
            change("2").map(drop),
            cluster.delete(CONFIG_MAPS, "default", "removed", &DeleteOptions::default()).map(drop),
            cluster.delete_collection(CONFIG_MAPS, None, &DeleteOptions::default(), |_| true).map(drop),
        ];
        for answer in refused {
            let status = answer.expect_err("the disk is full");
            assert_eq!(status.code, 500);
            assert!(status.message.starts_with("the embedded cluster cannot save changes: "), "{status}");
        }
        assert_eq!((objects(&cluster), cluster.version(), cluster.size()), (before, version, size));
        assert!(cluster.since(version).expect("history").0.is_empty());
        assert!(!changes.has_changed().expect("the cluster is there"));

        drop(cluster.lock().log.as_mut().expect("a log").write_to(file.expect("a file")));
        change("3").expect("there is room again");
        cluster.create(CONFIG_MAPS, "default", config_map("new", "4"), &options).expect("created");
        assert!(cluster.since(version).is_err(), "whoever was refused reads everything again");
        let after = objects(&cluster);
        drop(cluster);
        let (cluster, recovery) = open(&path);
        assert_eq!((objects(&cluster), recovery.notes), (after, Vec::new()));
    }

    #[test]
    fn only_the_owner_may_read_the_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cluster.log");
        drop(open(&path));
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

        /// Each write, when acknowledged, has made the file longer; cut anywhere, the file restores exactly the writes
        /// whose end lies before the cut.
        #[test]
        fn a_cut_file_restores_a_prefix(steps in prop::collection::vec((0..4_usize, 0..3_u8), 1..12), cut in 0.0..1.0_f64) {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("cluster.log");
            let (cluster, _) = open(&path);
            let options = WriteOptions::client("test");
            let mut states = vec![(fs::metadata(&path).expect("there").len(), objects(&cluster))];
            for (name, action) in steps {
                let name = ["a", "b", "c", "d"][name];
                let text = states.len().to_string();
                let _ = match action {
                    0 => cluster.create(CONFIG_MAPS, "default", config_map(name, &text), &options).map(drop),
                    1 => cluster.update(CONFIG_MAPS, Part::Main, "default", name, config_map(name, &text), &options).map(drop),
                    _ => cluster.delete(CONFIG_MAPS, "default", name, &DeleteOptions::default()).map(drop),
                };
                states.push((fs::metadata(&path).expect("there").len(), objects(&cluster)));
            }
            drop(cluster);
            let (first, last) = (states[0].0, states[states.len() - 1].0);
            let at = first + ((last - first) as f64 * cut) as u64;
            let bytes = fs::read(&path).expect("read");
            fs::write(&path, &bytes[..at as usize]).expect("cut");
            let (cluster, recovery) = open(&path);
            let expected = states.iter().rev().find(|(end, _)| *end <= at).expect("the first state");
            prop_assert_eq!(objects(&cluster), expected.1.clone());
            let torn = !states.iter().any(|(end, _)| *end == at);
            prop_assert_eq!(recovery.notes.len(), usize::from(torn));
        }
    }
}
