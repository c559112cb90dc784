//! Files of lines that only grow. Each line has a checksum that counts all lines before it, and beside the file stands how much of it is
//! on the disk for certain: what was altered, cut off or put in between is found, with its place.
//!
//! A process that is killed leaves at most one line without its end, which is cut off when the file is opened again. Lines of an
//! older klab have no checksum; they are taken as they are, and counted by those after them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ring::digest::{Context as Digest, SHA256};

use super::files::open_private_append;

/// Hexadecimal digits of a checksum.
const DIGITS: usize = 16;
/// What stands in a line of JSON before its checksum, and after it.
const FIELD: (&[u8], &[u8]) = (b",\"checksum\":\"", b"\"}");

/// Where a line has its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Before the entry, with a blank between them.
    Before,
    /// In the entry, an object of JSON, as its last field.
    Within,
}

/// The checksum of all lines so far.
#[derive(Clone)]
pub struct Chain {
    digest: Digest,
    lines: u64,
    bytes: u64,
}

impl Default for Chain {
    fn default() -> Self {
        Self { digest: Digest::new(&SHA256), lines: 0, bytes: 0 }
    }
}

impl Chain {
    /// Bytes of the lines so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn checksum(&self, covered: &[u8]) -> String {
        let mut digest = self.digest.clone();
        digest.update(covered);
        let all = digest.finish();
        all.as_ref().iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Takes in a line with its end.
    fn take(&mut self, line: &[u8]) {
        self.digest.update(line);
        self.lines += 1;
        self.bytes += line.len() as u64;
    }

    /// Takes in an entry; gives its line.
    pub fn line(&mut self, entry: &[u8], form: Form) -> Vec<u8> {
        let line = match form {
            Form::Before => [self.checksum(entry).as_bytes(), b" ", entry, b"\n"].concat(),
            Form::Within => {
                let covered = entry.strip_suffix(b"}").unwrap_or(entry);
                [covered, FIELD.0, self.checksum(covered).as_bytes(), FIELD.1, b"\n"].concat()
            }
        };
        self.take(&line);
        line
    }
}

/// How much of a file is on the disk.
#[derive(Debug, PartialEq, Eq)]
pub struct Mark {
    bytes: u64,
    lines: u64,
    checksum: String,
}

impl Mark {
    /// All of these lines.
    pub fn of(chain: &Chain) -> Self {
        Self { bytes: chain.bytes, lines: chain.lines, checksum: chain.checksum(b"") }
    }

    /// The file beside one, for its mark.
    pub fn path(path: &Path) -> PathBuf {
        path.with_extension("end")
    }

    /// Always as long: it is written over the one before.
    pub fn text(&self) -> String {
        format!("{:020} {:020} {}\n", self.bytes, self.lines, self.checksum)
    }

    /// The mark in a file; none where it is missing, or was being made when the machine stopped.
    ///
    /// # Errors
    /// When it cannot be read, or is none.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        if text.is_empty() {
            return Ok(None);
        }
        let parts: Vec<&str> = text.split_whitespace().collect();
        let mark = match parts.as_slice() {
            [bytes, lines, checksum] => bytes.parse().ok().zip(lines.parse().ok()).map(|(bytes, lines)| Self {
                bytes,
                lines,
                checksum: (*checksum).to_owned(),
            }),
            _ => None,
        };
        let mark = mark.filter(|mark| mark.text() == text).ok_or_else(|| {
            let file = path.display();
            let words =
                format!("`{file}`, which says where it ends, is damaged; where the rest is whole, remove that file");
            refused(words)
        })?;
        Ok(Some(mark))
    }
}

/// The lines of a file.
pub struct CheckedLines<T> {
    /// The entries.
    pub entries: Vec<T>,
    /// Of all whole lines.
    pub chain: Chain,
    /// Where the last whole line ends.
    pub end: usize,
}

/// A line without its end, in its parts: checksum, what that covers beside the lines before, entry.
fn parts(bare: &[u8], form: Form) -> Option<(&[u8], &[u8], &[u8])> {
    let is_sum = |sum: &[u8]| sum.len() == DIGITS && sum.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    match form {
        Form::Before => {
            let (sum, rest) = bare.split_at_checked(DIGITS).filter(|(sum, _)| is_sum(sum))?;
            let entry = rest.strip_prefix(b" ")?;
            Some((sum, entry, entry))
        }
        Form::Within => {
            let before = bare.strip_suffix(FIELD.1)?;
            let (before, sum) = before.split_at_checked(before.len().checked_sub(DIGITS)?)?;
            let covered = before.strip_suffix(FIELD.0).filter(|_| is_sum(sum))?;
            Some((sum, covered, bare))
        }
    }
}

/// The refusal of a file that is not what was written to it.
fn refused(words: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words)
}

