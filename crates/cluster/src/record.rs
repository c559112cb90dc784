//! Records in a file, each with its length and its checksum: a reader knows what was written whole, and whether
//! a write was interrupted or the file altered.
//!
//! A record is `KREC`, the length, the CRC-32 and the bytes themselves. A file that grows begins with a mark: `KEND`, how many
//! bytes of the file were on the disk when the mark was written, and their CRC-32. Who writes the file moves the mark only after
//! the disk has taken what it says, so no crash leaves a file that is shorter than its mark.

use std::fs::File;
use std::io;

use bytes::Bytes;

/// Bytes of a mark.
pub const MARK: usize = 16;
const MARK_START: &[u8; 4] = b"KEND";
const START: &[u8; 4] = b"KREC";
const HEADER: usize = 12;
/// No record is longer: an object is at most a few MiB.
const MAX_LENGTH: usize = 64 << 20;

/// Adds a record of what `write` writes.
pub fn append(buffer: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = buffer.len();
    buffer.extend_from_slice(START);
    buffer.extend_from_slice(&[0; 8]);
    write(buffer);
    let payload = start + HEADER;
    let length = ((buffer.len() - payload) as u32).to_le_bytes();
    let checksum = crc32fast::hash(&buffer[payload..]).to_le_bytes();
    buffer[start + 4..start + 8].copy_from_slice(&length);
    buffer[start + 8..payload].copy_from_slice(&checksum);
}

/// The mark of a file that has this many bytes on the disk, the mark's own included.
pub fn mark(bytes: u64) -> [u8; MARK] {
    let mut mark = [0; MARK];
    mark[..4].copy_from_slice(MARK_START);
    mark[4..12].copy_from_slice(&bytes.to_le_bytes());
    let checksum = crc32fast::hash(&mark[..12]).to_le_bytes();
    mark[12..].copy_from_slice(&checksum);
    mark
}

/// Makes sure that a file is on the disk, of which `bytes` were written, and moves its mark there from where it was. A file of
/// an older klab has none.
pub fn sync(file: &File, bytes: u64, marked: Option<u64>) -> io::Result<()> {
    file.sync_data()?;
    // Elsewhere nothing writes without moving the place where others add to the file: the mark says too little.
    #[cfg(unix)]
    if marked.is_some_and(|marked| marked != bytes) {
        std::os::unix::fs::FileExt::write_all_at(file, &mark(bytes), 0)?;
    }
    Ok(())
}

/// What reading a file of records found.
#[derive(Debug, Default)]
pub struct Found {
    /// Where the last good one ends.
    pub good: u64,
    /// Where the file first is not what was written, if it was altered or cut off before its first record.
    pub damaged: Option<u64>,
    /// How much of it was on the disk for certain, as its mark says.
    pub marked: Option<u64>,
    /// What a person should know.
    pub notes: Vec<String>,
}

impl Found {
    /// Why the file is not what was written to it.
    pub fn refusal(&self) -> Option<String> {
        match (self.damaged, self.marked) {
            (Some(at), _) => Some(format!("is damaged at byte {at}")),
            (None, Some(marked)) if self.good < marked => {
                Some(format!("is cut off at byte {}: {marked} bytes of it were on the disk", self.good))
            }
            _ => None,
        }
    }
}

/// Gives `take` each whole record; what it cannot use is noted.
pub fn read(bytes: &Bytes, mut take: impl FnMut(Bytes) -> Result<(), String>) -> Found {
    let marked = bytes.get(4..12).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    let marked = marked.filter(|marked| bytes.starts_with(&mark(*marked)));
    let mut found = Found { marked, ..Found::default() };
    let mut at = marked.map_or(0, |_| MARK);
    let mut meets_mark = false;
    while at < bytes.len() {
        meets_mark |= marked == Some(at as u64);
        if let Some(end) = whole(bytes, at) {
            if let Err(note) = take(bytes.slice(at + HEADER..end)) {
                found.notes.push(note);
            }
            at = end;
            continue;
        }
        // Damage or the torn end: is there anything good after it?
        let next = (at + 1..bytes.len().saturating_sub(HEADER)).find(|at| whole(bytes, *at).is_some());
        let begun = at > 0 || bytes.starts_with(START);
        let torn = begun && next.is_none() && is_under_way(&bytes[at..]);
        if !torn {
            found.damaged.get_or_insert(at as u64);
        }
        let Some(next) = next else {
            found.notes.push(format!(
                "the last {} bytes are a record that was not written to its end; it was dropped",
                bytes.len() - at
            ));
            break;
        };
        found.notes.push(format!("{} bytes from byte {at} are damaged and were skipped", next - at));
        at = next;
    }
    found.good = at as u64;
    if !meets_mark && let Some(marked) = marked.filter(|marked| *marked < found.good) {
        // A record before it is missing, or is another one.
        found.damaged.get_or_insert(marked);
    }
    found
}

