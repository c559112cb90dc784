//! The streams of a command on a WebSocket: one channel for each, a byte in front of every message says which.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go, …/util/httpstream/wsstream (v1.36)

use bytes::{BufMut, BytesMut};
use futures::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode};

use super::carried::{Channel, Heard, MAX_MESSAGE};

/// In version 5: the channel whose number follows is at its end.
const CLOSE: u8 = 255;

/// A WebSocket with a command's streams.
pub(super) struct Channels(WebSocketStream<TokioIo<Upgraded>>);

impl Channels {
    pub(super) async fn new(upgraded: Upgraded) -> Self {
        let config = WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
        Self(WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await)
    }

    pub(super) async fn send(&mut self, channel: Channel, text: &[u8]) -> Option<()> {
        let mut message = BytesMut::with_capacity(text.len() + 1);
        message.put_u8(number(channel));
        message.put_slice(text);
        self.0.send(Message::Binary(message.freeze())).await.ok()
    }

    pub(super) async fn hear(&mut self) -> Heard {
        let stdin = number(Channel::Stdin);
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

fn number(channel: Channel) -> u8 {
    match channel {
        Channel::Stdin => 0,
        Channel::Stdout => 1,
        Channel::Stderr => 2,
        Channel::Error => 3,
        Channel::Resize => 4,
    }
}
