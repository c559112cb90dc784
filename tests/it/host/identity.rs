//! An identity provider for tests, in this process, with keys of its own; it can go wrong in many ways. And a browser: it keeps cookies
//! as browsers do, and follows where it is led.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http_body_util::BodyExt;
use klab_operations::client::bearer::{self, Trust};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

/// What the class is called at the provider, and its secret there.
pub(super) const CLIENT: &str = "klab class";
pub(super) const SECRET: &str = "hunter2 and more";

/// How the provider behaves, and who is in front of it.
#[derive(Debug, Default)]
pub(super) struct Mood {
    /// Who signs in: what is said of them.
    pub(super) person: Value,
    /// What is said of them where it is asked for again.
    pub(super) more: Value,
    /// What its tokens say in place of what they should; null: nothing.
    pub(super) claims: Value,
    /// The head of its tokens, in place of the usual one.
    pub(super) head: Option<Value>,
    /// What it says of itself, in place of what it should.
    pub(super) itself: Value,
    /// Whether its tokens are signed by a key that it does not name, or by the text of its public one.
    pub(super) by: By,
    /// What it answers to a code, in place of tokens.
    pub(super) answer: Option<(u16, String)>,
    /// Whether it says nothing to whoever asks for what it is.
    pub(super) is_silent: bool,
    /// Where it leads whoever asks for what it is.
    pub(super) leads: Option<String>,
    /// What it says when somebody signs in, in place of a code.
    pub(super) refuses: Option<String>,
}

/// Who signs tokens.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum By {
    #[default]
    Provider,
    Foreigner,
    /// HS256, with the public key as the secret.
    Public,
    Nobody,
}

/// What a code was given for.
struct Given {
    challenge: String,
    redirect: String,
    nonce: String,
}

struct Inside {
    url: String,
    mood: Mood,
    key: EcdsaKeyPair,
    foreign: EcdsaKeyPair,
    kid: u32,
    codes: BTreeMap<String, Given>,
    /// How often its keys were asked for.
    keys_asked: usize,
    /// All codes and tokens that it ever gave.
    secrets: Vec<String>,
}

/// An identity provider.
#[derive(Clone)]
pub(super) struct Provider {
    pub(super) url: String,
    inside: Arc<Mutex<Inside>>,
}

