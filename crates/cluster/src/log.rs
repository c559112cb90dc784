//! The file that makes a cluster outlive its process: every acknowledged write is appended before it is acknowledged.
//!
//! What survives what:
//! - The process is killed (SIGKILL included): every acknowledged write is there, because write(2) has handed it to
//!   the kernel before the answer goes out. There is no fsync per write.
//! - The machine loses power: at most the writes since the last [`Log::sync`] are lost, which the server calls about
//!   once a second; snapshots are synced before they take the log's place.
//! - A record torn by either is found by its length and checksum, dropped, and reported.
//! - Damage in the middle of the file: the file is kept aside under another name, everything readable before and after
//!   the damage is restored, and the damage is reported.
//!
//! The file is a sequence of records: `KREC`, length, CRC-32, payload. A payload is a tag, the resourceVersion, the
//! state of the random numbers, and: the object's JSON (tag 1, a version of an object), its identity (tag 2, the end
//! of an object), or a row of the table of resources (tag 3, a kind defined at run time, before its first object).

use std::collections::{BTreeSet, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::object::Object;
use super::resource::{CustomName, ResourceId};

const START: &[u8; 4] = b"KREC";
const HEADER: usize = 12;
/// No record is longer: an object is at most a few MiB.
const LONGEST: usize = 64 << 20;
/// A log is compacted when it is this many times the size of its last snapshot, and larger than [`SMALL`].
const GROWTH: u64 = 3;
const SMALL: u64 = 4 << 20;

const PUT: u8 = 1;
const REMOVE: u8 = 2;
const DEFINE: u8 = 3;

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
    /// Whether the file was damaged before its end, so that it must be rewritten.
    damaged: bool,
    /// The kinds that the file describes.
    defined: Vec<ResourceId>,
}

/// The open file.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: Arc<File>,
    /// Records of the running transaction.
    pending: Vec<u8>,
    /// The kinds that are described among them.
    pending_kinds: Vec<ResourceId>,
    /// Whether half a record may follow the last whole one.
    torn: bool,
    /// Bytes in the file.
    size: u64,
    /// Bytes the last snapshot took.
    snapshot: u64,
    described: HashSet<ResourceId>,
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
    /// When the file cannot be read or written. Damage is no error.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Contents)> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let (mut contents, good) = read(&Bytes::from(bytes));
        if contents.damaged {
            let aside = free_name(path);
            std::fs::rename(path, &aside)?;
            contents.notes.push(format!("the damaged file is kept as {}", aside.display()));
            file = options.open(path)?;
        } else {
            file.set_len(good)?;
            file.seek(SeekFrom::Start(good))?;
        }
        let size = if contents.damaged { 0 } else { good };
        let log = Self {
            path: path.to_owned(),
            file: Arc::new(file),
            pending: Vec::new(),
            pending_kinds: Vec::new(),
            torn: false,
            size,
            snapshot: size,
            described: HashSet::new(),
        };
        Ok((log, contents))
    }

    /// Makes the file anew, with what another cluster holds; it is on the disk when this returns.
    ///
    /// # Errors
    /// When the file cannot be written.
    #[cfg(feature = "server")]
    pub(crate) fn begin(path: &Path, objects: &[Arc<Object>], version: u64, random: u64) -> io::Result<Self> {
        let described = objects.iter().map(|object| object.resource).filter(|kind| kind.row().custom).collect();
        let mut file = write_snapshot(path, objects, &described, version, random)?;
        let size = file.stream_position()?;
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(file),
            pending: Vec::new(),
            pending_kinds: Vec::new(),
            torn: false,
            size,
            snapshot: size,
            described,
        })
    }

    /// Whether what was read must be rewritten with [`Log::compact`].
    pub(crate) fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// Adds a version of an object to the transaction.
    pub(crate) fn put(&mut self, object: &Object, random: u64) {
        self.describe(object.resource, random);
        put(&mut self.pending, object, random);
    }

    /// Adds the end of an object to the transaction.
    pub(crate) fn remove(&mut self, last: &Object, random: u64) {
        let row = last.resource.row();
        let identity = [row.group, row.version, row.kind, &last.namespace, &last.name].join("\0");
        record(&mut self.pending, REMOVE, last.resource_version, random, identity.as_bytes());
    }

    /// Hands the transaction to the kernel.
    ///
    /// # Errors
    /// When the file cannot be written; nothing of the transaction is in it then, nor ever will be.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let written = self.mend().and_then(|()| self.file.as_ref().write_all(&self.pending));
        if written.is_ok() {
            self.size += self.pending.len() as u64;
        } else {
            // Half a record would only be dropped at the next start, but the next write must not follow it.
            self.torn = true;
            let _ = self.mend();
            for kind in &self.pending_kinds {
                self.described.remove(kind);
            }
        }
        self.pending_kinds.clear();
        self.pending.clear();
        if self.pending.capacity() > 1 << 20 {
            self.pending = Vec::new();
        }
        written
    }

    /// Takes away what a write that failed may have left at the end of the file.
    fn mend(&mut self) -> io::Result<()> {
        if self.torn {
            let mut file = self.file.as_ref();
            file.set_len(self.size)?;
            file.seek(SeekFrom::Start(self.size))?;
            self.torn = false;
        }
        Ok(())
    }

    /// Puts another file in the place of the one written to, and returns that.
    #[cfg(test)]
    pub(crate) fn write_to(&mut self, file: Arc<File>) -> Arc<File> {
        std::mem::replace(&mut self.file, file)
    }

    /// The file, to be synced without holding the cluster's lock.
    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Whether the file has grown enough to be rewritten.
    pub(crate) fn is_due(&self) -> bool {
        self.size > SMALL && self.size > self.snapshot.saturating_mul(GROWTH)
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
        let mut old = File::open(&self.path)?;
        old.seek(SeekFrom::Start(since))?;
        let base = snapshot.stream_position()?;
        let after = io::copy(&mut old.take(self.size - since), &mut snapshot)?;
        snapshot.sync_all()?;
        std::fs::rename(self.snapshot_path(), &self.path)?;
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            File::open(folder)?.sync_all()?;
        }
        self.file = Arc::new(snapshot);
        self.size = base + after;
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

