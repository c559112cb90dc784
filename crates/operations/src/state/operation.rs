//! Work on a lab that goes on when the command that asked for it has answered (`az … --no-wait`): written down before it is
//! begun, so that another klab takes it up again if its process is killed.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toml::Table;

use super::home::state_error;
use super::lock::is_at;
use crate::error::Result;
use klab_server::files::{create_private_folder, open_private_append};

/// What is being done, in Azure's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationKind {
    /// A pool or a cluster is made.
    Creating,
    /// Labels, taints, mode, bounds.
    Updating,
    /// Another number of nodes.
    Scaling,
    /// Another version of Kubernetes.
    Upgrading,
    /// It goes.
    Deleting,
    /// What was stopped comes back.
    Starting,
    /// Machines are stopped.
    Stopping,
}

impl OperationKind {
    /// Azure's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "Creating",
            Self::Updating => "Updating",
            Self::Scaling => "Scaling",
            Self::Upgrading => "Upgrading",
            Self::Deleting => "Deleting",
            Self::Starting => "Starting",
            Self::Stopping => "Stopping",
        }
    }
}

impl fmt::Display for OperationKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// One thing to be done. To do it twice is to do it once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// A pool is to be as these keys say.
    Put {
        /// The pool.
        pool: String,
        /// Keys of the lab file.
        keys: Table,
    },
    /// A pool is to go.
    Remove {
        /// The pool.
        pool: String,
    },
    /// The control plane is to have another version.
    UpgradeControlPlane {
        /// The version it has.
        from: String,
        /// The version it is to have.
        to: String,
    },
    /// The autoscaler is to have these settings.
    SetAutoscaler {
        /// All of them.
        settings: BTreeMap<String, String>,
    },
    /// The machines are to run.
    Start,
    /// The machines are to stop.
    Stop,
    /// The lab is to be made of the file that az wrote.
    Make,
    /// The lab is to go.
    Down,
}

/// Work that goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// The pool it is about; none where it is about the cluster.
    pub pool: Option<String>,
    /// What is being done.
    pub doing: OperationKind,
    /// What is to be done, in order.
    pub tasks: Vec<Task>,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// An operation that this process has: no other works on it.
#[derive(Debug)]
pub struct Held {
    file: File,
    path: PathBuf,
    /// What it is.
    pub operation: Operation,
}

/// An operation as it is found.
#[derive(Debug)]
pub enum StoredOperation {
    /// A process works on it, or waits for its turn.
    UnderWay(Operation),
    /// No process works on it: the last one was killed. It is this process's now.
    Orphan(Held),
    /// It failed, and is remembered until the next one about the same.
    Failed(Operation),
}

const FOLDER: &str = "operations";

/// The folder of a lab's operations.
fn folder_in(lab_folder: &Path) -> PathBuf {
    lab_folder.join(FOLDER)
}

impl Operation {
    /// Whether it changes a pool.
    pub fn changes(&self, name: &str) -> bool {
        self.tasks.iter().any(|task| match task {
            Task::Put { pool, .. } | Task::Remove { pool } => pool == name,
            Task::Down | Task::Start | Task::Stop | Task::Make => true,
            Task::UpgradeControlPlane { .. } | Task::SetAutoscaler { .. } => false,
        })
    }

    /// Writes the operation down and holds it. None where another one about the same pool, or about the cluster, is not done.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn begin(self, lab_folder: &Path) -> Result<Option<Held>> {
        let folder = folder_in(lab_folder);
        let path = folder.join(file_name(self.pool.as_deref()));
        let failed = |error| state_error(error, "write", &path);
        let mut looks = 0;
        loop {
            create_private_folder(&folder).map_err(failed)?;
            let mut file = open_private_append(&path).map_err(failed)?;
            if !locked(&file).map_err(failed)? {
                // Somebody may only look whether it is done.
                looks += 1;
                if looks > 5 {
                    return Ok(None);
                }
                std::thread::sleep(Duration::from_millis(2));
                continue;
            }
            if !is_at(&file, &path) {
                continue;
            }
            // An unreadable one was never begun: it is written as a whole before any command knows of it.
            if read(&mut file).is_some_and(|there| there.failed.is_none()) {
                return Ok(None);
            }
            let held = Held { file, path: path.clone(), operation: self };
            held.write().map_err(failed)?;
            return Ok(Some(held));
        }
    }

    /// All operations of a lab.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn all(lab_folder: &Path) -> Result<Vec<StoredOperation>> {
        let folder = folder_in(lab_folder);
        let entries = match std::fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| state_error(error, "read", &folder))?,
        };
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        let mut found = Vec::new();
        for path in paths.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "json")) {
            match look(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                one => found.extend(one.map_err(|error| state_error(error, "read", &path))?),
            }
        }
        Ok(found)
    }

    /// Forgets a failed one.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn forget_failed(lab_folder: &Path, pool: Option<&str>) -> Result<bool> {
        let path = folder_in(lab_folder).join(file_name(pool));
        match look(&path) {
            Ok(Some(StoredOperation::Failed(_))) => {
                std::fs::remove_file(&path).map_err(|error| state_error(error, "remove", &path))?;
                Ok(true)
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(state_error(error, "read", &path)),
            _ => Ok(false),
        }
    }
}

