//! Reads files that may be a stranger's: regular ones only, without waiting for anybody, up to a limit.

use std::fmt;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Why a file was not read.
#[derive(Debug)]
pub enum Unread {
    /// The system refuses.
    Failed(io::Error),
    /// It is something else than a file with an end: a folder, a pipe, a device.
    NotRegular(&'static str),
    /// It has more bytes than are taken.
    TooLarge(u64),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) if error.kind() == io::ErrorKind::NotFound => f.write_str("there is no such file"),
            Self::Failed(error) => error.fmt(f),
            Self::NotRegular(what) => write!(f, "it is {what}, not a file"),
            Self::TooLarge(most) => write!(f, "it is larger than {} MiB", most >> 20),
        }
    }
}

impl Unread {
    /// Whether it is a folder.
    pub fn is_folder(&self) -> bool {
        matches!(self, Self::NotRegular(what) if *what == FOLDER)
    }
}

const FOLDER: &str = "a directory";

/// The bytes of a regular file, at most `most`.
///
/// # Errors
/// When it is none, is larger, or cannot be read.
pub fn read_regular(path: &Path, most: u64) -> Result<Vec<u8>, Unread> {
    // Without waiting: opening a pipe without a writer would take for ever. The kind of file is read from the opened file.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file: File = opened.map_err(|error| match std::fs::metadata(path) {
        // Sockets cannot be opened at all.
        Ok(metadata) if !metadata.is_file() => Unread::NotRegular(named(metadata.file_type())),
        _ => Unread::Failed(error),
    })?;
    let metadata = file.metadata().map_err(Unread::Failed)?;
    if !metadata.is_file() {
        return Err(Unread::NotRegular(named(metadata.file_type())));
    }
    if metadata.len() > most {
        return Err(Unread::TooLarge(most));
    }
    // Files of /proc say that they are empty, and others grow while they are read.
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(Unread::Failed)?;
    if bytes.len() as u64 > most { Err(Unread::TooLarge(most)) } else { Ok(bytes) }
}

fn named(kind: FileType) -> &'static str {
    if kind.is_dir() {
        FOLDER
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read_and_nobody_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RUSR).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert_eq!(read_regular(&at("file"), 4).unwrap(), b"text");
        for (path, most, says) in [
            (at("file"), 3, "it is larger than 0 MiB"),
            (at("none"), 9, "there is no such file"),
            (at("pipe"), 9, "it is a pipe, not a file"),
            (at("socket"), 9, "it is a socket, not a file"),
            (at(""), 9, "it is a directory, not a file"),
            ("/dev/zero".into(), 9, "it is a device, not a file"),
            ("/proc/self/environ".into(), 0, "it is larger than 0 MiB"),
        ] {
            assert_eq!(read_regular(&path, most).unwrap_err().to_string(), says, "{}", path.display());
        }
    }
}
