//! The file that makes a cluster outlive its process: every acknowledged write is appended before it is acknowledged.
//!
//! What survives what:
//! - The process is killed (SIGKILL included): every acknowledged write is there, because write(2) has handed it to
//!   the kernel before the answer goes out. There is no fsync per write.
//! - The machine loses power: at most the writes since the last [`Log::sync`] are lost, which the server calls about
//!   once a second; snapshots are synced before they take the log's place.
//! - A record torn by either is found by its length and checksum, dropped, and reported.
//! - A file that was altered, or is shorter than what a sync or a snapshot has put on the disk, is refused with the position.
//!   It stays as it is. That writes of the last second are missing cannot be noticed: a crash of the machine looks the same.
//!
//! The file is a mark and a sequence of [records](crate::record). Each is a tag, the resourceVersion, the state of the random
//! numbers, and: the object's JSON (tag 1, a version of an object), its identity (tag 2, the end of an object), a row of
//! the table of resources (tag 3, a kind defined at run time, before its first object), or what the cluster is a copy of
//! (tag 4, the first record of a copy's log, and once more where it begins again: what follows is what has changed since). A
//! copy that has changed nothing has no file. Tag 5, and the end of no object, stand around a snapshot.

mod snapshot;

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use klab_api_machinery::object::Object;
use klab_api_machinery::renaming::Renaming;
use klab_api_machinery::resource::{CustomName, ResourceId};
use serde::{Deserialize, Serialize};

use super::record;
pub(crate) use snapshot::Snapshot;

/// A log is compacted when it is this many times the size of its last snapshot, and larger than [`SMALL`].
const GROWTH: u64 = 3;
const SMALL: u64 = 4 << 20;
/// No log is written again before it is as large as this.
const SHORT: u64 = 32 << 10;

const PUT: u8 = 1;
const REMOVE: u8 = 2;
const DEFINE: u8 = 3;
const BASE: u8 = 4;
const SNAPSHOT: u8 = 5;

/// One change, as read back.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    /// A version of an object.
    Put(Arc<Object>),
    /// The end of an object.
    Remove {
        /// Its kind.
        resource: ResourceId,
        /// Its namespace, empty for cluster-scoped kinds.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// What [`Log::open`] found.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// The changes, oldest first.
    pub(crate) entries: Vec<Entry>,
    /// The highest resourceVersion.
    pub(crate) version: u64,
    /// The state of the random numbers after the last change.
    pub(crate) random: Option<u64>,
    /// What a person should know: dropped and damaged records.
    pub(crate) notes: Vec<String>,
    /// What the file says that the cluster is a copy of.
    pub(crate) base: Option<Base>,
    /// The kinds that the file describes.
    defined: Vec<ResourceId>,
}

/// What a copy began with: a template, by its id, under other names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The template's id.
    pub template: String,
    /// What is called otherwise in the copy.
    #[serde(default, skip_serializing_if = "Renaming::is_empty")]
    pub renaming: Renaming,
}

/// The open file.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    /// None of a copy that has changed nothing yet.
    file: Option<Arc<File>>,
    /// What the first record of a copy's file says.
    base: Option<Head>,
    /// Records of the running transaction.
    pending: Vec<u8>,
    /// The kinds that are described among them.
    pending_kinds: Vec<ResourceId>,
    /// Whether half a record may follow the last whole one.
    torn: bool,
    /// Bytes in the file.
    size: u64,
    /// Where the mark of the file stands, or soon will.
    marked: Option<u64>,
    /// Bytes the last snapshot took.
    snapshot: u64,
    described: HashSet<ResourceId>,
}

/// The first record of a copy's file.
#[derive(Debug, Clone)]
struct Head {
    base: Base,
    version: u64,
    random: u64,
}

/// A kind defined at run time, as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Definition {
    group: String,
    version: String,
    kind: String,
    plural: String,
    namespaced: bool,
}

