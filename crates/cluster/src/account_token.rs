//! The text of tokens of ServiceAccounts: claims, signed with a cluster's key, and what others read of that key to check them.

// upstream: pkg/serviceaccount/jwt.go keyIDFromPublicKey (v1.36)

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::object::Object;
use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde_json::{Map, Value, json};

use crate::clock::later;
use crate::cluster::Cluster;

/// Who signs, and who is meant where nothing is said.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

/// What pods ask for by themselves, and how long such a token is good for the API server all the same, for clients that do not read it
/// again. Seconds.
// upstream: pkg/serviceaccount/claims.go WarnOnlyBoundTokenExpirationPeriod, ExpirationExtensionSeconds (v1.36)
const WARNED: i64 = 60 * 60 + 7;
const EXTENDED: i64 = 365 * 24 * 60 * 60;

/// For how many seconds a token is good that a client wants for `seconds`, and after how many its use is worth a warning.
fn lifetime(seconds: i64, is_of_pod: bool, is_for_api: bool) -> (i64, Option<i64>) {
    if is_of_pod && is_for_api && seconds == WARNED { (EXTENDED, Some(WARNED)) } else { (seconds, None) }
}

/// Issuer of the tokens that Secrets hold, which do not end.
// upstream: pkg/serviceaccount/legacy.go LegacyIssuer (v1.36)
pub(crate) const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// What the claims of such a token are called: its namespace, the Secret, name and uid of the ServiceAccount.
pub(crate) mod legacy {
    pub(crate) const NAMESPACE: &str = "kubernetes.io/serviceaccount/namespace";
    pub(crate) const SECRET: &str = "kubernetes.io/serviceaccount/secret.name";
    pub(crate) const ACCOUNT: &str = "kubernetes.io/serviceaccount/service-account.name";
    pub(crate) const UID: &str = "kubernetes.io/serviceaccount/service-account.uid";
}

/// How tokens are signed, as their header and the published key call it.
pub(crate) const ALGORITHM: &str = "EdDSA";

/// How the key is called as others know it: ASN.1 for an Ed25519 key, before its bytes.
const KEY_INFO: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// A key to sign with. It follows from what a cluster keeps as its secret; RSA keys, which API servers usually have, would
/// have to be found for each cluster, and kept.
struct Signer(Option<Ed25519KeyPair>);

impl Signer {
    fn of(secret: &[u8]) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(secret).ok())
    }

    fn public(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |pair| pair.public_key().as_ref())
    }

    fn key_id(&self) -> String {
        let named = [&KEY_INFO, self.public()].concat();
        URL_SAFE_NO_PAD.encode(digest(&SHA256, &named))
    }

    fn sign(&self, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&json!({ "alg": ALGORITHM, "kid": self.key_id() })), part(claims));
        let signature = self.0.as_ref().map(|pair| pair.sign(text.as_bytes()));
        format!("{text}.{}", signature.map_or_else(String::new, |signature| URL_SAFE_NO_PAD.encode(signature.as_ref())))
    }
}

/// A token that a ServiceAccount is to be given.
pub(crate) struct TokenOrder<'a> {
    pub(crate) account: &'a Object,
    /// A list of them.
    pub(crate) audiences: &'a Value,
    /// For how long it is asked for.
    pub(crate) seconds: i64,
    pub(crate) from: Timestamp,
    /// Its `jti`.
    pub(crate) identity: String,
    /// What it is bound to: `pod`, `node`, `secret`.
    pub(crate) bound: Map<String, Value>,
}

/// The token, and when it ends.
pub(crate) fn issue(cluster: &Cluster, order: TokenOrder<'_>) -> (String, Timestamp) {
    let TokenOrder { account, audiences, seconds, from, identity, bound } = order;
    let (good_for, warned_after) = lifetime(seconds, bound.contains_key("pod"), *audiences == json!([ISSUER]));
    let expires = later(from, SignedDuration::from_secs(good_for));
    let mut private = bound;
    private.insert("namespace".to_owned(), json!(account.namespace));
    private.insert("serviceaccount".to_owned(), named(account));
    if let Some(after) = warned_after {
        private.insert("warnafter".to_owned(), json!(from.as_second().saturating_add(after)));
    }
    let claims = json!({
        "aud": audiences, "exp": expires.as_second(), "iat": from.as_second(), "nbf": from.as_second(), "iss": ISSUER,
        "jti": identity, "sub": format!("system:serviceaccount:{}:{}", account.namespace, account.name),
        "kubernetes.io": private,
    });
    (sign(cluster, &claims), expires)
}

/// How claims name an object.
pub(crate) fn named(object: &Object) -> Value {
    json!({ "name": object.name, "uid": object.uid })
}

/// A token that claims this.
pub(crate) fn sign(cluster: &Cluster, claims: &Value) -> String {
    Signer::of(&cluster.token_key()).sign(claims)
}

/// A token whose signature was looked at, once: that takes a tenth of a millisecond.
pub struct Signed<'a>(&'a str);

impl<'a> Signed<'a> {
    /// A token, if it was signed with this key, whatever it says.
    pub fn with(secret: &[u8], token: &'a str) -> Option<Self> {
        let (text, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let signer = Signer::of(secret);
        let key = UnparsedPublicKey::new(&ED25519, signer.public());
        key.verify(text.as_bytes(), &signature).ok().map(|()| Self(token))
    }

    pub(crate) fn text(&self) -> &str {
        self.0
    }

    /// What it claims.
    pub(crate) fn claims(&self) -> Option<Value> {
        claims(self.0)
    }
}

/// What a token claims; its signature is not checked.
pub(crate) fn claims(token: &str) -> Option<Value> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    serde_json::from_slice(&claims).ok()
}

/// The key that checks tokens which were signed with this one, as others read it: a JWK, its fields in upstream's order.
pub(crate) fn public_key(secret: &[u8]) -> String {
    let signer = Signer::of(secret);
    let (id, key) = (signer.key_id(), URL_SAFE_NO_PAD.encode(signer.public()));
    format!(
        "{{\"use\":\"sig\",\"kty\":\"OKP\",\"kid\":\"{id}\",\"crv\":\"Ed25519\",\"alg\":\"{ALGORITHM}\",\"x\":\"{key}\"}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_signed_is_its_own_and_nobody_elses() {
        let is_signed = |secret: &[u8], token: &str| Signed::with(secret, token).is_some();
        let token = Signer::of(&[7; 32]).sign(&json!({ "sub": "robot" }));
        assert!(is_signed(&[7; 32], &token));
        assert!(!is_signed(&[8; 32], &token));
        let (text, signature) = token.rsplit_once('.').unwrap();
        for other in [format!("{text}x.{signature}"), format!("{text}."), text.to_owned(), String::new()] {
            assert!(!is_signed(&[7; 32], &other), "{other}");
        }
        assert!(!is_signed(&[], &Signer::of(&[]).sign(&json!({}))), "without a key nothing is signed");
    }
}
