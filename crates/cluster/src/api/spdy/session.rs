//! Which streams there are, and what is heard on them; without I/O.

// upstream: github.com/moby/spdystream/connection.go, k8s.io/cri-streaming/pkg/streaming/remotecommand/httpstream.go
// waitForStreams (v1.36)

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::super::carried::{Channel, Heard, MAX_MESSAGE};
use super::frame::{Frame, Leave, Why, put_data, put_goaway, put_ping, put_reply, put_reset};
use super::headers::{Reader, Writer};
use super::malformed::Malformed;

/// The header that says what a stream is for.
const STREAM_TYPE: &str = "streamtype";
/// So many streams may be asked for, most of them in vain: a command has five.
const MAX_STREAMS: usize = 32;

/// So many pieces of input wait for the last stream.
const MAX_WAITING: usize = 1024;

/// A stream that was taken.
struct Stream {
    id: u32,
    channel: Channel,
    /// Whether its client has said all.
    heard: bool,
    /// Whether all is said to its client.
    said: bool,
}

/// The streams of a connection.
pub(super) struct Session {
    /// Streams that are still to come.
    wanted: Vec<Channel>,
    streams: Vec<Stream>,
    /// The last stream that was asked for, and how many there were.
    last: u32,
    asked: usize,
    reader: Reader,
    writer: Writer,
    /// What was heard, in order, and how many bytes that is.
    heard: VecDeque<Heard>,
    waiting: usize,
    /// What is to be sent.
    pub(super) out: BytesMut,
}

impl Session {
    pub(super) fn new(wanted: Vec<Channel>) -> Self {
        Self {
            wanted,
            streams: Vec::new(),
            last: 0,
            asked: 0,
            reader: Reader::new(),
            writer: Writer::default(),
            heard: VecDeque::new(),
            waiting: 0,
            out: BytesMut::new(),
        }
    }

    /// Whether all streams have come.
    pub(super) fn is_complete(&self) -> bool {
        self.wanted.is_empty()
    }

    /// The next thing that was heard.
    pub(super) fn heard(&mut self) -> Option<Heard> {
        let heard = self.heard.pop_front()?;
        if let Heard::Input(input) = &heard {
            self.waiting -= input.len();
        }
        Some(heard)
    }

    fn input(&mut self, data: Bytes) -> Result<(), Malformed> {
        self.waiting += data.len();
        // What has to wait does not keep what it came with.
        let data = if self.is_complete() { data } else { Bytes::copy_from_slice(&data) };
        self.heard.push_back(Heard::Input(data));
        // Clients make all streams before they write to one.
        if self.waiting > MAX_MESSAGE || self.heard.len() > MAX_WAITING {
            return Err(Malformed("too much is written before all streams are there"));
        }
        Ok(())
    }

    /// A frame has come.
    pub(super) fn take(&mut self, frame: Frame) -> Result<(), Malformed> {
        match frame {
            Frame::SynStream { stream, fin, headers } => {
                let kind = self.reader.read(&headers, STREAM_TYPE)?;
                self.begin(stream, kind.as_deref().and_then(channel))?;
                if fin {
                    self.end_of(stream);
                }
            }
            Frame::Headers { stream, fin, headers } => {
                self.reader.read(&headers, STREAM_TYPE)?;
                if fin {
                    self.end_of(stream);
                }
            }
            Frame::RstStream { stream } => {
                self.end_of(stream);
                if let Some(stream) = self.streams.iter_mut().find(|own| own.id == stream) {
                    stream.said = true;
                }
            }
            // An even number would be a ping of ours that comes back; there is none.
            Frame::Ping(id) if id % 2 == 1 => put_ping(&mut self.out, id),
            Frame::GoAway if self.heard.back() != Some(&Heard::Gone) => self.heard.push_back(Heard::Gone),
            Frame::Data { stream, fin, data } => {
                let open = self.streams.iter().find(|own| own.id == stream && !own.heard);
                match open.map(|own| own.channel) {
                    // What was sent before its sender knew that nobody hears it.
                    None if stream <= self.last => {}
                    None => put_reset(&mut self.out, stream, Why::Invalid),
                    Some(Channel::Stdin) if !data.is_empty() => self.input(data)?,
                    Some(_) => {}
                }
                if fin {
                    self.end_of(stream);
                }
            }
            Frame::Ping(_) | Frame::GoAway | Frame::Other => {}
        }
        Ok(())
    }

    fn begin(&mut self, stream: u32, channel: Option<Channel>) -> Result<(), Malformed> {
        self.asked += 1;
        if self.asked > MAX_STREAMS {
            return Err(Malformed("there are too many streams"));
        }
        if stream.is_multiple_of(2) || stream <= self.last {
            return Err(Malformed("streams are not counted as a client does"));
        }
        self.last = stream;
        let place = channel.and_then(|channel| self.wanted.iter().position(|wanted| *wanted == channel));
        let Some(place) = place else {
            put_reset(&mut self.out, stream, Why::Refused);
            return Ok(());
        };
        let channel = self.wanted.remove(place);
        self.streams.push(Stream { id: stream, channel, heard: false, said: false });
        let headers = self.writer.none();
        put_reply(&mut self.out, stream, &headers);
        Ok(())
    }

    /// Nothing more comes on a stream.
    fn end_of(&mut self, stream: u32) {
        let Some(own) = self.streams.iter_mut().find(|own| own.id == stream && !own.heard) else { return };
        own.heard = true;
        if own.channel == Channel::Stdin {
            self.heard.push_back(Heard::EndOfInput);
        }
    }

    /// Says something on a stream; where its client does not listen, to nobody.
    pub(super) fn say(&mut self, channel: Channel, text: &[u8]) {
        if let Some(stream) = self.streams.iter().find(|own| own.channel == channel && !own.said) {
            put_data(&mut self.out, stream.id, text, false);
        }
    }

    /// Everything is said.
    pub(super) fn finish(&mut self) {
        for stream in self.streams.iter_mut().filter(|own| !own.said) {
            stream.said = true;
            put_data(&mut self.out, stream.id, &[], true);
        }
        put_goaway(&mut self.out, self.last, Leave::Done);
    }

    /// The other end does not speak as it should.
    pub(super) fn give_up(&mut self) {
        self.heard.push_back(Heard::Gone);
        put_goaway(&mut self.out, self.last, Leave::Protocol);
    }
}

/// What a stream is for.
fn channel(kind: &str) -> Option<Channel> {
    Some(match kind {
        "stdin" => Channel::Stdin,
        "stdout" => Channel::Stdout,
        "stderr" => Channel::Stderr,
        "error" => Channel::Error,
        "resize" => Channel::Resize,
        _ => return None,
    })
}
