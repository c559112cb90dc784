//! What a client offers to speak with a command's streams, and the answer that takes it.

// upstream: k8s.io/client-go/tools/remotecommand/websocket.go, k8s.io/streaming/pkg/httpstream/wsstream (v1.36)

use http::header::{HeaderName, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, Response};
use klab_api_machinery::status::Status;

use super::handshake::switching;
use crate::body::Body;

/// The first protocol gives the end of a command in words, and only where it failed.
const FIRST: &str = "channel.k8s.io";
const FOURTH: &str = "v4.channel.k8s.io";
const FIFTH: &str = "v5.channel.k8s.io";
/// The protocols that are spoken, the best first.
const PROTOCOLS: [&str; 3] = [FIFTH, FOURTH, FIRST];

/// A client's offer, as far as it is spoken here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    key: String,
    protocol: &'static str,
}

impl Offer {
    /// Reads the offer of a request.
    ///
    /// # Errors
    /// When it offers no WebSocket, or none of the protocols.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Status> {
        let header = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let upgrade = header(UPGRADE).to_ascii_lowercase();
        if upgrade.starts_with("spdy/") {
            return Err(Status::bad_request(
                "the embedded cluster speaks WebSockets here, not SPDY: use kubectl 1.31 or later \
                 (1.29 and 1.30 with KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true)",
            ));
        }
        if upgrade != "websocket" {
            return Err(Status::bad_request("Upgrade request required"));
        }
        let offered: Vec<&str> = header(SEC_WEBSOCKET_PROTOCOL).split(',').map(str::trim).collect();
        let protocol = PROTOCOLS.into_iter().find(|protocol| offered.contains(protocol)).ok_or_else(|| {
            Status::bad_request(format!("unable to upgrade: the protocols are {}", PROTOCOLS.join(" and ")))
        })?;
        Ok(Self { key: header(SEC_WEBSOCKET_KEY).to_owned(), protocol })
    }

    /// The answer after which the offered protocol is spoken.
    pub(super) fn taken(&self) -> Response<Body> {
        switching(&self.key, self.protocol)
    }

    /// Whether a command ends with a Status.
    pub(super) fn has_status(&self) -> bool {
        self.protocol != FIRST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(upgrade: &'static str, protocols: &'static str) -> Result<&'static str, String> {
        let header = http::HeaderValue::from_static;
        let headers = HeaderMap::from_iter([(UPGRADE, header(upgrade)), (SEC_WEBSOCKET_PROTOCOL, header(protocols))]);
        Offer::of(&headers).map(|offer| offer.protocol).map_err(|status| status.message)
    }

    #[test]
    fn the_best_protocol_is_taken_and_spdy_is_refused_with_what_to_use() {
        assert_eq!(offered("websocket", "channel.k8s.io, v4.channel.k8s.io"), Ok(FOURTH));
        assert_eq!(offered("websocket", "v4.channel.k8s.io, v5.channel.k8s.io"), Ok(FIFTH));
        assert_eq!(offered("websocket", "channel.k8s.io"), Ok(FIRST));
        assert!(offered("websocket", "v9.channel.k8s.io").is_err_and(|words| words.contains("the protocols are")));
        assert!(offered("SPDY/3.1", "").is_err_and(|words| words.contains("use kubectl 1.31 or later")));
        assert_eq!(offered("h2c", ""), Err("Upgrade request required".to_owned()));
    }
}
