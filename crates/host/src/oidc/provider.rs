//! An identity provider as it describes itself, its keys, and what it says of somebody who comes back from it with a code.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use jsonwebtoken::jwk::Jwk;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore};

use super::auth_request::AuthRequest;
use super::fault::{Fault, word};
use super::rule::{Claims, name_of};
use super::settings::Settings;
use super::token::{self, Doubt, Expected};
use super::transport::Transport;
use crate::service_address::Address;

/// How long what a provider says of itself is good.
const DESCRIBED: Duration = Duration::from_hours(1);
/// How long its keys are.
const KEYS: Duration = Duration::from_mins(15);
/// How long a provider that failed is not asked again.
const REST: Duration = Duration::from_secs(3);
/// Keys are asked for again out of turn so often in a minute, for tokens that none of the known ones has signed.
const AGAIN: u32 = 6;
/// People who are asked for at a time.
const AT_A_TIME: usize = 64;
/// Time for all that is asked for one person.
const WHOLE: Duration = Duration::from_secs(20);

/// What a provider says of itself, as far as it matters.
#[derive(Debug, Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// A provider, as it describes itself.
#[derive(Debug)]
pub(crate) struct Described {
    authorize: Address,
    token: Address,
    keys: Address,
    userinfo: Option<Address>,
    /// Whether it takes a client's secret in a header; else in the form.
    takes_header: bool,
    /// Whether it says who it is when it leads back.
    pub(crate) says_issuer: bool,
}

/// What was asked for, and when; what failed is remembered for a moment, too.
struct Cached<T> {
    at: Instant,
    what: Result<T, Fault>,
}

/// The keys, and when they were asked for out of turn.
#[derive(Default)]
struct Keys {
    kept: Option<Cached<Arc<Vec<Jwk>>>>,
    minute: Option<(Instant, u32)>,
}

/// An identity provider.
pub(crate) struct Provider {
    transport: Transport,
    described: Mutex<Option<Cached<Arc<Described>>>>,
    keys: Mutex<Keys>,
    room: Semaphore,
}

/// The provider leads back with this, which says what it was for.
pub(crate) struct Back<'b> {
    pub(crate) code: &'b str,
    pub(crate) round: &'b AuthRequest,
    pub(crate) redirect: &'b str,
}

impl Provider {
    pub(crate) fn new(authority: Option<String>) -> Self {
        Self {
            transport: Transport::new(authority),
            described: Mutex::default(),
            keys: Mutex::default(),
            room: Semaphore::new(AT_A_TIME),
        }
    }

    /// What the provider says of itself: asked for once in a while, by one at a time.
    pub(crate) async fn described(&self, settings: &Settings) -> Result<Arc<Described>, Fault> {
        let mut known = self.described.lock().await;
        let old = match &*known {
            Some(kept) if is_good(kept, DESCRIBED) => return kept.what.clone(),
            Some(kept) => kept.what.clone().ok(),
            None => None,
        };
        let now = self.describe(settings).await.map(Arc::new);
        // One that knew what to say an hour ago still means it, as long as it is only away.
        let what = match (now, old) {
            (Err(fault), Some(old)) if fault.is_away() => Ok(old),
            (now, _) => now,
        };
        *known = Some(Cached { at: Instant::now(), what: what.clone() });
        what
    }

    async fn describe(&self, settings: &Settings) -> Result<Described, Fault> {
        let at = well_known(&settings.issuer)?;
        let document = self.transport.document(&at, None).await?;
        let place = settings.issuer.place();
        let document: Document = serde_json::from_value(document)
            .map_err(|_| Fault::wrong(format!("what {place} says of itself lacks what an identity provider says")))?;
        understood(&document, &settings.issuer)
    }

