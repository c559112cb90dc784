//! What a client offers to speak with a command's streams, and the answer that takes it.

// upstream: k8s.io/streaming/pkg/httpstream/httpstream.go Handshake, …/spdy/upgrade.go UpgradeResponse,
// k8s.io/client-go/tools/remotecommand/websocket.go (v1.36)

use http::header::{CONNECTION, HeaderName, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use super::super::status::Status;
use super::answer;
use super::body::Body;
use super::handshake::switching;

/// The first protocol: how a command has ended it says in words, and only where it failed.
const FIRST: &str = "channel.k8s.io";
const SECOND: &str = "v2.channel.k8s.io";
const THIRD: &str = "v3.channel.k8s.io";
const FOURTH: &str = "v4.channel.k8s.io";
const FIFTH: &str = "v5.channel.k8s.io";
/// What is spoken on a WebSocket, the best first.
const WEBSOCKET: [&str; 3] = [FIFTH, FOURTH, FIRST];
/// What is spoken by SPDY, which closes streams without a fifth.
const SPDY: [&str; 4] = [FOURTH, THIRD, SECOND, FIRST];

const VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const ACCEPTED: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");

/// What a client offers, as far as it is spoken here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Offer {
    WebSocket { key: String, protocol: &'static str },
    Spdy { protocol: &'static str },
}

/// Why nothing that is offered is taken.
pub(super) enum Refusal {
    Status(Status),
    /// In plain words, as a kubelet says it.
    Words(Box<Response<Body>>),
}

impl Offer {
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        let header = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let upgrade = header(UPGRADE).to_ascii_lowercase();
        if upgrade.contains("spdy/3.1") {
            return Self::spdy(headers);
        }
        if upgrade != "websocket" {
            return Err(Refusal::Status(Status::bad_request("Upgrade request required")));
        }
        let offered: Vec<&str> = header(SEC_WEBSOCKET_PROTOCOL).split(',').map(str::trim).collect();
        let protocol = WEBSOCKET.into_iter().find(|protocol| offered.contains(protocol)).ok_or_else(|| {
            let message = format!("unable to upgrade: the protocols are {}", WEBSOCKET.join(" and "));
            Refusal::Status(Status::bad_request(message))
        })?;
        Ok(Self::WebSocket { key: header(SEC_WEBSOCKET_KEY).to_owned(), protocol })
    }

    fn spdy(headers: &HeaderMap) -> Result<Self, Refusal> {
        let values = headers.get_all(VERSION).iter().filter_map(|value| value.to_str().ok());
        let offered: Vec<&str> = values.flat_map(|value| value.split(',')).map(str::trim).collect();
        if offered.is_empty() {
            let why = format!(
                "unable to upgrade: header X-Stream-Protocol-Version does not exist in request with {} headers",
                headers.keys_len()
            );
            return Err(Refusal::Words(Box::new(answer::text(400, why))));
        }
        // The client's order counts.
        let found = offered.iter().find_map(|offered| SPDY.into_iter().find(|spoken| spoken == offered));
        if let Some(protocol) = found {
            return Ok(Self::Spdy { protocol });
        }
        let mut refusal = answer::text(
            403,
            format!(
                "unable to upgrade: unable to negotiate protocol: client supports [{}], server accepts [{}]",
                offered.join(" "),
                SPDY.join(" ")
            ),
        );
        for protocol in SPDY {
            refusal.headers_mut().append(ACCEPTED, HeaderValue::from_static(protocol));
        }
        Err(Refusal::Words(Box::new(refusal)))
    }

    /// The answer after which that is spoken.
    pub(super) fn taken(&self) -> Response<Body> {
        let protocol = match self {
            Self::WebSocket { key, protocol } => return switching(key, protocol),
            Self::Spdy { protocol } => protocol,
        };
        let mut response = Response::new(Body::default());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(VERSION, HeaderValue::from_static(protocol));
        response
    }

    fn protocol(&self) -> &'static str {
        match self {
            Self::WebSocket { protocol, .. } | Self::Spdy { protocol } => protocol,
        }
    }

    /// Whether the end of a command is told as a Status.
    pub(super) fn has_status(&self) -> bool {
        [FOURTH, FIFTH].contains(&self.protocol())
    }

    /// Whether terminals have a stream for their size.
    pub(super) fn resizes(&self) -> bool {
        [THIRD, FOURTH, FIFTH].contains(&self.protocol())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(pairs: &[(HeaderName, &'static str)]) -> Result<Offer, u16> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_static(value));
        }
        Offer::of(&headers).map_err(|refusal| match refusal {
            Refusal::Status(status) => status.code,
            Refusal::Words(response) => response.status().as_u16(),
        })
    }

    #[test]
    fn the_client_s_order_counts_by_spdy_and_the_server_s_on_a_websocket() {
        let spdy = (UPGRADE, "SPDY/3.1");
        for (versions, protocol) in [
            (&["v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io"][..], Ok(FOURTH)),
            (&["v2.channel.k8s.io, v4.channel.k8s.io"], Ok(SECOND)),
            (&["channel.k8s.io"], Ok(FIRST)),
            (&["v9.channel.k8s.io"], Err(403)),
            (&[], Err(400)),
        ] {
            let pairs: Vec<_> = versions.iter().map(|version| (VERSION, *version)).chain([spdy.clone()]).collect();
            assert_eq!(offered(&pairs), protocol.map(|protocol| Offer::Spdy { protocol }), "{versions:?}");
        }
        let socket = [(UPGRADE, "websocket"), (SEC_WEBSOCKET_PROTOCOL, "channel.k8s.io, v4.channel.k8s.io")];
        assert_eq!(offered(&socket), Ok(Offer::WebSocket { key: String::new(), protocol: FOURTH }));
        assert_eq!(offered(&[(UPGRADE, "h2c")]), Err(400));
        assert_eq!(offered(&[(UPGRADE, "SPDY/2")]), Err(400));
    }
}
