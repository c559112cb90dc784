//! Pure: whether an ID token is to be believed: who signed it, for whom, for which sign-in, and whether it still counts.

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::{Map, Value};

use super::rule::Claims;
use super::signatures::{ALGORITHMS, by_ring};
use crate::secret::ring_equal;

/// How far clocks may be apart, in seconds.
const LEEWAY: u64 = 60;
/// Most keys that are tried for a token that names none.
const TRIED: usize = 20;
/// Longest `sub`, as the specification has it.
const SUBJECT: usize = 255;

/// What a token is to say.
pub(crate) struct Expected<'e> {
    pub(crate) issuer: &'e str,
    pub(crate) client: &'e str,
    pub(crate) nonce: &'e str,
    /// The second that it is.
    pub(crate) now: u64,
}

/// Why a token is not believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// None of the keys has signed it: there may be newer ones.
    Key(String),
    /// What it says.
    Content(String),
}

fn content<T>(why: impl Into<String>) -> Result<T, Doubt> {
    Err(Doubt::Content(why.into()))
}

/// The keys that a provider names: those of kinds that klab knows nothing of are left out.
pub(crate) fn keys(document: &Value) -> Vec<Jwk> {
    let all = document.get("keys").and_then(Value::as_array).into_iter().flatten();
    all.take(200).filter_map(|key| serde_json::from_value(key.clone()).ok()).collect()
}

/// What a token says, where it is to be believed.
pub(crate) fn checked(token: &str, keys: &[Jwk], expected: &Expected<'_>) -> Result<Claims, Doubt> {
    by_ring();
    let Ok(header) = decode_header(token) else {
        return content("the ID token is none, or is signed in a way that klab does not take");
    };
    if !ALGORITHMS.contains(&header.alg) {
        return content(format!("the ID token is signed with {:?}: a signature by a public key is needed", header.alg));
    }
    if header.crit.is_some() {
        return content("the ID token asks for an extension that klab does not know");
    }
    let claims = signed(token, keys, (header.alg, header.kid.as_deref()), expected)?;
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    // The library also accepts a list that contains the issuer.
    if text("iss") != Some(expected.issuer) {
        return content(format!("the ID token is not of {} alone (iss)", expected.issuer));
    }
    let several = claims.get("aud").and_then(Value::as_array).is_some_and(|all| all.len() > 1);
    match claims.get("azp") {
        Some(party) if *party != expected.client => return content("the ID token was made for another client (azp)"),
        None if several => return content("the ID token is for several clients and does not say whose it is (azp)"),
        _ => {}
    }
    if !text("nonce").is_some_and(|nonce| ring_equal(nonce.as_bytes(), expected.nonce.as_bytes())) {
        return content("the ID token is of another sign-in (nonce)");
    }
    match text("sub") {
        Some(subject) if (1..=SUBJECT).contains(&subject.len()) => {}
        _ => return content("the ID token does not say who it is about (sub)"),
    }
    if !claims.get("iat").and_then(Value::as_f64).is_some_and(|at| at <= (expected.now.saturating_add(LEEWAY)) as f64) {
        return content(
            "the ID token does not say when it was made, or was made in the future (iat): compare the clocks",
        );
    }
    Ok(claims)
}

/// What a token says that one of the keys has signed, for this client and not too long ago.
fn signed(
    token: &str,
    keys: &[Jwk],
    (by, kid): (Algorithm, Option<&str>),
    expected: &Expected<'_>,
) -> Result<Claims, Doubt> {
    let mut validation = Validation::new(by);
    validation.leeway = LEEWAY;
    validation.validate_nbf = true;
    validation.set_issuer(&[expected.issuer]);
    validation.set_audience(&[expected.client]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    let mut tried = 0;
    for key in keys.iter().filter(|key| may_sign(key, by, kid)).take(TRIED) {
        let Ok(key) = DecodingKey::from_jwk(key) else { continue };
        tried += 1;
        match decode::<Map<String, Value>>(token, &key, &validation) {
            Ok(token) => return Ok(token.claims),
            // Another key may have.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidSignature | ErrorKind::UnsupportedAlgorithm) => {}
            Err(error) => return content(doubt(error.kind(), expected)),
        }
    }
    Err(Doubt::Key(if tried == 0 {
        "the provider has no key of the kind and name that the ID token is signed with".to_owned()
    } else {
        "the ID token is not signed by a key of the provider".to_owned()
    }))
}

fn may_sign(key: &Jwk, by: Algorithm, kid: Option<&str>) -> bool {
    let common = &key.common;
    let is_named = match (kid, &common.key_id) {
        (Some(wanted), Some(own)) => wanted == own,
        _ => true,
    };
    let is_for_it = common.key_algorithm.is_none_or(|own| own == KeyAlgorithm::from(by));
    let is_for_signatures = common.public_key_use.as_ref().is_none_or(|of| *of == PublicKeyUse::Signature);
    is_named && is_for_it && is_for_signatures
}

fn doubt(kind: &ErrorKind, expected: &Expected<'_>) -> String {
    match kind {
        ErrorKind::ExpiredSignature => "the ID token has expired (exp): compare the clocks".to_owned(),
        ErrorKind::ImmatureSignature => "the ID token does not count yet (nbf): compare the clocks".to_owned(),
        ErrorKind::InvalidIssuer => format!("the ID token is not of {} (iss)", expected.issuer),
        ErrorKind::InvalidAudience => format!("the ID token is not for the client {} (aud)", expected.client),
        ErrorKind::MissingRequiredClaim(claim) => format!("the ID token lacks `{claim}`"),
        ErrorKind::InvalidClaimFormat(claim) => format!("`{claim}` of the ID token is not of the kind it should be"),
        _ => "the ID token cannot be read".to_owned(),
    }
}

#[cfg(test)]
mod tests;
