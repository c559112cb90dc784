//! Records in a file, each with its length and its checksum: what was written whole is told from what was not.
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
    /// Whether something in the middle of the file is damaged, so that it must be written again.
    pub(crate) damaged: bool,
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
        let Some(next) = next else {
            found.notes.push(format!(
                "the last {} bytes are a record that was not written to its end; it was dropped",
                bytes.len() - at
            ));
            break;
        };
        found.damaged = true;
        found.notes.push(format!("{} bytes from byte {at} are damaged and were skipped", next - at));
        at = next;
    }
    found.good = at as u64;
    found
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
