//! Where the provider leads back to: who it is that comes is found out, and they are given their seat.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::shard_routing;
use crate::address::From;
use crate::admission;
use crate::admission::{TEACHING, subject};
use crate::answer::refused;
use crate::cookie;
use crate::join_page;
use crate::metrics::count;
use crate::oidc::auth_request::{AuthRequest, LoginState, Purpose, shard_of};
use crate::oidc::fault::{Fault, word};
use crate::oidc::provider::Back;
use crate::oidc::rule::{Claims, name_of};
use crate::oidc::sign_in::SignIn;
use crate::refusal::Refusal;
use crate::register::Identified;
use crate::state::Host;

/// Longest code of a provider that is taken back to it.
const CODE: usize = 4096;

/// What the provider says by way of the browser.
#[derive(Debug, Default)]
struct ProviderAnswer {
    state: String,
    code: String,
    error: String,
    issuer: Option<String>,
}

impl ProviderAnswer {
    /// Whatever is said twice is not said.
    fn of(query: &str) -> Option<Self> {
        let mut said = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let field = match &*key {
                "state" => &mut said.state,
                "code" => &mut said.code,
                "error" => &mut said.error,
                "iss" if said.issuer.is_none() => {
                    said.issuer = Some(value.into_owned());
                    continue;
                }
                "iss" => return None,
                _ => continue,
            };
            if !field.is_empty() || value.len() > CODE {
                return None;
            }
            *field = value.into_owned();
        }
        Some(said)
    }
}

/// Why somebody does not come in: the provider, or the class itself.
enum Not {
    Signed(Fault),
    Let(Refusal),
}

impl std::convert::From<Fault> for Not {
    fn from(fault: Fault) -> Self {
        Self::Signed(fault)
    }
}

impl std::convert::From<Refusal> for Not {
    fn from(refusal: Refusal) -> Self {
        Self::Let(refusal)
    }
}

/// Takes somebody in whom the provider leads back.
pub(super) async fn callback(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let Some(sign_in) = host.sign_in() else {
        return refused(Refusal::not_found("this class has no sign-in"), &headers, &host.base());
    };
    let query = query.unwrap_or_default();
    if let Some(to) = ProviderAnswer::of(&query).and_then(|said| elsewhere(&host, &said.state)) {
        return (StatusCode::SEE_OTHER, [(header::LOCATION, format!("{to}/oidc/callback?{query}"))]).into_response();
    }
    if let Err(refusal) = sign_in.may_try(from) {
        return refused(refusal, &headers, &host.base());
    }
    match taken_in(&host, sign_in, &query, &headers, from).await {
        Ok(answer) => answer,
        Err(Not::Let(refusal)) => refused(refusal, &headers, &host.base()),
        Err(Not::Signed(fault)) => {
            count(&host.metrics.sign_in_failed);
            if fault.is_guess() {
                sign_in.failed(from);
            }
            let refusal = fault.refusal(sign_in.place());
            host.audit.not_signed_in(&refusal, &fault.why, from);
            refused(refusal, &headers, &host.base())
        }
    }
}

/// The address of the shard that a sign-in was begun at, where that is another one.
fn elsewhere(host: &Host, state: &str) -> Option<String> {
    let shards = host.shards()?;
    let shard = shard_of(state).filter(|shard| *shard != shards.own && *shard < shards.many)?;
    shards.address_of(&host.url(), shard)
}

async fn taken_in(
    host: &Host,
    sign_in: &SignIn,
    query: &str,
    headers: &HeaderMap,
    from: IpAddr,
) -> Result<Response, Not> {
    let said =
        ProviderAnswer::of(query).ok_or_else(|| Fault::stale("what came back is too long, or says something twice"))?;
    let now = Timestamp::now().as_second();
    let browser = admission::browser_of(host, headers)
        .ok_or_else(|| Fault::stale("the browser brought no cookie of a sign-in that this class gave it"))?;
    let (round, wish) = AuthRequest::back(&host.secret, browser, &said.state)
        .ok_or_else(|| Fault::stale("the state is not one that was given to this browser"))?;
    if !wish.is_fresh(now) {
        return Err(Fault::stale("the sign-in was begun more than ten minutes ago").into());
    }
    if !sign_in.uses_up(&round.state, now) {
        return Err(Fault::stale("the sign-in was used before").into());
    }
    if said.issuer.as_ref().is_some_and(|issuer| *issuer != sign_in.settings.issuer.to_string()) {
        return Err(Fault::wrong("who led back says that it is another provider (iss)").into());
    }
    if !said.error.is_empty() {
        return Err(Fault::declined(format!("the provider says {}", word(&said.error))).into());
    }
    if said.code.is_empty() {
        return Err(Fault::declined("the provider led back without a code").into());
    }
    if said.issuer.is_none() && sign_in.provider.described(&sign_in.settings).await?.says_issuer {
        return Err(
            Fault::wrong("who led back does not say which provider it is (iss), as this one always does").into()
        );
    }
    let redirect = admission::sign_in_redirect(host);
    let back = Back { code: &said.code, round: &round, redirect: &redirect };
    let claims = sign_in.provider.person(&sign_in.settings, &back).await?;
    if wish.aim == Purpose::Teach {
        teaching(host, sign_in, &claims, from)
    } else {
        seated(host, sign_in, &claims, &wish, from).await
    }
}