fn new_key() -> EcdsaKeyPair {
    let (by, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
    let document = EcdsaKeyPair::generate_pkcs8(by, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(by, document.as_ref(), &random).unwrap()
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn fields(text: &str) -> BTreeMap<String, String> {
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

impl Provider {
    /// One that is well, with Ann in front of it.
    pub(super) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/realms/a", listener.local_addr().unwrap());
        let inside = Inside {
            url: url.clone(),
            mood: Mood::default(),
            key: new_key(),
            foreign: new_key(),
            kid: 1,
            codes: BTreeMap::new(),
            keys_asked: 0,
            secrets: Vec::new(),
        };
        let provider = Self { url, inside: Arc::new(Mutex::new(inside)) };
        provider.well("ann", "Ann");
        let app = Router::new()
            .route("/realms/a/.well-known/openid-configuration", get(itself))
            .route("/realms/a/authorize", get(authorize))
            .route("/realms/a/token", post(token))
            .route("/realms/a/keys", get(keys))
            .route("/realms/a/userinfo", get(userinfo))
            .with_state(provider.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        provider
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap()
    }

    /// It behaves, and somebody is in front of it.
    pub(super) fn well(&self, sub: &str, name: &str) {
        self.feels(|mood| {
            *mood = Mood { person: json!({ "sub": sub, "name": name, "groups": ["platform"] }), ..Mood::default() };
        });
    }

    pub(super) fn feels(&self, change: impl FnOnce(&mut Mood)) {
        change(&mut self.inside().mood);
    }

    /// Signs with a new key from now on.
    pub(super) fn rotate(&self) {
        let mut inside = self.inside();
        inside.key = new_key();
        inside.kid += 1;
    }

    pub(super) fn keys_asked(&self) -> usize {
        self.inside().keys_asked
    }

    /// All codes and tokens that it ever gave.
    pub(super) fn secrets(&self) -> Vec<String> {
        self.inside().secrets.clone()
    }
}

fn overwritten(mut document: Value, by: &Value) -> Value {
    for (name, value) in by.as_object().into_iter().flatten() {
        document[name] = value.clone();
        if value.is_null() {
            document.as_object_mut().unwrap().remove(name);
        }
    }
    document
}

async fn itself(State(provider): State<Provider>) -> Response {
    let is_silent = provider.inside().mood.is_silent;
    if is_silent {
        std::future::pending::<()>().await;
    }
    let inside = provider.inside();
    if let Some(to) = &inside.mood.leads {
        return (StatusCode::FOUND, [(header::LOCATION, to.clone())]).into_response();
    }
    let url = &inside.url;
    let document = json!({
        "issuer": url, "authorization_endpoint": format!("{url}/authorize?theme=dark"), "token_endpoint": format!("{url}/token"),
        "jwks_uri": format!("{url}/keys"), "userinfo_endpoint": format!("{url}/userinfo"), "code_challenge_methods_supported": ["S256"],
    });
    overwritten(document, &inside.mood.itself).to_string().into_response()
}

async fn authorize(State(provider): State<Provider>, RawQuery(query): RawQuery) -> Response {
    let mut inside = provider.inside();
    let asked = fields(&query.unwrap_or_default());
    for (name, wanted) in [
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("code_challenge_method", "S256"),
        ("theme", "dark"),
        ("scope", "openid profile email"),
    ] {
        assert_eq!(asked[name], wanted, "{name}");
    }
    let back = |fields: &[(&str, &str)]| {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        (StatusCode::FOUND, [(header::LOCATION, format!("{}?{query}", asked["redirect_uri"]))]).into_response()
    };
    if let Some(error) = &inside.mood.refuses {
        return back(&[("error", error), ("error_description", "<b>no</b>"), ("state", &asked["state"])]);
    }
    let code = format!("code-{}-{}", inside.secrets.len(), encoded(asked["state"].as_bytes()));
    let given = Given {
        challenge: asked["code_challenge"].clone(),
        redirect: asked["redirect_uri"].clone(),
        nonce: asked["nonce"].clone(),
    };
    inside.codes.insert(code.clone(), given);
    inside.secrets.push(code.clone());
    back(&[("code", &code), ("state", &asked["state"])])
}

async fn token(State(provider): State<Provider>, headers: HeaderMap, body: String) -> Response {
    let mut inside = provider.inside();
    if let Some((status, text)) = &inside.mood.answer {
        return (StatusCode::from_u16(*status).unwrap(), text.clone()).into_response();
    }
    let error = |word: &str| (StatusCode::BAD_REQUEST, json!({ "error": word }).to_string()).into_response();
    let wanted = STANDARD.encode("klab+class:hunter2+and+more");
    if headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()) != Some(&format!("Basic {wanted}")) {
        return error("invalid_client");
    }
    let asked = fields(&body);
    let Some(given) = inside.codes.remove(&asked["code"]) else { return error("invalid_grant") };
    let challenge = encoded(ring::digest::digest(&ring::digest::SHA256, asked["code_verifier"].as_bytes()));
    if asked["grant_type"] != "authorization_code"
        || asked["redirect_uri"] != given.redirect
        || challenge != given.challenge
    {
        return error("invalid_grant");
    }
    let id = id_token(&inside, &given.nonce);
    let access = format!("access-{}", inside.secrets.len());
    inside.secrets.extend([id.clone(), access.clone()]);
    json!({ "access_token": access, "token_type": "Bearer", "expires_in": 60, "id_token": id })
        .to_string()
        .into_response()
}

fn id_token(inside: &Inside, nonce: &str) -> String {
    let now = jiff::Timestamp::now().as_second();
    let base = json!({ "iss": inside.url, "aud": CLIENT, "exp": now + 60, "iat": now, "nonce": nonce });
    let claims = overwritten(overwritten(base, &inside.mood.person), &inside.mood.claims);
    let by = &inside.mood.by;
    let algorithm = match by {
        By::Provider | By::Foreigner => "ES256",
        By::Public => "HS256",
        By::Nobody => "none",
    };
    let head = inside.mood.head.clone().unwrap_or_else(|| json!({ "alg": algorithm, "kid": inside.kid.to_string() }));
    let text = format!("{}.{}", encoded(head.to_string()), encoded(claims.to_string()));
    let sign = |key: &EcdsaKeyPair| encoded(key.sign(&SystemRandom::new(), text.as_bytes()).unwrap());
    let signature = match by {
        By::Provider => sign(&inside.key),
        By::Foreigner => sign(&inside.foreign),
        By::Public => {
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, inside.key.public_key().as_ref());
            encoded(ring::hmac::sign(&key, text.as_bytes()))
        }
        By::Nobody => String::new(),
    };
    format!("{text}.{signature}")
}

async fn keys(State(provider): State<Provider>) -> String {
    let mut inside = provider.inside();
    inside.keys_asked += 1;
    let point = &inside.key.public_key().as_ref()[1..];
    let key = json!({
        "kty": "EC", "crv": "P-256", "use": "sig", "kid": inside.kid.to_string(), "x": encoded(&point[..32]), "y": encoded(&point[32..]),
    });
    json!({ "keys": [{ "kty": "strange" }, key] }).to_string()
}

async fn userinfo(State(provider): State<Provider>, headers: HeaderMap) -> Response {
    let inside = provider.inside();
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    if !shown.is_some_and(|token| inside.secrets.iter().any(|one| one == token)) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    inside.mood.more.to_string().into_response()
}

/// A cookie, and where it belongs.
#[derive(Debug, Clone)]
struct Cookie {
    origin: String,
    path: String,
    name: String,
    value: String,
    text: String,
}

/// A browser of somebody.
#[derive(Debug, Default, Clone)]
pub(super) struct Browser {
    cookies: Vec<Cookie>,
    /// Addresses that are reached elsewhere, as behind a proxy: the beginning, and who is asked.
    ways: Vec<(String, String)>,
}

/// What is shown at the end.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) url: String,
    pub(super) status: u16,
    pub(super) text: String,
    /// All addresses on the way.
    pub(super) way: Vec<String>,
}

fn split(url: &str) -> (&str, &str) {
    let start = url.find("://").unwrap() + 3;
    let end = url[start..].find('/').map_or(url.len(), |at| start + at);
    url.split_at(end)
}

impl Browser {
    /// One that reaches addresses elsewhere.
    pub(super) fn behind(ways: Vec<(String, String)>) -> Self {
        Self { ways, ..Self::default() }
    }

    /// The cookie of a name as it was set.
    pub(super) fn cookie(&self, name: &str) -> Option<&str> {
        self.cookies.iter().find(|cookie| cookie.name == name).map(|cookie| cookie.text.as_str())
    }

    /// An answer: its status, where it leads, its text.
    pub(super) async fn ask(&mut self, method: &str, url: &str, body: &str) -> (u16, Option<String>, String) {
        let (origin, path) = split(url);
        let asked = self.ways.iter().find(|(begins, _)| url.starts_with(begins)).map_or(origin, |(_, at)| at.as_str());
        let client = bearer::client(asked, Trust::Anybody, None, super::running::PATIENCE).await.unwrap();
        let path = if path.is_empty() { "/" } else { path };
        let mut request = http::Request::builder().method(method).uri(path).header("accept", "text/html");
        let own = self.cookies.iter().filter(|cookie| cookie.origin == origin && path.starts_with(&cookie.path));
        let cookies: Vec<String> = own.map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect();
        if !cookies.is_empty() {
            request = request.header("cookie", cookies.join("; "));
        }
        if method == "POST" {
            request = request.header("origin", origin).header("content-type", "application/x-www-form-urlencoded");
        }
        let request = request.body(kube::client::Body::from(body.as_bytes().to_vec())).unwrap();
        let (parts, body) = client.send(request).await.unwrap().into_parts();
        for value in parts.headers.get_all("set-cookie") {
            self.keep(origin, value.to_str().unwrap());
        }
        let to = parts.headers.get("location").map(|to| to.to_str().unwrap().to_owned());
        let to = to.map(|to| if to.starts_with('/') { format!("{origin}{to}") } else { to });
        (parts.status.as_u16(), to, String::from_utf8_lossy(&body.collect().await.unwrap().to_bytes()).into_owned())
    }

    fn keep(&mut self, origin: &str, text: &str) {
        let (name, value) = text.split(';').next().unwrap().split_once('=').unwrap();
        let attribute = |name: &str| text.split("; ").find_map(|one| one.strip_prefix(name));
        let path = attribute("Path=").unwrap().to_owned();
        self.cookies.retain(|cookie| !(cookie.name == name && cookie.path == path && cookie.origin == origin));
        if attribute("Max-Age=") != Some("0") {
            let (origin, name, value) = (origin.to_owned(), name.to_owned(), value.to_owned());
            self.cookies.push(Cookie { origin, path, name, value, text: text.to_owned() });
        }
    }

    /// Goes to an address, and on to wherever it leads.
    pub(super) async fn go(&mut self, url: &str) -> Shown {
        let mut way = vec![url.to_owned()];
        loop {
            let url = way.last().unwrap().clone();
            let (status, to, text) = self.ask("GET", &url, "").await;
            match to.filter(|_| way.len() < 20) {
                Some(to) => way.push(to),
                None => return Shown { url, status, text, way },
            }
        }
    }
}
