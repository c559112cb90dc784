//! SPDY/3.1's frames as they come and go.

// upstream: github.com/moby/spdystream/spdy/read.go, write.go, types.go

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::super::carried::MAX_MESSAGE;
use super::malformed::Malformed;

/// The version of every control frame.
const VERSION: u16 = 3;
/// Control frames are small: a few headers are the most that they hold.
const MAX_CONTROL: usize = 16 * 1024;
/// What stands in front of every frame.
const HEAD: usize = 8;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const SETTINGS: u16 = 4;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;
const WINDOW_UPDATE: u16 = 9;
/// The flag of a frame that is the last one of its stream in its direction.
const FIN: u8 = 1;

/// Why a stream is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Invalid = 2,
    Refused = 3,
}

/// Why the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    Done = 0,
    Protocol = 1,
}

/// A frame of the other end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A stream begins.
    SynStream {
        stream: u32,
        fin: bool,
        headers: Bytes,
    },
    /// More headers of a stream, or a reply; they are read, as all headers go through one compressor.
    Headers {
        stream: u32,
        fin: bool,
        headers: Bytes,
    },
    /// A stream has ended in both directions.
    RstStream {
        stream: u32,
    },
    Ping(u32),
    GoAway,
    Data {
        stream: u32,
        fin: bool,
        data: Bytes,
    },
    /// Settings, windows, and what this version does not know.
    Other,
}

/// The next frame of what has come; none where it is not all there.
pub(super) fn next(come: &mut BytesMut) -> Result<Option<Frame>, Malformed> {
    let Some(mut head) = come.get(..HEAD) else { return Ok(None) };
    let (first, second) = (head.get_u32(), head.get_u32());
    let (flags, length) = ((second >> 24) as u8, (second & 0x00ff_ffff) as usize);
    let is_control = first & 0x8000_0000 != 0;
    if length > if is_control { MAX_CONTROL } else { MAX_MESSAGE } {
        return Err(Malformed("a frame is too long"));
    }
    if is_control && (first >> 16) as u16 & 0x7fff != VERSION {
        return Err(Malformed("a frame is of another version"));
    }
    if come.len() < HEAD + length {
        come.reserve(HEAD + length - come.len());
        return Ok(None);
    }
    come.advance(HEAD);
    let body = come.split_to(length).freeze();
    let fin = flags & FIN != 0;
    if is_control {
        return control(first as u16, fin, body).map(Some);
    }
    Ok(Some(Frame::Data { stream: named(first)?, fin, data: body }))
}

fn named(stream: u32) -> Result<u32, Malformed> {
    match stream & 0x7fff_ffff {
        0 => Err(Malformed("a frame belongs to no stream")),
        stream => Ok(stream),
    }
}

fn control(kind: u16, fin: bool, mut body: Bytes) -> Result<Frame, Malformed> {
    let (length, least, fixed) = match kind {
        SYN_STREAM => (body.len(), 10, false),
        SYN_REPLY | HEADERS | SETTINGS => (body.len(), 4, false),
        RST_STREAM | GOAWAY | WINDOW_UPDATE => (body.len(), 8, true),
        PING => (body.len(), 4, true),
        _ => return Ok(Frame::Other),
    };
    if length < least || (fixed && length != least) {
        return Err(Malformed("a frame is not as long as its kind"));
    }
    // At least four bytes are there, as was just seen.
    let first = body.get_u32();
    Ok(match kind {
        SYN_STREAM => Frame::SynStream { stream: named(first)?, fin, headers: body.split_off(6) },
        SYN_REPLY | HEADERS => Frame::Headers { stream: named(first)?, fin, headers: body },
        RST_STREAM => Frame::RstStream { stream: named(first)? },
        PING => Frame::Ping(first),
        GOAWAY => Frame::GoAway,
        SETTINGS if u64::from(first) * 8 != body.len() as u64 => {
            return Err(Malformed("settings are not as many as they say"));
        }
        _ => Frame::Other,
    })
}

fn put_control(out: &mut BytesMut, kind: u16, length: usize) {
    out.put_u16(0x8000 | VERSION);
    out.put_u16(kind);
    out.put_u32(length as u32);
}

/// The reply that takes a stream, with headers as they go over the wire.
pub(super) fn put_reply(out: &mut BytesMut, stream: u32, headers: &[u8]) {
    put_control(out, SYN_REPLY, 4 + headers.len());
    out.put_u32(stream);
    out.put_slice(headers);
}

pub(super) fn put_reset(out: &mut BytesMut, stream: u32, why: Why) {
    put_control(out, RST_STREAM, 8);
    out.put_u32(stream);
    out.put_u32(why as u32);
}

pub(super) fn put_ping(out: &mut BytesMut, id: u32) {
    put_control(out, PING, 4);
    out.put_u32(id);
}

pub(super) fn put_goaway(out: &mut BytesMut, last: u32, why: Leave) {
    put_control(out, GOAWAY, 8);
    out.put_u32(last);
    out.put_u32(why as u32);
}

/// Data of a stream, of which there must be less than 16 MiB.
pub(super) fn put_data(out: &mut BytesMut, stream: u32, data: &[u8], fin: bool) {
    out.put_u32(stream);
    out.put_u32(u32::from(fin) << 24 | data.len() as u32 & 0x00ff_ffff);
    out.put_slice(data);
}
