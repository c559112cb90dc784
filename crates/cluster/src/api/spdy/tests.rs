//! A client's end of SPDY: what is answered to it, and what becomes of one that does not speak as it should.

use bytes::{BufMut, BytesMut};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use zlib_rs::{Deflate, DeflateFlush, Inflate, InflateError, InflateFlush};

use super::super::carried::{Channel, Heard, MAX_MESSAGE};
use super::connection::Connection;
use super::dictionary::dictionary;
use super::frame::{Frame, next};
use super::headers::{Reader, Writer};
use super::malformed::Malformed;
use super::session::Session;

const ALL: [Channel; 5] = [Channel::Error, Channel::Stdin, Channel::Stdout, Channel::Stderr, Channel::Resize];

/// A client's compressor of headers, as Go's.
struct Compressor(Deflate);

impl Compressor {
    fn new() -> Self {
        let mut deflate = Deflate::new(9, true, 15);
        assert_eq!(deflate.set_dictionary(&dictionary()), Ok(0xe3c6_a7c2));
        Self(deflate)
    }

    fn deflate(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut out = vec![0; plain.len() + 1024];
        let before = self.0.total_out();
        self.0.compress(plain, &mut out, DeflateFlush::SyncFlush).unwrap();
        out.truncate((self.0.total_out() - before) as usize);
        out
    }

    fn headers(&mut self, pairs: &[(&str, &str)]) -> Vec<u8> {
        self.deflate(&block(pairs))
    }

    fn begin(&mut self, stream: u32, kind: &str) -> Vec<u8> {
        let headers = self.headers(&[("streamtype", kind)]);
        control(1, 0, &[stream.to_be_bytes().as_slice(), &[0; 6], &headers].concat())
    }
}

fn block(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut plain = (pairs.len() as u32).to_be_bytes().to_vec();
    for text in pairs.iter().flat_map(|(name, value)| [name, value]) {
        plain.extend_from_slice(&(text.len() as u32).to_be_bytes());
        plain.extend_from_slice(text.as_bytes());
    }
    plain
}

fn control(kind: u16, flags: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = BytesMut::new();
    frame.put_u16(0x8003);
    frame.put_u16(kind);
    frame.put_u32(u32::from(flags) << 24 | body.len() as u32);
    frame.put_slice(body);
    frame.to_vec()
}

fn data(stream: u32, flags: u8, text: &[u8]) -> Vec<u8> {
    let length = u32::from(flags) << 24 | text.len() as u32;
    [&stream.to_be_bytes(), &length.to_be_bytes(), text].concat()
}

/// Gives frames to a session that wants these streams.
fn told(wanted: &[Channel], bytes: &[u8]) -> Result<Session, Malformed> {
    let mut session = Session::new(wanted.to_vec());
    let mut come = BytesMut::from(bytes);
    while let Some(frame) = next(&mut come)? {
        session.take(frame)?;
    }
    Ok(session)
}

#[test]
fn headers_are_read_as_clients_compress_them() {
    let (mut compressor, mut reader) = (Compressor::new(), Reader::new());
    for kind in ["error", "stdin", "stdout", "stderr", "resize"] {
        let block = compressor.headers(&[("accept", "x"), ("streamtype", kind)]);
        assert_eq!(reader.read(&block, "streamtype"), Ok(Some(kind.to_owned())));
    }
    assert_eq!(reader.read(&compressor.headers(&[]), "streamtype"), Ok(None));
}

#[test]
fn replies_are_read_by_a_decompressor() {
    let (mut inflate, mut writer) = (Inflate::new(true, 15), Writer::default());
    for turn in 0..3 {
        let block = writer.none();
        let before = inflate.total_in();
        let mut out = [9; 16];
        let mut result = inflate.decompress(&block, &mut out, InflateFlush::SyncFlush);
        if turn == 0 {
            assert_eq!(result, Err(InflateError::NeedDict { dict_id: 0xe3c6_a7c2 }));
            inflate.set_dictionary(&dictionary()).unwrap();
            let read = (inflate.total_in() - before) as usize;
            result = inflate.decompress(&block[read..], &mut out, InflateFlush::SyncFlush);
        }
        assert!(result.is_ok(), "{result:?}");
        assert_eq!((inflate.total_in() - before, &out[..5]), (block.len() as u64, &[0, 0, 0, 0, 9][..]));
    }
}

