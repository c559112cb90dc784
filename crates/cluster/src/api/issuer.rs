//! Who issues tokens of ServiceAccounts: the key that signs them, and what others read of it to check them by themselves
//! (OpenID Connect discovery).

// upstream: pkg/serviceaccount/openidmetadata.go, jwt.go keyIDFromPublicKey; pkg/routes/openidmetadata.go (v1.36)

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, Response};
use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde_json::{Value, json};

use super::answer;
use super::body::Body;

/// Who signs, and who is meant where nothing is said.
pub(super) const ISSUER: &str = "https://kubernetes.default.svc";
/// How the key is called as others know it: ASN.1 for an Ed25519 key, before its bytes.
const KEY_INFO: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const ALGORITHM: &str = "EdDSA";

/// A key to sign with. It follows from what a cluster keeps as its secret; RSA keys, which API servers usually have, would
/// have to be found for each cluster, and kept.
pub(super) struct Issuer(Option<Ed25519KeyPair>);

impl Issuer {
    pub(super) fn of(secret: &[u8]) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(secret).ok())
    }

    fn public(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |pair| pair.public_key().as_ref())
    }

    fn key_id(&self) -> String {
        let named = [&KEY_INFO, self.public()].concat();
        URL_SAFE_NO_PAD.encode(digest(&SHA256, &named))
    }

    /// A token with those claims.
    pub(super) fn sign(&self, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&json!({ "alg": ALGORITHM, "kid": self.key_id() })), part(claims));
        let signature = self.0.as_ref().map(|pair| pair.sign(text.as_bytes()));
        format!("{text}.{}", signature.map_or_else(String::new, |signature| URL_SAFE_NO_PAD.encode(signature.as_ref())))
    }

    /// What comes before the signature of a token, where that is this issuer's.
    pub(super) fn signed<'a>(&self, token: &'a str) -> Option<&'a str> {
        let (text, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let key = UnparsedPublicKey::new(&ED25519, self.public());
        key.verify(text.as_bytes(), &signature).ok().map(|()| text)
    }

    /// `/openid/v1/jwks`
    pub(super) fn keys(&self) -> Response<Body> {
        let (id, key) = (self.key_id(), URL_SAFE_NO_PAD.encode(self.public()));
        let text = format!(
            "{{\"keys\":[{{\"use\":\"sig\",\"kty\":\"OKP\",\"kid\":\"{id}\",\"crv\":\"Ed25519\",\"alg\":\"{ALGORITHM}\",\"x\":\"{key}\"}}]}}"
        );
        public("application/jwk-set+json", text)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_signed_is_its_own_and_nobody_elses() {
        let issuer = Issuer::of(&[7; 32]);
        let token = issuer.sign(&json!({ "sub": "robot" }));
        assert_eq!(issuer.signed(&token), token.rsplit_once('.').map(|(text, _)| text));
        assert_eq!(Issuer::of(&[8; 32]).signed(&token), None);
        let (text, signature) = token.rsplit_once('.').unwrap();
        for other in [format!("{text}x.{signature}"), format!("{text}."), text.to_owned(), String::new()] {
            assert_eq!(issuer.signed(&other), None, "{other}");
        }
        let none = Issuer::of(&[]);
        assert_eq!(none.signed(&none.sign(&json!({}))), None, "without a key nothing is signed");
    }
}