/// Reads the lines of a file, of which `parse` understands the entries.
///
/// # Errors
/// When a line is damaged or missing, or not understood.
pub fn read<T>(
    text: &[u8],
    mark: Option<&Mark>,
    form: Form,
    parse: impl Fn(&[u8]) -> Result<T, String>,
) -> io::Result<CheckedLines<T>> {
    let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last.saturating_add(1));
    let (mut chain, mut entries, mut is_checked) = (Chain::default(), Vec::new(), false);
    let compare = |chain: &Chain| match mark {
        Some(mark) if mark.lines == chain.lines && *mark != Mark::of(chain) => {
            let at = format!("line {} (byte {})", chain.lines, chain.bytes);
            let words = format!("{at}: up to here it is not what was written, which has {} bytes", mark.bytes);
            Err(refused(words))
        }
        _ => Ok(()),
    };
    compare(&chain)?;
    for line in text.get(..end).unwrap_or_default().split_inclusive(|byte| *byte == b'\n') {
        let place = format!("line {} (byte {})", chain.lines.saturating_add(1), chain.bytes);
        let damaged = |why: &str| refused(format!("{place}: {why}"));
        let bare = line.strip_suffix(b"\n").unwrap_or(line);
        let entry = match parts(bare, form) {
            Some((sum, covered, entry)) => {
                is_checked = true;
                if chain.checksum(covered).as_bytes() != sum {
                    return Err(damaged("it was changed, or a line before it was changed or is missing"));
                }
                entry
            }
            None if is_checked => return Err(damaged("it has no checksum, as the lines before it have")),
            None => bare,
        };
        if !entry.is_empty() {
            entries.push(parse(entry).map_err(|words| damaged(&words))?);
        }
        chain.take(line);
        compare(&chain)?;
    }
    if let Some(mark) = mark.filter(|mark| mark.lines > chain.lines || mark.bytes > chain.bytes) {
        return Err(refused(format!(
            "it ends with line {} (byte {}), and {} lines ({} bytes) were written: what follows is missing",
            chain.lines, chain.bytes, mark.lines, mark.bytes
        )));
    }
    Ok(CheckedLines { entries, chain, end })
}

/// A file of lines of JSON that is written to.
pub struct CheckedFile {
    file: File,
    path: PathBuf,
    chain: Chain,
}

impl CheckedFile {
    /// Opens the file at a path, for this user only; a line without its end is cut off.
    ///
    /// # Errors
    /// When the file system refuses, or the file is not what was written to it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = open_private_append(path)?;
        let mut text = Vec::new();
        // A device has no end.
        if file.metadata()?.is_file() {
            file.seek(SeekFrom::Start(0))?;
            file.read_to_end(&mut text)?;
        }
        let read = read(&text, Mark::read(&Mark::path(path))?.as_ref(), Form::Within, |_| Ok(()))?;
        if read.end < text.len() {
            file.set_len(read.end as u64)?;
        }
        Ok(Self { file, path: path.to_owned(), chain: read.chain })
    }

    /// Adds an object as a line.
    ///
    /// # Errors
    /// When the file system refuses; nothing of the line stays, if that can be done.
    pub fn append(&mut self, object: &[u8]) -> io::Result<()> {
        let mut chain = self.chain.clone();
        let line = chain.line(object, Form::Within);
        let written = self.file.write_all(&line);
        match written {
            Ok(()) => self.chain = chain,
            Err(_) => drop(self.file.set_len(self.chain.bytes)),
        }
        written
    }

    /// What puts all lines so far on the disk, and notes that they are there: it waits for the disk, and the file may grow meanwhile.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    pub fn syncing(&self) -> io::Result<impl FnOnce() -> io::Result<()> + use<>> {
        let (file, mark, text) = (self.file.try_clone()?, Mark::path(&self.path), Mark::of(&self.chain).text());
        Ok(move || {
            file.sync_data()?;
            let mark = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(mark)?;
            mark.write_all_at(text.as_bytes(), 0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(lines: usize) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut file = CheckedFile::open(&path).unwrap();
        for number in 0..lines {
            file.append(format!("{{\"number\":{number}}}").as_bytes()).unwrap();
        }
        file.syncing().unwrap()().unwrap();
        (folder, path)
    }

    fn numbers(path: &Path) -> io::Result<Vec<u64>> {
        let number = |line: &[u8]| {
            let line: serde_json::Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
            line["number"].as_u64().ok_or_else(|| "no number".to_owned())
        };
        let text = std::fs::read(path)?;
        Ok(read(&text, Mark::read(&Mark::path(path))?.as_ref(), Form::Within, number)?.entries)
    }

    #[test]
    fn every_byte_that_is_changed_and_every_end_that_is_missing_is_refused_with_its_place() {
        let (_folder, path) = written(8);
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(numbers(&path).unwrap(), (0..8).collect::<Vec<_>>());
        for at in 0..whole.len() {
            let mut text = whole.clone();
            text[at] ^= 1;
            std::fs::write(&path, &text).unwrap();
            let words = numbers(&path).unwrap_err().to_string();
            assert!(words.contains("line "), "byte {at}: {words}");
            assert!(CheckedFile::open(&path).is_err(), "byte {at}");
            assert_eq!(std::fs::read(&path).unwrap(), text, "what is refused stays as it is");
        }
        for end in 0..whole.len() {
            std::fs::write(&path, &whole[..end]).unwrap();
            assert!(numbers(&path).unwrap_err().to_string().contains("missing"), "{end}");
        }
    }

    #[test]
    fn half_a_line_is_cut_off_and_lines_without_checksums_are_taken_before_those_with() {
        let (_folder, path) = written(2);
        let whole = std::fs::read(&path).unwrap();
        for torn in [&b"{\"number\":"[..], b"{", b"{\"number\":2,\"checksum\":\"0123456789abcdef\"}"] {
            std::fs::write(&path, [&whole[..], torn].concat()).unwrap();
            drop(CheckedFile::open(&path).unwrap());
            assert_eq!(std::fs::read(&path).unwrap(), whole);
        }
        std::fs::remove_file(Mark::path(&path)).unwrap();
        std::fs::write(&path, "{\"number\":0}\n").unwrap();
        CheckedFile::open(&path).unwrap().append(b"{\"number\":1}").unwrap();
        assert_eq!(numbers(&path).unwrap(), [0, 1]);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replacen("\"number\":0", "\"number\":9", 1)).unwrap();
        assert!(numbers(&path).unwrap_err().to_string().starts_with("line 2 "));
        std::fs::write(&path, format!("{text}{{\"number\":2}}\n")).unwrap();
        assert!(numbers(&path).unwrap_err().to_string().starts_with("line 3 "));
    }
}
