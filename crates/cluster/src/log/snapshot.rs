//! A file that takes the place of a log: what the cluster holds, without how it came to that.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::ResourceId;

use super::{Base, REMOVE, SNAPSHOT, append, base, define, options, private_folder, put, remove};
use crate::record;

/// What a file is to hold that takes the place of a log.
#[derive(Debug, Default)]
pub(crate) struct Snapshot<'a> {
    /// What the cluster is a copy of; then `objects` and `removed` are what has changed since.
    pub(crate) base: Option<&'a Base>,
    /// The objects.
    pub(crate) objects: &'a [Arc<Object>],
    /// Objects of the base that are gone.
    pub(crate) removed: &'a [Arc<Object>],
    /// The kinds that the log described before: what is written after the snapshot relies on them.
    pub(crate) described: HashSet<ResourceId>,
    /// The highest resourceVersion.
    pub(crate) version: u64,
    /// The state of the random numbers.
    pub(crate) random: u64,
}

impl Snapshot<'_> {
    /// Writes it into a new file at `path`, and syncs it. The file is left open at its end.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> io::Result<File> {
        if self.base.is_some()
            && let Some(folder) = path.parent()
        {
            private_folder(folder)?;
        }
        let mut file = options().truncate(true).open(path)?;
        file.write_all(&record::mark(record::MARK as u64))?;
        self.write_to(&mut file)?;
        // Under its own name it is found only when all of it is on the disk.
        let size = file.stream_position()?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&record::mark(size))?;
        file.seek(SeekFrom::Start(size))?;
        file.sync_all()?;
        Ok(file)
    }

    /// Writes it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write_to(&self, file: &mut impl io::Write) -> io::Result<()> {
        let (version, random) = (self.version, self.random);
        let mut buffer = Vec::with_capacity(64 << 10);
        if let Some(of) = self.base {
            base(&mut buffer, of, version, random);
        }
        append(&mut buffer, SNAPSHOT, version, random, b"");
        let own = self.objects.iter().map(|object| object.resource).filter(|kind| kind.row().custom);
        let kinds: BTreeSet<ResourceId> = self.described.iter().copied().chain(own).collect();
        for kind in kinds {
            define(&mut buffer, kind, random);
        }
        for object in self.removed {
            remove(&mut buffer, object, version, random);
        }
        for object in self.objects {
            put(&mut buffer, object, random);
            if buffer.len() > 1 << 20 {
                file.write_all(&buffer)?;
                buffer.clear();
            }
        }
        // It carries the highest version, which may be a deletion's.
        append(&mut buffer, REMOVE, version, random, b"");
        file.write_all(&buffer)
    }
}
