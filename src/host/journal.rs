//! What happened to a class, written down before anybody is told: one entry a line, on disk when a write returns.
//!
//! Entries that come while the disk is busy are written and made durable together. A host that is killed leaves at most one
//! line without its end, of which nobody was told; it is cut off when the journal is read again.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Context, Error, Kind, Result};
use klab_cluster::server::files::{open_private_append, sync_folder};

/// Its file in the folder of a class.
pub const FILE: &str = "journal";

/// Entries that are made durable together.
const TOGETHER: usize = 256;

/// A journal that is written to.
#[derive(Clone)]
pub struct Journal {
    lines: mpsc::UnboundedSender<Line>,
}

struct Line {
    text: Vec<u8>,
    written: oneshot::Sender<Result<(), String>>,
}

/// An entry on its way to the disk.
pub struct Written(oneshot::Receiver<Result<(), String>>);

impl Written {
    /// Returns when the entry is on disk.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn on_disk(self) -> Result<()> {
        let outcome = self.0.await.unwrap_or_else(|_| Err("the journal has ended".to_owned()));
        outcome.map_err(|words| Error::message(Kind::Outside, format!("could not write the class's journal: {words}")))
    }
}

impl Journal {
    /// Opens the journal at a path, and gives what stands in it.
    ///
    /// # Errors
    /// When it cannot be read, or a line of it says nothing that this klab understands.
    pub fn open<T: DeserializeOwned>(path: &Path) -> Result<(Self, Vec<T>)> {
        let failed = || format!("could not use the journal `{}`", path.display());
        let mut file = open_private_append(path).kind(Kind::Outside, failed)?;
        let entries = read(&mut file).kind(Kind::Outside, failed)?;
        sync_folder(path.parent().unwrap_or(Path::new("."))).kind(Kind::Outside, failed)?;
        let (lines, queue) = mpsc::unbounded_channel();
        let writer = std::thread::Builder::new().name("journal".to_owned()).spawn(move || write_all(file, queue));
        writer.kind(Kind::Outside, failed)?;
        Ok((Self { lines }, entries))
    }

    /// Writes an entry; entries stand in the journal in the order of these calls.
    pub fn write(&self, entry: &impl Serialize) -> Written {
        let (written, outcome) = oneshot::channel();
        match serde_json::to_vec(entry) {
            Ok(mut text) => {
                text.push(b'\n');
                // Where the writer is gone, the receiver hears of it.
                let _ = self.lines.send(Line { text, written });
            }
            Err(error) => drop(written.send(Err(error.to_string()))),
        }
        Written(outcome)
    }
}

/// The entries of a journal. What a killed host left of a line is cut off.
fn read<T: DeserializeOwned>(file: &mut File) -> io::Result<Vec<T>> {
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let whole = whole(&text);
    if whole.len() < text.len() {
        file.set_len(whole.len() as u64)?;
        file.sync_data()?;
    }
    entries(whole)
}

/// What stands in the journal at a path, which another process may be writing.
///
/// # Errors
/// When it cannot be read, or a line of it says nothing that this klab understands.
pub fn look<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let text = std::fs::read(path).and_then(|text| entries(whole(&text)));
    text.kind(Kind::Outside, || format!("could not read the journal `{}`", path.display()))
}

/// The lines that have their end.
fn whole(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last.saturating_add(1));
    text.get(..end).unwrap_or_default()
}

fn entries<T: DeserializeOwned>(text: &[u8]) -> io::Result<Vec<T>> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let entry = |(number, line): (usize, &[u8])| {
        let damaged = |error| io::Error::other(format!("line {}: {error}", number.saturating_add(1)));
        serde_json::from_slice(line).map_err(damaged)
    };
    lines.enumerate().map(entry).collect()
}

fn write_all(mut file: File, mut queue: mpsc::UnboundedReceiver<Line>) {
    // After a failed write nobody knows what is on disk: nothing is taken for written any more.
    let mut broken: Option<String> = None;
    let mut lines = Vec::new();
    while queue.blocking_recv_many(&mut lines, TOGETHER) > 0 {
        let text: Vec<u8> = lines.iter().flat_map(|line| line.text.iter().copied()).collect();
        if broken.is_none() {
            broken = file.write_all(&text).and_then(|()| file.sync_data()).err().map(|error| error.to_string());
        }
        for line in lines.drain(..) {
            // Nobody may wait for it any more.
            let _ = line.written.send(broken.clone().map_or(Ok(()), Err));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn what_was_written_is_read_again_and_half_a_line_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (journal, entries) = Journal::open::<u32>(&path).unwrap();
        assert_eq!(entries, Vec::<u32>::new());
        let written: Vec<Written> = (0..100).map(|number: u32| journal.write(&number)).collect();
        for one in written {
            block(one.on_disk()).unwrap();
        }
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for torn in ["7", "7\n{", "7\n12"] {
            let mut text = whole.clone();
            text.extend(torn.as_bytes());
            std::fs::write(&path, &text).unwrap();
            let kept = torn.matches('\n').count();
            let seen = look::<u32>(&path).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), text, "who only looks changes nothing");
            let (_, entries) = Journal::open::<u32>(&path).unwrap();
            assert_eq!((seen.len(), entries.len()), (100 + kept, 100 + kept), "{torn:?}");
            assert!(std::fs::read(&path).unwrap().ends_with(b"\n"));
        }
        std::fs::write(&path, "1\nx\n2\n").unwrap();
        let error = Journal::open::<u32>(&path).err().unwrap();
        assert!(format!("{error}").contains("line 2"), "{error}");
    }
}
