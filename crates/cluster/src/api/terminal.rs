//! What somebody who executes a command has before them: its streams, on a WebSocket or by SPDY.

use std::time::Duration;

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::carried::{Channel, Heard};
use super::channels::Channels;
use super::offer::Offer;
use super::spdy::Connection;

/// So long what is printed waits for somebody who reads it.
const UNREAD: Duration = Duration::from_mins(15);
/// How long the other end may take to hang up.
const FAREWELL: Duration = Duration::from_secs(2);

/// What carries the streams.
enum Carrier {
    WebSocket(Box<Channels>),
    Spdy(Box<Connection<TokioIo<Upgraded>>>),
}

/// Which streams a client has asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
}

impl Asked {
    /// The streams that a client makes.
    // upstream: k8s.io/cri-streaming/pkg/streaming/remotecommand/httpstream.go createHTTPStreamStreams (v1.36)
    fn channels(self, resizes: bool) -> Vec<Channel> {
        let all = [
            (Channel::Error, true),
            (Channel::Stdin, self.stdin),
            (Channel::Stdout, self.stdout),
            (Channel::Stderr, self.stderr && !self.tty),
            (Channel::Resize, self.tty && resizes),
        ];
        all.into_iter().filter_map(|(channel, wanted)| wanted.then_some(channel)).collect()
    }
}

/// The streams of a command that is executed.
pub(super) struct Terminal {
    carrier: Carrier,
    tty: bool,
    /// Whether the end of the command is told as a Status, not in words and only where it failed.
    has_status: bool,
}

impl Terminal {
    /// The terminal on a connection that has changed to what was offered; none where its streams do not come.
    pub(super) async fn new(upgraded: Upgraded, offer: &Offer, asked: Asked) -> Option<Self> {
        let carrier = match offer {
            Offer::WebSocket { .. } => Carrier::WebSocket(Box::new(Channels::new(upgraded).await)),
            Offer::Spdy { .. } => {
                let channels = asked.channels(offer.resizes());
                Carrier::Spdy(Box::new(Connection::accept(TokioIo::new(upgraded), channels).await?))
            }
        };
        Some(Self { carrier, tty: asked.tty, has_status: offer.has_status() })
    }

    async fn send(&mut self, channel: Channel, text: &[u8]) -> Option<()> {
        let sent = async {
            match &mut self.carrier {
                Carrier::WebSocket(channels) => channels.send(channel, text).await,
                Carrier::Spdy(connection) => connection.send(channel, text).await,
            }
        };
        timeout(UNREAD, sent).await.ok()?
    }

    /// Prints; `None` when nobody is there any more. A terminal has but one stream, and its lines end as terminals want it.
    pub(super) async fn print(&mut self, is_error: bool, text: &[u8]) -> Option<()> {
        if !self.tty {
            return self.send(if is_error { Channel::Stderr } else { Channel::Stdout }, text).await;
        }
        let mut out = Vec::with_capacity(text.len() + 16);
        for byte in text {
            if *byte == b'\n' {
                out.push(b'\r');
            }
            out.push(*byte);
        }
        self.send(Channel::Stdout, &out).await
    }

    /// What the other end says next; nothing of it is lost where nobody waits for it any longer.
    pub(super) async fn hear(&mut self) -> Heard {
        match &mut self.carrier {
            Carrier::WebSocket(channels) => channels.hear().await,
            Carrier::Spdy(connection) => connection.hear().await,
        }
    }

    /// Says how the command has ended, and hangs up.
    pub(super) async fn end(mut self, status: &Value) {
        let text = match self.has_status {
            true => status.to_string(),
            false if status["status"] == "Success" => String::new(),
            false => status["message"].as_str().unwrap_or_default().to_owned(),
        };
        if !text.is_empty() && self.send(Channel::Error, text.as_bytes()).await.is_none() {
            return;
        }
        // The other end closes; what it says before is of no concern.
        let _ = timeout(FAREWELL, async {
            match &mut self.carrier {
                Carrier::WebSocket(channels) => channels.close().await,
                Carrier::Spdy(connection) => connection.close().await,
            }
            while !matches!(self.hear().await, Heard::Gone) {}
        })
        .await;
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
