//! The terminal of a client that executes a command: the command's streams on a WebSocket.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::channels::{Channel, Channels, Heard};
use super::subprotocol::Offer;
use super::upgrade::Upgraded;

/// So long what is printed waits for somebody who reads it.
const UNREAD: Duration = Duration::from_mins(15);
/// How long the other end may take to hang up.
const FAREWELL: Duration = Duration::from_secs(2);

/// Which streams a client has asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
}

/// The streams of a command that is executed.
pub(super) struct Terminal {
    channels: Channels,
    asked: Asked,
    /// Whether the command ends with a Status; else with words, and only where it failed.
    has_status: bool,
}

impl Terminal {
    /// The terminal on a connection that has changed to what was offered.
    pub(super) async fn new(upgraded: Upgraded, offer: &Offer, asked: Asked) -> Self {
        Self { channels: Channels::new(upgraded).await, asked, has_status: offer.has_status() }
    }

    async fn send(&mut self, channel: Channel, text: &[u8]) -> Option<()> {
        timeout(UNREAD, self.channels.send(channel, text)).await.ok()?
    }

    /// Prints to a stream that the client has asked for; `None` when the client is gone. A terminal has one stream, and its
    /// lines end with a carriage return.
    pub(super) async fn print(&mut self, is_error: bool, text: &[u8]) -> Option<()> {
        if !self.asked.tty {
            return match is_error {
                true if self.asked.stderr => self.send(Channel::Stderr, text).await,
                false if self.asked.stdout => self.send(Channel::Stdout, text).await,
                _ => Some(()),
            };
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

    /// What the other end says next; nothing of it is lost where the caller stops waiting.
    pub(super) async fn hear(&mut self) -> Heard {
        self.channels.hear().await
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
            self.channels.close().await;
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
