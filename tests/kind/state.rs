//! Containers, images and faults as files; the calls so far, and how many are under way.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::api::Server;

/// A container, as its file has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Container {
    pub(crate) name: String,
    /// Its host name, by which its kubelet registers.
    pub(crate) hostname: String,
    pub(crate) cluster: String,
    pub(crate) role: String,
    pub(crate) image: String,
    pub(crate) running: bool,
    #[serde(default)]
    pub(crate) paused: bool,
    #[serde(default)]
    pub(crate) kubelet_is_dead: bool,
    /// When it was started again.
    #[serde(default)]
    pub(crate) started: Option<String>,
    pub(crate) address: String,
    /// Paths of this machine by path in the container.
    pub(crate) mounts: BTreeMap<String, String>,
    /// Files written into it, and those kind and kubeadm leave.
    pub(crate) files: BTreeMap<String, String>,
    /// Whether its kubelet reaches the API server.
    pub(crate) joined: bool,
    /// What its kubelet registers with, once.
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Value>,
    pub(crate) journal: String,
    /// Images loaded into it, with how often.
    pub(crate) loaded: BTreeMap<String, u32>,
}

pub(super) struct State {
    pub(super) folder: PathBuf,
    /// Program and arguments of each call, and the seconds it took.
    pub(super) calls: Mutex<Vec<(String, f64)>>,
    /// The API servers that run, by cluster.
    pub(super) servers: Mutex<BTreeMap<String, Server>>,
    /// In which look at the containers late ones appear.
    pub(super) looks: AtomicI64,
    /// Itself, for what goes on after a call.
    pub(super) own: Weak<Self>,
    under_way: Arc<UnderWay>,
    /// Held while kind makes a cluster. A kind that was interrupted goes on here to its end, and nothing is removed before that.
    creating: Mutex<()>,
    /// One at a time changes what several calls count.
    counting: Mutex<()>,
}

/// How many calls are under way.
#[derive(Default)]
struct UnderWay {
    count: Mutex<usize>,
    fewer: Condvar,
}

/// A call that is under way as long as this lives.
pub(super) struct Begun(Arc<UnderWay>);

impl Drop for Begun {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap() -= 1;
        self.0.fewer.notify_all();
    }
}

/// How a program ends: its stdout, or its stderr and exit code.
pub(super) type Ended = Result<String, (i32, String)>;

pub(super) fn failed<T>(words: impl Into<String>) -> Result<T, (i32, String)> {
    Err((1, words.into()))
}

