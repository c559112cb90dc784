//! What happened to a class, written down before any answer goes out: one entry a line, on disk when a write returns.
//!
//! Entries that come while the disk is busy are written and made durable together. A line is a checksum, which counts all lines
//! before it, a blank and the entry; lines of an older klab have none. What was acknowledged is noted beside the journal, so that
//! klab notices one that ends too early. A host that is killed leaves at most one line without its end, which was never acknowledged: it
//! is cut off when the journal is read again. A write that fails is cut off at once, and later ones are refused until the entries in
//! memory are taken back ([`Journal::recover`]).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};

use klab_operations::error::{Code, Context, Error, Result};
use klab_server::checked_lines::{self, Chain, CheckedLines, Form, Mark};
use klab_server::files::{open_private_append, sync_folder};

/// Its file in the folder of a class.
pub const FILE: &str = "journal";

/// Entries that are made durable together.
const TOGETHER: usize = 256;
/// What is written to see whether there is room: no line, and cut off at once.
const PROBE: [u8; 4096] = [b' '; 4096];
/// How long a disk may take until it is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// A journal that is written to.
#[derive(Clone)]
pub struct Journal {
    orders: mpsc::UnboundedSender<Order>,
}

/// What the thread is to do that has the file.
enum Order {
    Write(Line),
    Recover(std::sync::mpsc::Sender<io::Result<Option<Vec<u8>>>>),
    Probe(oneshot::Sender<Result<(), String>>),
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
        outcome.map_err(|words| {
            Error::message(Code::ClassJournal, format!("could not write the class's journal: {words}"))
        })
    }
}

impl Journal {
    /// Opens the journal at a path, and gives what stands in it.
    ///
    /// # Errors
    /// When it cannot be read, a line of it is damaged or missing, or says nothing that this klab understands.
    pub fn open<T: DeserializeOwned>(path: &Path) -> Result<(Self, Vec<T>)> {
        let failed = || format!("could not use the journal `{}`", path.display());
        let opened = || -> io::Result<(Writer<Files>, Vec<T>)> {
            let mark = Mark::read(&Mark::path(path))?;
            let mut files = Files::open(path)?;
            let mut text = files.read()?;
            let read = read(&text, mark.as_ref())?;
            if read.end < text.len() {
                text.truncate(read.end);
                files.cut(read.end as u64)?;
                files.sync()?;
            }
            sync_folder(path.parent().unwrap_or(Path::new(".")))?;
            Ok((Writer::new(files, read.chain), read.entries))
        };
        let (mut writer, entries) = opened().code(Code::ClassJournal, failed)?;
        let (orders, mut queue) = mpsc::unbounded_channel();
        let thread = std::thread::Builder::new().name("journal".to_owned()).spawn(move || {
            let mut waiting = Vec::new();
            while queue.blocking_recv_many(&mut waiting, TOGETHER) > 0 {
                writer.follow(waiting.drain(..));
            }
        });
        thread.code(Code::ClassJournal, failed)?;
        Ok((Self { orders }, entries))
    }

    /// Writes an entry; entries stand in the journal in the order of these calls.
    pub fn write(&self, entry: &impl Serialize) -> Written {
        let (written, outcome) = oneshot::channel();
        match serde_json::to_vec(entry) {
            // Where the writer is gone, the receiver hears of it.
            Ok(text) => drop(self.orders.send(Order::Write(Line { text, written }))),
            Err(error) => drop(written.send(Err(error.to_string()))),
        }
        Written(outcome)
    }

    /// After a write that failed: all that is written down, to begin again with; none where no write has failed. Nothing may be
    /// written meanwhile. It waits for the disk.
    ///
    /// # Errors
    /// When what failed cannot be cut off, or what stands before it cannot be read.
    pub fn recover<T: DeserializeOwned>(&self) -> Result<Option<Vec<T>>> {
        let failed = || "could not take back what could not be written to the class's journal".to_owned();
        let (answer, answered) = std::sync::mpsc::channel();
        drop(self.orders.send(Order::Recover(answer)));
        let text = answered.recv_timeout(PATIENCE).unwrap_or_else(|error| Err(io::Error::other(error)));
        let entries = text.and_then(|text| text.map(|text| read(&text, None)).transpose());
        Ok(entries.code(Code::ClassJournal, failed)?.map(|read| read.entries))
    }