/// Writes all objects, and the kinds that were `described` before, into a new file at `path`, and syncs it. The file is left open at its end.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write_snapshot(
    path: &Path,
    objects: &[Arc<Object>],
    described: &HashSet<ResourceId>,
    version: u64,
    random: u64,
) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let mut buffer = Vec::with_capacity(1 << 20);
    // What is written after the snapshot relies on what the log described before.
    let own = objects.iter().map(|object| object.resource).filter(|kind| kind.row().custom);
    let kinds: BTreeSet<ResourceId> = described.iter().copied().chain(own).collect();
    for kind in kinds {
        define(&mut buffer, kind, random);
    }
    for object in objects {
        put(&mut buffer, object, random);
        if buffer.len() > 1 << 20 {
            file.write_all(&buffer)?;
            buffer.clear();
        }
    }
    // The highest version may be a deletion's: an empty removal carries it.
    record(&mut buffer, REMOVE, version, random, b"");
    file.write_all(&buffer)?;
    file.sync_all()?;
    Ok(file)
}

fn put(buffer: &mut Vec<u8>, object: &Object, random: u64) {
    record(buffer, PUT, object.resource_version, random, &object.json);
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
    record(buffer, DEFINE, 0, random, &text);
}

fn record(buffer: &mut Vec<u8>, tag: u8, version: u64, random: u64, body: &[u8]) {
    let start = buffer.len();
    buffer.extend_from_slice(START);
    buffer.extend_from_slice(&[0; 8]);
    buffer.push(tag);
    buffer.extend_from_slice(&version.to_le_bytes());
    buffer.extend_from_slice(&random.to_le_bytes());
    buffer.extend_from_slice(body);
    let payload = start + HEADER;
    let length = ((buffer.len() - payload) as u32).to_le_bytes();
    let checksum = crc32fast::hash(&buffer[payload..]).to_le_bytes();
    buffer[start + 4..start + 8].copy_from_slice(&length);
    buffer[start + 8..payload].copy_from_slice(&checksum);
}

/// Reads all records; also says where the last good one ends.
fn read(bytes: &Bytes) -> (Contents, u64) {
    let mut contents = Contents::default();
    let mut at = 0;
    while at < bytes.len() {
        if let Some(end) = whole_record(bytes, at) {
            if let Err(note) = contents.take(bytes.slice(at + HEADER..end)) {
                contents.notes.push(note);
            }
            at = end;
            continue;
        }
        // Damage or the torn end: is there anything good after it?
        let next = (at + 1..bytes.len().saturating_sub(HEADER)).find(|at| whole_record(bytes, *at).is_some());
        let Some(next) = next else {
            contents.notes.push(format!(
                "the last {} bytes are a record that was not written to its end; it was dropped",
                bytes.len() - at
            ));
            break;
        };
        contents.damaged = true;
        contents.notes.push(format!("{} bytes from byte {at} are damaged and were skipped", next - at));
        at = next;
    }
    (contents, at as u64)
}

/// Where the record at `at` ends, if there is a whole and sound one.
fn whole_record(bytes: &[u8], at: usize) -> Option<usize> {
    let header = bytes.get(at..at + HEADER)?;
    if &header[..4] != START {
        return None;
    }
    let number = |range: std::ops::Range<usize>| header[range].try_into().ok().map(u32::from_le_bytes);
    let length = usize::try_from(number(4..8)?).ok().filter(|length| *length <= LONGEST)?;
    let payload = bytes.get(at + HEADER..at + HEADER + length)?;
    (crc32fast::hash(payload) == number(8..12)?).then_some(at + HEADER + length)
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

    fn take(&mut self, payload: Bytes) -> Result<(), String> {
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
            REMOVE if body.is_empty() => {}
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

/// `cluster.log.damaged`, or with a number behind it.
fn free_name(path: &Path) -> PathBuf {
    let name = |suffix: String| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let first = name(".damaged".to_owned());
    if !first.exists() {
        return first;
    }
    (2..1000).map(|number| name(format!(".damaged-{number}"))).find(|path| !path.exists()).unwrap_or(first)
}
