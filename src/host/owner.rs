//! Who asks about a seat by its token: its owner, or nobody.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;

use super::refusal::Refusal;
use super::register::Phase;
use super::seat::SeatId;
use super::state::{Host, Learner};

/// The owner of the seat in the path.
pub struct Owner(pub Learner);

/// As [`Owner`], for what changes something.
pub struct OwnerAtWork(pub Learner);

impl FromRequestParts<Arc<Host>> for Owner {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, host: &Arc<Host>) -> Result<Self, Refusal> {
        let path = Path::<String>::from_request_parts(parts, host).await.ok();
        let seat: Option<SeatId> = path.and_then(|Path(seat)| seat.parse().ok());
        // A seat that is not there and a token that is not its look the same.
        seat.and_then(|seat| host.owner(seat, &parts.headers)).map(Self).ok_or_else(Refusal::unauthorised)
    }
}

impl FromRequestParts<Arc<Host>> for OwnerAtWork {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, host: &Arc<Host>) -> Result<Self, Refusal> {
        let Owner(learner) = Owner::from_request_parts(parts, host).await?;
        if host.phase() == Phase::Open { Ok(Self(learner)) } else { Err(Refusal::closed()) }
    }
}
