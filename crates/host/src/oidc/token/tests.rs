//! Tests of which ID tokens are believed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::json;

use super::*;

const NOW: u64 = 2_000_000_000;

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key of a provider.
struct Signer(EcdsaKeyPair);

impl Signer {
    fn new() -> Self {
        let (by, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let document = EcdsaKeyPair::generate_pkcs8(by, &random).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(by, document.as_ref(), &random).unwrap())
    }

    fn public(&self) -> Value {
        let point = &self.0.public_key().as_ref()[1..];
        json!({ "kty": "EC", "crv": "P-256", "kid": "a", "use": "sig", "alg": "ES256", "x": encoded(&point[..32]), "y": encoded(&point[32..]) })
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let text = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let signature = self.0.sign(&SystemRandom::new(), text.as_bytes()).unwrap();
        format!("{text}.{}", encoded(signature))
    }
}

/// Claims that are good by the machine's clock, which the library looks at.
fn claims() -> Value {
    let now = jiff::Timestamp::now().as_second();
    json!({ "iss": "https://login", "aud": "class", "sub": "1", "nonce": "n", "exp": now + 300, "iat": now, "name": "Ann" })
}

fn header() -> Value {
    json!({ "alg": "ES256", "kid": "a" })
}

fn believed(token: &str, all: &[Value]) -> Result<Claims, Doubt> {
    let expected = Expected { issuer: "https://login", client: "class", nonce: "n", now: NOW };
    checked(token, &keys(&json!({ "keys": all })), &expected)
}

#[test]
fn what_a_token_says_is_compared_with_what_was_asked() {
    let signer = Signer::new();
    let now = jiff::Timestamp::now().as_second();
    for (change, word) in [
        (json!({}), None),
        (json!({ "aud": ["class"] }), None),
        (json!({ "aud": ["class", "other"], "azp": "class" }), None),
        (json!({ "aud": ["class", "other"] }), Some("azp")),
        (json!({ "azp": "other" }), Some("azp")),
        (json!({ "aud": "other" }), Some("aud")),
        (json!({ "aud": null }), Some("aud")),
        (json!({ "iss": "https://login/" }), Some("iss")),
        (json!({ "iss": null }), Some("iss")),
        (json!({ "iss": ["https://login"] }), Some("iss")),
        (json!({ "iss": ["https://login", "https://other"] }), Some("iss")),
        (json!({ "iss": { "https://login": 1 } }), Some("iss")),
        (json!({ "nonce": "m" }), Some("nonce")),
        (json!({ "nonce": null }), Some("nonce")),
        (json!({ "nonce": ["n"] }), Some("nonce")),
        (json!({ "sub": null }), Some("sub")),
        (json!({ "sub": "" }), Some("sub")),
        (json!({ "sub": 1 }), Some("sub")),
        (json!({ "sub": "x".repeat(256) }), Some("sub")),
        (json!({ "exp": now - 30 }), None),
        (json!({ "exp": now - 90 }), Some("exp")),
        (json!({ "exp": null }), Some("exp")),
        (json!({ "nbf": now + 30 }), None),
        (json!({ "nbf": now + 90 }), Some("nbf")),
        (json!({ "iat": NOW + 90 }), Some("iat")),
        (json!({ "iat": null }), Some("iat")),
        (json!({ "iat": "yesterday" }), Some("iat")),
    ] {
        let mut all = claims();
        for (name, value) in change.as_object().unwrap() {
            all[name] = value.clone();
            if value.is_null() {
                all.as_object_mut().unwrap().remove(name);
            }
        }
        match (believed(&signer.sign(&header(), &all), &[signer.public()]), word) {
            (Ok(claims), None) => assert_eq!(claims["name"], "Ann"),
            (Err(Doubt::Content(why)), Some(word)) => assert!(why.contains(word), "{change}: {why}"),
            (other, _) => panic!("{change}: {other:?}"),
        }
    }
}

#[test]
fn nobody_signs_but_the_provider_with_a_public_key() {
    let (signer, other) = (Signer::new(), Signer::new());
    let public = signer.public();
    let good = signer.sign(&header(), &claims());
    let unsigned = |header: Value| format!("{}.{}.", encoded(header.to_string()), encoded(claims().to_string()));
    let by_public_key = {
        let text =
            format!("{}.{}", encoded(json!({ "alg": "HS256", "kid": "a" }).to_string()), encoded(claims().to_string()));
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, signer.0.public_key().as_ref());
        format!("{text}.{}", encoded(ring::hmac::sign(&key, text.as_bytes())))
    };
    let mut changed = good.clone().into_bytes();
    let last = changed.len() - 2;
    changed[last] = if changed[last] == b'A' { b'B' } else { b'A' };
    for (token, word) in [
        (unsigned(json!({ "alg": "none" })), "a way that klab does not take"),
        (unsigned(json!({ "alg": "ES256", "kid": "a" })), "not signed"),
        (by_public_key, "HS256"),
        (other.sign(&header(), &claims()), "not signed"),
        (String::from_utf8(changed).unwrap(), "not signed"),
        (signer.sign(&json!({ "alg": "ES256", "kid": "b" }), &claims()), "no key"),
        (signer.sign(&json!({ "alg": "ES384", "kid": "a" }), &claims()), "no key"),
        (signer.sign(&json!({ "alg": "ES256", "kid": "a", "crit": ["x"] }), &claims()), "extension"),
        (String::new(), "is none"),
        ("a.b".to_owned(), "is none"),
        ("a.b.c.d".to_owned(), "is none"),
    ] {
        match believed(&token, std::slice::from_ref(&public)) {
            Err(Doubt::Key(why) | Doubt::Content(why)) => assert!(why.contains(word), "{token}: {why}"),
            Ok(_) => panic!("{token}"),
        }
    }
    let with = |name: &str, value: &str| {
        let mut key = public.clone();
        key[name] = json!(value);
        believed(&good, &[key])
    };
    assert!(with("use", "enc").is_err() && with("alg", "ES384").is_err() && with("kid", "b").is_err());
    assert!(with("x", "AAAA").is_err() && with("x", "*").is_err());
    // What klab knows nothing of stands beside what it knows.
    let strange = [
        json!({ "kty": "AKP", "kid": "a" }),
        json!(7),
        json!({ "kty": "oct", "kid": "a", "k": "AAAA" }),
        public.clone(),
    ];
    assert!(believed(&good, &strange).is_ok());
    let nameless = signer.sign(&json!({ "alg": "ES256" }), &claims());
    assert!(believed(&nameless, &[other.public(), public]).is_ok());
}

