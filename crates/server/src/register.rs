//! The register of a server: what it must know of its clusters without opening them, in one file.
//!
//! Which are copies, of which template and under which names, with their tokens; which are parked, until when at most,
//! and how much they hold. A copy without changes is nothing more than its entry here. The file is a sequence of
//! [records](klab_cluster::record), each a change of an entry; what is true of a cluster is what was said last. A record is handed
//! to the kernel before what it says is acknowledged, and is on the disk about a second later. A file that was altered, or is
//! shorter than what was on the disk, is refused with the position, and stays as it is.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::files::{sync_folder, write_private};
use klab_cluster::cluster::Base;
use klab_cluster::record;

/// File of the register in the server's folder.
const FILE: &str = "register.log";
/// The file is written again when it is this many times what it was then, and larger than [`SMALL`].
const GROWTH: u64 = 3;
const SMALL: u64 = 1 << 20;

/// What is known of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Entry {
    /// What it is a copy of; none of one that has a seed in its own folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) copy: Option<CopyOf>,
    /// Digest of its client certificate, if one was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) certificate: Option<String>,
    /// How it was put away; none while it is awake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parked: Option<Parked>,
}

/// Of what a cluster is a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CopyOf {
    #[serde(flatten)]
    pub(super) base: Base,
    /// Feeds names and uids from the beginning of the copy on; those of the template go on where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seed: Option<u64>,
    pub(super) token: String,
}

/// A cluster that is put away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Parked {
    /// When something is due in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) due: Option<Timestamp>,
    /// When it was last asked for anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) used: Option<Timestamp>,
    pub(super) objects: usize,
    pub(super) bytes: usize,
    pub(super) version: u64,
    /// Whether it has a log of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) written: bool,
}

/// A change of the register.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Note {
    /// What is known of a cluster from now on.
    Is(String, Entry),
    /// It is gone.
    Gone(String),
    /// It is put away.
    Parked(String, Parked),
    /// It is at work.
    Active(String),
    /// For which address the kubeconfigs were written.
    Place(String),
}

/// All that a register says.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) entries: BTreeMap<String, Entry>,
    pub(super) place: String,
    /// What a person should know.
    pub(super) notes: Vec<String>,
}

impl Contents {
    fn take(&mut self, note: Note) {
        match note {
            Note::Is(name, entry) => drop(self.entries.insert(name, entry)),
            Note::Gone(name) => drop(self.entries.remove(&name)),
            Note::Parked(name, parked) => self.entries.entry(name).or_default().parked = Some(parked),
            Note::Active(name) => self.entries.entry(name).or_default().parked = None,
            Note::Place(place) => self.place = place,
        }
    }
}

/// The open file.
pub(super) struct Register {
    path: PathBuf,
    open: Mutex<Open>,
    /// A thread that syncs the file holds this; one that only adds a note does not wait for the disk.
    durable: Mutex<()>,
}

struct Open {
    file: File,
    size: u64,
    /// Its size when it was last written again.
    least: u64,
    /// Where its mark stands, or soon will: what follows may not be on the disk.
    marked: u64,
}

/// The right to change the register, which one thread has at a time.
pub(super) struct Writing<'a>(MutexGuard<'a, Open>);

