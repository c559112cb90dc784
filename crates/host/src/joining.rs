//! How a learner comes in with a code: klab counts code and PIN as a guess before it judges them, and takes that back if they are right.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;

use super::answer::failed;
use super::code::{For, plain};
use super::limit::{Claim, Guesser};
use super::refusal::Refusal;
use super::register::{Entry, Joining, key};
use super::secret::new_pin;
use super::state::{Attempt, Host, Ticket, make_seat};
use crate::admission;

/// Longest code, name and PIN that are looked at.
const MAX_FIELD: usize = 200;

/// Lets somebody in: finds their seat, or makes one.
///
/// # Errors
/// Why they cannot come in.
pub(super) async fn join(host: &Host, attempt: &Attempt, from: IpAddr) -> Result<Ticket, Refusal> {
    let began = Instant::now();
    let joined = admit(host, attempt, from).await;
    host.metrics.joined(&joined, began.elapsed());
    match &joined {
        Ok(ticket) => host.audit.joined(ticket.seat, &ticket.lab, from),
        Err(refusal) => host.audit.refused("join", refusal, from),
    }
    joined
}

async fn admit(host: &Host, attempt: &Attempt, from: IpAddr) -> Result<Ticket, Refusal> {
    let pin = attempt.pin.as_deref().map(str::trim).filter(|pin| !pin.is_empty());
    if [&attempt.code, &attempt.name].iter().any(|text| text.len() > MAX_FIELD)
        || pin.is_some_and(|pin| pin.len() > MAX_FIELD)
    {
        return Err(Refusal::bad_request("that is too long"));
    }
    let Some(server) = host.server() else {
        return Err(Refusal::new(503, "ServiceUnavailable", "the class is being made: try again in a moment"));
    };
    // A pass and a code for one seat have sixty bits, too many to guess: they work whatever others try.
    if let Some(joined) = admission::join_by_pass(host, attempt).await {
        return joined;
    }
    let code = host.class.hash(&plain(&attempt.code));
    let of = host.register().code(&code).map(|(code, _)| code.of);
    let made = new_pin().map_err(|error| Refusal::internal(error.to_string()))?;
    let has_pin = pin.is_some();
    let claimed = if of == Some(For::Seat) {
        None
    } else {
        // Few are judged at a time: at most this many count that may be right. An error means that the semaphore is closed,
        // which it never is.
        let turn = host.judging.acquire().await;
        Some((claim(host, attempt, from, has_pin)?, turn))
    };
    // The slow hash is made only with a code of the class.
    let hash = if of == Some(For::Class) {
        let (secret, person, pin) = (host.secret.clone(), key(&attempt.name), pin.unwrap_or(&made).to_owned());
        let hashed = tokio::task::spawn_blocking(move || secret.pin(&person, &pin)).await;
        hashed.map_err(|error| Refusal::internal(error.to_string()))?
    } else {
        String::new()
    };
    let (joined, written) = {
        let mut register = host.register();
        let joining = Joining {
            name: &attempt.name,
            code: &code,
            pin: has_pin.then(|| hash.clone()),
            lab: attempt.lab.as_deref().filter(|lab| !lab.is_empty()),
            beyond: attempt.beyond,
        };
        let joined = register.join(&joining, Timestamp::now(), &hash);
        let is_guess = joined.as_ref().is_err_and(|refusal| refusal.is_guess);
        if let Some((claim, _)) = claimed.filter(|_| !is_guess) {
            host.limits().refund(&claim, Instant::now());
        }
        let joined = joined?;
        let written = (!joined.entries.is_empty()).then(|| host.take(&mut register, joined.entries.clone()));
        (joined, written)
    };
    if let Some(written) = written {
        host.settled(written).await.map_err(|error| failed(&error))?;
    }
    let is_new = |entry: &Entry| matches!(entry, Entry::Person(person) if person.pin.is_some());
    let pin = (!has_pin && joined.entries.iter().any(is_new)).then_some(made);
    let (server, seat, lab) = (Arc::clone(server), joined.seat, joined.lab.clone());
    let seated = tokio::task::spawn_blocking(move || make_seat(&server, seat, &lab)).await;
    seated.map_err(|error| Refusal::internal(error.to_string()))??;
    Ok(Ticket { person: joined.person, seat: joined.seat, lab: joined.lab, pin })
}

/// Counts an attempt before it is judged.
fn claim(host: &Host, attempt: &Attempt, from: IpAddr, has_pin: bool) -> Result<Claim, Refusal> {
    let known = host.register().needs_pin(&attempt.name).map(|person| person.number);
    let own = attempt.browser.filter(|person| known == Some(*person));
    let guesser = own.map_or(Guesser::Address(from), Guesser::Browser);
    let name = (known.is_some() && has_pin).then(|| key(&attempt.name));
    host.limits().claim(guesser, name.as_deref(), Instant::now()).map_err(Refusal::too_many)
}