/// Whether this may be what an interrupted write has left of a record: its beginning. Where a machine lost its power, there
/// may be zeros instead of what the disk had not taken yet.
fn is_under_way(rest: &[u8]) -> bool {
    let written = rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let start = &rest[..written.min(START.len())];
    if !START.starts_with(start) {
        return false;
    }
    let length = rest.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    let Some(end) = length.and_then(|length| usize::try_from(length).ok()).map(|length| HEADER.saturating_add(length))
    else {
        return true;
    };
    written < end && end <= HEADER.saturating_add(MAX_LENGTH)
}

/// Where the record at `at` ends, if there is a whole and sound one.
fn whole(bytes: &[u8], at: usize) -> Option<usize> {
    let header = bytes.get(at..at + HEADER)?;
    if &header[..4] != START {
        return None;
    }
    let number = |range: std::ops::Range<usize>| header[range].try_into().ok().map(u32::from_le_bytes);
    let length = usize::try_from(number(4..8)?).ok().filter(|length| *length <= MAX_LENGTH)?;
    let payload = bytes.get(at + HEADER..at + HEADER + length)?;
    (crc32fast::hash(payload) == number(8..12)?).then_some(at + HEADER + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(texts: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for text in texts {
            append(&mut bytes, |payload| payload.extend_from_slice(text.as_bytes()));
        }
        bytes
    }

    fn damage(bytes: &[u8]) -> Option<u64> {
        read(&Bytes::copy_from_slice(bytes), |_| Ok(())).damaged
    }

    #[test]
    fn a_write_may_be_cut_anywhere_and_filled_with_zeros() {
        let (first, both) = (file(&["first"]), file(&["first", "second"]));
        for end in first.len()..both.len() {
            let cut = &both[..end];
            assert_eq!(damage(cut), None, "cut at {end}");
            let zeros = [cut, &[0; 100]].concat();
            assert_eq!(damage(&zeros), None, "cut at {end}, then zeros");
        }
    }

    #[test]
    fn what_a_mark_says_to_be_on_the_disk_is_there_or_missed() {
        let records = [&[][..], &["first"], &["first", "second"], &["first", "second", "third"]].map(file);
        let whole = &records[3];
        for on_disk in records.iter().map(|records| records.len() + MARK) {
            let begin = mark(on_disk as u64);
            let refusal = |rest: &[u8]| {
                let bytes = Bytes::from([&begin, rest].concat());
                read(&bytes, |_| Ok(())).refusal()
            };
            for end in 0..=whole.len() {
                let refused = refusal(&whole[..end]);
                assert_eq!(refused.is_some(), end + MARK < on_disk, "{on_disk} on the disk, cut at {end}: {refused:?}");
            }
            let without_second = [&whole[..records[1].len()], &whole[records[2].len()..], &file(&["another"])].concat();
            let is_missed = on_disk > records[1].len() + MARK;
            assert_eq!(refusal(&without_second).is_some(), is_missed, "{on_disk} on the disk");
        }
        for at in 0..MARK {
            let mut bytes = [&mark(MARK as u64)[..], &whole[..]].concat();
            bytes[at] ^= 0x55;
            assert_eq!(damage(&bytes), Some(0), "byte {at} of the mark");
        }
    }

    #[test]
    fn every_altered_byte_is_found_where_it_is() {
        let (good, ends) =
            (file(&["first", "second", "third"]), [file(&["first"]).len(), file(&["first", "second"]).len()]);
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 0x55;
            let record = ends.iter().rev().find(|end| **end <= at).copied().unwrap_or(0);
            let found = damage(&bytes);
            // The length of the last record may say that there is more of it.
            let grown = (ends[1] + 4..ends[1] + 8).contains(&at);
            assert!(found == Some(record as u64) || (grown && found.is_none()), "byte {at}: {found:?}");
        }
    }

    #[test]
    fn what_is_no_file_of_records_is_damaged_from_its_first_byte() {
        let zeros = [0; 5_000];
        for bytes in [&zeros[..], b"garbage"] {
            assert_eq!(damage(bytes), Some(0));
        }
        let behind = [&file(&["first"])[..], b"garbage"].concat();
        assert_eq!(damage(&behind), Some(file(&["first"]).len() as u64));
        assert_eq!(damage(b""), None);
    }
}