impl Held {
    /// The operation of a file that is this process's stdin: the klab that wrote it down handed it over.
    ///
    /// # Errors
    /// When it is not there any more.
    pub fn handed_over(path: &Path, stdin: File) -> io::Result<Option<Self>> {
        let mut file = stdin;
        if !is_at(&file, path) || !locked(&file)? {
            return Ok(None);
        }
        Ok(read(&mut file).map(|operation| Self { file, path: path.to_owned(), operation }))
    }

    /// Where it is written down.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file as the stdin of the process that is to do it. It stays held in between.
    ///
    /// # Errors
    /// When the system has no more files for klab.
    pub fn to_hand_over(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// It is done: nothing stays of it.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn end(self) -> io::Result<()> {
        // Where the lab went meanwhile, this went with it.
        if !is_at(&self.file, &self.path) {
            return Ok(());
        }
        std::fs::remove_file(&self.path)?;
        let _ = std::fs::remove_file(self.path.with_extension("log"));
        if let Some(folder) = self.path.parent() {
            // Others may be in it.
            let _ = std::fs::remove_dir(folder);
        }
        Ok(())
    }

    /// It failed: that is remembered, in these words.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn fail(mut self, words: String) -> io::Result<()> {
        self.operation.failed = Some(words);
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(&self.operation).map_err(io::Error::other)?;
        let mut file = &self.file;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&text)?;
        file.sync_all()
    }
}

fn file_name(pool: Option<&str>) -> String {
    match pool {
        Some(pool) => format!("pool-{pool}.json"),
        None => "cluster.json".to_owned(),
    }
}

/// Whether this process has the file now.
fn locked(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn read(file: &mut File) -> Option<Operation> {
    let mut text = Vec::new();
    file.rewind().ok()?;
    file.read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

fn look(path: &Path) -> io::Result<Option<StoredOperation>> {
    let mut file = File::options().read(true).append(true).open(path)?;
    if !locked(&file)? {
        return Ok(read(&mut file).map(StoredOperation::UnderWay));
    }
    if !is_at(&file, path) {
        return Ok(None);
    }
    Ok(read(&mut file).map(|operation| match operation.failed {
        Some(_) => StoredOperation::Failed(operation),
        None => StoredOperation::Orphan(Held { file, path: path.to_owned(), operation }),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(pool: &str, doing: OperationKind) -> Operation {
        let tasks =
            vec![Task::Put { pool: pool.to_owned(), keys: toml::from_str("nodes = 2\n[labels]\na = 'b'").unwrap() }];
        Operation { pool: Some(pool.to_owned()), doing, tasks, failed: None }
    }

    #[test]
    fn one_at_a_time_is_held_until_it_ends_and_an_orphan_is_taken_up() {
        let lab = tempfile::tempdir().unwrap();
        let lab = lab.path();
        assert!(Operation::all(lab).unwrap().is_empty());
        let held = operation("extra", OperationKind::Creating).begin(lab).unwrap().unwrap();
        assert!(operation("extra", OperationKind::Scaling).begin(lab).unwrap().is_none(), "it is busy");
        let other = operation("more", OperationKind::Deleting).begin(lab).unwrap().unwrap();
        assert!(
            matches!(&Operation::all(lab).unwrap()[..], [StoredOperation::UnderWay(one), StoredOperation::UnderWay(_)] if *one == held.operation)
        );
        other.end().unwrap();
        // Handed over, it stays held although the first holder is gone.
        let (path, stdin) = (held.path().to_owned(), held.to_hand_over().unwrap());
        drop(held);
        assert!(matches!(&Operation::all(lab).unwrap()[..], [StoredOperation::UnderWay(_)]));
        let handed = Held::handed_over(&path, stdin).unwrap().unwrap();
        assert_eq!(handed.operation, operation("extra", OperationKind::Creating));
        // Killed: it has no process, and no other may begin before it is done.
        drop(handed);
        assert!(operation("extra", OperationKind::Scaling).begin(lab).unwrap().is_none());
        let mut found = Operation::all(lab).unwrap();
        let Some(StoredOperation::Orphan(orphan)) = found.pop() else { panic!("{found:?}") };
        orphan.fail("no room".to_owned()).unwrap();
        assert!(
            matches!(&Operation::all(lab).unwrap()[..], [StoredOperation::Failed(one)] if one.failed.as_deref() == Some("no room"))
        );
        let held = operation("extra", OperationKind::Scaling).begin(lab).unwrap().unwrap();
        held.end().unwrap();
        assert!(!lab.join(FOLDER).exists());
    }

    #[test]
    fn what_was_torn_was_never_begun() {
        let lab = tempfile::tempdir().unwrap();
        let lab = lab.path();
        std::fs::create_dir(lab.join(FOLDER)).unwrap();
        std::fs::write(lab.join(FOLDER).join("pool-extra.json"), "{ \"pool\"").unwrap();
        assert!(Operation::all(lab).unwrap().is_empty());
        assert!(!Operation::forget_failed(lab, Some("extra")).unwrap());
        let held = operation("extra", OperationKind::Creating).begin(lab).unwrap().unwrap();
        held.fail("no room".to_owned()).unwrap();
        assert!(Operation::forget_failed(lab, Some("extra")).unwrap());
        assert!(Operation::all(lab).unwrap().is_empty());
    }
}