impl Log {
    /// Opens the file, or makes it (readable by its owner only), and reads what is in it.
    ///
    /// # Errors
    /// When the file cannot be read or written, or is not what was written; it then stays as it is.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Contents)> {
        let mut file = options().truncate(false).open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let mut contents = Contents::default();
        let found = record::read(&Bytes::from(bytes), |payload| contents.take(payload));
        if let Some(words) = found.refusal() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it {words}")));
        }
        contents.notes.extend(found.notes);
        let size = found.good;
        file.set_len(size)?;
        file.seek(SeekFrom::Start(size))?;
        Ok((Self { marked: found.marked, ..Self::at(path, Some(file), size) }, contents))
    }

    /// Opens the file of a copy, if it has one, and reads what is in it; it is made with the first write. `version` and
    /// `random` are those of the template.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub(crate) fn open_copy(path: &Path, base: &Base, version: u64, random: u64) -> io::Result<(Self, Contents)> {
        let head = Head { base: base.clone(), version, random };
        // One that was killed between making the file and its first write has changed nothing.
        let (log, contents) = match std::fs::metadata(path) {
            Ok(file) if file.len() > 0 => Self::open(path)?,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => (Self::at(path, None, 0), Contents::default()),
        };
        Ok((Self { base: Some(head), ..log }, contents))
    }

    fn at(path: &Path, file: Option<File>, size: u64) -> Self {
        Self {
            path: path.to_owned(),
            file: file.map(Arc::new),
            base: None,
            pending: Vec::new(),
            pending_kinds: Vec::new(),
            torn: false,
            size,
            marked: None,
            snapshot: size,
            described: HashSet::new(),
        }
    }

    /// Notes that the cluster is a copy that begins again at `version`: what the file says before that no longer holds.
    ///
    /// # Errors
    /// When the file cannot be written; all that it says then stays true.
    pub(crate) fn begin_again(&mut self, version: u64, random: u64) -> io::Result<()> {
        let Some(head) = &self.base else { return Err(io::Error::other("the cluster is no copy")) };
        base(&mut self.pending, &head.base, version, random);
        self.flush()
    }

    /// Whether there is a file.
    pub(crate) fn is_written(&self) -> bool {
        self.file.is_some()
    }

    /// What the cluster is a copy of.
    pub(crate) fn base(&self) -> Option<&Base> {
        self.base.as_ref().map(|head| &head.base)
    }

    /// Adds a version of an object to the transaction.
    pub(crate) fn put(&mut self, object: &Object, random: u64) {
        self.describe(object.resource, random);
        put(&mut self.pending, object, random);
    }

    /// Adds the end of an object to the transaction.
    pub(crate) fn remove(&mut self, last: &Object, random: u64) {
        // It may have been in another version before.
        self.describe(last.resource, random);
        remove(&mut self.pending, last, last.resource_version, random);
    }

    /// Hands the transaction to the kernel.
    ///
    /// # Errors
    /// When the file cannot be written; nothing of the transaction is in it then, nor ever will be.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let written = self.mend().and_then(|()| self.write_pending());
        if written.is_ok() {
            self.size += self.pending.len() as u64;
        } else {
            // Half a record would only be dropped at the next start, but the next write must not follow it.
            self.torn = true;
            let _ = self.mend();
            self.discard();
        }
        self.pending_kinds.clear();
        self.pending.clear();
        if self.pending.capacity() > 1 << 20 {
            self.pending = Vec::new();
        }
        written
    }

    /// Forgets the transaction.
    pub(crate) fn discard(&mut self) {
        for kind in self.pending_kinds.drain(..) {
            self.described.remove(&kind);
        }
        self.pending.clear();
    }

    /// Writes what is pending; the first time behind a mark and what says of which template the cluster is a copy.
    fn write_pending(&mut self) -> io::Result<()> {
        if self.size == 0 {
            let mut text = record::mark(record::MARK as u64).to_vec();
            if let Some(head) = &self.base {
                base(&mut text, &head.base, head.version, head.random);
            }
            text.append(&mut self.pending);
            self.pending = text;
            self.marked = Some(record::MARK as u64);
        }
        let mut file = if let Some(file) = &self.file {
            file.as_ref()
        } else {
            // A copy has no folder before its first write. The folder of any other cluster is there, or somebody removed it.
            if self.base.is_some()
                && let Some(folder) = self.path.parent()
            {
                private_folder(folder)?;
            }
            self.file.insert(Arc::new(options().truncate(true).open(&self.path)?))
        };
        file.write_all(&self.pending)
    }

    /// Takes away what a write that failed may have left at the end of the file.
    fn mend(&mut self) -> io::Result<()> {
        if self.torn && self.size == 0 {
            // Of a file that was to be made: the next write makes it.
            self.file = None;
            self.torn = false;
        } else if self.torn
            && let Some(file) = &self.file
        {
            let mut file = file.as_ref();
            file.set_len(self.size)?;
            file.seek(SeekFrom::Start(self.size))?;
            self.torn = false;
        }
        Ok(())
    }

    /// Puts another file in the place of the one written to, and returns that.
    #[cfg(test)]
    pub(crate) fn write_to(&mut self, file: Arc<File>) -> Option<Arc<File>> {
        self.file.replace(file)
    }

    /// What makes the file survive the machine, to be called without holding the cluster's lock.
    pub(crate) fn syncing(&mut self) -> Option<impl FnOnce() -> io::Result<()> + use<>> {
        let (file, size, marked) = (self.file.clone()?, self.size, self.marked);
        self.marked = marked.map(|_| size);
        Some(move || record::sync(&file, size, marked))
    }

    /// Whether the file has grown enough to be rewritten.
    pub(crate) fn is_due(&self) -> bool {
        self.size > SMALL && self.size > self.snapshot.saturating_mul(GROWTH)
    }

    /// Whether to write the file again may make it much shorter.
    pub(crate) fn may_be_shorter(&self) -> bool {
        self.size > SHORT && self.size > self.snapshot.saturating_mul(2)
    }

    /// The kinds defined at run time that the file describes.
    pub(crate) fn described(&self) -> HashSet<ResourceId> {
        self.described.clone()
    }

    /// How far the file reaches, for [`Log::adopt`].
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Where a snapshot is written before it takes the log's place.
    pub(crate) fn snapshot_path(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        PathBuf::from(name)
    }

    /// Puts a snapshot (made when the file reached to `since`) in the log's place, with what was written after it.
    ///
    /// # Errors
    /// When a file cannot be read or written; the old log then stays.
    pub(crate) fn adopt(&mut self, mut snapshot: File, since: u64) -> io::Result<()> {
        let base = snapshot.stream_position()?;
        let mut after = 0;
        if self.size > since {
            let mut old = File::open(&self.path)?;
            old.seek(SeekFrom::Start(since))?;
            after = io::copy(&mut old.take(self.size - since), &mut snapshot)?;
            record::sync(&snapshot, base + after, Some(base))?;
        }
        std::fs::rename(self.snapshot_path(), &self.path)?;
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            File::open(folder)?.sync_all()?;
        }
        self.file = Some(Arc::new(snapshot));
        self.torn = false;
        self.size = base + after;
        self.marked = Some(self.size);
        self.snapshot = base;
        Ok(())
    }

    /// A kind defined at run time is written down before its first object.
    fn describe(&mut self, resource: ResourceId, random: u64) {
        if resource.row().custom && self.described.insert(resource) {
            self.pending_kinds.push(resource);
            define(&mut self.pending, resource, random);
        }
    }
}

