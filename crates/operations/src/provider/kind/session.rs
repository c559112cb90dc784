//! One lab on kind as the machine has it now: tools, containers, record.

use std::path::Path;

use super::config::Surroundings;
use super::docker::{Container, Info, Runtime};
use super::failure;
use super::kind_tool::KindTool;
use super::live::Live;
use super::machine;
use super::names::Names;
use super::record::ClusterRecord;
use super::version::KindVersion;
use crate::error::{Code, Error, Result};
use crate::state::home::state_error;
use klab_lab::spec::{Lab, Pool};
use klab_server::files::{create_private_folder, write_private};

/// The tools and names of one lab.
pub(super) struct Session {
    pub(super) names: Names,
    pub(super) runtime: Runtime,
    pub(super) info: Info,
    pub(super) kind: KindTool,
}

impl Session {
    /// The record, if there is one.
    pub(super) fn record(&self) -> Result<Option<ClusterRecord>> {
        ClusterRecord::read(&self.names.record())
    }

    pub(super) fn save(&self, record: &ClusterRecord) -> Result<()> {
        record.write(&self.names.record())
    }

    /// The cluster's containers; an error if they are somebody else's.
    pub(super) fn containers(&self) -> Result<Vec<Container>> {
        self.ours(self.runtime.containers(&self.names.cluster)?)
    }

    /// As [`Session::containers`], as they were seen a moment ago: before anything is changed.
    pub(super) fn containers_seen(&self) -> Result<Vec<Container>> {
        self.ours(self.runtime.containers_seen(&self.names.cluster)?)
    }

    fn ours(&self, containers: Vec<Container>) -> Result<Vec<Container>> {
        if containers.is_empty() || self.is_ours(&containers) {
            return Ok(containers);
        }
        let cluster = &self.names.cluster;
        let message = format!("there is a kind cluster `{cluster}` that this klab did not make");
        Err(Error::message(Code::Foreign, message)
            .hint(format!("`kind delete cluster --name {cluster}` removes it, if it is not needed"))
            .hint("or give this klab names of its own: `export KLAB_SEAT=me`"))
    }

    /// The cluster's containers, none if they are somebody else's.
    pub(super) fn own_containers(&self) -> Result<Vec<Container>> {
        let containers = self.runtime.containers(&self.names.cluster)?;
        Ok(if self.is_ours(&containers) { containers } else { Vec::new() })
    }

    /// Containers are ours when one of them has our folder mounted, or when we wrote down that we were about to make them.
    fn is_ours(&self, containers: &[Container]) -> bool {
        let mounted = containers.iter().flat_map(|container| &container.mounted);
        mounted.into_iter().any(|path| self.names.owns(path)) || self.names.record().is_file()
    }

    /// The cluster's API.
    pub(super) fn live(&self) -> Result<Live> {
        self.ensure_kubeconfig()?;
        Live::new(&self.names.kubeconfig())
    }

    /// The kubeconfig, asked of kind again where it is gone.
    pub(super) fn ensure_kubeconfig(&self) -> Result<()> {
        let path = self.names.kubeconfig();
        if path.is_file() {
            return Ok(());
        }
        let text = self.kind.kubeconfig(&self.names.cluster)?;
        if let Some(folder) = path.parent() {
            create_private_folder(folder).map_err(|error| state_error(error, "create", folder))?;
        }
        write_private(&path, text.as_bytes()).map_err(|error| state_error(error, "write", &path))
    }

    /// Makes the folder of the lab's files for kind.
    pub(super) fn make_folder(&self) -> Result<()> {
        for folder in [self.names.folder(), self.names.owner_mount()] {
            create_private_folder(&folder).map_err(|error| state_error(error, "create", &folder))?;
        }
        Ok(())
    }

    /// Writes the files that show a pool's size.
    pub(super) fn write_machine(&self, lab: &Lab, pool: &Pool, record: &ClusterRecord) -> Result<()> {
        let folder = self.names.machine(&pool.name.value);
        let desired = super::desired::desired(lab, pool, 0, &record.host)
            .map_err(|words| Error::message(Code::MachineTooSmall, words))?;
        machine::write(&folder, &desired.sizing, &record.host).map_err(|error| state_error(error, "write", &folder))
    }

    /// Writes a text into a node. It passes through a file that only this user can read.
    pub(super) fn copy_text(&self, text: &str, node: &str, path: &str) -> Result<()> {
        let file = self.names.folder().join(format!("{node}.copy"));
        write_private(&file, text.as_bytes()).map_err(|error| state_error(error, "write", &file))?;
        let copied = self.runtime.copy_in(&file, node, path);
        remove_file(&file)?;
        copied
    }

    /// Names, machine and tools a configuration depends on.
    pub(super) fn around<'a>(&'a self, host: &'a machine::Host, kind: KindVersion) -> Surroundings<'a> {
        Surroundings { names: &self.names, host, kind, cgroup_v1: !self.info.cgroup_v2 }
    }

    /// The newest lines of the journal of a container's kubelet; empty if it cannot be read.
    pub(super) fn kubelet_journal(&self, container: &str) -> String {
        let program = ["journalctl", "--no-pager", "--unit", "kubelet", "--lines", "300"];
        self.runtime.exec(container, &program).unwrap_or_default()
    }

    /// In systemd's word for it, that the kubelet of a container does not run and nothing starts it; none where it does, or where
    /// that cannot be asked.
    pub(super) fn dead_kubelet(&self, container: &str) -> Option<String> {
        let state = ["systemctl", "show", "--property=ActiveState", "--value", "kubelet"];
        let state = self.runtime.exec(container, &state).ok()?.trim().to_owned();
        matches!(state.as_str(), "inactive" | "failed").then_some(state)
    }

    /// Why a node does not work, from its kubelet's journal: in a few words for the error, the whole of it in a file.
    pub(super) fn cause(&self, container: &str, node: &str) -> Option<String> {
        let dead = self.dead_kubelet(container);
        let says = dead.as_ref().map(|state| format!("{node}: its kubelet does not run (systemd says `{state}`)"));
        // What was said by one that was stopped is not why it does not run.
        if dead.as_deref() == Some("inactive") {
            return says;
        }
        let journal = self.kubelet_journal(container);
        if !journal.is_empty() {
            let path = self.names.folder().join(format!("{node}.journal"));
            // The journal is a help; that it cannot be kept must not hide what failed.
            let _ = std::fs::write(path, &journal);
        }
        let causes = failure::causes_in_journal(&journal);
        let words = (!causes.is_empty()).then(|| format!("{node}: its kubelet says {}", causes.join("; ")));
        says.into_iter().chain(words).reduce(|one, other| format!("{one}\n{other}"))
    }
}

/// Removes a file; one that is not there is no error.
pub(super) fn remove_file(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(state_error(error, "remove", path)),
        _ => Ok(()),
    }
}
