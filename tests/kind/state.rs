//! Containers, images and faults as files, and the API servers of the clusters.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use klab::provider::sim::server;
use klab_cluster::server::{Flavour, Seed};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::block_on;

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
}

/// How a program ends: its stdout, or its stderr and exit code.
pub(super) type Ended = Result<String, (i32, String)>;

pub(super) fn failed<T>(words: impl Into<String>) -> Result<T, (i32, String)> {
    Err((1, words.into()))
}

impl State {
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
        let lock = OpenOptions::new().create(true).append(true).open(self.folder.join("lock")).unwrap();
        lock.lock().unwrap();
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
        let lock = OpenOptions::new().create(true).append(true).open(self.folder.join("lock")).unwrap();
        lock.lock().unwrap();
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

    pub(super) fn server_folder(&self, cluster: &str) -> PathBuf {
        self.folder.join("clusters").join(cluster)
    }

    /// The API server of a cluster: started if it does not run.
    pub(super) fn start_api(&self, cluster: &str) -> String {
        let folder = self.server_folder(cluster);
        let alive = |access: &klab_cluster::server::Access| klab::exec::process_exists(access.pid);
        if !server::access(&folder).as_ref().is_some_and(alive) {
            fs::create_dir_all(&folder).unwrap();
            klab::exec::Command::new(env!("CARGO_BIN_EXE_klab"))
                .args(["serve", "--state-directory"])
                .arg(&folder)
                .start_in_background(
                    fs::File::open("/dev/null").unwrap(),
                    &folder.join("log"),
                    std::time::Duration::from_secs(60),
                )
                .unwrap();
        }
        block_on(async {
            let access = server::access(&folder).unwrap();
            let seed = Seed { flavour: Flavour::Kind, seed: 1, ..Seed::default() };
            server::Client::new(&access).await.unwrap().add(cluster, &seed).await.unwrap().kubeconfig
        })
    }

    pub(super) fn stop_api(&self, cluster: &str) {
        if let Some(access) = server::access(&self.server_folder(cluster)) {
            klab::exec::end_process(access.pid, false);
            while klab::exec::process_exists(access.pid) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