#[test]
fn who_does_not_speak_spdy_is_told_so() {
    let plain = |plain: &[u8]| {
        let headers = Compressor::new().deflate(plain);
        control(1, 0, &[1_u32.to_be_bytes().as_slice(), &[0; 6], &headers].concat())
    };
    let syn = |headers: &[u8]| control(1, 0, &[1_u32.to_be_bytes().as_slice(), &[0; 6], headers].concat());
    let many: Vec<(String, String)> = (0..33).map(|number| (number.to_string(), String::new())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let mut crowd = Compressor::new();
    let crowd: Vec<u8> = (0..33).flat_map(|number| crowd.begin(number * 2 + 1, "none")).collect();
    let mut early = Compressor::new().begin(1, "stdin");
    for _ in 0..9 {
        early.extend(data(1, 0, &vec![7; 32 * 1024]));
    }
    let mut crumbs = Compressor::new().begin(1, "stdin");
    for _ in 0..1025 {
        crumbs.extend(data(1, 0, &[7]));
    }
    let mut backwards = Compressor::new();
    let backwards = [backwards.begin(3, "stdin"), backwards.begin(1, "error")].concat();
    let mut ended = Deflate::new(9, true, 15);
    ended.set_dictionary(&dictionary()).unwrap();
    let mut over = vec![0; 256];
    ended.compress(&block(&[]), &mut over, DeflateFlush::Finish).unwrap();
    over.truncate(ended.total_out() as usize);
    let twice = [syn(&over), control(8, 0, &[&1_u32.to_be_bytes()[..], &over].concat())].concat();
    let stale = [over.as_slice(), &[1, 2, 3]].concat();
    for (bytes, why) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "a frame is too long"),
        (vec![0x80, 2, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1], "a frame is of another version"),
        (vec![0x80, 3, 0, 1, 0, 0, 0x40, 1], "a frame is too long"),
        (vec![0, 0, 0, 1, 0, 4, 0, 1], "a frame is too long"),
        (data(0, 0, b"x"), "a frame belongs to no stream"),
        (control(1, 0, &[0; 9]), "a frame is not as long as its kind"),
        (control(1, 0, &[0; 10]), "a frame belongs to no stream"),
        (control(2, 0, &[0; 3]), "a frame is not as long as its kind"),
        (control(3, 0, &[0; 8]), "a frame belongs to no stream"),
        (control(3, 0, &[0, 0, 0, 1, 0, 0, 0]), "a frame is not as long as its kind"),
        (control(4, 0, &[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]), "settings are not as many as they say"),
        (control(4, 0, &[0xff; 4]), "settings are not as many as they say"),
        (control(6, 0, &[]), "a frame is not as long as its kind"),
        (control(7, 0, &[0; 4]), "a frame is not as long as its kind"),
        (control(8, 0, &[0; 2]), "a frame is not as long as its kind"),
        (control(9, 0, &[0; 12]), "a frame is not as long as its kind"),
        (syn(b"not compressed"), "headers are not compressed as they should be"),
        (syn(&[]), "headers end too soon"),
        (syn(&[0x78, 0x20, 1, 2, 3, 4, 0]), "headers need another dictionary"),
        (plain(&[0, 0, 0]), "headers end too soon"),
        (plain(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 7]), "headers end too soon"),
        (plain(&[0xff; 4]), "a stream has too many headers"),
        (plain(&block(&many)), "a stream has too many headers"),
        (plain(&[0, 0, 0, 0, 7]), "there is more than the headers"),
        (plain(&vec![0; 1024 * 1024]), "the headers of a stream are too long"),
        (syn(&stale), "there is more than the compressed headers"),
        (twice, "headers come after their end"),
        (Compressor::new().begin(2, "stdin"), "streams are not counted as a client does"),
        (backwards, "streams are not counted as a client does"),
        (crowd, "there are too many streams"),
        (early, "too much is written before all streams are there"),
        (crumbs, "too much is written before all streams are there"),
    ] {
        assert_eq!(told(&ALL, &bytes).err(), Some(Malformed(why)), "{bytes:02x?}");
    }
}

#[test]
fn what_is_of_no_concern_passes_and_what_nobody_wants_is_refused() {
    let mut compressor = Compressor::new();
    let come = [
        control(4, 1, &[0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 100]),
        control(9, 0, &[0, 0, 0, 0, 0, 0, 1, 0]),
        control(77, 0, b"what"),
        control(6, 0, &2_u32.to_be_bytes()),
        control(6, 0, &1_u32.to_be_bytes()),
        compressor.begin(1, "stdin"),
        compressor.begin(3, "stdin"),
        data(3, 0, b"lost"),
        compressor.begin(5, "elsewhere"),
        data(9, 0, b"lost"),
        control(8, 0, &[1_u32.to_be_bytes().as_slice(), &compressor.headers(&[("x", "y")])].concat()),
        data(1, 1, b"all"),
        data(1, 1, b"more"),
        control(7, 0, &[0; 8]),
        control(7, 0, &[0; 8]),
    ];
    let mut session = told(&[Channel::Stdin], &come.concat()).unwrap();
    let heard: Vec<Heard> = std::iter::from_fn(|| session.heard()).collect();
    assert_eq!(heard, [Heard::Input("all".into()), Heard::EndOfInput, Heard::Gone]);
    session.say(Channel::Stderr, b"to nobody");
    let reset = |stream: u32, why: u32| control(3, 0, &[stream.to_be_bytes(), why.to_be_bytes()].concat());
    let reply = control(2, 0, &[1_u32.to_be_bytes().as_slice(), &Writer::default().none()].concat());
    let said = [control(6, 0, &1_u32.to_be_bytes()), reply, reset(3, 3), reset(5, 3), reset(9, 2)].concat();
    assert_eq!(session.out.to_vec(), said);
}