impl Register {
    /// Opens the register in a server's folder, or makes it.
    ///
    /// # Errors
    /// When the file cannot be read or written, or is not what was written; it then stays as it is.
    pub(super) fn open(state: &Path) -> io::Result<(Self, Contents)> {
        let path = state.join(FILE);
        let (bytes, is_new) = match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Bytes::new(), true),
            bytes => (Bytes::from(bytes?), false),
        };
        let mut contents = Contents::default();
        let found = record::read(&bytes, |payload| {
            let note = serde_json::from_slice(&payload).map_err(|error| format!("a record was skipped: {error}"))?;
            contents.take(note);
            Ok(())
        });
        // It is made under another name, with its mark: no crash leaves a file without one whole part.
        let cut_off = || (found.good == 0 && !is_new).then(|| "is cut off at byte 0".to_owned());
        if let Some(words) = found.refusal().or_else(cut_off) {
            let words = format!("`{}` {words}: put back a copy of it, or move it away", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, words));
        }
        contents.notes = found.notes;
        let (mut size, mut marked) = (found.good, found.marked.unwrap_or_default());
        if found.marked.is_none() {
            // It is new, or of a klab that made no marks.
            marked = size + record::MARK as u64;
            write_private(&path, &[&record::mark(marked), &bytes[..size as usize]].concat())?;
            size = marked;
        }
        let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
        file.set_len(size)?;
        file.seek(SeekFrom::Start(size))?;
        let open = Open { file, size, least: 0, marked };
        Ok((Self { path, open: Mutex::new(open), durable: Mutex::default() }, contents))
    }

    /// Whether a server's folder has one.
    pub(super) fn is_in(state: &Path) -> bool {
        state.join(FILE).is_file()
    }

    /// Removes the file.
    pub(super) fn remove(self) -> io::Result<()> {
        std::fs::remove_file(self.path)
    }

    /// Writes changes down, all or none of them.
    pub(super) fn note(&self, notes: impl IntoIterator<Item = Note>) -> io::Result<()> {
        self.write().note(notes)
    }

    /// The right to change it.
    pub(super) fn write(&self) -> Writing<'_> {
        Writing(self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes sure that all that was noted is on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        let _durable = self.durable();
        let (file, size, marked) = {
            let open = &mut *self.write().0;
            if open.marked == open.size {
                return Ok(());
            }
            (open.file.try_clone()?, open.size, std::mem::replace(&mut open.marked, open.size))
        };
        record::sync(&file, size, Some(marked))
    }

    fn durable(&self) -> MutexGuard<'_, ()> {
        self.durable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has grown enough to be written again.
    pub(super) fn is_due(&self) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.size > SMALL && open.size > open.least.saturating_mul(GROWTH)
    }

    /// Writes it again with nothing but what is true now, which `entries` says: all that was noted before it is asked, at
    /// least. It is on the disk when this returns.
    pub(super) fn rewrite(&self, place: &str, entries: impl FnOnce() -> Vec<(String, Entry)>) -> io::Result<()> {
        // A thread that notes something may hold what `entries` asks for, and a learner may wait for it: nothing of theirs is locked
        // while something is made or goes to the disk.
        let _durable = self.durable();
        let mut copied = self.write().0.size;
        let mut text = vec![0; record::MARK];
        append(&mut text, &Note::Place(place.to_owned()))?;
        for (name, entry) in entries() {
            append(&mut text, &Note::Is(name, entry))?;
        }
        // Under its own name it is found only when all of it is on the disk.
        let begun = text.len() as u64;
        text[..record::MARK].copy_from_slice(&record::mark(begun));
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
        file.write_all(&text)?;
        let mut old = File::open(&self.path)?;
        old.seek(SeekFrom::Start(copied))?;
        // What was noted meanwhile, but for the last moment.
        let noted = self.write().0.size;
        let mut size = begun + io::copy(&mut (&old).take(noted - copied), &mut file)?;
        copied = noted;
        file.as_file().sync_all()?;
        {
            let mut open = self.write().0;
            size += io::copy(&mut (&old).take(open.size - copied), &mut file)?;
            if size > begun {
                record::sync(file.as_file(), size, Some(begun))?;
            }
            open.file = file.persist(&self.path)?;
            (open.size, open.least, open.marked) = (size, size, size);
        }
        // What is noted from here on is made durable after this: `sync` waits.
        sync_folder(folder)
    }
}

impl Writing<'_> {
    /// Writes changes down, all or none of them.
    pub(super) fn note(&mut self, notes: impl IntoIterator<Item = Note>) -> io::Result<()> {
        let mut text = Vec::new();
        for note in notes {
            append(&mut text, &note)?;
        }
        let open = &mut *self.0;
        if let Err(error) = open.file.write_all(&text) {
            // Half a record would hide those behind it.
            open.file.set_len(open.size)?;
            open.file.seek(SeekFrom::Start(open.size))?;
            return Err(error);
        }
        open.size += text.len() as u64;
        Ok(())
    }
}

