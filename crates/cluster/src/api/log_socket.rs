//! A log on a WebSocket, for clients that ask for one.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/httpstream/wsstream/stream.go (v1.36)

use std::time::Duration;

use futures::SinkExt;
use http::header::{SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, Response};
use http_body_util::BodyExt;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::handshake::switching;
use super::upgrade::Upgrade;
use crate::body::Body;

/// The protocol in which every message is a piece of the log.
const BINARY: &str = "binary.k8s.io";
/// How long the other end may take to take a piece.
const PATIENCE: Duration = Duration::from_secs(30);

/// A log as it was answered, on a WebSocket where one is asked for.
pub(super) fn as_asked(answered: Response<Body>, headers: &HeaderMap, upgrade: Option<Upgrade>) -> Response<Body> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let offered = header(SEC_WEBSOCKET_PROTOCOL).split(',').any(|protocol| protocol.trim() == BINARY);
    let Some(upgrade) = upgrade.filter(|_| offered && header(UPGRADE).eq_ignore_ascii_case("websocket")) else {
        return answered;
    };
    let key = header(SEC_WEBSOCKET_KEY).to_owned();
    tokio::spawn(async move {
        let mut body = answered.into_body();
        let Some(upgraded) = upgrade.within(PATIENCE).await else { return };
        let mut socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, None).await;
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(piece) = frame.into_data() else { continue };
            if !matches!(timeout(PATIENCE, socket.send(Message::Binary(piece))).await, Ok(Ok(()))) {
                return;
            }
        }
        let _ = timeout(PATIENCE, socket.close(None)).await;
    });
    switching(&key, BINARY)
}
