//! Where signing in begins: a browser is given a word that tells it from others, and is led to the provider.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde_json::json;

use crate::address::From;
use crate::admission;
use crate::admission::new_word;
use crate::answer::{json_answer, page, refused};
use crate::code::plain;
use crate::metrics::count;
use crate::oidc::auth_request::{AuthRequest, LONG, LoginState, Purpose};
use crate::oidc::sign_in::SignIn;
use crate::refusal::Refusal;
use crate::state::Host;

/// Letters that keep two sign-ins of one browser apart.
const SALT: usize = 16;
/// Longest code and lab that are looked at.
const MAX_FIELD: usize = 200;

/// What a link or a form says.
#[derive(Debug, Default)]
struct Query {
    /// The lab; nothing: the first.
    lab: String,
    /// What is to be shown then.
    then: String,
    /// Whether another shard led here.
    is_led: bool,
    /// The code of the class, from a form: what stands in an address is written down by proxies.
    code: String,
}

impl Query {
    fn of_link(query: &str) -> Self {
        Self { code: String::new(), ..Self::of_form(query.as_bytes()) }
    }

    fn of_form(body: &[u8]) -> Self {
        let mut asked = Self::default();
        for (key, value) in form_urlencoded::parse(body) {
            match &*key {
                "lab" => asked.lab = value.into_owned(),
                "then" => asked.then = value.into_owned(),
                "led" => asked.is_led = value == "1",
                "code" => asked.code = value.into_owned(),
                _ => {}
            }
        }
        asked
    }
}

/// Somebody who is on their way.
struct Begun {
    /// Where their browser is led to.
    to: String,
    cookie: String,
}

fn offered(host: &Host) -> Result<&Arc<SignIn>, Refusal> {
    host.sign_in().ok_or_else(|| Refusal::not_found("this class has no sign-in: it is joined with a code"))
}

/// Leads somebody to the provider who follows a link.
pub(super) async fn by_link(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    match begun(&host, &Query::of_link(&query.unwrap_or_default()), &headers, from).await {
        Ok(Begun { to, cookie }) => {
            (StatusCode::SEE_OTHER, [(header::LOCATION, to), (header::SET_COOKIE, cookie)]).into_response()
        }
        Err(refusal) => refused(refusal, &headers, &host.base()),
    }
}

/// As [`by_link`], for somebody who typed the code of the class. A browser follows no form to another site, so a page leads on.
pub(super) async fn by_form(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match begun(&host, &Query::of_form(&body), &headers, from).await {
        Ok(Begun { to, cookie }) => {
            let place = host.sign_in().map_or("", |sign_in| sign_in.place());
            let document = json!({ "base": host.base(), "title": "Sign in", "to": to, "place": place });
            ([(header::SET_COOKIE, cookie)], page("onward.html", &document)).into_response()
        }
        Err(refusal) => refused(refusal, &headers, &host.base()),
    }
}

async fn begun(host: &Host, asked: &Query, headers: &HeaderMap, from: IpAddr) -> Result<Begun, Refusal> {
    let sign_in = offered(host)?;
    sign_in.may_try(from)?;
    let aim = match asked.then.as_str() {
        "" => Purpose::Seat,
        then => Purpose::of(then)
            .ok_or_else(|| Refusal::bad_request("a link for signing in says where to go as seat or terminal"))?,
    };
    if aim == Purpose::Teach && sign_in.settings.instructors.is_empty() {
        return Err(Refusal::not_found("instructors of this class do not sign in: they have a link"));
    }
    if asked.lab.len() > MAX_FIELD || asked.code.len() > MAX_FIELD {
        return Err(Refusal::bad_request("that is too long"));
    }
    if host.server().is_none() {
        return Err(Refusal::new(503, "ServiceUnavailable", "the class is being made: try again in a moment"));
    }
    if !asked.lab.is_empty() && host.course(&asked.lab).is_none() {
        return Err(Refusal::bad_request("there is no such lab in this class"));
    }
    let wish = LoginState {
        shard: host.settings.shard,
        begun: Timestamp::now().as_second(),
        aim,
        lab: asked.lab.clone(),
        code: code_of(host, asked, from)?,
        is_led: asked.is_led,
    };
    // Windows of one browser share its word, so that one does not end what the other has begun.
    let browser = admission::browser_of(host, headers).map_or_else(new_word, |word| Ok(word.to_owned()))?;
    let salt: String = new_word()?.chars().take(SALT).collect();
    let round = AuthRequest::begin(&host.secret, &browser, &wish, &salt);
    let way_in = sign_in.provider.way_in(&sign_in.settings, &round, &admission::sign_in_redirect(host)).await;
    let to = way_in.map_err(|fault| {
        count(&host.metrics.sign_in_failed);
        let refusal = fault.refusal(sign_in.place());
        host.audit.not_signed_in(&refusal, &fault.why, from);
        refusal
    })?;
    let cookie = admission::sign_in_cookie(host, LONG, &browser);
    Ok(Begun { to, cookie })
}

/// The number of the code that somebody typed, if they typed one.
fn code_of(host: &Host, asked: &Query, from: IpAddr) -> Result<Option<u32>, Refusal> {
    if asked.code.trim().is_empty() {
        return Ok(None);
    }
    let hash = host.class.hash(&plain(&asked.code));
    let good = host.judged(from, || host.register().good_code(&hash, Timestamp::now()));
    good.map(Some).inspect_err(|refusal| host.audit.refused("sign-in", refusal, from))
}

/// What programs learn about signing in.
pub(super) async fn description(State(host): State<Arc<Host>>) -> Response {
    match offered(&host) {
        Ok(sign_in) => json_answer(
            StatusCode::OK,
            &json!({
                "schema": "klab.sign-in/1", "issuer": sign_in.settings.issuer.to_string(), "place": sign_in.place(),
                "needs_code": sign_in.settings.needs_code(),
                "terminal": format!("{}/oidc/begin?then=terminal", host.url()),
            }),
        ),
        Err(refusal) => refusal.into_response(),
    }
}