    /// Where a browser is led to, to sign in.
    pub(crate) async fn way_in(
        &self,
        settings: &Settings,
        round: &AuthRequest,
        redirect: &str,
    ) -> Result<String, Fault> {
        let described = self.described(settings).await?;
        Ok(described.authorize.with(&[
            ("response_type", "code"),
            ("client_id", &settings.client_id),
            ("redirect_uri", redirect),
            ("scope", &settings.scope()),
            ("state", &round.state),
            ("nonce", &round.nonce),
            ("code_challenge", &round.challenge()),
            ("code_challenge_method", "S256"),
        ]))
    }

    /// What the provider says of somebody who comes back with a code.
    pub(crate) async fn person(&self, settings: &Settings, back: &Back<'_>) -> Result<Claims, Fault> {
        let whole = async {
            let _room = self.room.acquire().await.map_err(|_| Fault::away("the class ends"))?;
            self.asked(settings, back).await
        };
        let late = || Fault::away(format!("{} took longer than {} seconds", settings.issuer.place(), WHOLE.as_secs()));
        tokio::time::timeout(WHOLE, whole).await.map_err(|_| late())?
    }

    async fn asked(&self, settings: &Settings, back: &Back<'_>) -> Result<Claims, Fault> {
        let described = self.described(settings).await?;
        let answer = self.redeemed(settings, &described, back).await?;
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        let Some(id) = text("id_token") else {
            return Err(Fault::wrong("the provider gives no ID token: is `openid` among the scopes that it knows?"));
        };
        let mut claims = self.believed(settings, &described, id, &back.round.nonce).await?;
        if let (Some(at), Some(access)) = (&described.userinfo, text("access_token"))
            && (name_of(&claims).is_none() || settings.needs_more(&claims))
        {
            match self.transport.document(at, Some(access)).await {
                Ok(more) => add(&mut claims, more)?,
                // What is missing is said where a rule needs it.
                Err(fault) => tracing::debug!(why = fault.why, "the provider sent no more about the user"),
            }
        }
        Ok(claims)
    }

    /// What the provider gives for a code.
    async fn redeemed(&self, settings: &Settings, described: &Described, back: &Back<'_>) -> Result<Value, Fault> {
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", back.code),
            ("redirect_uri", back.redirect),
            ("code_verifier", &back.round.verifier),
        ];
        let proof = match &settings.client_secret {
            Some(secret) if described.takes_header => Some(basic(&settings.client_id, secret)),
            Some(secret) => {
                form.extend([("client_id", settings.client_id.as_str()), ("client_secret", secret)]);
                None
            }
            None => {
                form.push(("client_id", &settings.client_id));
                None
            }
        };
        let (status, document) = self.transport.form(&described.token, &form, proof.as_deref()).await?;
        let document = document.unwrap_or_default();
        if status == StatusCode::OK {
            return Ok(document);
        }
        let error = word(document.get("error").and_then(Value::as_str).unwrap_or_default());
        match error.as_str() {
            "invalid_grant" => Err(Fault::stale("the provider does not take the code (invalid_grant)")),
            "invalid_client" | "unauthorized_client" => Err(Fault::wrong(format!(
                "the provider does not know this class ({error}): compare --oidc-client-id and --oidc-client-secret-file with what is registered there"
            ))),
            _ => Err(Fault::wrong(format!("the provider gives nothing for the code: {} {error}", status.as_u16()))),
        }
    }

    /// What an ID token says, where one of the provider's keys has signed it. For one that none has, newer keys are asked for.
    async fn believed(
        &self,
        settings: &Settings,
        described: &Described,
        id: &str,
        nonce: &str,
    ) -> Result<Claims, Fault> {
        let issuer = settings.issuer.to_string();
        let expected = Expected {
            issuer: &issuer,
            client: &settings.client_id,
            nonce,
            now: u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or_default(),
        };
        let keys = self.keys(described).await?;
        let doubt = match token::checked(id, &keys, &expected) {
            Ok(claims) => return Ok(claims),
            Err(doubt) => doubt,
        };
        let why = match doubt {
            Doubt::Content(why) => why,
            Doubt::Key(why) => match self.newer_keys(described).await? {
                None => why,
                Some(newer) => match token::checked(id, &newer, &expected) {
                    Ok(claims) => return Ok(claims),
                    Err(Doubt::Content(why) | Doubt::Key(why)) => why,
                },
            },
        };
        Err(Fault::wrong(why))
    }

    async fn keys(&self, described: &Described) -> Result<Arc<Vec<Jwk>>, Fault> {
        let mut keys = self.keys.lock().await;
        if let Some(kept) = keys.kept.as_ref().filter(|kept| is_good(kept, KEYS)) {
            return kept.what.clone();
        }
        let what = self.asked_for_keys(described).await;
        keys.kept = Some(Cached { at: Instant::now(), what: what.clone() });
        what
    }

    /// The keys as they are now; none where they were asked for often enough.
    async fn newer_keys(&self, described: &Described) -> Result<Option<Arc<Vec<Jwk>>>, Fault> {
        let mut keys = self.keys.lock().await;
        let now = Instant::now();
        let minute = keys.minute.filter(|(since, _)| now.saturating_duration_since(*since) < Duration::from_mins(1));
        let (since, asked) = minute.unwrap_or((now, 0));
        if asked >= AGAIN {
            return Ok(None);
        }
        keys.minute = Some((since, asked.saturating_add(1)));
        let what = self.asked_for_keys(described).await?;
        keys.kept = Some(Cached { at: Instant::now(), what: Ok(Arc::clone(&what)) });
        Ok(Some(what))
    }

    async fn asked_for_keys(&self, described: &Described) -> Result<Arc<Vec<Jwk>>, Fault> {
        let document = self.transport.document(&described.keys, None).await?;
        let keys = token::keys(&document);
        if keys.is_empty() {
            return Err(Fault::wrong(format!("{} names no key that klab understands", described.keys.place())));
        }
        Ok(Arc::new(keys))
    }
}

