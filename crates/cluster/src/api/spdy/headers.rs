//! The headers of SPDY/3's streams, all of which go through one compressor in each direction.

// upstream: github.com/moby/spdystream/spdy/read.go parseHeaderValueBlock

use bytes::Buf;
use zlib_rs::{Inflate, InflateError, InflateFlush, Status};

use super::dictionary::dictionary;
use super::malformed::Malformed;

/// So long are the headers of a stream at most. Those of clients have a few dozen bytes.
const MAX_BLOCK: usize = 8 * 1024;
/// So many headers has a stream at most.
const MAX_HEADERS: u32 = 32;

/// How every compressor begins: that it has the dictionary, by its checksum.
const BEGINNING: [u8; 6] = [0x78, 0x20, 0xe3, 0xc6, 0xa7, 0xc2];
/// No headers, not compressed, and an empty block after which a decompressor gives away what it has.
const NO_HEADERS: [u8; 14] = [0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// Reads the headers that come.
pub(super) struct Reader {
    inflate: Inflate,
    ended: bool,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self { inflate: Inflate::new(true, 15), ended: false }
    }

    /// The value of a header in the headers of a frame; all of them must be read in order.
    pub(super) fn read(&mut self, block: &[u8], wanted: &str) -> Result<Option<String>, Malformed> {
        let plain = self.inflate(block)?;
        let mut rest = plain.as_slice();
        let number = number(&mut rest)?;
        if number > MAX_HEADERS {
            return Err(Malformed("a stream has too many headers"));
        }
        let mut found = None;
        for _ in 0..number {
            let (name, value) = (text(&mut rest)?, text(&mut rest)?);
            if name.eq_ignore_ascii_case(wanted.as_bytes()) {
                found = Some(String::from_utf8_lossy(value).into_owned());
            }
        }
        if rest.is_empty() { Ok(found) } else { Err(Malformed("there is more than the headers")) }
    }

    fn inflate(&mut self, block: &[u8]) -> Result<Vec<u8>, Malformed> {
        if self.ended {
            return Err(Malformed("headers come after their end"));
        }
        let mut plain = vec![0; MAX_BLOCK];
        let (before_in, before_out) = (self.inflate.total_in(), self.inflate.total_out());
        loop {
            let read = (self.inflate.total_in() - before_in) as usize;
            let written = (self.inflate.total_out() - before_out) as usize;
            let (input, output) = (block.get(read..).unwrap_or_default(), plain.get_mut(written..).unwrap_or_default());
            match self.inflate.decompress(input, output, InflateFlush::SyncFlush) {
                Err(InflateError::NeedDict { .. }) => {
                    let set = self.inflate.set_dictionary(&dictionary());
                    set.map_err(|_| Malformed("headers need another dictionary"))?;
                    continue;
                }
                Err(_) => return Err(Malformed("headers are not compressed as they should be")),
                Ok(Status::StreamEnd) => self.ended = true,
                Ok(Status::Ok | Status::BufError) => {}
            }
            let now_read = (self.inflate.total_in() - before_in) as usize;
            let now_written = (self.inflate.total_out() - before_out) as usize;
            if now_written == MAX_BLOCK {
                return Err(Malformed("the headers of a stream are too long"));
            }
            if now_read == block.len() {
                plain.truncate(now_written);
                return Ok(plain);
            }
            if self.ended || (now_read, now_written) == (read, written) {
                return Err(Malformed("there is more than the compressed headers"));
            }
        }
    }
}

fn number(rest: &mut &[u8]) -> Result<u32, Malformed> {
    rest.try_get_u32().map_err(|_| Malformed("headers end too soon"))
}

fn text<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let length = number(rest)? as usize;
    let (text, after) = rest.split_at_checked(length).ok_or(Malformed("headers end too soon"))?;
    *rest = after;
    Ok(text)
}

/// Writes headers, of which replies have none.
#[derive(Debug, Default)]
pub(super) struct Writer {
    begun: bool,
}

impl Writer {
    /// No headers, as they go over the wire.
    pub(super) fn none(&mut self) -> Vec<u8> {
        let beginning: &[u8] = if self.begun { &[] } else { &BEGINNING };
        self.begun = true;
        [beginning, &NO_HEADERS].concat()
    }
}