fn append(text: &mut Vec<u8>, note: &Note) -> io::Result<()> {
    let json = serde_json::to_vec(note)?;
    record::append(text, |payload| payload.extend_from_slice(&json));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(template: &str) -> Entry {
        let base = Base { template: template.to_owned(), renaming: klab_api_machinery::renaming::Renaming::default() };
        Entry { copy: Some(CopyOf { base, seed: None, token: "t".to_owned() }), ..Entry::default() }
    }

    #[test]
    fn what_was_noted_last_is_true_and_a_torn_end_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let (register, contents) = Register::open(folder.path()).unwrap();
        assert!(contents.entries.is_empty());
        let parked = Parked { objects: 3, ..Parked::default() };
        let notes = [
            Note::Is("a".to_owned(), entry("x")),
            Note::Is("b".to_owned(), entry("x")),
            Note::Parked("a".to_owned(), parked),
            Note::Gone("b".to_owned()),
            Note::Place("here".to_owned()),
        ];
        register.note(notes).unwrap();
        register.sync().unwrap();
        drop(register);
        let path = folder.path().join(FILE);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&whole[..], b"KREC\x09\0\0\0torn"].concat()).unwrap();
        let (register, contents) = Register::open(folder.path()).unwrap();
        assert_eq!(contents.entries.len(), 1);
        assert_eq!(contents.entries["a"].parked, Some(parked));
        assert_eq!((contents.place.as_str(), contents.notes.len()), ("here", 1));
        register.note([Note::Active("a".to_owned())]).unwrap();
        let (register, contents) = Register::open(folder.path()).unwrap();
        assert_eq!((contents.entries["a"].parked, contents.notes.len()), (None, 0));
        let entries: Vec<_> = contents.entries.into_iter().collect();
        register.rewrite("there", || entries.clone()).unwrap();
        register.note([Note::Is("c".to_owned(), entry("y"))]).unwrap();
        let (_, contents) = Register::open(folder.path()).unwrap();
        assert_eq!(contents.entries.keys().collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(contents.entries["a"], entries[0].1);
    }

    #[test]
    fn a_register_that_was_altered_or_cut_off_is_refused_where_it_is_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let (register, _) = Register::open(folder.path()).unwrap();
        register.rewrite("here", || vec![("a".to_owned(), entry("x")), ("b".to_owned(), entry("y"))]).unwrap();
        drop(register);
        let whole = std::fs::read(&path).unwrap();
        let start = |until: usize| whole[..until].windows(4).rposition(|bytes| bytes == b"KREC").unwrap();
        let last = start(whole.len());
        let mut altered = whole.clone();
        altered[last - 1] ^= 1;
        let refused = |text: &[u8], words: &str| {
            std::fs::write(&path, text).unwrap();
            let refused = Register::open(folder.path()).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(refused.contains(words), "{words}: {refused:?}");
            assert_eq!(std::fs::read(&path).unwrap(), text);
        };
        refused(&whole[..last + 20], &format!("cut off at byte {last}: {} bytes of it were on the disk", whole.len()));
        refused(&whole[..20], "cut off at byte 16");
        refused(b"", "cut off at byte 0");
        refused(&altered, &format!("damaged at byte {}", start(last)));
        refused(b"garbage", "damaged at byte 0");
        std::fs::write(&path, &whole).unwrap();
        let (register, contents) = Register::open(folder.path()).unwrap();
        assert_eq!(contents.entries.len(), 2);
        // What was noted since the file was written again is missed as soon as the disk has it, and not before.
        let length = || usize::try_from(std::fs::metadata(&path).unwrap().len()).unwrap();
        let mut ends = vec![length()];
        for name in ["c", "d", "e"] {
            register.note([Note::Is(name.to_owned(), entry("x"))]).unwrap();
            ends.push(length());
            if name == "d" {
                register.sync().unwrap();
            }
        }
        drop(register);
        let whole = std::fs::read(&path).unwrap();
        for end in &ends[..2] {
            refused(&whole[..*end], &format!("cut off at byte {end}: {} bytes of it were on the disk", ends[2]));
        }
        for (end, entries) in [(ends[2], 4), (ends[3], 5)] {
            std::fs::write(&path, &whole[..end]).unwrap();
            assert_eq!(Register::open(folder.path()).unwrap().1.entries.len(), entries);
        }
        // A klab before wrote no mark.
        std::fs::write(&path, &whole[record::MARK..]).unwrap();
        drop(Register::open(folder.path()).unwrap());
        assert_eq!(Register::open(folder.path()).unwrap().1.entries.len(), 5);
        let marked = std::fs::read(&path).unwrap();
        refused(&marked[..ends[2]], "cut off at byte ");
    }
}
