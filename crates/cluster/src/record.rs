//! Records in a file, each with its length and its checksum: what was written whole is told from what was not, and a write
//! that was interrupted from a file that was altered.
//!
//! A record is `KREC`, the length, the CRC-32 and the bytes themselves.

use bytes::Bytes;

const START: &[u8; 4] = b"KREC";
const HEADER: usize = 12;
/// No record is longer: an object is at most a few MiB.
const LONGEST: usize = 64 << 20;

/// Adds a record of what `write` writes.
pub(crate) fn append(buffer: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
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

/// What reading a file of records found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Where the last good one ends.
    pub(crate) good: u64,
    /// Where the file first is not what was written, if it was altered or cut off before its first record.
    pub(crate) damaged: Option<u64>,
    /// What a person should know.
    pub(crate) notes: Vec<String>,
}

/// Gives `take` each whole record; what it cannot use is noted.
pub(crate) fn read(bytes: &Bytes, mut take: impl FnMut(Bytes) -> Result<(), String>) -> Found {
    let mut found = Found::default();
    let mut at = 0;
    while at < bytes.len() {
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
    written < end && end <= HEADER.saturating_add(LONGEST)
}

/// Where the record at `at` ends, if there is a whole and sound one.
fn whole(bytes: &[u8], at: usize) -> Option<usize> {
    let header = bytes.get(at..at + HEADER)?;
    if &header[..4] != START {
        return None;
    }
    let number = |range: std::ops::Range<usize>| header[range].try_into().ok().map(u32::from_le_bytes);
    let length = usize::try_from(number(4..8)?).ok().filter(|length| *length <= LONGEST)?;
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