fn is_good<T>(kept: &Cached<T>, long: Duration) -> bool {
    kept.at.elapsed() < if kept.what.is_ok() { long } else { REST }
}

/// Where a provider describes itself.
fn well_known(issuer: &Address) -> Result<Address, Fault> {
    let text = format!("{}/.well-known/openid-configuration", issuer.to_string().trim_end_matches('/'));
    text.parse().map_err(Fault::wrong)
}

/// What a provider says of itself, where it can be believed.
fn understood(document: &Document, issuer: &Address) -> Result<Described, Fault> {
    let place = issuer.place();
    if document.issuer != issuer.to_string() {
        let itself: String = document.issuer.chars().filter(char::is_ascii_graphic).take(200).collect();
        let why = format!(
            "{place} calls itself `{itself}` and not `{issuer}`: --oidc-issuer must be letter for letter what it says"
        );
        return Err(Fault::wrong(why));
    }
    let address = |text: &str, what: &str| -> Result<Address, Fault> {
        let address: Address = text.parse().map_err(|words| Fault::wrong(format!("the {what} of {place}: {words}")))?;
        if issuer.is_tls() && !address.is_tls() {
            return Err(Fault::wrong(format!("the {what} of {place} is not secured by TLS")));
        }
        Ok(address)
    };
    if document.code_challenge_methods_supported.as_ref().is_some_and(|all| !all.iter().any(|one| one == "S256")) {
        return Err(Fault::wrong(format!("{place} knows no PKCE with S256")));
    }
    let methods = document.token_endpoint_auth_methods_supported.as_deref();
    let takes = |method: &str| methods.is_some_and(|all| all.iter().any(|one| one == method));
    Ok(Described {
        authorize: address(&document.authorization_endpoint, "authorization endpoint")?,
        token: address(&document.token_endpoint, "token endpoint")?,
        keys: address(&document.jwks_uri, "address of the keys")?,
        userinfo: document.userinfo_endpoint.as_deref().map(|text| address(text, "userinfo endpoint")).transpose()?,
        takes_header: takes("client_secret_basic") || !takes("client_secret_post"),
        says_issuer: document.authorization_response_iss_parameter_supported,
    })
}