/// Gives the browser of an instructor what the instructor's link would give it, for a day's work.
fn teaching(host: &Host, sign_in: &SignIn, claims: &Claims, from: IpAddr) -> Result<Response, Not> {
    if let Some(why) = sign_in.settings.why_not_teach(claims) {
        return Err(Fault::stranger(why).into());
    }
    host.audit.line("instructor", json!({ "from": from, "by": "sign-in" }));
    let value = admission::teaching(host, Timestamp::now().as_second());
    let cookie = cookie::set_for(TEACHING, cookie::TEACHING, &value, &host.common_base(), host.is_secure());
    let to = format!("{}/teach/", host.base());
    Ok((StatusCode::SEE_OTHER, AppendHeaders([(header::SET_COOKIE, cookie), (header::LOCATION, to)])).into_response())
}

async fn seated(
    host: &Host,
    sign_in: &SignIn,
    claims: &Claims,
    wish: &LoginState,
    from: IpAddr,
) -> Result<Response, Not> {
    if let Some(why) = sign_in.settings.why_not_join(claims) {
        return Err(Fault::stranger(why).into());
    }
    let sub = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
    let subject = subject(&sign_in.settings.issuer.to_string(), sub);
    if let Some(shards) = host.shards() {
        let place = shard_routing::place(host, shards, &subject, wish.is_led).await?;
        if let Some(to) = shards.address_of(&host.url(), place).filter(|_| place != shards.own) {
            let query = form_urlencoded::Serializer::new(String::new())
                .extend_pairs([("then", wish.aim.word()), ("lab", &wish.lab), ("led", "1")])
                .finish();
            return Ok(
                (StatusCode::SEE_OTHER, [(header::LOCATION, format!("{to}/oidc/begin?{query}"))]).into_response()
            );
        }
    }
    let identified = Identified {
        identity: &admission::identity(host, &subject),
        name: name_of(claims).unwrap_or_default(),
        lab: Some(wish.lab.as_str()).filter(|lab| !lab.is_empty()),
        code: wish.code,
        needs_code: sign_in.settings.needs_code(),
    };
    let ticket = admission::join_signed_in(host, &identified, from).await?;
    join_page::show_arrival(host, &ticket);
    let base = host.base();
    let page = if wish.aim == Purpose::Terminal { "lines" } else { "" };
    let cookies = [
        cookie::set(cookie::LEARNER, &host.learner_proof(ticket.person), &base, host.is_secure()),
        admission::sign_in_cookie(host, 0, ""),
    ];
    let to = format!("{base}/learn/{}/{page}", ticket.lab);
    let [learner, used] = cookies;
    let headers = AppendHeaders([(header::SET_COOKIE, learner), (header::SET_COOKIE, used), (header::LOCATION, to)]);
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_twice_or_at_length_is_not_said() {
        let said = ProviderAnswer::of("code=a%2Fb&state=s&iss=https%3A%2F%2Fh&session_state=x").unwrap();
        assert_eq!((said.code.as_str(), said.state.as_str(), said.issuer.as_deref()), ("a/b", "s", Some("https://h")));
        for query in
            ["code=a&code=b", "state=a&state=b&code=c", "iss=a&iss=b", &format!("code={}", "a".repeat(CODE + 1))]
        {
            assert!(ProviderAnswer::of(query).is_none(), "{query}");
        }
        assert!(ProviderAnswer::of("").unwrap().code.is_empty());
    }
}
