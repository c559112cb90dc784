//! Who asks about a seat by its token: its owner, or none.

use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures::StreamExt;
use http::request::Parts;

use super::refusal::Refusal;
use super::seat::SeatId;
use super::state::{Host, Learner};
use crate::barring;

/// The owner of the seat in the path.
pub struct Owner(pub Learner);

/// As [`Owner`], for what changes something.
pub struct WritingOwner(pub Learner);

impl FromRequestParts<Arc<Host>> for Owner {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, host: &Arc<Host>) -> Result<Self, Refusal> {
        let path = Path::<String>::from_request_parts(parts, host).await.ok();
        let seat: Option<SeatId> = path.and_then(|Path(seat)| seat.parse().ok());
        // A seat that is not there and a token that is not its look the same.
        seat.and_then(|seat| host.owner(seat, &parts.headers)).map(Self).ok_or_else(Refusal::unauthorised)
    }
}

impl FromRequestParts<Arc<Host>> for WritingOwner {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, host: &Arc<Host>) -> Result<Self, Refusal> {
        let Owner(learner) = Owner::from_request_parts(parts, host).await?;
        host.refuse_late(learner.person)?;
        Ok(Self(learner))
    }
}

/// Ends an answer that goes on with its learner's seat.
pub async fn until_barred(
    State(host): State<Arc<Host>>,
    Owner(learner): Owner,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = next.run(request).await.into_parts();
    if body.size_hint().exact().is_some() {
        return Response::from_parts(parts, body);
    }
    let pieces = body.into_data_stream().take_until(Box::pin(barring::is_barred(&host, learner.person)));
    Response::from_parts(parts, Body::from_stream(pieces))
}