impl State {
    pub(super) fn new(folder: PathBuf) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            folder,
            calls: Mutex::default(),
            servers: Mutex::default(),
            looks: AtomicI64::default(),
            own: own.clone(),
            under_way: Arc::default(),
            creating: Mutex::default(),
            counting: Mutex::default(),
        })
    }

    /// A call begins.
    pub(super) fn begin(&self) -> Begun {
        *self.under_way.count.lock().unwrap() += 1;
        Begun(Arc::clone(&self.under_way))
    }

    /// Waits until no call is under way.
    pub(super) fn rests(&self) {
        let count = self.under_way.count.lock().unwrap();
        drop(self.under_way.fewer.wait_while(count, |count| *count > 0).unwrap());
    }

    /// Waits until no kind makes a cluster; none begins as long as the guard lives.
    pub(super) fn creation_ends(&self) -> MutexGuard<'_, ()> {
        self.creating.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Containers that a program asked for which has ended since appear now.
    pub(super) fn late_ones_appear(&self) {
        for entry in fs::read_dir(self.folder.join("late")).unwrap().map(Result::unwrap) {
            fs::rename(entry.path(), self.folder.join("containers").join(entry.file_name())).unwrap();
        }
    }

    /// Somebody looks whether there are containers. Late ones appear where nothing else was done since the last look, or in this
    /// look where that was said.
    pub(super) fn is_looked_at(&self, arguments: &[&str]) {
        let call = format!("docker {}", arguments.join(" "));
        let again = self.calls.lock().unwrap().last().is_some_and(|(last, _)| *last == call);
        let looks = self.looks.fetch_sub(1, Ordering::Relaxed);
        if again || looks == 1 {
            self.late_ones_appear();
        }
    }

    pub(super) fn note(&self, program: &str, arguments: &[&str], started: Instant) {
        let call = format!("{program} {}", arguments.join(" "));
        self.calls.lock().unwrap().push((call, started.elapsed().as_secs_f64()));
    }

    pub(super) fn write_json(&self, name: &str, value: &impl Serialize) {
        let mut file = tempfile::NamedTempFile::new_in(&self.folder).unwrap();
        file.write_all(&serde_json::to_vec_pretty(value).unwrap()).unwrap();
        file.persist(self.folder.join(name)).unwrap();
    }

    pub(super) fn images(&self) -> BTreeMap<String, String> {
        fs::read(self.folder.join("images.json")).map(|text| serde_json::from_slice(&text).unwrap()).unwrap_or_default()
    }

    pub(super) fn containers(&self) -> Vec<Container> {
        let mut containers: Vec<Container> = fs::read_dir(self.folder.join("containers"))
            .unwrap()
            .filter_map(|entry| serde_json::from_slice(&fs::read(entry.unwrap().path()).ok()?).ok())
            .collect();
        containers.sort_by_key(|container| (container.name.len(), container.name.clone()));
        containers
    }

    pub(super) fn container(&self, name: &str) -> Option<Container> {
        self.containers().into_iter().find(|container| container.name == name)
    }

    pub(super) fn save(&self, container: &Container) {
        self.write_json(&format!("containers/{}.json", container.name), container);
    }

    /// Says whether the fault is asked for, with what it is about; it happens once.
    pub(super) fn take_fault(&self, name: &str) -> Option<String> {
        let path = self.folder.join("faults").join(name);
        let what = fs::read_to_string(&path).ok()?;
        fs::remove_file(path).unwrap();
        Some(what)
    }

    /// As [`State::take_fault`], where it is about this node.
    pub(super) fn take_fault_of(&self, name: &str, node: &str) -> bool {
        let is_its = fs::read_to_string(self.folder.join("faults").join(name)).is_ok_and(|what| what == node);
        is_its && self.take_fault(name).is_some()
    }

    pub(super) fn has_fault(&self, name: &str) -> bool {
        self.folder.join("faults").join(name).exists()
    }

    /// When the user interrupts klab, where that is at this call: `before:3` is before the third from now on does anything.
    pub(super) fn take_interruption(&self) -> Option<String> {
        let _counting = self.counting.lock().unwrap();
        let what = self.take_fault("interrupt")?;
        let (moment, call) = what.split_once(':').unwrap();
        let call: u32 = call.parse().unwrap();
        if call == 1 {
            return Some(moment.to_owned());
        }
        fs::write(self.folder.join("faults/interrupt"), format!("{moment}:{}", call - 1)).unwrap();
        None
    }

    pub(super) fn new_container(&self, cluster: &str, name: &str, role: &str, image: &str) -> Container {
        let _counting = self.counting.lock().unwrap();
        let counter = self.folder.join("addresses");
        let used: u32 = fs::read_to_string(&counter).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
        fs::write(&counter, (used + 1).to_string()).unwrap();
        Container {
            name: name.to_owned(),
            hostname: name.to_owned(),
            cluster: cluster.to_owned(),
            role: role.to_owned(),
            image: image.to_owned(),
            running: true,
            paused: false,
            kubelet_is_dead: false,
            started: None,
            address: format!("172.18.0.{}", used + 1),
            mounts: BTreeMap::new(),
            files: BTreeMap::new(),
            joined: false,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            journal: String::new(),
            loaded: BTreeMap::new(),
        }
    }
}