#[test]
fn other_kinds_of_keys_are_known() {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    let text = format!("{}.{}", encoded(r#"{"alg":"EdDSA"}"#), encoded(claims().to_string()));
    let key = json!({ "kty": "OKP", "crv": "Ed25519", "x": encoded(pair.public_key().as_ref()) });
    let token = format!("{text}.{}", encoded(pair.sign(text.as_bytes())));
    assert!(believed(&token, &[key]).is_ok());

    // Made once with OpenSSL, with a key that is gone: the signatures are good, and then the tokens lack what an ID token has.
    let key = json!({ "kty": "RSA", "e": "AQAB", "n": concat!(
        "8C7uRN2StVALc3vo14eaHe5kLolMPiyw66oOtH8EsZRR8L5YvttSKnKfGeM00RA08SjRF8HOoQcodDLkFp4fFRdOITAHv1scVS0M_8GKdu3q4b3sxfiR7mst",
        "KYe7qvizMLUkudmWHe-I9WBklbfGEHXqKcj_nz4s8CXiQjOwEZGEX-",
        "P5FQBJ8dyGfUHNQbgBuwl5L3zHJX2iDO18lWXwmd0ZGpe5CkPYiWCCY1Gr470AfrIomO1ibe9YDVULOTNmdl7kogbxwUaMZZQ66XJdpwgDPIgJQZoHyMtPJc",
        "vCVkN2o5zjYrYgZWauYeNmVLgi7HmVxL33m4IXin2vGOSuJw",
    ) });
    let tokens = [
        concat!(
            "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2xvZ2luIiwiYXVkIjoiY2xhc3MiLCJzdWIiOiIxIn0.QPWtbfx2V_IoOaoRmBdA7npw9qRio5BU8J9",
            "Vl8Od_lLa4VhkzdYdd1u4HRFDjAJc4OsqcAPs36jhbgVqrx1hWSQXtY5qlw8_SclNmG5Lhkw1l0BlsBEEuR3ffKWtAQJES8V3WVbpup12Xv5BaTi7qV63K13",
            "SP8Ah1tF_Wi6X3faddZIIm0UIq7UR_Uj6kDAtogpPA38b88wdaHRYCCQ2WVJVnzz5I8qd1tb8XMCo3KftMYLsEhX2WzUR6yTAX_cj_c33o3Tvw8B9llTiOWW",
            "NDdHWpVDFa5jIjp1gEtEq4ogPCnjI0g5F6CerLy_2ZfZPw85f1-Qq1stPwOFAkXLMHA",
        ),
        concat!(
            "eyJhbGciOiJQUzI1NiJ9.eyJpc3MiOiJodHRwczovL2xvZ2luIiwiYXVkIjoiY2xhc3MiLCJzdWIiOiIxIn0.N5cC4A1X9WYs9CKHud-",
            "fIatoy57A-cCwGYPSI41Mg3N6P4-rTFeQWDZTpxq8GysZpINDYuzwdfyXnWJVRQqcqYA_QA2vGF8TXAKKxmi-",
            "bCwegGeTCXuibrg44PQB1Ljnq9hYdy8YewFg8mjeXdHUqOfMa9RSfCZNhs8Yo7-vxclf9oGRMQ5--",
            "E-ALeAiDdzGcJb9JSoRabRfTNpHT6anoGErTCk_jxZNbCNpZFY0tnTRy3U63TA3zGzEiOWufJMp5KYm7_E8A_Bl9i2ti5pqdoOh-rhP-",
            "BwD9okLaEQeqlrxCg_VLPEq0O1UMWiTGy07NnO6x5h_lG8JD3J_bzj_Ng",
        ),
    ];
    for token in tokens {
        match believed(token, std::slice::from_ref(&key)) {
            Err(Doubt::Content(why)) => assert!(why.contains("lacks `exp`"), "{why}"),
            other => panic!("{other:?}"),
        }
        let forged = token.replacen('.', ".e30", 1);
        assert!(matches!(believed(&forged, std::slice::from_ref(&key)), Err(Doubt::Key(_))));
    }
    // The algorithm that the key is for is not chosen by the token.
    let mut narrow = key;
    narrow["alg"] = json!("PS256");
    assert!(matches!(believed(tokens[0], &[narrow]), Err(Doubt::Key(_))));
}