/// Files of this user only.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes the folder of a file, for this user only, unless it is there.
fn private_folder(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Says what the cluster is a copy of.
fn base(buffer: &mut Vec<u8>, base: &Base, version: u64, random: u64) {
    // Strings always serialise.
    let text = serde_json::to_vec(base).unwrap_or_default();
    append(buffer, BASE, version, random, &text);
}

fn remove(buffer: &mut Vec<u8>, object: &Object, version: u64, random: u64) {
    let row = object.resource.row();
    let identity = [row.group, row.version, row.kind, &object.namespace, &object.name].join("\0");
    append(buffer, REMOVE, version, random, identity.as_bytes());
}

fn put(buffer: &mut Vec<u8>, object: &Object, random: u64) {
    append(buffer, PUT, object.resource_version, random, &object.served());
}

fn define(buffer: &mut Vec<u8>, resource: ResourceId, random: u64) {
    let row = resource.row();
    let definition = Definition {
        group: row.group.to_owned(),
        version: row.version.to_owned(),
        kind: row.kind.to_owned(),
        plural: row.plural.to_owned(),
        namespaced: row.namespaced,
    };
    // A struct of strings always serialises.
    let text = serde_json::to_vec(&definition).unwrap_or_default();
    append(buffer, DEFINE, 0, random, &text);
}

fn append(buffer: &mut Vec<u8>, tag: u8, version: u64, random: u64, body: &[u8]) {
    record::append(buffer, |payload| {
        payload.push(tag);
        payload.extend_from_slice(&version.to_le_bytes());
        payload.extend_from_slice(&random.to_le_bytes());
        payload.extend_from_slice(body);
    });
}

impl Contents {
    /// The kind of an object of this file.
    fn kind(&self, api_version: &str, kind: &str, has_namespace: bool) -> Option<ResourceId> {
        ResourceId::by_kind(api_version, kind).or_else(|| {
            let described = |id: &&ResourceId| {
                let row = id.row();
                row.kind == kind && row.namespaced == has_namespace && row.api_version() == api_version
            };
            self.defined.iter().rev().find(described).copied()
        })
    }

    /// Takes in a record.
    ///
    /// # Errors
    /// When it is none of a log; it is to be skipped.
    pub(crate) fn take(&mut self, payload: Bytes) -> Result<(), String> {
        let number = |range: std::ops::Range<usize>| {
            payload.get(range).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes)
        };
        let (Some(tag), Some(version), Some(random)) = (payload.first(), number(1..9), number(9..17)) else {
            return Err("a record is too short to be one, and was skipped".to_owned());
        };
        self.version = self.version.max(version);
        self.random = Some(random);
        let body = payload.slice(17..);
        match *tag {
            PUT => {
                let object =
                    Object::restore(body, |version, kind, has_namespace| self.kind(version, kind, has_namespace));
                let object = object.ok_or("a record holds no object, and was skipped")?;
                self.entries.push(Entry::Put(Arc::new(object)));
            }
            REMOVE | SNAPSHOT if body.is_empty() => {}
            REMOVE => {
                let identity = std::str::from_utf8(&body).map_err(|error| error.to_string())?;
                let [group, version, kind, namespace, name] = identity.split('\0').collect::<Vec<_>>()[..] else {
                    return Err("a removal names no object, and was skipped".to_owned());
                };
                let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
                let resource = self
                    .kind(&api_version, kind, !namespace.is_empty())
                    .ok_or_else(|| format!("a removal of an unknown kind {kind} was skipped"))?;
                self.entries.push(Entry::Remove { resource, namespace: namespace.to_owned(), name: name.to_owned() });
            }
            DEFINE => {
                let definition: Definition = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
                self.defined.push(definition.define());
            }
            BASE => {
                self.base = Some(serde_json::from_slice(&body).map_err(|error| error.to_string())?);
                self.entries.clear();
            }
            other => return Err(format!("a record of an unknown sort ({other}) was skipped")),
        }
        Ok(())
    }
}

impl Definition {
    /// Makes the kind known to this process, unless it is.
    fn define(&self) -> ResourceId {
        ResourceId::define(&CustomName {
            group: &self.group,
            version: &self.version,
            kind: &self.kind,
            plural: &self.plural,
            namespaced: self.namespaced,
        })
    }
}
