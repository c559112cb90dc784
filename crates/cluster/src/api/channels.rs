//! The streams of a command on a WebSocket: one channel for each, a byte in front of every message says which.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go, …/util/httpstream/wsstream (v1.36)

use bytes::{BufMut, Bytes, BytesMut};
use futures::{SinkExt, StreamExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode};

use super::upgrade::Upgraded;

/// In bytes; a longer message ends the connection.
const MAX_MESSAGE: usize = 256 * 1024;
/// In version 5: the channel whose number follows is at its end.
const CLOSE: u8 = 255;

/// The streams of a command, by their numbers on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    Stdin = 0,
    Stdout = 1,
    Stderr = 2,
    /// How the command has ended.
    Error = 3,
}

/// What the client sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    Input(Bytes),
    /// The client types nothing more.
    EndOfInput,
    /// A new size of the client's window, or something else that changes nothing.
    Other,
    Gone,
}

/// A WebSocket with a command's streams.
pub(super) struct Channels(WebSocketStream<Upgraded>);

impl Channels {
    pub(super) async fn new(upgraded: Upgraded) -> Self {
        let config = WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
        Self(WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(config)).await)
    }

    pub(super) async fn send(&mut self, channel: Channel, text: &[u8]) -> Option<()> {
        let mut message = BytesMut::with_capacity(text.len() + 1);
        message.put_u8(channel as u8);
        message.put_slice(text);
        self.0.send(Message::Binary(message.freeze())).await.ok()
    }

    pub(super) async fn hear(&mut self) -> Heard {
        let stdin = Channel::Stdin as u8;
        match self.0.next().await {
            Some(Ok(Message::Binary(message))) => match message.first() {
                Some(&first) if first == stdin => Heard::Input(message.slice(1..)),
                Some(&CLOSE) if message.get(1) == Some(&stdin) => Heard::EndOfInput,
                _ => Heard::Other,
            },
            Some(Ok(Message::Close(_)) | Err(_)) | None => Heard::Gone,
            Some(Ok(_)) => Heard::Other,
        }
    }

    /// Says that nothing more comes.
    pub(super) async fn close(&mut self) {
        let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        let _ = self.0.close(Some(frame)).await;
    }
}