    /// Whether there is room for more. The attempt leaves nothing behind.
    ///
    /// # Errors
    /// Why nothing can be written.
    pub async fn probe(&self) -> Result<(), String> {
        let (answer, answered) = oneshot::channel();
        drop(self.orders.send(Order::Probe(answer)));
        match tokio::time::timeout(PATIENCE, answered).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err("the journal has ended".to_owned()),
            Err(_) => Err("the disk does not answer".to_owned()),
        }
    }
}

/// What stands in the journal at a path, which another process may be writing.
///
/// # Errors
/// When it cannot be read, a line of it is damaged or missing, or says nothing that this klab understands.
pub fn look<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    // What is noted to be written was written before.
    let read = Mark::read(&Mark::path(path)).and_then(|mark| read(&std::fs::read(path)?, mark.as_ref()));
    Ok(read.code(Code::ClassJournal, || format!("could not read the journal `{}`", path.display()))?.entries)
}

fn read<T: DeserializeOwned>(text: &[u8], mark: Option<&Mark>) -> io::Result<CheckedLines<T>> {
    let parse = |entry: &[u8]| serde_json::from_slice(entry).map_err(|error| error.to_string());
    checked_lines::read(text, mark, Form::Before, parse)
}

/// Where a journal is kept.
trait Disk {
    fn append(&mut self, text: &[u8]) -> io::Result<()>;
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file to a length in bytes.
    fn cut(&mut self, bytes: u64) -> io::Result<()>;
    fn mark(&mut self, text: &str) -> io::Result<()>;
    fn read(&mut self) -> io::Result<Vec<u8>>;
}

/// A journal in files.
struct Files {
    journal: File,
    mark: File,
}

impl Files {
    fn open(path: &Path) -> io::Result<Self> {
        let mark = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(Mark::path(path))?;
        Ok(Self { journal: open_private_append(path)?, mark })
    }
}

impl Disk for Files {
    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        self.journal.write_all(text)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.journal.sync_data()
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.journal.set_len(bytes)
    }

    fn mark(&mut self, text: &str) -> io::Result<()> {
        self.mark.write_all_at(text.as_bytes(), 0)
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        self.journal.seek(SeekFrom::Start(0))?;
        self.journal.read_to_end(&mut text)?;
        Ok(text)
    }
}

/// Who writes.
struct Writer<D> {
    disk: D,
    /// Of what was acknowledged.
    chain: Chain,
    /// Why the last write failed, until what it was about is taken back.
    failed: Option<String>,
}

impl<D: Disk> Writer<D> {
    fn new(disk: D, chain: Chain) -> Self {
        Self { disk, chain, failed: None }
    }

    fn follow(&mut self, orders: impl Iterator<Item = Order>) {
        let mut lines = Vec::new();
        for order in orders {
            if !matches!(order, Order::Write(_)) {
                self.write(std::mem::take(&mut lines));
            }
            // The caller may have gone.
            match order {
                Order::Write(line) => lines.push(line),
                Order::Recover(answer) => drop(answer.send(self.recover())),
                Order::Probe(answer) => drop(answer.send(self.probe().map_err(|error| error.to_string()))),
            }
        }
        self.write(lines);
    }

    fn write(&mut self, lines: Vec<Line>) {
        if lines.is_empty() {
            return;
        }
        if self.failed.is_none() {
            let mut chain = self.chain.clone();
            let text: Vec<u8> = lines.iter().flat_map(|line| chain.line(&line.text, Form::Before)).collect();
            match self.disk.append(&text).and_then(|()| self.disk.sync()) {
                Ok(()) => {
                    self.chain = chain;
                    // It only says more of what is on disk: the next one says so as well.
                    if let Err(error) = self.disk.mark(&Mark::of(&self.chain).text()) {
                        tracing::warn!(%error, "how far the class's journal goes could not be noted");
                    }
                }
                Err(error) => {
                    self.failed = Some(error.to_string());
                    // If that fails as well, it is done before anything else is written.
                    let _ = self.disk.cut(self.chain.bytes());
                }
            }
        }
        for line in lines {
            let _ = line.written.send(self.failed.clone().map_or(Ok(()), Err));
        }
    }

    fn recover(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.failed.is_none() {
            return Ok(None);
        }
        self.disk.cut(self.chain.bytes())?;
        let text = self.disk.read()?;
        self.failed = None;
        Ok(Some(text))
    }

    fn probe(&mut self) -> io::Result<()> {
        let tried = self.disk.append(&PROBE);
        self.disk.cut(self.chain.bytes())?;
        tried
    }
}

#[cfg(test)]
mod tests;
