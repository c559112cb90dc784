//! A client's end of SPDY/3.1 as far as commands need it; its headers are not compressed.

use std::collections::BTreeMap;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// How a compressor begins that has SPDY's dictionary.
const BEGINNING: [u8; 6] = [0x78, 0x20, 0xe3, 0xc6, 0xa7, 0xc2];
/// An empty block, after which a decompressor gives away what it has.
const FLUSH: [u8; 5] = [0, 0, 0, 0xff, 0xff];

/// A client with its streams.
pub(super) struct Client {
    connection: DuplexStream,
    streams: Vec<&'static str>,
}

impl Client {
    /// Makes the streams of these types, one after another, as clients do.
    pub(super) async fn new(connection: DuplexStream, streams: &[&'static str]) -> Self {
        let mut own = Self { connection, streams: Vec::new() };
        for kind in streams {
            own.begin(kind).await;
        }
        own
    }

    fn number(&self, kind: &str) -> u32 {
        let at = self.streams.iter().position(|stream| *stream == kind).unwrap();
        at as u32 * 2 + 1
    }

    async fn begin(&mut self, kind: &'static str) {
        let mut headers = 1_u32.to_be_bytes().to_vec();
        for text in ["streamtype", kind] {
            headers.extend((text.len() as u32).to_be_bytes());
            headers.extend(text.as_bytes());
        }
        let length = headers.len() as u16;
        let beginning = if self.streams.is_empty() { &BEGINNING[..] } else { &[] };
        let block =
            [beginning, &[0], &length.to_le_bytes(), &(!length).to_le_bytes(), headers.as_slice(), &FLUSH].concat();
        self.streams.push(kind);
        let stream = self.number(kind);
        let body = [stream.to_be_bytes().as_slice(), &[0; 6], &block].concat();
        let head = [&[0x80, 3, 0, 1][..], &(body.len() as u32).to_be_bytes(), &body].concat();
        self.connection.write_all(&head).await.unwrap();
        let (first, _, reply) = self.frame().await.unwrap();
        assert_eq!((first, &reply[..4]), (0x8003_0002, stream.to_be_bytes().as_slice()), "{kind} is not taken");
    }

    /// Writes to a stream, and closes it where nothing follows.
    pub(super) async fn write(&mut self, kind: &str, text: &[u8], fin: bool) {
        let length = u32::from(fin) << 24 | text.len() as u32;
        let frame = [&self.number(kind).to_be_bytes(), &length.to_be_bytes(), text].concat();
        self.connection.write_all(&frame).await.unwrap();
    }

    /// The first word of a frame, its flags, what is in it; none where the connection has ended.
    async fn frame(&mut self) -> Option<(u32, u8, Vec<u8>)> {
        let first = self.connection.read_u32().await.ok()?;
        let second = self.connection.read_u32().await.unwrap();
        let mut body = vec![0; (second & 0x00ff_ffff) as usize];
        self.connection.read_exact(&mut body).await.unwrap();
        Some((first, (second >> 24) as u8, body))
    }

    /// What comes on each stream until the server goes away, having closed every stream.
    pub(super) async fn rest(mut self) -> BTreeMap<&'static str, Vec<u8>> {
        let mut said: BTreeMap<&'static str, Vec<u8>> =
            self.streams.iter().map(|stream| (*stream, Vec::new())).collect();
        let mut open = self.streams.clone();
        while let Some((first, flags, body)) = self.frame().await {
            if first == 0x8003_0007 {
                assert_eq!((open, body[4..].to_vec()), (Vec::new(), vec![0; 4]));
                return said;
            }
            let stream = self.streams[(first as usize - 1) / 2];
            said.entry(stream).or_default().extend(body);
            if flags & 1 == 1 {
                open.retain(|open| *open != stream);
            }
        }
        panic!("the server has not said that it goes away")
    }
}