/// A client that has made its streams, and has heard that they were taken.
async fn connected(wanted: &[(u32, &str, Channel)]) -> (DuplexStream, Connection<DuplexStream>) {
    let (mut client, server) = duplex(4096);
    let channels = wanted.iter().map(|(.., channel)| *channel).collect();
    let accepted = tokio::spawn(Connection::accept(server, channels));
    let mut compressor = Compressor::new();
    for (stream, kind, _) in wanted {
        client.write_all(&compressor.begin(*stream, kind)).await.unwrap();
        let Frame::Headers { stream: replied, .. } = read(&mut client).await else { panic!("no reply") };
        assert_eq!(replied, *stream);
    }
    (client, accepted.await.unwrap().unwrap())
}

async fn read(client: &mut DuplexStream) -> Frame {
    let mut come = BytesMut::new();
    loop {
        if let Some(frame) = next(&mut come).unwrap() {
            return frame;
        }
        // Byte by byte, so that nothing of the next frame is taken.
        come.put_u8(client.read_u8().await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn streams_carry_what_is_said_and_end() {
    let wanted = [(1, "error", Channel::Error), (3, "stdin", Channel::Stdin), (5, "stdout", Channel::Stdout)];
    let (mut client, mut connection) = connected(&wanted).await;
    client.write_all(&data(3, 0, b"typed")).await.unwrap();
    assert_eq!(connection.hear().await, Heard::Input("typed".into()));
    client.write_all(&data(3, 1, b"")).await.unwrap();
    assert_eq!(connection.hear().await, Heard::EndOfInput);
    let long = vec![b'x'; 40_000];
    let listener = tokio::spawn(async move {
        let mut text = Vec::new();
        let mut ended = Vec::new();
        loop {
            match read(&mut client).await {
                Frame::Data { stream: 5, fin: false, data } => text.extend_from_slice(&data),
                Frame::Data { stream, fin: true, data } if data.is_empty() => ended.push(stream),
                Frame::GoAway => return (text, ended),
                other => panic!("{other:?}"),
            }
        }
    });
    assert_eq!(connection.send(Channel::Stdout, &long).await, Some(()));
    connection.close().await;
    assert_eq!(connection.hear().await, Heard::Gone);
    assert_eq!(listener.await.unwrap(), (long, vec![1, 3, 5]));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_makes_no_streams_is_not_waited_for() {
    let (client, server) = duplex(4096);
    assert!(Connection::accept(server, ALL.to_vec()).await.is_none());
    drop(client);
    let (client, server) = duplex(4096);
    drop(client);
    assert!(Connection::accept(server, ALL.to_vec()).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_after_what_is_malformed() {
    let (mut client, mut connection) = connected(&[(1, "error", Channel::Error)]).await;
    client.write_all(&data(0, 0, b"")).await.unwrap();
    assert_eq!(connection.hear().await, Heard::Gone);
    assert_eq!(read(&mut client).await, Frame::GoAway);
    assert_eq!(connection.send(Channel::Error, b"x").await, None);
}

proptest! {
    /// Whatever comes, what is kept of it has a bound.
    #[test]
    fn no_bytes_do_harm(parts in prop::collection::vec(part(), 0..24)) {
        let mut compressor = Compressor::new();
        let mut bytes = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            match part {
                Part::Bytes(some) => bytes.extend_from_slice(some),
                Part::Control(kind, flags, body) => bytes.extend(control(*kind, *flags, body)),
                Part::Data(stream, flags, text) => bytes.extend(data(*stream, *flags, text)),
                Part::Begin(kind) => bytes.extend(compressor.begin(number as u32 * 2 + 1, kind)),
            }
        }
        if let Ok(mut session) = told(&ALL, &bytes) {
            let heard: usize = std::iter::from_fn(|| session.heard()).map(|heard| match heard {
                Heard::Input(input) => input.len(),
                _ => 1,
            }).sum();
            prop_assert!(heard <= MAX_MESSAGE + ALL.len());
            prop_assert!(session.out.len() <= 64 * parts.len());
        }
    }
}

#[derive(Debug, Clone)]
enum Part {
    Bytes(Vec<u8>),
    Control(u16, u8, Vec<u8>),
    Data(u32, u8, Vec<u8>),
    Begin(&'static str),
}

fn part() -> impl Strategy<Value = Part> {
    let some = || prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        1 => some().prop_map(Part::Bytes),
        4 => (0_u16..12, any::<u8>(), some()).prop_map(|(kind, flags, body)| Part::Control(kind, flags, body)),
        4 => (0_u32..12, any::<u8>(), some()).prop_map(|(stream, flags, text)| Part::Data(stream, flags, text)),
        4 => prop::sample::select(vec!["stdin", "stdout", "stderr", "error", "resize", "x"]).prop_map(Part::Begin),
    ]
}
