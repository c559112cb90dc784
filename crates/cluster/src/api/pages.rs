//! Lists in pages: all pages show the objects as they were when the first one was asked for.

// upstream: staging/src/k8s.io/apiserver/pkg/storage/continue.go EncodeContinue (v1.36)
// upstream: staging/src/k8s.io/apiserver/pkg/storage/etcd3/errors.go handleCompactedErrorForPaging (v1.36)

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use klab_api_machinery::status::Status;
use serde_json::{Value, json};

use super::call::Call;
use super::leases;

/// How long a list can be continued, in seconds: so often upstream forgets what was.
pub(super) const KEPT: i64 = 300;

/// As lenient as Go's decoder about what follows the last whole byte.
const TOKENS: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Where the next page of a list begins.
pub(super) struct Continue {
    /// Whose state is shown; `None` for that of now.
    pub(super) version: Option<u64>,
    pub(super) namespace: String,
    pub(super) name: String,
    /// When the first page was asked for, in seconds.
    pub(super) begun: i64,
}

impl Continue {
    pub(super) fn to_token(&self) -> String {
        let start = format!("{}/{}\u{0}", self.namespace, self.name);
        let version = self.version.map_or(json!(-1), Value::from);
        let value = json!({"v": "meta.k8s.io/v1", "rv": version, "start": start, "begun": self.begun});
        TOKENS.encode(value.to_string())
    }

    pub(super) fn parse(token: &str) -> Result<Self, Status> {
        let bad =
            |why: String| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = TOKENS.decode(token).map_err(|error| bad(error.to_string()))?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| match bytes.first() {
            Some(byte) if byte.is_ascii_graphic() => {
                bad(format!("invalid character '{}' looking for beginning of value", char::from(*byte)))
            }
            Some(byte) => bad(format!("invalid character '\\x{byte:02x}' looking for beginning of value")),
            None => bad("unexpected end of JSON input".to_owned()),
        })?;
        let start = value["start"].as_str().and_then(|start| start.strip_suffix('\u{0}')).unwrap_or_default();
        let version = match value["rv"].as_i64() {
            Some(-1) => Some(None),
            version => version.and_then(|version| u64::try_from(version).ok()).map(Some),
        };
        let begun = value["begun"].as_i64().unwrap_or_default();
        match (version, start.split_once('/')) {
            (Some(version), Some((namespace, name))) => {
                Ok(Self { version, namespace: namespace.to_owned(), name: name.to_owned(), begun })
            }
            _ => Err(bad("encoded start key or resource version is missing".to_owned())),
        }
    }

    pub(super) fn after(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}

impl Call<'_> {
    /// 410 for a page of a state that is forgotten, with what gets the rest as it is now.
    pub(super) fn expired(&self, from: &Continue) -> Status {
        // In the meantime every node has renewed its lease: the next version is another one.
        leases::renew(self.cluster());
        let rest =
            Continue { version: None, namespace: from.namespace.clone(), name: from.name.clone(), begun: from.begun };
        let message = "The provided continue parameter is too old to display a consistent list result. You can start a \
            new list without the continue parameter, or use the continue token in this response to retrieve the \
            remainder of the results. Continuing with the provided token results in an inconsistent list - objects that \
            were created, modified, or deleted between the time the first chunk was returned and now may show up in the \
            list.";
        Status { continue_token: Some(rest.to_token()), ..Status::new(410, "Expired", message) }
    }
}
