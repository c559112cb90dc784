//! The streams of `kubectl exec` on a WebSocket: one channel for each, a byte in front of every message says which.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go, …/util/httpstream/wsstream (v1.36)

use bytes::{BufMut, Bytes, BytesMut};
use futures::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
/// In version 5: the channel whose number follows is at its end.
const CLOSE: u8 = 255;
/// No longer message is taken.
const MAX_MESSAGE: usize = 256 * 1024;

/// The first protocol: how a command has ended it says in words, and only where it failed.
const FIRST: &str = "channel.k8s.io";
/// Protocols that are spoken, the best first.
pub(super) const PROTOCOLS: [&str; 3] = ["v5.channel.k8s.io", "v4.channel.k8s.io", FIRST];

/// What the other end says.
#[derive(Debug)]
pub(super) enum Heard {
    Input(Bytes),
    /// Nothing more is typed.
    EndOfInput,
    /// The window has another size, or something that is of no concern.
    Other,
    Gone,
}

/// The streams of a command that is executed.
pub(super) struct Terminal {
    socket: WebSocketStream<TokioIo<Upgraded>>,
    tty: bool,
    protocol: &'static str,
}

impl Terminal {
    pub(super) async fn new(upgraded: Upgraded, tty: bool, protocol: &'static str) -> Self {
        let config = WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
        let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
        Self { socket, tty, protocol }
    }

    async fn send(&mut self, channel: u8, text: &[u8]) -> Option<()> {
        let mut message = BytesMut::with_capacity(text.len() + 1);
        message.put_u8(channel);
        message.put_slice(text);
        self.socket.send(Message::Binary(message.freeze())).await.ok()
    }

    /// Prints; `None` when nobody is there any more. A terminal has but one stream, and its lines end as terminals want it.
    pub(super) async fn print(&mut self, is_error: bool, text: &[u8]) -> Option<()> {
        if !self.tty {
            return self.send(if is_error { STDERR } else { STDOUT }, text).await;
        }
        let mut out = Vec::with_capacity(text.len() + 16);
        for byte in text {
            if *byte == b'\n' {
                out.push(b'\r');
            }
            out.push(*byte);
        }
        self.send(STDOUT, &out).await
    }

    pub(super) async fn hear(&mut self) -> Heard {
        match self.socket.next().await {
            Some(Ok(Message::Binary(message))) => match message.first() {
                Some(&STDIN) => Heard::Input(message.slice(1..)),
                Some(&CLOSE) if message.get(1) == Some(&STDIN) => Heard::EndOfInput,
                _ => Heard::Other,
            },
            Some(Ok(Message::Close(_)) | Err(_)) | None => Heard::Gone,
            Some(Ok(_)) => Heard::Other,
        }
    }

    /// Says how the command has ended, and hangs up.
    pub(super) async fn end(mut self, status: &Value) {
        let text = match self.protocol {
            FIRST if status["status"] == "Success" => String::new(),
            FIRST => status["message"].as_str().unwrap_or_default().to_owned(),
            _ => status.to_string(),
        };
        if text.is_empty() || self.send(ERROR, text.as_bytes()).await.is_some() {
            let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
            let _ = self.socket.close(Some(frame)).await;
            // The other end closes; what it says before is of no concern.
            let _ = tokio::time::timeout(std::time::Duration::from_secs(2), async {
                while !matches!(self.hear().await, Heard::Gone) {}
            })
            .await;
        }
    }
}

/// The status of a command that has ended with an exit code.
// upstream: k8s.io/kubelet/pkg/cri/streaming/remotecommand/exec.go ServeExec (v1.36)
pub(super) fn ended(code: i64) -> Value {
    if code == 0 {
        return json!({ "metadata": {}, "status": "Success" });
    }
    json!({
        "metadata": {}, "status": "Failure", "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "reason": "NonZeroExitCode",
        "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
    })
}

/// The status of a command that could not be executed.
pub(super) fn failed(message: &str) -> Value {
    json!({
        "metadata": {}, "status": "Failure", "message": message, "reason": "InternalError",
        "details": { "causes": [{ "message": message }] }, "code": 500,
    })
}
