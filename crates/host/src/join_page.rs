//! How people come in: the page with the form, and the same for programs.

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::{Value, json};

use super::address::From;
use super::answer::{json_answer, page as page_of, refused, typed};
use super::cookie;
use super::observer::standing;
use super::refusal::Refusal;
use super::register::Phase;
use super::shard_routing::Beyond;
use super::state::{Attempt, Host, Ticket};
use super::typed::shell_functions;
use crate::joining;

/// The page that people come to first. Who has joined in this browser is led on.
pub async fn page(State(host): State<Arc<Host>>, headers: HeaderMap) -> Response {
    let known = host.person(&headers).and_then(|person| {
        let register = host.register();
        register.first_lab_of(person)
    });
    match known {
        Some(lab) => Redirect::to(&format!("{}/learn/{lab}/", host.base())).into_response(),
        None => form(&host, None, &Attempt::default()),
    }
}

/// The form, with what is wrong with what was typed.
fn form(host: &Host, problem: Option<&Refusal>, typed: &Attempt) -> Response {
    let courses = host.courses().map(|(name, course)| (name, course.lab()));
    let labs: Vec<Value> = courses
        .map(|(name, lab)| json!({ "name": name, "title": lab.shown_title(), "steps": lab.steps.len() }))
        .collect();
    let words = match host.phase() {
        Phase::Open => None,
        Phase::Ahead => Some("The class is not open yet: come back when it begins."),
        Phase::Closed => Some("The class is closed. Who has a seat can still look at it."),
        Phase::Over => Some("The class is over."),
    };
    let sign_in = host.sign_in().map(|sign_in| {
        // The provider leads back to the address that people are to call the class by: the cookie is to be of that one.
        json!({ "place": sign_in.place(), "needs_code": sign_in.settings.needs_code(), "at": format!("{}/oidc/begin", host.url()) })
    });
    let document = json!({
        "base": host.base(), "title": "Join", "class": host.settings.name, "console": host.console().is_some(), "labs": labs, "several": labs.len() > 1, "minutes": host.settings.practice, "words": words,
        "problem": problem.map(|problem| &problem.message), "name": typed.name, "lab": typed.lab,
        "needs_pin": problem.is_some_and(|problem| problem.code == 409), "sign_in": sign_in,
    });
    let code = problem.and_then(|problem| StatusCode::from_u16(problem.code).ok()).unwrap_or_default();
    // A browser that hides where a form is sends the origin `null`: this host sees where the form is, and no other does.
    let policy = [(header::REFERRER_POLICY, "same-origin")];
    (code, policy, page_of("join.html", &document)).into_response()
}

/// What was sent by a form, or as JSON.
fn attempt(headers: &HeaderMap, body: &[u8]) -> Result<Attempt, Refusal> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut attempt = Attempt::default();
    let mut take = |key: &str, value: String| match key {
        "code" => attempt.code = value,
        "name" => attempt.name = value,
        "pin" => attempt.pin = Some(value),
        "lab" => attempt.lab = Some(value),
        _ => {}
    };
    if kind.starts_with("application/json") {
        let document: serde_json::Map<String, Value> = serde_json::from_slice(body)
            .map_err(|error| Refusal::bad_request(format!("the body is no JSON object: {error}")))?;
        for (key, value) in document {
            take(&key, value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
    } else {
        for (key, value) in form_urlencoded::parse(body) {
            take(&key, value.into_owned());
        }
    }
    Ok(attempt)
}

/// Lets somebody in who filled in the form.
pub async fn by_form(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    beyond: Option<Extension<Beyond>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let typed = match attempt(&headers, &body) {
        Ok(typed) => Attempt { beyond: beyond.is_some(), browser: host.person(&headers), ..typed },
        Err(refusal) => return refused(refusal, &headers, &host.base()),
    };
    match joining::join(&host, &typed, from).await {
        Ok(ticket) => {
            show_arrival(&host, &ticket);
            let value = host.learner_proof(ticket.person);
            let cookie = cookie::set(cookie::LEARNER, &value, &host.base(), host.is_secure());
            let base = host.base();
            let answer = match &ticket.pin {
                // Shown once: it is not kept as it is.
                Some(pin) => page_of(
                    "welcome.html",
                    &json!({
                        "base": base, "title": "Welcome", "class": host.settings.name, "url": host.url(), "seat": ticket.seat,
                        "pin": pin, "name": typed.name, "lab": ticket.lab,
                    }),
                ),
                None => Redirect::to(&format!("{base}/learn/{}/", ticket.lab)).into_response(),
            };
            ([(header::SET_COOKIE, cookie)], answer).into_response()
        }
        Err(refusal) => form(&host, Some(&refusal), &typed),
    }
}

/// Lets somebody in who asks by a program: the answer is a kubeconfig, or a document for who asks for JSON.
pub async fn by_program(
    State(host): State<Arc<Host>>,
    Extension(From(from)): Extension<From>,
    beyond: Option<Extension<Beyond>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let typed_in = Attempt { beyond: beyond.is_some(), browser: host.person(&headers), ..attempt(&headers, &body)? };
    let ticket = joining::join(&host, &typed_in, from).await?;
    show_arrival(&host, &ticket);
    let gone = || Refusal::internal("the seat is gone");
    let kubeconfig = host.kubeconfig(ticket.seat, &ticket.lab).ok_or_else(gone)?;
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.contains("application/json") {
        return Ok(json_answer(StatusCode::OK, &document(&host, &ticket, &kubeconfig)));
    }
    let pin = ticket.pin.as_ref().map_or(String::new(), |pin| {
        format!("# Your PIN: {pin}. With it and your name you come back to this seat from another machine.\n")
    });
    let [(_, function), _] = shell_functions(&host, ticket.seat);
    let words = format!(
        "# Your seat {} in lab {}, of {}/\n{pin}# export KUBECONFIG=THIS-FILE, then: kubectl get nodes\n\
         # The lesson without klab: paste the next line without its `# ` into your shell, then: klab guide\n# {function}\n",
        ticket.seat,
        ticket.lab,
        host.url()
    );
    Ok(typed("application/yaml", words + &kubeconfig))
}

/// The instructor sees who has come, without a look at the seat.
pub(super) fn show_arrival(host: &Host, ticket: &Ticket) {
    if let Some(standing) = standing(host, ticket.seat) {
        host.standings.put(standing);
    }
}

fn document(host: &Host, ticket: &Ticket, kubeconfig: &str) -> Value {
    let course = host.course(&ticket.lab);
    json!({
        "schema": "klab.seat/1", "class": host.settings.name, "url": host.url(), "seat": ticket.seat, "lab": ticket.lab,
        "title": course.and_then(|course| course.lab().title.clone()), "pin": ticket.pin,
        "has_pin": host.register().person(ticket.person).is_some_and(|person| person.pin.is_some()),
        "token": host.server().and_then(|server| server.token(&ticket.seat.to_string())), "kubeconfig": kubeconfig,
        "page": format!("{}/learn/{}/", host.url(), ticket.lab),
    })
}