/// A client's name and secret as a header has them: each written as in a form first.
fn basic(client: &str, secret: &str) -> String {
    let written = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    STANDARD.encode(format!("{}:{}", written(client), written(secret)))
}

/// Adds what a provider says besides its token, if it is about the same person. What the token says stays.
fn add(claims: &mut Claims, more: Value) -> Result<(), Fault> {
    let Value::Object(more) = more else { return Ok(()) };
    if more.get("sub") != claims.get("sub") {
        return Err(Fault::wrong("the provider's userinfo is about another user than its ID token"));
    }
    for (name, value) in more {
        claims.entry(name).or_insert(value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn described(change: Value) -> Result<Described, String> {
        let mut document = json!({
            "issuer": "https://login.example.org/a", "authorization_endpoint": "https://login.example.org/authorize",
            "token_endpoint": "https://api.example.org/token", "jwks_uri": "https://api.example.org/keys",
        });
        for (name, value) in change.as_object().unwrap() {
            document[name] = value.clone();
        }
        let document: Document = serde_json::from_value(document).map_err(|error| error.to_string())?;
        understood(&document, &"https://login.example.org/a".parse().unwrap()).map_err(|fault| fault.why)
    }

    #[test]
    fn a_provider_that_is_another_one_or_not_secured_is_not_believed() {
        assert!(described(json!({})).unwrap().takes_header);
        assert!(
            !described(json!({ "token_endpoint_auth_methods_supported": ["client_secret_post"] }))
                .unwrap()
                .takes_header
        );
        assert!(
            described(json!({ "token_endpoint_auth_methods_supported": ["private_key_jwt"] })).unwrap().takes_header
        );
        for (change, word) in [
            (json!({ "issuer": "https://login.example.org/a/" }), "letter for letter"),
            (json!({ "issuer": "https://evil.net" }), "letter for letter"),
            (json!({ "token_endpoint": "http://api.example.org/token" }), "token endpoint"),
            (json!({ "token_endpoint": "http://127.0.0.1:1/token" }), "TLS"),
            (json!({ "jwks_uri": "file:///etc/passwd" }), "keys"),
            (json!({ "authorization_endpoint": "javascript:alert(1)" }), "authorization endpoint"),
            (json!({ "code_challenge_methods_supported": ["plain"] }), "PKCE"),
            (json!({ "jwks_uri": null }), "null"),
        ] {
            let why = described(change.clone()).unwrap_err();
            assert!(why.contains(word), "{change}: {why}");
        }
        let issuer = |text: &str| well_known(&text.parse().unwrap()).unwrap().to_string();
        assert_eq!(issuer("https://h/a/"), "https://h/a/.well-known/openid-configuration");
        assert_eq!(issuer("https://h"), "https://h/.well-known/openid-configuration");
    }

    #[test]
    fn a_clients_proof_is_written_as_a_form_writes_it() {
        // RFC 6749, section 2.3.1: encoded first.
        assert_eq!(STANDARD.decode(basic("a b:c", "p+%")).unwrap(), b"a+b%3Ac:p%2B%25");
    }

    #[test]
    fn more_is_said_of_the_same_person_only_and_changes_nothing() {
        let mut claims = json!({ "sub": "1", "name": "Ann" }).as_object().unwrap().clone();
        add(&mut claims, json!({ "sub": "1", "name": "Eve", "email": "a@b" })).unwrap();
        assert_eq!(json!(claims), json!({ "sub": "1", "name": "Ann", "email": "a@b" }));
        assert!(add(&mut claims, json!({ "sub": "2" })).is_err() && add(&mut claims, json!({ "name": "x" })).is_err());
    }
}
