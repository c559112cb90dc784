//! Who issues tokens of ServiceAccounts, as others read it to check them by themselves (OpenID Connect discovery).

// upstream: pkg/serviceaccount/openidmetadata.go; pkg/routes/openidmetadata.go (v1.36)

use http::header::CACHE_CONTROL;
use http::{HeaderValue, Response};

use super::answer;
use crate::account_token::{ALGORITHM, ISSUER, public_key};
use crate::body::Body;

/// `/openid/v1/jwks` of the cluster with this secret.
pub(super) fn keys(secret: &[u8]) -> Response<Body> {
    public("application/jwk-set+json", format!("{{\"keys\":[{}]}}", public_key(secret)))
}

/// `/.well-known/openid-configuration` of the server that is reached there.
pub(super) fn configuration(address: &str, before: &str) -> Response<Body> {
    let address = if address.is_empty() { "kubernetes.default.svc" } else { address };
    let text = format!(
        concat!(
            "{{\"issuer\":\"{}\",\"jwks_uri\":\"https://{}{}/openid/v1/jwks\",\"response_types_supported\":[\"id_token\"],",
            "\"subject_types_supported\":[\"public\"],\"id_token_signing_alg_values_supported\":[\"{}\"]}}"
        ),
        ISSUER, address, before, ALGORITHM
    );
    public("application/json", text)
}

/// What anybody may keep for an hour.
fn public(kind: &'static str, text: String) -> Response<Body> {
    let mut response = answer::json_as(kind, text);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    response
}
